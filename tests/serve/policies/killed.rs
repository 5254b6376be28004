//! `kill -9` at any instant: no acknowledged reward is lost, none counts twice.
//!
//! `ASSIZE_STRESS_KILLS` sets how often the server is killed; the ordinary tests do it a few times,
//! `make stress` a thousand times.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use assize_policy::{Policy, PolicyKind, PolicySettings, UserModels};
use assize_test_support::Scratch;
use assize_test_support::random::Random;
use assize_test_support::server::Served;
use serde_json::{Value, json};

use super::{get, ok, serve, try_send};

const CLIENTS: u64 = 4;

/// A decision that a client knows.
#[derive(Debug, Clone)]
struct Known {
    user: String,
    arm: String,
    features: Vec<f64>,
    reward: f64,
    /// Whether the server has confirmed the reward.
    is_acknowledged: bool,
}

/// Scores and rewards until the server is gone.
fn client(served: &Served, seed: u64, known: &Mutex<BTreeMap<String, Known>>) {
    let mut random = Random::new(seed);
    let authority = served.authority();
    loop {
        let user = format!("user-{}", random.number() % 3);
        let numbers: Vec<f64> = (0..7)
            .map(|_| f64::from(u32::try_from(random.number() % 100).expect("small")) / 100.0)
            .collect();
        let arm = format!("arm-{}", random.number() % 2);
        let candidate = json!({"id": "only", "arm": arm, "features": numbers});
        let body = json!({"user_id": user, "candidates": [candidate]});
        let Some((200, decided)) = try_send(authority, &served.token, "POST /score/linucb", &body)
        else {
            return;
        };
        let id = decided["decision_id"].as_str().expect("an id").to_owned();
        let reward = if random.number().is_multiple_of(2) {
            1.0
        } else {
            0.25
        };
        let decision = Known {
            user,
            arm,
            features: numbers,
            reward,
            is_acknowledged: false,
        };
        known.lock().expect("a lock").insert(id.clone(), decision);
        let body = json!({"decision_id": id, "reward": reward});
        let Some((status, answer)) = try_send(authority, &served.token, "POST /reward", &body)
        else {
            return;
        };
        assert_eq!(
            (status, &answer["repeated"]),
            (200, &json!(false)),
            "{answer}"
        );
        let mut known = known.lock().expect("a lock");
        known.get_mut(&id).expect("known").is_acknowledged = true;
    }
}

fn check(served: &Served, known: &BTreeMap<String, Known>) {
    let kind = PolicyKind::LinUcb;
    let policy = Policy::new(kind, PolicySettings::defaults(kind)).expect("a policy");
    let mut models: BTreeMap<&str, UserModels> = BTreeMap::new();
    for (id, it) in known {
        let body = json!({"decision_id": id, "reward": it.reward});
        let answer = ok(served, "/reward", &body);
        if it.is_acknowledged {
            assert_eq!(
                answer["repeated"], true,
                "{id} was acknowledged and is lost"
            );
        }
        let user = models.entry(&it.user).or_default();
        let _ = policy
            .update(user, &it.arm, &it.features, it.reward)
            .expect("it learns");
    }
    let stats = get(served, "/stats/linucb");
    assert_eq!(stats["rewards"], known.len(), "every reward counts once");
    for (user, models) in models {
        let stats = get(served, &format!("/stats/linucb?user_id={user}"));
        for arm in stats["user"]["arms"].as_array().expect("arms") {
            let name = arm["arm"].as_str().expect("a name");
            let model = models.get(name);
            assert_eq!(
                arm["updates"],
                model.map_or(0, assize_policy::Model::n),
                "{user} {name}"
            );
            let x = [0.5; 7];
            let candidate = json!({"id": "x", "arm": name, "features": x});
            let body = json!({"user_id": user, "candidates": [candidate]});
            let found: Value = ok(served, "/score/linucb", &body)["scores"][0]["score"].clone();
            let expected = policy.score(&models, name, &x).expect("a score");
            let found = found.as_f64().expect("a score");
            assert!(
                (found - expected).abs() < 1e-9,
                "{user} {name}: {found} {expected}"
            );
        }
    }
}

#[test]
fn acknowledged_rewards_survive_kills_and_count_once() {
    let kills: u64 = std::env::var("ASSIZE_STRESS_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let scratch = Scratch::new();
    let known = Mutex::new(BTreeMap::new());
    let mut random = Random::new(7);
    let mut served = serve(&scratch, "");
    for round in 0..kills {
        let pause = Duration::from_micros(random.number() % 40_000);
        let known = &known;
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let served = &served;
                scope.spawn(move || client(served, round * CLIENTS + number + 1, known));
            }
            std::thread::sleep(pause);
            served.crash();
        });
        // The lock of the killed server is released when it has ended.
        served.kill();
        served = serve(&scratch, "");
    }
    let known = known.into_inner().expect("a lock");
    let acknowledged = known.values().filter(|it| it.is_acknowledged).count();
    assert!(
        acknowledged > 0,
        "no reward was acknowledged: the test tests nothing"
    );
    check(&served, &known);
    eprintln!(
        "{kills} kills; {acknowledged} of {} rewards were acknowledged before them",
        known.len()
    );
}
