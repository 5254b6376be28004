//! Input that is refused: a clear 4xx, and nothing is changed.

use assize_test_support::Scratch;
use serde_json::{Value, json};

use super::{figures, learn, message, post, serve, two};

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut body = two("ada", 1);
    change(&mut body);
    body
}

fn candidates(count: usize) -> Value {
    let list: Vec<Value> = (0..count)
        .map(|it| json!({"id": it.to_string(), "features": [1, 0, 0, 0, 0, 0, 0]}))
        .collect();
    list.into()
}

/// What is sent to `/score/egreedy`, and what the answer names.
#[expect(clippy::too_many_lines, reason = "a table")]
fn refused_scores() -> Vec<(Value, &'static str)> {
    let long = "x".repeat(201);
    vec![
        (json!([]), "cannot be read"),
        (json!({"user_id": "ada"}), "candidates"),
        (with(|it| it["user_id"] = json!("")), "user_id is empty"),
        (
            with(|it| it["user_id"] = json!(long)),
            "user_id is too long",
        ),
        (with(|it| it["user_id"] = json!(7)), "user_id"),
        (
            with(|it| it["candidates"] = json!([])),
            "candidates is empty",
        ),
        (
            with(|it| it["candidates"] = candidates(1001)),
            "1001 entries: send at most 1000",
        ),
        (
            with(|it| it["candidates"] = candidates(10_000)),
            "10000 entries",
        ),
        (
            with(|it| it["candidates"][1]["id"] = json!("a")),
            "candidates[1].id 'a' occurs twice",
        ),
        (
            with(|it| it["candidates"][1]["id"] = json!("")),
            "candidates[1].id is empty",
        ),
        (
            with(|it| it["candidates"][1] = json!({"arm": "x"})),
            "missing field `id`",
        ),
        (
            with(|it| it["candidates"][0]["arm"] = json!("")),
            "candidates[0].arm is empty",
        ),
        (
            with(|it| it["candidates"][0]["arm"] = json!(long)),
            "candidates[0].arm is too long",
        ),
        (
            with(|it| it["candidates"][0]["task_match"] = json!(1.5)),
            "candidates[0].task_match is 1.5",
        ),
        (
            with(|it| it["candidates"][0]["task_match"] = json!("NaN")),
            "candidates[0].task_match",
        ),
        (
            with(|it| it["candidates"][0]["features"] = json!([1, 2])),
            "candidates[1].features is given for some",
        ),
        (
            with(|it| it["candidates"] = json!([{"id": "a", "features": [1, 2]}])),
            "policy egreedy-v1 takes 7",
        ),
        (
            with(|it| it["candidates"] = json!([{"id": "a", "features": vec![1; 12]}])),
            "12 features were given",
        ),
        (
            with(|it| it["candidates"] = json!([{"id": "a", "features": [1, 0, 0, 0, 0, 0, 1e9]}])),
            "feature 6",
        ),
        (
            with(|it| it["candidates"][0]["run_id"] = json!(long)),
            "candidates[0].run_id is too long",
        ),
        (
            with(|it| {
                it["candidates"][0]["run_id"] = json!("r");
                it["candidates"][0]["prompt"] = json!("p");
            }),
            "beside run_id",
        ),
        (
            with(|it| it["context"] = json!([1])),
            "context is not an object",
        ),
        (
            with(|it| it["context"]["hour"] = json!(24)),
            "context.hour is 24",
        ),
        (
            with(|it| it["context"]["hour"] = json!("9")),
            "context.hour",
        ),
        (
            with(|it| it["context"]["urgency"] = json!(-0.1)),
            "context.urgency",
        ),
        (
            with(|it| it["context"]["open_tasks"] = json!(-1)),
            "context.open_tasks",
        ),
        (
            with(|it| it["profile_features"] = json!("none")),
            "profile_features is not an object",
        ),
        (
            with(|it| it["profile_features"]["dismiss_rate"] = json!(2)),
            "profile_features.dismiss_rate",
        ),
        (
            with(|it| it["feature_version"] = json!(2)),
            "feature_version is 2",
        ),
        (with(|it| it["seed"] = json!(-1)), "seed"),
        (
            with(|it| it["candidate"] = json!([])),
            "unknown field `candidate`",
        ),
    ]
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let id = learn(&served, ("/score/egreedy", "/reward"), &two("ada", 1), 1.0);
    let pending = super::ok(&served, "/score/egreedy", &two("ada", 1))["decision_id"].clone();
    let before = figures(&served, "ada");
    for (body, named) in refused_scores() {
        let shown = body.to_string();
        let shown = &shown[..shown.len().min(300)];
        let reply = post(&served, "/score/egreedy", &body);
        assert_eq!(reply.status, 400, "{shown}: {reply:?}");
        let message = message(&reply);
        assert!(message.contains(named), "{shown}: {message}");
    }
    let raw = |text: &str| {
        let reply = served.send("POST /score/egreedy", text.as_bytes());
        assert_eq!(reply.status, 400, "{text}: {reply:?}");
    };
    raw("");
    raw("{");
    raw(r#"{"user_id":"ada","candidates":[{"id":"a","features":[NaN,0,0,0,0,0,0]}]}"#);
    raw(r#"{"user_id":"ada","candidates":[{"id":"a","features":[1e999,0,0,0,0,0,0]}]}"#);
    raw(r#"{"user_id":"ada","candidates":[{"id":"a","id":"b"}]}"#);
    for value in [json!(1.01), json!(-0.01), json!("1"), json!(null)] {
        let reply = post(
            &served,
            "/reward",
            &json!({"decision_id": pending, "reward": value}),
        );
        assert_eq!(reply.status, 400, "{value}: {reply:?}");
        assert!(message(&reply).contains("reward"), "{reply:?}");
    }
    for text in ["NaN", "Infinity", "1e999"] {
        let body = format!("{{\"decision_id\":{pending},\"reward\":{text}}}");
        let reply = served.send("POST /reward", body.as_bytes());
        assert_eq!(reply.status, 400, "{text}: {reply:?}");
    }
    for path in ["/score/best", "/reward/egreedy/v3", "/score/"] {
        let reply = post(&served, path, &two("ada", 1));
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
    assert!(message(&post(&served, "/score/best", &two("ada", 1))).contains("egreedy/v2"));
    let empty = post(&served, "/reset", &json!({"user_id": ""}));
    assert_eq!(empty.status, 400, "{empty:?}");
    assert_eq!(figures(&served, "ada"), before);
    assert!(!id.is_empty());
}

#[test]
fn a_huge_body_and_another_kind_of_body_are_refused() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let before = figures(&served, "ada");
    let mut body = two("ada", 1);
    body["context"]["note"] = "x".repeat(9 << 20).into();
    let reply = post(&served, "/score/egreedy", &body);
    assert_eq!(reply.status, 413, "{}", message(&reply));
    let host = format!("Host: {}", served.authority());
    let token = format!("Authorization: Bearer {}", served.token);
    let text = two("ada", 1).to_string();
    let reply = served.get("/score/egreedy");
    assert_eq!(reply.status, 405, "{reply:?}");
    // A place is named only where it is known.
    let cut = served.raw(
        "POST /score/egreedy",
        &[&host, &token, "Content-Type: application/json"],
        b"{\"user_id\": \"ada\", \"candidates\": [{",
    );
    assert!(!message(&cut).contains('?'), "{}", message(&cut));
    let reply = served.raw("DELETE /users/%ff", &[&host, &token], b"");
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(
        message(&reply).contains("user_id is not valid UTF-8"),
        "{reply:?}"
    );
    assert_eq!(figures(&served, "ada"), before);
    for (kind, status) in [
        ("text/plain", 400),
        ("application/jsonlines", 400),
        ("Application/JSON; charset=utf-8", 200),
    ] {
        let kind = format!("Content-Type: {kind}");
        let headers = [&*host, &*token, &*kind];
        let reply = served.raw("POST /score/linucb", &headers, text.as_bytes());
        assert_eq!(reply.status, status, "{kind}: {reply:?}");
    }
}
