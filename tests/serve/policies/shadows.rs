//! Shadows: they score beside the active policy, learn by replay, and are never rewarded.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use assize_test_support::Scratch;
use assize_test_support::server::Served;
use serde_json::Value;

use super::{get, learn, ok, serve, two};

const ENABLED: &str =
    "[policy.shadows]\negreedy-v2-shadow = { policy = \"egreedy-v2\", enabled = true }";

/// The shadow's figures, once so many signals are stored.
fn shadow(served: &Served, signals: u64) -> Value {
    let started = Instant::now();
    loop {
        let shadow = get(served, "/stats")["shadows"][0].clone();
        if shadow["signals"].as_u64() >= Some(signals) {
            return shadow;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "{shadow}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_shadow_is_disabled_by_default() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    assert_eq!(
        ok(&served, "/recommend", &two("ada", 1))["shadows"],
        serde_json::json!([])
    );
    let shadow = get(&served, "/stats")["shadows"][0].clone();
    assert_eq!(shadow["name"], "egreedy-v2-shadow");
    assert_eq!(shadow["signal"], "shadow:egreedy-v2-shadow");
    assert_eq!(shadow["enabled"], false);
    assert_eq!(shadow["training"], "untrained");
}

#[test]
fn a_shadow_scores_learns_by_replay_and_is_never_rewarded() {
    let scratch = Scratch::new();
    let served = serve(&scratch, ENABLED);
    let answer = ok(&served, "/recommend", &two("ada", 1));
    assert_eq!(answer["shadows"], serde_json::json!(["egreedy-v2-shadow"]));
    let untrained = shadow(&served, 1);
    assert_eq!(untrained["training"], "untrained");
    assert_eq!(untrained["trained"], 0);
    // Neither policy knows anything, and both have the same random bits.
    assert_eq!(untrained["agreed"], 1);

    // Routes of single policies are not shadowed.
    ok(&served, "/score/egreedy", &two("ada", 1));
    for seed in 0..8 {
        learn(&served, ("/recommend", "/reward"), &two("ada", seed), 1.0);
    }
    ok(&served, "/recommend", &two("bob", 1));
    let trained = shadow(&served, 10);
    assert_eq!(trained["signals"], 10);
    assert_eq!(trained["training"], "replayed");
    assert_eq!(trained["users"], 2);
    assert!(trained["trained"].as_u64() >= Some(8), "{trained}");
    assert!(trained["position"].as_u64() >= Some(4), "{trained}");
    // It learns from the log, and no reward is its own.
    let stats = get(&served, "/stats/egreedy/v2?user_id=ada");
    assert_eq!(
        (&stats["decisions"], &stats["rewards"]),
        (&0.into(), &0.into())
    );
    assert_eq!(stats["user"]["arms"], serde_json::json!([]));

    assert_eq!(served.stop(), Some(0));
    let served = serve(&scratch, ENABLED);
    let again = get(&served, "/stats")["shadows"][0].clone();
    assert_eq!(again["signals"], 10);
    assert_eq!(again["training"], "replayed");
}

#[test]
fn features_that_fit_the_active_policy_only_are_counted() {
    let scratch = Scratch::new();
    let served = serve(&scratch, ENABLED);
    let body = serde_json::json!({"user_id": "ada", "candidates": [{"id": "a", "features": [1, 0, 0, 0, 0, 0, 0]}]});
    ok(&served, "/recommend", &body);
    let started = Instant::now();
    while get(&served, "/stats")["shadow_unscored"] != 1 {
        assert!(started.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(shadow(&served, 0)["signals"], 0);
}

#[test]
fn decisions_rewards_and_signals_are_streamed() {
    let scratch = Scratch::new();
    let served = serve(&scratch, ENABLED);
    let mut stream = TcpStream::connect(served.authority()).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .expect("a timeout");
    let request = format!(
        "GET /api/policies/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        served.authority(),
        served.token
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|it| it.contains("events follow")));
    let id = learn(&served, ("/recommend", "/reward"), &two("ada", 1), 1.0);
    let mut found: Vec<(String, Value)> = Vec::new();
    let mut name = String::new();
    while found.len() < 3 {
        let line = lines.next().expect("an event");
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            found.push((name.clone(), serde_json::from_str(data).expect("JSON")));
        }
    }
    let of = |name: &str| {
        let event = found.iter().find(|it| it.0 == name);
        event
            .unwrap_or_else(|| panic!("{name}: {found:?}"))
            .1
            .clone()
    };
    assert!(found.iter().all(|it| it.1["decision_id"] == id.as_str()));
    assert_eq!(of("decision")["policy"], "egreedy-v1");
    assert_eq!(of("decision")["user_id"], "ada");
    assert_eq!(of("reward")["reward"], 1.0);
    assert_eq!(of("shadow")["signal"], "shadow:egreedy-v2-shadow");
    // A stream does not keep the server from stopping.
    assert_eq!(served.stop(), Some(0));
}
