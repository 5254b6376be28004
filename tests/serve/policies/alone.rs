//! `assize serve --only policies`, and who may use the policies.

use assize_test_support::Scratch;
use assize_test_support::server::{Served, token_new};
use serde_json::{Value, json};

use super::{get, message, ok, post, serve, two};

#[test]
fn the_policies_are_served_alone_without_a_tracking_store() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    let health = served.raw(
        "GET /health",
        &[&format!("Host: {}", served.authority())],
        b"",
    );
    assert_eq!(health.json(), json!({"status": "OK", "policies": "ok"}));
    ok(&served, "/recommend", &two("ada", 1));
    for path in [
        "/",
        "/experiments",
        "/api/bench/experiments",
        "/api/2.0/mlflow/experiments/search",
    ] {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
        assert!(message(&reply).contains("--only policies"), "{reply:?}");
    }
    let paths = get(&served, "/api/openapi.json")["paths"].clone();
    let paths: Vec<&String> = paths.as_object().expect("paths").keys().collect();
    for path in [
        "/recommend",
        "/score/egreedy/v2",
        "/reward/linucb",
        "/stats",
        "/users/{user_id}",
    ] {
        assert!(paths.iter().any(|it| *it == path), "{path}: {paths:?}");
    }
    assert!(
        !paths.iter().any(|it| it.starts_with("/api/bench")),
        "{paths:?}"
    );
    assert!(!scratch.file(".assize/assize.db").exists());
    assert!(scratch.file(".assize/policies.db").exists());

    let second = scratch.fails(1, "serve --only policies --port 0");
    assert!(
        second.stderr.contains("another process serves policies"),
        "{second}"
    );
}

#[test]
fn only_services_and_admins_use_the_policies_and_viewers_read_their_figures() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let host = format!("Host: {}", served.authority());
    let send = |token: Option<&str>, line: &str, body: &Value| {
        let token = token.map(|it| format!("Authorization: Bearer {it}"));
        let mut headers = vec![host.as_str(), "Content-Type: application/json"];
        headers.extend(token.as_deref());
        served.raw(line, &headers, body.to_string().as_bytes())
    };
    let stats = |token: Option<&str>| send(token, "GET /stats", &json!({})).status;
    let score = |token: Option<&str>| send(token, "POST /recommend", &two("ada", 1)).status;
    let delete = |token: Option<&str>| send(token, "DELETE /users/ada", &json!({})).status;
    let document = |token: Option<&str>| send(token, "GET /api/openapi.json", &json!({})).status;
    for (role, statuses) in [
        ("service", [200, 200, 200]),
        ("admin", [200, 200, 200]),
        ("viewer", [200, 403, 403]),
        ("judge", [403, 403, 403]),
    ] {
        let token = token_new(&scratch, role);
        let found = [
            stats(Some(&token)),
            score(Some(&token)),
            delete(Some(&token)),
        ];
        assert_eq!(found, statuses, "{role}");
        assert_eq!(document(Some(&token)), 200, "{role}");
        let runs = send(Some(&token), "GET /api/bench/experiments", &json!({})).status;
        assert_eq!(runs == 403, role == "service", "{role}");
    }
    let without = [stats(None), score(None), delete(None), document(None)];
    assert_eq!(without, [401; 4]);
    // Without a token nothing is served from another site either.
    let foreign = served.raw("GET /stats", &["Host: evil.example"], b"");
    assert_eq!(foreign.status, 403, "{foreign:?}");
    // The whole server lists the operations too.
    let paths = get(&served, "/api/openapi.json")["paths"].clone();
    assert!(paths["/recommend"]["post"]["requestBody"].is_object());
    assert!(paths["/users/{user_id}"]["delete"].is_object());
    assert_eq!(post(&served, "/score/none", &two("ada", 1)).status, 404);
}

#[test]
fn settings_of_the_policies_are_checked() {
    let scratch = Scratch::new();
    for (settings, named) in [
        ("[policy]\nbest = 1", "there is no setting 'policy.best'"),
        ("[policy]\nactive = \"ucb\"", "policy.active"),
        ("[policy]\ndurability = \"some\"", "policy.durability"),
        (
            "[policy.linucb]\nalfa = 1",
            "there is no setting 'policy.linucb.alfa'",
        ),
        ("[policy.linucb]\nepsilon = 2", "policy.linucb.epsilon"),
        (
            "[policy.shadows]\nmine = { enabled = true }",
            "policy.shadows.mine",
        ),
        (
            "[policy.shadows]\nlinucb = { policy = \"linucb\" }",
            "policy.shadows.linucb",
        ),
    ] {
        scratch.write("assize.toml", settings);
        let outcome = scratch.fails(2, "serve --only policies --port 0");
        assert!(outcome.stderr.contains(named), "{settings}: {outcome}");
    }
    let shown = scratch.ok("config --defaults");
    assert!(
        shown.stdout.contains("[policy.shadows.egreedy-v2-shadow]"),
        "{shown}"
    );
}
