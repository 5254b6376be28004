//! Resetting and deleting users.

use assize_test_support::Scratch;
use assize_test_support::server::Served;
use serde_json::{Value, json};

use super::{get, learn, message, ok, post, same_scores, serve, two};

const POLICIES: [(&str, &str); 3] = [
    ("/score/egreedy", "/reward/egreedy"),
    ("/score/egreedy/v2", "/reward/egreedy/v2"),
    ("/score/linucb", "/reward/linucb"),
];

fn scores(served: &Served, user: &str) -> Vec<Value> {
    let paths = POLICIES.iter().map(|it| it.0);
    paths
        .map(|path| ok(served, path, &two(user, 1))["scores"].clone())
        .collect()
}

#[test]
fn a_reset_clears_the_user_in_every_policy_and_nobody_else() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let fresh = scores(&served, "ada");
    for routes in POLICIES {
        for user in ["ada", "bob"] {
            learn(&served, routes, &two(user, 1), 1.0);
        }
    }
    let bob = scores(&served, "bob");
    assert_ne!(scores(&served, "ada"), fresh);
    let answer = ok(&served, "/reset", &json!({"user_id": "ada"}));
    assert_eq!(answer, json!({"user_id": "ada", "models": 3}));
    assert_eq!(scores(&served, "ada"), fresh);
    assert_eq!(scores(&served, "bob"), bob);
    let user = get(&served, "/stats/linucb?user_id=ada")["user"].clone();
    assert_eq!(user["rewards"], 1, "the log stays: {user}");
    assert_eq!(user["arms"][0]["updates"], 0);
    served.kill();
    let served = serve(&scratch, "");
    assert_eq!(scores(&served, "ada"), fresh);
    for (found, expected) in scores(&served, "bob").iter().zip(&bob) {
        same_scores(found, expected);
    }
    let unknown = ok(&served, "/reset", &json!({"user_id": "nobody"}));
    assert_eq!(unknown["models"], 0);
}

#[test]
fn a_deleted_user_leaves_nothing() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let fresh = scores(&served, "bob/é");
    let id = learn(&served, POLICIES[0], &two("bob/é", 1), 1.0);
    learn(&served, POLICIES[0], &two("ada", 1), 0.5);
    let reply = served.send("DELETE /users/bob%2F%C3%A9", b"");
    assert_eq!(reply.status, 200, "{reply:?}");
    let expected = json!({"user_id": "bob/é", "decisions": 4, "rewards": 1, "models": 1});
    assert_eq!(reply.json(), expected);
    let stats = get(&served, "/stats/egreedy?user_id=bob%2F%C3%A9");
    assert_eq!(stats["users"], 1);
    assert_eq!(stats["reward_mean"], 0.5);
    assert_eq!(stats["user"]["decisions"], 0);
    assert_eq!(scores(&served, "bob/é"), fresh);
    let late = post(&served, "/reward", &json!({"decision_id": id, "reward": 1}));
    assert_eq!(late.status, 404, "{late:?}");
    assert!(message(&late).contains("its user was deleted"), "{late:?}");
    let nobody = served.send("DELETE /users/nobody", b"");
    assert_eq!(nobody.json()["decisions"], 0);
}
