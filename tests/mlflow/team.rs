//! `assize serve` over a team's MLflow server: pages, API and desk as over a file, several servers
//! on one MLflow, and an MLflow server that is unreachable for a while.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use assize_mlflow::{Config, MlflowStore};
use assize_store::{Promotions as _, RunQuery, Runs as _};
use assize_test_support::mlflow::Mlflow;
use assize_test_support::postgres::Postgres;
use assize_test_support::server::{Reply, Served, token_new};
use assize_test_support::{Scratch, promotion_task};
use serde_json::{Value, json};

#[expect(
    clippy::similar_names,
    reason = "the team's server, and the one that is served"
)]
mod faults;
#[expect(
    clippy::similar_names,
    reason = "the team's server, and the one that is served"
)]
mod panel;
#[expect(
    clippy::similar_names,
    reason = "the team's server, and the one that is served"
)]
mod renewed;

/// Serves what is tracked on this server, from a folder of its own with the task's files.
fn serve(mlflow: &Mlflow) -> (Scratch, Served) {
    let scratch = promotion_task::scratch(promotion_task::ahead);
    let served = serve_again(mlflow, &scratch);
    (scratch, served)
}

fn serve_again(mlflow: &Mlflow, scratch: &Scratch) -> Served {
    serve_at(&mlflow.url, scratch)
}

fn serve_at(address: &str, scratch: &Scratch) -> Served {
    let words =
        format!("serve --port 0 --json --task task --allow script.json --tracking-uri {address}");
    Served::start_with(scratch, &words)
}

fn wait(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < limit, "{what} took over {limit:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    started.elapsed()
}

fn health(served: &Served) -> Value {
    served.get("/health").json()
}

fn wait_complete(served: &Served) {
    wait(Duration::from_mins(1), "reading all runs", || {
        health(served)["copy"]["complete"] == true
    });
}

/// A page, or a form that is sent.
fn page(served: &Served, token: &str, line: &str, body: &str) -> (u16, String) {
    let host = format!("Host: {}", served.authority());
    let token = format!("Authorization: Bearer {token}");
    let origin = format!("Origin: {}", served.url);
    let form = "Content-Type: application/x-www-form-urlencoded";
    let headers = [&host, &token, &origin, form, "Accept: text/html"];
    let reply = served.raw(line, &headers, body.as_bytes());
    (
        reply.status,
        String::from_utf8_lossy(&reply.body).into_owned(),
    )
}

fn ask(served: &Served, token: &str, line: &str, body: &Value) -> Reply {
    let host = format!("Host: {}", served.authority());
    let token = format!("Authorization: Bearer {token}");
    let headers = [&host, &token, "Content-Type: application/json"];
    served.raw(line, &headers, body.to_string().as_bytes())
}

fn next(served: &Served, token: &str, limit: usize) -> Reply {
    let line = format!("GET /api/bench/judge/next?experiment=e&limit={limit}");
    ask(served, token, &line, &Value::Null)
}

fn submit(served: &Served, token: &str, cases: &[Value]) -> Reply {
    let verdict = |case: &Value| {
        let mut case = case.clone();
        promotion_task::score(&mut case, |it| [it[0], it[1], it[2], it[3]]);
        json!({"case": case["case"], "scores": case["scores"]})
    };
    let verdicts: Vec<Value> = cases.iter().map(verdict).collect();
    let body = json!({"experiment": "e", "verdicts": verdicts});
    ask(served, token, "POST /api/bench/judge/verdicts", &body)
}

fn cases(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["cases"].as_array().cloned().expect("cases")
}

fn store(server: &Mlflow) -> MlflowStore {
    MlflowStore::open(&Config::new(&server.url), || 1_800_000_000_000).expect("a store")
}

/// Every verdict on the server, as run and candidate.
fn verdicts(server: &Mlflow) -> Vec<(String, u32)> {
    let store = store(server);
    let runs = store.run_list("e", &RunQuery::default()).expect("runs");
    let mut all = Vec::new();
    for run in runs.runs {
        for file in store.verdicts_get(&run.run_id).expect("verdicts") {
            let verdicts = file.verdicts.iter();
            all.extend(verdicts.map(|it| (run.run_id.clone(), it.candidate)));
        }
    }
    all
}

/// The board without what is measured and differs between any two collections.
fn board(served: &Served) -> Value {
    let reply = served.get("/api/bench/leaderboard/e");
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut board = reply.json();
    for row in board["rows"].as_array_mut().expect("rows") {
        row["latency_ms"].take();
        row["tokens_per_s"].take();
    }
    round(&mut board);
    board
}

/// Sums depend on the order of the runs in their last digits.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let rounded = number.as_f64().map(|it| (it * 1e9).round() / 1e9);
            *value = json!(rounded);
        }
        Value::Array(list) => list.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

#[test]
fn a_team_s_server_is_served_like_a_file() {
    if let Some(server) = Mlflow::usual() {
        is_served_like_a_file(&server);
    }
}

#[test]
fn a_team_s_server_with_postgresql_is_served_like_a_file() {
    let database = Postgres::start();
    if let Some(server) = database.as_ref().and_then(Mlflow::on_postgres) {
        is_served_like_a_file(&server);
    }
}

fn is_served_like_a_file(server: &Mlflow) {
    let elsewhere = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&elsewhere);
    promotion_task::fill(&elsewhere);
    let file = promotion_task::scratch(promotion_task::ahead);
    promotion_task::fill(&file);
    let of_file = Served::start_with(&file, "serve --port 0 --json --task task");

    let (_first_folder, first) = serve(server);
    wait_complete(&first);
    assert_eq!(board(&first), board(&of_file));
    pages_are_shown(server, &first);
    a_verdict_from_elsewhere_is_seen(&elsewhere, &first);
    one_of_two_promotions_counts(server, &first);
}

fn pages_are_shown(mlflow: &Mlflow, served: &Served) {
    let state = health(served);
    assert_eq!(
        (&state["status"], &state["mlflow"]),
        (&json!("OK"), &json!("ok"))
    );
    let listed = served.get("/api/bench/experiments").json();
    let first = &listed["experiments"][0];
    assert_eq!(first["name"], "e", "{listed}");
    assert_eq!(first["pending"], 0, "{listed}");
    let run = mlflow.runs("e")[0]["info"]["run_id"].clone();
    let run = format!("/runs/{}", run.as_str().expect("an id"));
    let paths = [
        "/",
        "/experiments/e",
        "/experiments/e/runs",
        "/experiments/e/history",
        "/experiments/e/grid",
        run.as_str(),
        "/promotions",
        "/desk",
        "/jobs",
    ];
    for path in paths {
        let (status, text) = page(served, &served.token, &format!("GET {path}"), "");
        assert_eq!(status, 200, "{path}: {text}");
        let tracked = format!("Tracked on {}", mlflow.url);
        assert!(text.contains(&tracked), "{path}: {text}");
    }
    let (_, text) = page(served, &served.token, &format!("GET {run}"), "");
    assert!(
        text.contains("candidates.json") || text.contains("topic"),
        "{text}"
    );

    let refused = served.post("runs/search", &json!({"experiment_ids": ["1"]}));
    assert_eq!(refused.status, 404, "{refused:?}");
    let message = refused.json()["message"].clone();
    let message = message.as_str().expect("a message");
    assert!(message.contains(&mlflow.url), "{message}");
}

fn a_verdict_from_elsewhere_is_seen(elsewhere: &Scratch, served: &Served) {
    let pending = || {
        let listed = served.get("/api/bench/experiments").json();
        let all = listed["experiments"].as_array().cloned().expect("a list");
        let late = all.into_iter().find(|it| it["name"] == "late");
        late.map(|it| (it["pending"].clone(), it["judged"].clone()))
    };
    let line = "collect --task task --models scripted:m --script script.json --experiment late \
                --n-tips 2 --n-scenarios 1 --prompts p1";
    elsewhere.ok(line);
    wait(Duration::from_secs(10), "a run from elsewhere", || {
        pending() == Some((json!(1), json!(0)))
    });
    elsewhere.judge(
        "late",
        "late.json",
        "--judge-kind human --judged-by Ana",
        |case| {
            promotion_task::score(case, |it| [it[0], it[1], it[2], it[3]]);
        },
    );
    wait(Duration::from_secs(10), "a verdict from elsewhere", || {
        pending() == Some((json!(0), json!(1)))
    });
    let run = elsewhere.ok("runs list --experiment late --json").json()["runs"][0].clone();
    let run = run["run_id"].as_str().expect("an id").to_owned();
    elsewhere.ok(format!("runs delete {run}").as_str());
    wait(Duration::from_secs(10), "a deletion elsewhere", || {
        pending().is_none()
    });
}

fn one_of_two_promotions_counts(mlflow: &Mlflow, first: &Served) {
    let (_second_folder, second) = serve(mlflow);
    wait_complete(&second);
    let attempt = page(
        first,
        &first.token,
        "POST /promotions/attempt",
        "experiment=e",
    );
    assert_eq!(attempt.0, 303, "{}", attempt.1);
    let body = "experiment=e&candidate=scripted%3Am+%C3%97+p2";
    std::thread::scope(|scope| {
        for served in [first, &second] {
            scope.spawn(move || page(served, &served.token, "POST /promotions/promote", body));
        }
    });
    let history = store(mlflow).promotion_list("shop").expect("a history");
    assert_eq!(history.len(), 1, "{history:?}");
    assert_eq!(history[0].champion.prompt, "p2");
    for served in [first, &second] {
        wait(Duration::from_secs(10), "the new champion", || {
            let (_, text) = page(served, &served.token, "GET /promotions", "");
            text.contains("scripted:m × p2")
        });
    }
}

#[test]
fn judges_of_two_servers_share_the_queue_and_an_outage_loses_nothing() {
    let Some(mut server) = Mlflow::usual() else {
        return;
    };
    let elsewhere = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&elsewhere);
    promotion_task::collect(&elsewhere, "--n-scenarios 6");
    let (first_folder, first) = serve(&server);
    let (second_folder, second) = serve(&server);
    wait_complete(&first);
    wait_complete(&second);
    let first = an_outage_loses_nothing(&mut server, (&first_folder, first));
    wait(Duration::from_secs(10), "the end of the outage", || {
        health(&second)["mlflow"] != "unreachable"
    });

    std::thread::scope(|scope| {
        for (folder, served) in [(&first_folder, &first), (&second_folder, &second)] {
            for _ in 0..2 {
                let token = token_new(folder, "judge");
                scope.spawn(move || judge_all(served, &token));
            }
        }
    });
    let mut all = verdicts(&server);
    all.sort();
    let distinct: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(
        distinct.len(),
        36,
        "six scenarios, three prompts, two candidates"
    );
    assert_eq!(
        all.len(),
        distinct.len(),
        "no case is scored twice: {all:?}"
    );
}

/// Judges until nothing is left, and ends the sitting.
fn judge_all(served: &Served, token: &str) {
    loop {
        let reply = next(served, token, 4);
        let cases = cases(&reply);
        if cases.is_empty() {
            break;
        }
        let accepted = submit(served, token, &cases);
        assert_eq!(accepted.status, 200, "{accepted:?}");
    }
    let body = json!({"experiment": "e"});
    let ended = ask(served, token, "POST /api/bench/judge/finish", &body);
    assert!([200, 400].contains(&ended.status), "{ended:?}");
}

/// The MLflow server is killed in the middle of a sitting, then `assize serve` too.
fn an_outage_loses_nothing(server: &mut Mlflow, (folder, first): (&Scratch, Served)) -> Served {
    let token = token_new(folder, "judge");
    let held = cases(&next(&first, &token, 6));
    assert_eq!(held.len(), 6, "a whole scenario");
    assert_eq!(submit(&first, &token, &held[..1]).status, 200);
    server.kill();

    let kept = submit(&first, &token, &held[1..2]);
    assert_eq!(kept.status, 200, "{kept:?}");
    assert_eq!(kept.json()["undelivered"], 1, "{kept:?}");
    // Cases that are leased go on, new ones and promotions do not.
    let more = cases(&next(&first, &token, 6));
    assert_eq!(more.len(), 4, "{more:?}");
    assert_eq!(submit(&first, &token, &more[..1]).status, 200);
    let other = token_new(folder, "judge");
    let refused = next(&first, &other, 1);
    assert_eq!(refused.code(), "TEMPORARILY_UNAVAILABLE", "{refused:?}");
    let body = json!({"experiment": "e"});
    let unended = ask(&first, &token, "POST /api/bench/judge/finish", &body);
    assert_eq!(unended.code(), "TEMPORARILY_UNAVAILABLE", "{unended:?}");
    let body = "experiment=e&candidate=scripted%3Am+%C3%97+p2";
    let promoted = page(&first, &first.token, "POST /promotions/promote", body);
    assert!(promoted.1.contains("is unreachable"), "{}", promoted.1);
    let state = health(&first);
    assert_eq!(state["mlflow"], "unreachable", "{state}");
    assert_eq!(state["copy"]["undelivered"], 2, "{state}");
    let (status, text) = page(&first, &token, "GET /desk/e", "");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("2 verdicts wait on this machine"), "{text}");
    let (status, text) = page(&first, &first.token, "GET /experiments/e", "");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("is unreachable"), "{text}");

    // The copy and the verdicts outlive this server.
    first.kill();
    let first = serve_again(server, folder);
    let state = health(&first);
    assert_eq!(state["mlflow"], "unreachable", "{state}");
    assert_eq!(state["copy"]["undelivered"], 2, "{state}");
    let listed = first.get("/api/bench/experiments").json();
    assert_eq!(listed["experiments"][0]["name"], "e", "{listed}");

    server.restart();
    wait(Duration::from_secs(30), "the delivery", || {
        health(&first)["copy"]["undelivered"] == 0
    });
    assert_eq!(verdicts(server).len(), 3);
    let resumed = next(&first, &token, 6);
    assert_eq!(resumed.json()["resumed"], true, "{resumed:?}");
    assert_eq!(resumed.json()["progress"]["done"], 3, "{resumed:?}");
    let rest = cases(&resumed);
    let done = submit(&first, &token, &rest);
    assert_eq!(done.status, 200, "{done:?}");
    let body = json!({"experiment": "e"});
    let ended = ask(&first, &token, "POST /api/bench/judge/finish", &body);
    assert_eq!(ended.status, 200, "{ended:?}");
    first
}

#[test]
fn a_server_that_cannot_be_used_is_named_with_the_remedy() {
    let scratch = Scratch::new();
    let unreachable = scratch.fails(1, "serve --tracking-uri http://127.0.0.1:9");
    let told = &unreachable.stderr;
    assert!(told.contains("http://127.0.0.1:9 is unreachable"), "{told}");
    assert!(told.contains("start the server first"), "{told}");

    let itself = Served::start_with(&Scratch::new(), "serve --port 0 --json --open-loopback");
    let line = format!("serve --tracking-uri {}", itself.url);
    let told = scratch.fails(2, line.as_str()).stderr;
    assert!(told.contains("this is `assize serve` itself"), "{told}");

    let (locked, told) = (answering("401 Unauthorized"), "MLFLOW_TRACKING_USERNAME");
    let line = format!("serve --tracking-uri {locked}");
    let outcome = scratch.fails(1, line.as_str());
    assert!(outcome.stderr.contains(told), "{outcome}");
    let elsewhere = answering("200 OK");
    let line = format!("serve --tracking-uri {elsewhere}");
    let outcome = scratch.fails(2, line.as_str());
    assert!(outcome.stderr.contains("MLflow"), "{outcome}");
}

/// A server that answers every request like this, with a page.
fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let body = "<p>Hello</p>";
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}
