//! `POST /score/…` and `POST /recommend`: score, choose, log, answer.

use std::sync::Arc;

use assize_policy::{Choice, PolicyKind};
use assize_store::policies::{Decision, DecisionId, DecisionRecord};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::oneshot;

use super::Engine;
use super::live::ServedPolicy;
use super::request::{ScoreRequest, Situation, body, parse, problem, refusal, score};
use super::shadows::ShadowJob;
use crate::error::{ApiError, ApiResult};
use crate::http::json;

/// The answer to a request to score.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Decided<'a> {
    /// Send the reward with this id.
    decision_id: String,
    policy: &'a str,
    /// The id of the chosen candidate.
    chosen: &'a str,
    /// The probability with which it was chosen.
    propensity: f64,
    /// Whether the choice was random; it may still be the candidate with the highest score.
    explored: bool,
    /// One score for each candidate, in the order of the request.
    scores: Vec<Score<'a>>,
    /// The shadows that score this decision too; only of /recommend.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadows: Option<&'a [String]>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Score<'a> {
    id: &'a str,
    score: f64,
}

/// A decision that is to be logged, and what follows its commit.
struct Made {
    decision: Decision,
    answer: Vec<u8>,
    /// The same for watchers, if there are any.
    event: Option<String>,
    shadow_job: Option<ShadowJob>,
}

/// What was chosen.
struct Chosen {
    id: DecisionId,
    at_ms: i64,
    draw: u64,
    choice: Choice,
    scores: Vec<f64>,
    /// Those of the chosen candidate.
    features: Vec<f64>,
}

/// Scores with the given policy, or with the active one and its shadows.
pub(crate) async fn handle(
    engine: Arc<Engine>,
    policy: Option<PolicyKind>,
    request: Request,
) -> Response {
    let answer = match body(request).await {
        Ok(bytes) => engine.decide(policy, &bytes).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => json(StatusCode::OK, answer),
        Err(error) => error.into_response(),
    }
}

impl Engine {
    async fn decide(&self, policy: Option<PolicyKind>, bytes: &[u8]) -> ApiResult<Vec<u8>> {
        let situation = parse::<ScoreRequest>(bytes)?.check()?;
        let made = self.make(policy, situation)?;
        let (committed, commit) = oneshot::channel();
        self.store.decision_record(made.decision, move |outcome| {
            // The client may no longer be waiting.
            let _ = committed.send(outcome);
        });
        commit.await.map_err(|_| ApiError::worker_panicked())??;
        if let Some(event) = made.event {
            self.events.send("decision", event);
        }
        if let Some(job) = made.shadow_job {
            self.shadows.add(job);
        }
        Ok(made.answer)
    }

    fn make(&self, policy: Option<PolicyKind>, situation: Situation) -> ApiResult<Made> {
        let live = self.live();
        let served = live.policy(policy.unwrap_or(live.active));
        check_version(served.policy.kind(), situation.feature_version)?;
        let chosen = self.choose(served, &situation)?;
        let answer = Decided::of(served, &situation, &chosen)
            .with_shadows(policy.is_none().then_some(&*live.shadow_names));
        let written = |it: Result<_, serde_json::Error>| {
            it.map_err(|error| ApiError::internal(error.to_string()))
        };
        let event = self
            .events
            .are_watched()
            .then(|| answer.event(&situation.user));
        let answer = written(serde_json::to_vec(&answer))?;
        let is_shadowed = policy.is_none() && !live.shadow_names.is_empty();
        let shadow_job = is_shadowed.then(|| ShadowJob {
            decision: chosen.id,
            user: situation.user.clone(),
            context: situation.context,
            profile: situation.profile,
            candidates: situation.candidates.clone(),
            chosen: chosen.choice.index,
            draw: chosen.draw,
            live: Arc::clone(&live),
        });
        Ok(Made {
            decision: decision(served, situation, chosen),
            answer,
            event,
            shadow_job,
        })
    }

    fn choose(&self, served: &ServedPolicy, situation: &Situation) -> ApiResult<Chosen> {
        let models = self.models(served, &situation.user)?;
        let about = (&situation.context, situation.profile.as_ref());
        let scored = score(&served.policy, &models, about, &situation.candidates)?;
        let (id_bits, random_draw) = self.random()?;
        let draw = situation.seed.unwrap_or(random_draw);
        let choice = served.policy.choose(&scored.values, draw);
        let choice = choice.map_err(|it| refusal("", &it))?;
        let features = scored.features(choice.index);
        let at_ms = self.now_ms();
        Ok(Chosen {
            id: self.store.decision_id(at_ms, id_bits),
            at_ms,
            draw,
            choice,
            features: features.map_err(|it| refusal("", &it))?,
            scores: scored.values,
        })
    }
}

fn check_version(kind: PolicyKind, expected: Option<u8>) -> ApiResult<()> {
    let own = kind.feature_version().number();
    match expected {
        Some(version) if version != own => Err(problem(
            "feature_version",
            format!("is {version}, but {kind} uses version {own}: send {own} or leave it out"),
        )),
        _ => Ok(()),
    }
}

impl<'a> Decided<'a> {
    fn of(served: &ServedPolicy, situation: &'a Situation, chosen: &Chosen) -> Self {
        let candidates = situation.candidates.iter().zip(&chosen.scores);
        let scores = candidates.map(|(candidate, score)| Score {
            id: &candidate.id,
            score: *score,
        });
        Self {
            decision_id: chosen.id.to_string(),
            policy: served.policy.kind().name(),
            chosen: &situation.candidates[chosen.choice.index].id,
            propensity: chosen.choice.propensity(),
            explored: chosen.choice.explored,
            scores: scores.collect(),
            shadows: None,
        }
    }

    fn with_shadows(mut self, shadows: Option<&'a [String]>) -> Self {
        self.shadows = shadows;
        self
    }

    /// The decision for watchers.
    fn event(&self, user: &str) -> String {
        serde_json::json!({
            "decision_id": self.decision_id,
            "user_id": user,
            "policy": self.policy,
            "chosen": self.chosen,
            "propensity": self.propensity,
            "explored": self.explored,
            "candidates": self.scores.len(),
        })
        .to_string()
    }
}

/// The decision for the log.
fn decision(served: &ServedPolicy, situation: Situation, chosen: Chosen) -> Decision {
    let kind = served.policy.kind();
    let choice = chosen.choice;
    let is_brought = situation.candidates[0].features.is_some();
    let scored = situation.candidates.into_iter().zip(chosen.scores);
    let records = scored.enumerate().map(|(index, (candidate, score))| {
        candidate.into_record(score, choice.propensity_of(index))
    });
    Decision {
        id: chosen.id,
        at_ms: chosen.at_ms,
        user: situation.user,
        policy: kind.name().to_owned(),
        policy_version: served.version.clone(),
        // Features of the client have no version.
        feature_version: if is_brought {
            0
        } else {
            u32::from(kind.feature_version().number())
        },
        chosen: u32::try_from(choice.index).unwrap_or(u32::MAX),
        features: chosen.features,
        record: DecisionRecord {
            context: situation.raw_context,
            profile: situation.raw_profile,
            seed: situation.seed,
            candidates: records.collect(),
        },
    }
}
