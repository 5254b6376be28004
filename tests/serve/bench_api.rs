//! The bench API over HTTP: roles, jobs, and the state of jobs after processes die.

use serde_json::{Value, json};

use assize_test_support::jobs::{id_of, job, kill_job, run, serve, wait};
use assize_test_support::server::token_new;
use assize_test_support::{Scratch, script};

/// A scripted model that takes its time, so that a job can be caught at work.
fn slow_script(scratch: &Scratch, latency_ms: u32) {
    let response =
        json!({"prompt": "*", "scenario": "*", "texts": ["A tip."], "latency_ms": latency_ms});
    let model = json!({"parameter_count": 500_000_000, "responses": [response]});
    scratch.write(
        "script.json",
        &json!({"models": {"a": model, "b": model}}).to_string(),
    );
}

#[test]
fn a_collection_runs_as_a_job_and_its_events_can_be_watched() {
    let scratch = Scratch::new();
    scratch.write(
        "script.json",
        &script(&[("a", &["A tip."]), ("b", &["Another tip."])]),
    );
    let served = serve(&scratch);
    let id = id_of(&run(
        &served,
        &json!({"models": ["scripted:a", "scripted:b"]}),
    ));
    let done = wait(&served, &id, |job| job["status"] == "done");
    assert_eq!(done["cells"], json!({"done": 8, "failed": 0, "total": 8}));
    let experiments = served.get("/api/bench/experiments").json();
    assert_eq!(experiments["experiments"][0]["runs"], 8, "{experiments}");
    assert_eq!(experiments["experiments"][0]["pending"], 8);
    let page = served.get("/api/bench/runs/e?max_results=3").json();
    assert_eq!(page["runs"].as_array().map(Vec::len), Some(3));
    let next = page["next_page_token"].as_str().expect("more");
    let page = served.get(&format!(
        "/api/bench/runs/e?max_results=3&page_token={next}"
    ));
    assert_eq!(page.json()["runs"].as_array().map(Vec::len), Some(3));
    let events = served.get(&format!("/api/bench/jobs/{id}/events"));
    let text = String::from_utf8_lossy(&events.body).into_owned();
    assert_eq!(text.matches("event: cell\n").count(), 8, "{text}");
    assert!(text.contains("event: summary\n"), "{text}");
    assert!(
        text.trim_end()
            .rsplit("event: status")
            .next()
            .expect("a status")
            .contains("done")
    );
    // The same again has nothing to do.
    let again = id_of(&run(
        &served,
        &json!({"models": ["scripted:a", "scripted:b"]}),
    ));
    wait(&served, &again, |job| job["status"] == "done");
    assert_eq!(
        served.get("/api/bench/experiments").json()["experiments"][0]["runs"],
        8
    );
    let board = served.get("/api/bench/leaderboard/e");
    assert_eq!(board.json()["coverage"]["pending"], 8, "{board:?}");
}

#[test]
fn a_job_can_be_cancelled_and_resumed() {
    let scratch = Scratch::new();
    slow_script(&scratch, 200);
    let served = serve(&scratch);
    let id = id_of(&run(&served, &json!({"n_scenarios": 8})));
    wait(&served, &id, |job| job["cells"]["done"].as_u64() > Some(0));
    let reply = served.send(&format!("POST /api/bench/jobs/{id}/cancel"), b"");
    assert_eq!(reply.status, 202, "{reply:?}");
    let over = wait(&served, &id, |job| job["finished_at"].is_string());
    assert_eq!(over["status"], "cancelled", "{over}");
    let resume = || served.send(&format!("POST /api/bench/jobs/{id}/resume"), b"");
    let again = id_of(&resume());
    assert_eq!(
        resume().json()["job_id"],
        *again,
        "asking twice queues it once"
    );
    let done = wait(&served, &again, |job| job["finished_at"].is_string());
    assert_eq!(done["status"], "done", "{done}");
    assert_eq!(
        served.get("/api/bench/experiments").json()["experiments"][0]["runs"],
        8
    );
    assert_eq!(served.get("/api/bench/jobs/nope").status, 404);
}

#[test]
fn a_job_outlives_the_server_and_is_found_again() {
    let scratch = Scratch::new();
    slow_script(&scratch, 300);
    let served = serve(&scratch);
    let id = id_of(&run(&served, &json!({"n_scenarios": 8})));
    wait(&served, &id, |job| job["cells"]["done"].as_u64() > Some(0));
    // Dropping kills it with -9.
    drop(served);
    let served = serve(&scratch);
    assert_eq!(job(&served, &id)["status"], "running");
    let done = wait(&served, &id, |job| job["finished_at"].is_string());
    assert_eq!(done["status"], "done", "{done}");
    assert_eq!(done["cells"]["done"], 8);
}

#[test]
fn a_job_that_died_with_the_server_is_marked_and_can_be_resumed() {
    let scratch = Scratch::new();
    slow_script(&scratch, 300);
    let served = serve(&scratch);
    let id = id_of(&run(&served, &json!({"n_scenarios": 8})));
    wait(&served, &id, |job| job["cells"]["done"].as_u64() > Some(0));
    drop(served);
    kill_job(&scratch);
    let served = serve(&scratch);
    let over = job(&served, &id);
    assert_eq!(over["status"], "failed", "{over}");
    assert!(
        over["error"]
            .as_str()
            .expect("a reason")
            .contains("interrupted"),
        "{over}"
    );
    let again = id_of(&served.send(&format!("POST /api/bench/jobs/{id}/resume"), b""));
    let done = wait(&served, &again, |job| job["finished_at"].is_string());
    assert_eq!(done["status"], "done", "{done}");
    assert_eq!(
        served.get("/api/bench/experiments").json()["experiments"][0]["runs"],
        8
    );
}

#[test]
fn a_killed_job_never_stays_running() {
    let scratch = Scratch::new();
    slow_script(&scratch, 300);
    let served = serve(&scratch);
    let id = id_of(&run(&served, &json!({"n_scenarios": 8})));
    wait(&served, &id, |job| job["cells"]["done"].as_u64() > Some(0));
    kill_job(&scratch);
    let over = wait(&served, &id, |job| job["finished_at"].is_string());
    assert_eq!(over["status"], "failed", "{over}");
}

#[test]
fn each_role_has_its_rights_only() {
    let scratch = Scratch::new();
    let served = serve(&scratch);
    let tokens = ["admin", "viewer", "judge", "service"].map(|role| token_new(&scratch, role));
    let host = format!("Host: {}", served.authority());
    let status = |line: &str, token: &str| {
        let token = format!("Authorization: Bearer {token}");
        let kind = "Content-Type: application/json";
        served.raw(line, &[&host, &token, kind], b"{}").status
    };
    let cases: [(&str, [u16; 4]); 8] = [
        ("GET /api/bench/experiments", [200, 200, 200, 403]),
        ("GET /api/bench/jobs", [200, 200, 200, 403]),
        ("POST /api/bench/run", [202, 403, 403, 403]),
        ("POST /api/bench/judge", [400, 403, 403, 403]),
        ("GET /api/tokens", [200, 403, 403, 403]),
        ("GET /metrics", [200, 200, 200, 403]),
        (
            "POST /api/2.0/mlflow/experiments/search",
            [400, 400, 400, 403],
        ),
        (
            "POST /api/2.0/mlflow/experiments/create",
            [400, 403, 403, 403],
        ),
    ];
    for (line, expected) in cases {
        let found = [0, 1, 2, 3].map(|it: usize| status(line, &tokens[it]));
        assert_eq!(found, expected, "{line}");
        assert_eq!(status(line, "assize_wrong"), 401, "{line}");
        assert_eq!(served.raw(line, &[&host], b"{}").status, 401, "{line}");
    }
    let id = scratch.ok("token list --json").json()["tokens"][1]["id"].clone();
    scratch.ok(format!("token revoke {}", id.as_str().expect("an id")).as_str());
    assert_eq!(status("GET /api/bench/jobs", &tokens[0]), 401, "revoked");
}

#[test]
fn a_browser_signs_in_and_its_changes_must_come_from_our_pages() {
    let scratch = Scratch::new();
    let served = serve(&scratch);
    let host = format!("Host: {}", served.authority());
    let own = format!("Origin: {}", served.url);
    let form = "Content-Type: application/x-www-form-urlencoded";
    let sign_in = |token: &str, origin: &str| {
        let body = format!("token={token}&next=%2Fjobs");
        served.raw("POST /sign-in", &[&host, origin, form], body.as_bytes())
    };
    assert_eq!(sign_in(&served.token, "X-None: 1").status, 403, "no origin");
    let wrong = sign_in("assize_wrong", &own);
    assert!(wrong.head.contains("/sign-in?error=wrong"), "{wrong:?}");
    let right = sign_in(&served.token, &own);
    assert!(
        right.head.to_lowercase().contains("location: /jobs"),
        "{right:?}"
    );
    let cookie = right
        .head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .expect("a cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite"),
        "{cookie}"
    );
    let own_name = served.authority().replace("127.0.0.1:", "assize_session_") + "=";
    assert!(
        cookie.starts_with(&own_name),
        "servers on other ports have their own: {cookie}"
    );
    let cookie = format!("Cookie: {}", cookie.split(';').next().expect("a value"));
    assert!(
        !cookie.contains(&served.token),
        "the token stays with its holder"
    );
    let json = "Content-Type: application/json";
    let get = served.raw("GET /api/bench/jobs", &[&host, &cookie], b"");
    assert_eq!(get.status, 200, "{get:?}");
    let post = |headers: &[&str]| served.raw("POST /api/bench/judge", headers, b"{}").status;
    assert_eq!(post(&[&host, &cookie, json]), 403, "no origin");
    assert_eq!(
        post(&[&host, &cookie, json, "Origin: http://evil.example"]),
        403
    );
    assert_eq!(
        post(&[&host, &cookie, json, &own]),
        400,
        "our own page, bad fields"
    );
    let out = served.raw("POST /sign-out", &[&host, &cookie, &own], b"");
    assert_eq!(out.status, 303, "{out:?}");
    assert_eq!(
        served
            .raw("GET /api/bench/jobs", &[&host, &cookie], b"")
            .status,
        401
    );
    for _ in 0..20 {
        sign_in("assize_wrong", &own);
    }
    let limited = sign_in("assize_wrong", &own);
    assert_eq!(limited.status, 429, "{limited:?}");
    assert!(limited.head.contains("retry-after: 60"), "{limited:?}");
    // People behind one proxy do not lock each other out.
    let right = sign_in(&served.token, &own);
    assert!(right.head.contains("location: /jobs"), "{right:?}");
}

/// While a sitting of theirs is open.
const HIDDEN_FROM_JUDGES: [&str; 5] = [
    "GET /api/bench/leaderboard/e",
    "GET /api/bench/runs/e",
    "GET /api/bench/experiments",
    "GET /experiments/e",
    "GET /api/2.0/mlflow/experiments/get?experiment_id=0",
];

#[test]
fn a_judge_sits_blind_and_sees_the_board_when_it_is_over() {
    let scratch = Scratch::pending("scripted:a,scripted:b", "p1", 2);
    let served = serve(&scratch);
    let judge = token_new(&scratch, "judge");
    let send = |line: &str, body: &Value| {
        let host = format!("Host: {}", served.authority());
        let token = format!("Authorization: Bearer {judge}");
        let kind = "Content-Type: application/json";
        served.raw(line, &[&host, &token, kind], body.to_string().as_bytes())
    };
    let next = || {
        send(
            "GET /api/bench/judge/next?experiment=e&limit=50",
            &json!({}),
        )
    };
    assert_eq!(send("GET /api/bench/leaderboard/e", &json!({})).status, 200);
    let first = next();
    let text = String::from_utf8_lossy(&first.body).into_owned();
    assert!(
        !text.contains("scripted:") && !text.contains("p1"),
        "{text}"
    );
    for hidden in HIDDEN_FROM_JUDGES {
        assert_eq!(send(hidden, &json!({})).status, 403, "{hidden}");
    }
    let cases = first.json()["cases"].as_array().expect("cases").clone();
    assert!(!cases.is_empty(), "{text}");
    let criteria = first.json()["rubric"]["criteria"].clone();
    let scores = |score: i64| -> Value {
        let names = criteria.as_array().expect("criteria").iter();
        names
            .map(|it| {
                (
                    it["name"].as_str().expect("a name").to_owned(),
                    json!(score),
                )
            })
            .collect()
    };
    let hand_in = |verdicts: Value| {
        send(
            "POST /api/bench/judge/verdicts",
            &json!({"experiment": "e", "verdicts": verdicts}),
        )
    };
    let wrong = hand_in(json!([{"case": cases[0]["case"], "scores": scores(99)}]));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let field = wrong.json()["error"]["fields"][0]["field"].clone();
    assert!(
        field
            .as_str()
            .expect("a field")
            .starts_with("/verdicts/0/scores/"),
        "{field}"
    );
    let all: Vec<Value> = cases
        .iter()
        .map(|it| json!({"case": it["case"], "scores": scores(1), "rationale": "Short."}))
        .collect();
    let accepted = hand_in(json!(all));
    assert_eq!(accepted.json()["scored"], cases.len(), "{accepted:?}");
    assert_eq!(accepted.json()["progress"]["left"], 0);
    assert!(next().json()["cases"].as_array().expect("cases").is_empty());
    let over = send("POST /api/bench/judge/finish", &json!({"experiment": "e"}));
    assert_eq!(over.status, 200, "{over:?}");
    assert_eq!(send("GET /api/bench/leaderboard/e", &json!({})).status, 200);
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["expert"]["pending"], 0, "{status}");
}

#[test]
fn a_second_server_in_the_same_folder_is_refused() {
    let scratch = Scratch::new();
    let served = serve(&scratch);
    let refused = scratch.fails(1, "serve --port 0");
    assert!(
        refused.stderr.contains("another `assize serve`"),
        "{refused}"
    );
    drop(served);
    drop(serve(&scratch));
}

#[test]
fn a_viewer_cannot_write_under_a_path_that_looks_like_a_search() {
    let scratch = Scratch::new();
    let served = serve(&scratch);
    let run = served.run_new();
    let viewer = token_new(&scratch, "viewer");
    let host = format!("Host: {}", served.authority());
    let token = format!("Authorization: Bearer {viewer}");
    for verb in ["PUT", "DELETE"] {
        let line =
            format!("{verb} /api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts/x/runs/search");
        assert_eq!(
            served.raw(&line, &[&host, &token], b"text").status,
            403,
            "{line}"
        );
    }
    // What a page of another site fetches as if it were a picture.
    let cross = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"];
    let reply = served.raw(
        "GET /api/bench/jobs",
        &[&host, &token, cross[0], cross[1]],
        b"",
    );
    assert_eq!(reply.status, 403, "{reply:?}");
    scratch.ok("token create --role judge --name Ada");
    let refused = scratch.fails(2, "token create --role viewer --name Ada");
    assert!(refused.stderr.contains("another name"), "{refused}");
}

#[test]
fn a_revoked_token_ends_its_event_stream() {
    let scratch = Scratch::new();
    slow_script(&scratch, 200);
    let served = serve(&scratch);
    let made = scratch
        .ok("token create --role viewer --name Eve --json")
        .json();
    let id = id_of(&run(&served, &json!({"n_scenarios": 8, "n_tips": 5})));
    let host = format!("Host: {}", served.authority());
    let token = format!(
        "Authorization: Bearer {}",
        made["token"].as_str().expect("a token")
    );
    let line = format!("GET /api/bench/jobs/{id}/events");
    let told = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| served.raw(&line, &[&host, &token], b""));
        wait(&served, &id, |job| job["cells"]["done"].as_u64() > Some(0));
        scratch.ok(format!("token revoke {}", made["id"].as_str().expect("an id")).as_str());
        watcher.join().expect("an answer")
    });
    let text = String::from_utf8_lossy(&told.body).into_owned();
    assert!(text.matches("event: cell").count() < 8, "{text}");
    assert!(!text.contains("event: summary"), "{text}");
    wait(&served, &id, |job| job["finished_at"].is_string());
}
