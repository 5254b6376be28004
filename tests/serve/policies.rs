//! The online policies over HTTP, with the real binary.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use assize_test_support::Scratch;
use assize_test_support::server::{Reply, Served};
use serde_json::{Value, json};

mod alone;
mod bad_input;
mod killed;
mod promoted;
mod reference;
mod rewards;
mod shadows;
mod users;

/// A server of the policies in this folder, with these settings.
fn serve(scratch: &Scratch, settings: &str) -> Served {
    scratch.write("assize.toml", settings);
    Served::start_with(scratch, "serve --only policies --port 0 --json")
}

fn post(served: &Served, path: &str, body: &Value) -> Reply {
    served.send(&format!("POST {path}"), body.to_string().as_bytes())
}

/// Posts and expects success.
fn ok(served: &Served, path: &str, body: &Value) -> Value {
    let reply = post(served, path, body);
    assert_eq!(reply.status, 200, "{path} {body}: {reply:?}");
    reply.json()
}

fn get(served: &Served, path: &str) -> Value {
    let reply = served.get(path);
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

fn message(reply: &Reply) -> String {
    let error = &reply.json()["error"]["message"];
    error.as_str().unwrap_or_default().to_owned()
}

/// A request with two candidates of one arm.
fn two(user: &str, seed: u64) -> Value {
    json!({
        "user_id": user,
        "seed": seed,
        "context": {"hour": 9.5, "weekend": false, "open_tasks": 4, "urgency": 0.5},
        "candidates": [{"id": "a", "task_match": 0.9}, {"id": "b", "task_match": 0.1}],
        "profile_features": {"completion_rate": 0.4, "preferred_hour": 8},
    })
}

/// Scores and rewards once; the id of the decision.
fn learn(served: &Served, (score, reward): (&str, &str), body: &Value, value: f64) -> String {
    let decided = ok(served, score, body);
    let id = decided["decision_id"].as_str().expect("an id").to_owned();
    let rewarded = ok(served, reward, &json!({"decision_id": id, "reward": value}));
    assert_eq!(rewarded["repeated"], false);
    id
}

/// Expects equal scores. A model that was read from disk differs in the last digits from one that
/// was updated in memory.
fn same_scores(found: &Value, expected: &Value) {
    let scores = |it: &Value| -> Vec<f64> {
        let scores = it.as_array().expect("scores").iter();
        scores
            .map(|it| it["score"].as_f64().expect("a score"))
            .collect()
    };
    let (found, expected) = (scores(found), scores(expected));
    assert_eq!(found.len(), expected.len());
    for (one, other) in found.iter().zip(&expected) {
        assert!((one - other).abs() < 1e-12, "{found:?} {expected:?}");
    }
}

/// The part of `/stats` that requests may change.
fn figures(served: &Served, user: &str) -> Value {
    let mut stats = get(served, &format!("/stats?user_id={user}"));
    stats["cache"] = Value::Null;
    stats
}

/// Sends a request to a server that may end at any time.
fn try_send(authority: &str, token: &str, line: &str, body: &Value) -> Option<(u16, Value)> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(authority).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((
        head.get(9..12)?.parse().ok()?,
        serde_json::from_str(body).ok()?,
    ))
}

#[test]
fn a_decision_is_answered_as_the_contract_says() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    for (path, policy) in [
        ("/score/egreedy", "egreedy-v1"),
        ("/score/egreedy/v2", "egreedy-v2"),
        ("/score/linucb", "linucb"),
        ("/recommend", "egreedy-v1"),
    ] {
        let answer = ok(&served, path, &two("ada", 1));
        assert_eq!(answer["policy"], policy);
        assert!(["a", "b"].contains(&answer["chosen"].as_str().expect("an id")));
        assert!(answer["propensity"].as_f64().expect("a number") > 0.0);
        assert_eq!(answer["scores"][0]["id"], "a");
        assert!(answer["scores"][1]["score"].is_f64());
        let shadows = (path == "/recommend").then(|| json!([]));
        assert_eq!(answer.get("shadows"), shadows.as_ref());
    }
    // The same seed gives the same choice, whatever else is sent.
    let chosen: Vec<Value> = (0..40)
        .map(|seed| ok(&served, "/score/egreedy", &two("ada", seed))["chosen"].clone())
        .collect();
    let again: Vec<Value> = (0..40)
        .map(|seed| ok(&served, "/score/egreedy", &two("ada", seed))["chosen"].clone())
        .collect();
    assert_eq!(chosen, again);
    assert!(chosen.contains(&json!("b")), "some seed explores");
    // Context and profile may be left out.
    let bare = json!({"user_id": "bob", "candidates": [{"id": "x", "text": "other keys stay"}]});
    assert_eq!(ok(&served, "/score/egreedy/v2", &bare)["chosen"], "x");
    let stats = get(&served, "/stats/egreedy/v2?user_id=bob");
    assert_eq!(stats["users"], 2);
    assert_eq!(stats["user"]["decisions"], 1);
    assert_eq!(stats["user"]["arms"][0]["arm"], "*");
}

#[test]
fn rewards_are_shown_by_what_made_the_tip() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let routes = ("/score/egreedy", "/reward");
    for (source, name, value) in [("prompt", "v2", 1.0), ("run_id", "r1", 0.25)] {
        let body = json!({"user_id": "ada", "candidates": [{"id": "a", source: name}]});
        learn(&served, routes, &body, value);
    }
    let sources = get(&served, "/stats")["sources"].clone();
    let found: Vec<_> = sources.as_array().expect("a list").iter().collect();
    assert_eq!(found.len(), 2, "{sources}");
    let prompt = found.iter().find(|it| it["source"]["prompt"] == "v2");
    assert_eq!(prompt.expect("the prompt")["reward_mean"], 1.0);
    let run = found.iter().find(|it| it["source"]["run"] == "r1");
    assert_eq!(run.expect("the run")["reward_mean"], 0.25);
}
