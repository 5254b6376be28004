//! Decisions and rewards for the tests.

use std::path::Path;

use assize_store::Result;
use assize_store::policies::{
    CandidateRecord, Decision, DecisionId, DecisionRecord, Durability, Model, PolicyStore, Reward,
    RewardAnswer, TipSource, Update, Updated, wait,
};
use serde_json::value::RawValue;

pub const NOW_MS: i64 = 1_800_000_000_000;
pub const HOUR_MS: i64 = 3_600_000;

pub fn open(dir: &Path) -> PolicyStore {
    PolicyStore::open(&dir.join("policies.db"), Durability::Normal).unwrap()
}

pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub fn candidate(id: &str, arm: Option<&str>) -> CandidateRecord {
    CandidateRecord {
        id: id.to_owned(),
        arm: arm.map(ToOwned::to_owned),
        task_match: Some(0.25),
        features: None,
        source: None,
        other: None,
        score: 0.5,
        propensity: 0.5,
    }
}

/// A decision for the second of two candidates, whose arm is `b`.
pub fn decision(id: DecisionId, user: &str, policy: &str) -> Decision {
    Decision {
        id,
        at_ms: NOW_MS,
        user: user.to_owned(),
        policy: policy.to_owned(),
        policy_version: "3".to_owned(),
        feature_version: 1,
        chosen: 1,
        features: vec![1.0, 0.5],
        record: DecisionRecord {
            context: raw(r#"{"hour": 7.5, "mood":"good"}"#),
            profile: None,
            seed: None,
            candidates: vec![candidate("t1", Some("a")), candidate("t2", Some("b"))],
        },
    }
}

pub fn with_source(mut decision: Decision, source: TipSource) -> Decision {
    decision.record.candidates[1].source = Some(source);
    decision
}

/// Records a decision and returns its id.
pub fn decide(store: &PolicyStore, user: &str, policy: &str) -> DecisionId {
    decide_at(store, user, policy, NOW_MS)
}

pub fn decide_at(store: &PolicyStore, user: &str, policy: &str, at_ms: i64) -> DecisionId {
    let id = store.decision_id(at_ms, 77);
    let mut decision = decision(id, user, policy);
    decision.at_ms = at_ms;
    wait(|done| store.decision_record(decision, done)).unwrap();
    id
}

/// A model whose bytes list the rewards that it has learned from.
#[expect(clippy::unnecessary_wraps, reason = "the store expects a result")]
pub fn learn(update: Update<'_>) -> Result<Updated<i64>> {
    let before = update.model.unwrap_or(Model {
        dimension: u32::try_from(update.decision.features.len()).unwrap(),
        updates: 0,
        bytes: Vec::new(),
    });
    let mut bytes = before.bytes;
    bytes.extend(format!("{};", update.reward).bytes());
    let model = Model {
        updates: before.updates + 1,
        bytes,
        ..before
    };
    Ok(Updated::one(model, update.position))
}

pub fn reward_for(decision: DecisionId, value: f64) -> Reward {
    Reward {
        decision,
        policy: None,
        value,
        at_ms: NOW_MS,
        all_arms: false,
    }
}

/// Rewards a decision; an applied one is answered with its position.
pub fn reward(store: &PolicyStore, decision: DecisionId, value: f64) -> RewardAnswer<i64> {
    wait(|done| store.reward_apply(reward_for(decision, value), learn, done)).unwrap()
}

/// The bytes of the models of a user, by arm.
pub fn models(store: &PolicyStore, user: &str, policy: &str) -> Vec<(String, String)> {
    let models = store.file().model_list(user, policy).unwrap();
    let texts = models.into_iter().map(|it| {
        let text = String::from_utf8(it.model.bytes).unwrap();
        (it.arm, text)
    });
    texts.collect()
}

pub fn model_b(text: &str) -> Vec<(String, String)> {
    vec![("b".to_owned(), text.to_owned())]
}
