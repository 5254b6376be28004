//! Another process changes the active policy while the server runs.

use std::time::{Duration, Instant};

use assize_pipeline::policies::log::start_from_log;
use assize_policy::{Policy, PolicyKind, PolicySettings};
use assize_store::policies::{HistoryEntry, PolicyAction, PolicyFile};
use assize_test_support::Scratch;
use assize_test_support::server::Served;
use serde_json::{Value, json};

use super::{get, learn, ok, same_scores, serve, two};

fn promote(scratch: &Scratch, number: u32, kind: PolicyKind) {
    let file = PolicyFile::open(&scratch.file(".assize/policies.db")).expect("the file");
    let policy = Policy::new(kind, PolicySettings::defaults(kind)).expect("a policy");
    let start = start_from_log(&file, &policy, kind.name(), 1).expect("a start");
    file.start_put(&start).expect("it is stored");
    let entry = HistoryEntry {
        number,
        at_ms: 1,
        action: PolicyAction::Promote,
        from: None,
        to: Some(kind.name().to_owned()),
        author: "tester".to_owned(),
        reason: "a test".to_owned(),
        evidence: Value::Null,
    };
    file.history_append(&entry).expect("it is appended");
}

fn wait_for(served: &Served, policy: &str) {
    let started = Instant::now();
    while get(served, "/stats")["active"] != policy {
        assert!(started.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_promoted_policy_starts_from_the_log_and_old_decisions_are_still_rewarded() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    for seed in 0..6 {
        learn(&served, ("/recommend", "/reward"), &two("ada", seed), 1.0);
    }
    let pending = ok(&served, "/recommend", &two("ada", 1))["decision_id"].clone();
    promote(&scratch, 1, PolicyKind::EgreedyV2);
    wait_for(&served, "egreedy-v2");

    let answer = ok(&served, "/recommend", &two("ada", 1));
    assert_eq!(answer["policy"], "egreedy-v2");
    let own = answer["scores"][0]["score"].as_f64().expect("a score");
    // The replay of six rewards of 1 and the prior of the same six.
    assert!(own > 0.7, "{answer}");
    // Somebody unknown starts from the prior of all users.
    let prior = ok(&served, "/recommend", &two("bob", 1))["scores"][0]["score"].clone();
    assert!(prior.as_f64().expect("a score") > 0.3, "{prior}");
    let user = get(&served, "/stats/egreedy/v2?user_id=ada")["user"].clone();
    assert_eq!(user["arms"][0]["updates"], 6, "{user}");

    // The decision of the old policy is rewarded to the old policy.
    ok(
        &served,
        "/reward",
        &json!({"decision_id": pending, "reward": 0}),
    );
    assert_eq!(get(&served, "/stats/egreedy")["rewards"], 7);
    assert_eq!(get(&served, "/stats/egreedy/v2")["rewards"], 0);

    // What was replayed is kept, and rewards are added to it.
    let before = ok(&served, "/score/egreedy/v2", &two("ada", 1));
    served.kill();
    let served = serve(&scratch, "");
    let after = ok(&served, "/score/egreedy/v2", &two("ada", 1));
    same_scores(&after["scores"], &before["scores"]);
    let id = &after["decision_id"];
    ok(&served, "/reward", &json!({"decision_id": id, "reward": 1}));
    let user = get(&served, "/stats/egreedy/v2?user_id=ada")["user"].clone();
    assert_eq!(user["arms"][0]["updates"], 7, "{user}");
}

/// The reward of a user whose history was not replayed yet.
#[test]
fn a_reward_replays_the_history_first() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let early = ok(&served, "/score/linucb", &two("ada", 1))["decision_id"].clone();
    for seed in 0..3 {
        learn(&served, ("/recommend", "/reward"), &two("ada", seed), 1.0);
    }
    promote(&scratch, 1, PolicyKind::LinUcb);
    wait_for(&served, "linucb");
    ok(
        &served,
        "/reward/linucb",
        &json!({"decision_id": early, "reward": 1}),
    );
    let user = get(&served, "/stats/linucb?user_id=ada")["user"].clone();
    assert_eq!(user["arms"][0]["updates"], 4, "{user}");
    // After a reset nothing is replayed.
    ok(&served, "/reset", &json!({"user_id": "ada"}));
    ok(&served, "/recommend", &two("ada", 1));
    let user = get(&served, "/stats/linucb?user_id=ada")["user"].clone();
    assert_eq!(user["arms"][0]["updates"], 0, "{user}");
}
