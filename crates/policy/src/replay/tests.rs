use super::{LoggedCandidate, LoggedDecision, Replayed, learn, replay};
use crate::{Context, Policy, PolicyKind, PolicySettings, Profile, SHARED_ARM, UserModels};

fn policy(kind: PolicyKind) -> Policy {
    Policy::new(kind, PolicySettings::defaults(kind)).unwrap()
}

fn decision(user: &str, step: u32) -> LoggedDecision {
    let at = f64::from(step);
    LoggedDecision {
        user_id: user.to_owned(),
        context: Context {
            hour: Some(at % 24.0),
            urgency: Some((at * 0.37) % 1.0),
            ..Context::default()
        },
        profile_features: Some(Profile {
            completion_rate: Some((at * 0.11) % 1.0),
            ..Profile::default()
        }),
        candidates: vec![
            LoggedCandidate {
                arm: Some("quick".to_owned()),
                task_match: Some((at * 0.53) % 1.0),
                features: None,
            },
            LoggedCandidate::default(),
        ],
        chosen: usize::from(step.is_multiple_of(3)),
        propensity: 0.5,
        reward: (at * 0.29) % 1.0,
    }
}

#[test]
fn a_replay_equals_live_updates_with_the_target_policys_features() {
    let log: Vec<_> = (0..40).map(|step| decision("u", step)).collect();
    for kind in PolicyKind::ALL {
        let policy = policy(kind);
        let replayed = replay(&policy, &log).unwrap();
        let mut live = UserModels::default();
        for it in &log {
            let shown = it.shown().unwrap();
            let x = policy
                .feature_version()
                .features(&it.context, it.profile_features.as_ref(), shown.task_match)
                .unwrap();
            let _ = policy
                .update(&mut live, shown.arm(), &x, it.reward)
                .unwrap();
        }
        assert_eq!(replayed.users["u"], live, "{kind}");
        assert_eq!((replayed.learnt, replayed.skipped), (40, 0));
        let dimension = policy.feature_version().dimension();
        assert_eq!(live.get("quick").unwrap().dimension(), dimension);
        assert!(live.get(SHARED_ARM).is_some());
    }
}

#[test]
fn users_learn_apart_and_the_pool_from_all() {
    let log: Vec<_> = (0..40)
        .map(|step| decision(if step % 2 == 0 { "a" } else { "b" }, step))
        .collect();
    let replayed = replay(&policy(PolicyKind::EgreedyV1), &log).unwrap();
    let count = |user: &str| {
        replayed.users[user]
            .iter()
            .map(|(_, it)| it.n())
            .sum::<u64>()
    };
    assert_eq!((count("a"), count("b")), (20, 20));
    assert_eq!(replayed.pool.arms().map(|(_, n)| n).sum::<u64>(), 40);
}

#[test]
fn features_of_another_length_are_skipped_and_counted() {
    let brought = |length| {
        let mut it = decision("u", 1);
        it.candidates[0].features = Some(vec![0.5; length]);
        it.chosen = 0;
        it
    };
    let log = [brought(7), brought(12), brought(7)];
    let counts = PolicyKind::ALL.map(|kind| {
        let replayed = replay(&policy(kind), &log).unwrap();
        (replayed.learnt, replayed.skipped)
    });
    // LinUCB takes both lengths, but an arm keeps the length of its first update.
    assert_eq!(counts, [(2, 1), (1, 2), (2, 1)]);
}

#[test]
fn a_decision_that_names_no_candidate_is_an_error() {
    let mut bad = decision("u", 1);
    bad.chosen = 2;
    let policy = policy(PolicyKind::LinUcb);
    let mut models = UserModels::default();
    assert!(learn(&policy, &mut models, &bad).is_err());
    bad.chosen = 0;
    assert_eq!(learn(&policy, &mut models, &bad), Ok(Replayed::Learnt));
}

#[test]
fn logged_decisions_are_json() {
    let json = r#"{"user_id": "u", "context": {"hour": 8, "city": "x"}, "profile_features": null,
        "candidates": [{"id": "t1", "arm": "a", "task_match": 0.5}, {"id": "t2"}],
        "chosen": 1, "propensity": 0.9, "reward": 1.0}"#;
    let parsed: LoggedDecision = serde_json::from_str(json).unwrap();
    assert_eq!(parsed.shown().unwrap().arm(), SHARED_ARM);
    assert_eq!(parsed.candidates[0].arm(), "a");
    assert_eq!(parsed.context.hour, Some(8.0));
}
