//! Rewards: once each, late, to the policy that decided.

use assize_test_support::Scratch;
use assize_test_support::server::Served;
use serde_json::json;

use super::{figures, get, learn, message, ok, post, same_scores, serve, two};

fn decide(served: &Served, path: &str) -> String {
    let answer = ok(served, path, &two("ada", 3));
    answer["decision_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_reward_counts_once() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let id = learn(
        &served,
        ("/score/egreedy", "/reward/egreedy"),
        &two("ada", 3),
        0.75,
    );
    let before = figures(&served, "ada");
    assert_eq!(before["policies"][0]["rewards"], 1);
    assert_eq!(before["policies"][0]["reward_mean"], 0.75);
    for path in ["/reward/egreedy", "/reward", "/reward/recommend"] {
        let again = ok(&served, path, &json!({"decision_id": id, "reward": 0.75}));
        assert_eq!(
            again,
            json!({"decision_id": id, "reward": 0.75, "repeated": true})
        );
    }
    let other = post(
        &served,
        "/reward",
        &json!({"decision_id": id, "reward": 0.5}),
    );
    assert_eq!(other.status, 409, "{other:?}");
    assert!(
        message(&other).contains("has the reward 0.75 already"),
        "{other:?}"
    );
    for unknown in ["0000000000000001", "nothing", ""] {
        let reply = post(
            &served,
            "/reward",
            &json!({"decision_id": unknown, "reward": 1}),
        );
        assert_eq!(reply.status, 404, "{reply:?}");
    }
    assert_eq!(figures(&served, "ada"), before);
}

#[test]
fn a_reward_goes_to_the_policy_that_decided() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let id = decide(&served, "/score/egreedy/v2");
    let before = figures(&served, "ada");
    let wrong = post(
        &served,
        "/reward/linucb",
        &json!({"decision_id": id, "reward": 1}),
    );
    assert_eq!(wrong.status, 409, "{wrong:?}");
    assert!(
        message(&wrong).contains("POST /reward/egreedy/v2"),
        "{wrong:?}"
    );
    assert_eq!(figures(&served, "ada"), before);
    ok(&served, "/reward", &json!({"decision_id": id, "reward": 1}));
    let rewards = |path: &str| get(&served, path)["rewards"].clone();
    assert_eq!(rewards("/stats/egreedy/v2"), 1);
    assert_eq!(rewards("/stats/egreedy"), 0);
    assert_eq!(rewards("/stats/linucb"), 0);
}

/// Rewards in another order than the decisions, after other rewards and after a restart.
#[test]
fn late_rewards_use_the_logged_features() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let ids: Vec<String> = (0..4).map(|_| decide(&served, "/score/egreedy")).collect();
    let reward = |served: &Served, id: &str, value: f64| {
        ok(
            served,
            "/reward",
            &json!({"decision_id": id, "reward": value}),
        );
    };
    reward(&served, &ids[3], 1.0);
    reward(&served, &ids[1], 0.0);
    let scores = |served: &Served| ok(served, "/score/egreedy", &two("ada", 3))["scores"].clone();
    let before = scores(&served);
    assert_eq!(served.stop(), Some(0));
    let served = serve(&scratch, "");
    same_scores(&scores(&served), &before);
    reward(&served, &ids[0], 1.0);
    reward(&served, &ids[2], 0.0);

    let fresh = Scratch::new();
    let in_order = serve(&fresh, "");
    for value in [1.0, 0.0, 0.0, 1.0] {
        learn(
            &in_order,
            ("/score/egreedy", "/reward"),
            &two("ada", 3),
            value,
        );
    }
    same_scores(&scores(&served), &scores(&in_order));
}

/// The first reward fixes the number of features of an arm.
#[test]
fn features_of_another_length_are_refused_for_the_same_arm() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let with = |length: usize| {
        let features = vec![0.5; length];
        json!({"user_id": "ada", "candidates": [{"id": "a", "arm": "x", "features": features}]})
    };
    let pending = ok(&served, "/score/linucb", &with(12))["decision_id"].clone();
    learn(&served, ("/score/linucb", "/reward/linucb"), &with(7), 1.0);
    let before = figures(&served, "ada");
    let refused = post(&served, "/score/linucb", &with(12));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(message(&refused).contains("12 features"), "{refused:?}");
    let refused = post(
        &served,
        "/reward",
        &json!({"decision_id": pending, "reward": 1}),
    );
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(figures(&served, "ada"), before);
    ok(&served, "/reset", &json!({"user_id": "ada"}));
    ok(
        &served,
        "/reward",
        &json!({"decision_id": pending, "reward": 1}),
    );
    ok(&served, "/score/linucb", &with(12));
}
