//! Prompt loops as jobs of the server, and their pages.

use assize_test_support::Scratch;
use assize_test_support::browser::drive;
use assize_test_support::jobs::{id_of, wait};
use assize_test_support::server::{Reply, Served, token_new};
use serde_json::{Value, json};

use crate::fixture::{START, child, fixing_rounds, scratch, scratch_with, step, with};

fn served(scratch: &Scratch) -> Served {
    let line = "serve --port 0 --json --task task --allow script.json --allow script:children.json";
    Served::start_with(scratch, line)
}

fn request() -> Value {
    json!({
        "experiment": "e", "models": ["scripted:m"], "judge": "scripted:j", "script": "script.json",
        "reflector": "script:children.json", "children": 2, "rounds": 2, "seed": 7, "n_tips": 2,
    })
}

fn ask(served: &Served, request: &Value) -> Reply {
    served.send("POST /api/bench/optimise", request.to_string().as_bytes())
}

/// Sends a request with this token; the body is a form where there is one.
fn send_as(served: &Served, line: &str, token: &str, fields: &str) -> Reply {
    let host = format!("Host: {}", served.authority());
    let origin = format!("Origin: http://{}", served.authority());
    let bearer = format!("Authorization: Bearer {token}");
    let form = "Content-Type: application/x-www-form-urlencoded";
    served.raw(line, &[&host, &origin, &bearer, form], fields.as_bytes())
}

fn done(served: &Served, reply: &Reply) -> Value {
    wait(served, &id_of(reply), |job| job["status"] == "done")
}

fn text(reply: Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    String::from_utf8(reply.body).expect("text")
}

fn status(scratch: &Scratch) -> Value {
    scratch.ok("optimise status --experiment e --json").json()
}

/// The events of a job that has ended, by name.
fn events(served: &Served, id: &str) -> Vec<(String, Value)> {
    let stream = text(served.get(&format!("/api/bench/jobs/{id}/events")));
    let blocks = stream.split("\n\n").filter_map(|block| {
        let line = |key: &str| block.lines().find_map(|it| it.strip_prefix(key));
        let data = serde_json::from_str(line("data: ")?).expect("JSON");
        Some((line("event: ")?.to_owned(), data))
    });
    blocks.collect()
}

#[test]
fn a_loop_is_started_and_continued_by_jobs_that_report_what_they_do() {
    let scratch = scratch(&fixing_rounds());
    let served = served(&scratch);
    let queued = ask(&served, &request());
    let job = done(&served, &queued);
    assert_eq!(job["kind"], "optimise", "{job}");
    assert_eq!(job["error"], Value::Null, "{job}");
    let found = status(&scratch);
    assert_eq!(found["waiting_for"], "judge", "{found:#}");
    assert_eq!(found["nominee"], "r2c1", "{found:#}");

    let events = events(&served, &id_of(&queued));
    let named = |name: &str| -> Vec<&Value> {
        let of_name = events.iter().filter(|it| it.0 == name);
        of_name.map(|it| &it.1).collect()
    };
    assert_eq!(named("started")[0]["started"], true);
    let progress = named("progress");
    let (first, last) = (progress[0], progress[progress.len() - 1]);
    assert_eq!(first["done"], 0, "{first}");
    assert_eq!(last["done"], last["total"], "{last}");
    assert_eq!(job["cells"]["done"], last["done"], "{job}");
    assert_eq!(job["cells"]["total"], last["total"], "{job}");
    assert!(named("judging").iter().any(|it| it["done"] == it["total"]));
    let logged: Vec<&Value> = named("logged").into_iter().map(|it| &it["name"]).collect();
    assert_eq!(logged.first(), Some(&&json!("seed_raced")));
    assert_eq!(logged.last(), Some(&&json!("submitted")));
    assert_eq!(named("summary")[0]["status"], found);
    assert!(named("message").is_empty(), "every line is an event");

    done(&served, &ask(&served, &json!({"experiment": "e"})));
    let again = ask(&served, &request());
    assert_eq!(again.status, 400);
    assert!(again.json().to_string().contains("has a loop already"));
    scratch.ok("optimise stop --experiment e");
    let ended = ask(&served, &json!({"experiment": "e"}));
    assert_eq!(ended.status, 400);
    assert!(ended.json().to_string().contains("has ended"));
}

#[test]
fn a_cancelled_job_is_resumed_and_steps_of_one_loop_follow_each_other() {
    let scratch = scratch_with(&fixing_rounds(), &json!({"noise": 0.3, "seed": 1}), 60);
    let served = served(&scratch);
    let id = id_of(&ask(&served, &request()));
    wait(&served, &id, |job| job["log"].to_string().contains("Seed:"));
    served.send(&format!("POST /api/bench/jobs/{id}/cancel"), b"");
    wait(&served, &id, |job| job["status"] == "cancelled");
    let before = status(&scratch);
    assert_eq!(before["nominee"], Value::Null, "{before:#}");

    let resumed = served.send(&format!("POST /api/bench/jobs/{id}/resume"), b"");
    let again = served.send(&format!("POST /api/bench/jobs/{id}/resume"), b"");
    assert_eq!(id_of(&resumed), again.json()["job_id"], "it is queued once");
    let next = ask(&served, &json!({"experiment": "e"}));
    let resumed = done(&served, &resumed);
    assert_eq!(resumed["request"], json!({"experiment": "e"}));
    assert_eq!(done(&served, &next)["error"], Value::Null);
    assert_eq!(status(&scratch)["waiting_for"], "judge");
}

#[test]
fn a_start_that_the_preflight_advises_against_says_why() {
    let scratch = scratch(&fixing_rounds());
    let script = scratch.read("script.json").replace("\"*\":5", "\"*\":9");
    scratch.write("script.json", &script);
    scratch.ok(
        "collect --task task --models scripted:m --script script.json --experiment old --n-tips 2 \
         --split feedback",
    );
    scratch.ok("judge auto --experiment old --judge scripted:j --script script.json");
    let served = served(&scratch);
    let refused = done(&served, &ask(&served, &request()));
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.contains("the loop was not started"), "{refused}");
    assert!(
        error.contains("better prompts cannot score higher"),
        "{refused}"
    );
    scratch.fails(2, "optimise status --experiment e");
    let mut forced = request();
    forced["force"] = json!(true);
    assert_eq!(done(&served, &ask(&served, &forced))["error"], Value::Null);
    assert_eq!(status(&scratch)["experiment"], "e");
}

#[test]
fn requests_for_loops_are_refused_by_field() {
    let scratch = scratch(&fixing_rounds());
    let served = served(&scratch);
    let cases = [
        ("experiment", Value::Null),
        ("judge", Value::Null),
        ("judge", json!(1)),
        ("judge", json!("")),
        ("children", json!(5)),
        ("rounds", json!(0)),
        ("rounds", json!(-1)),
        ("max_auto", json!("many")),
        ("max_hours", json!(-1)),
        ("max_cost", json!(0)),
        ("ceiling", json!(2)),
        ("force", json!("yes")),
        ("n_tips", json!(0)),
        ("reflector", json!("cmd:touch ran")),
        ("reflector", json!("script:other.json")),
        ("reflector", json!("embedded:/etc/passwd")),
        ("script", json!("/etc/passwd")),
        ("task", json!("elsewhere")),
        ("prompts", json!(["p1"])),
        ("mlflow_url", json!("http://internal:5000")),
    ];
    for (field, value) in cases {
        let mut request = request();
        request[field] = value;
        let reply = ask(&served, &request);
        assert_eq!(reply.status, 400, "{field}: {}", reply.json());
        let fields = reply.json()["error"]["fields"].clone();
        let fields = fields.as_array().expect("fields");
        assert!(fields.iter().all(|it| it["field"] == field), "{fields:?}");
    }
    let jobs = served.get("/api/bench/jobs").json();
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(0), "{jobs}");
    assert!(!scratch.path().join("ran").exists());
}

/// A loop whose reflector, model and judge write markup.
fn hostile_loop() -> Scratch {
    let rounds = json!([[
        child(
            "<script>alert(1)</script> helps",
            &with(&["be brief", "<img src=x onerror=alert(2)>"])
        ),
        child("polite words", &with(&["think"])),
    ]]);
    let scratch = scratch(&rounds);
    let script = scratch
        .read("script.json")
        .replace("Do the first step now.", "<b onclick=alert(3)>Do</b> it.")
        .replace("It should be kind.", "<svg onload=alert(4)> it is rude.");
    scratch.write("script.json", &script);
    scratch.ok(START.replace("--rounds 2", "--rounds 1").as_str());
    step(&scratch);
    scratch
}

#[test]
fn the_page_shows_tree_difference_packets_and_budget_and_escapes_what_models_wrote() {
    let scratch = hostile_loop();
    let served = served(&scratch);
    let page = text(served.get("/optimise/e?from=seed&to=r1c1"));
    for part in [
        "&lt;script&gt;alert(1)&lt;/script&gt; helps",
        "&lt;img src=x onerror=alert(2)&gt;",
        "&lt;b onclick=alert(3)&gt;Do&lt;/b&gt; it.",
        "&lt;svg onload=alert(4)&gt; it is rude.",
        "<svg",
        "<ins>+You give advice",
        "<del>-You give advice",
        "Difference from seed to r1c1",
        "p1: round 1, from seed",
        "automatic verdicts",
        "action=\"/optimise/e/step\"",
        "action=\"/optimise/e/stop\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for markup in ["<script>alert", "<img src=x", "<b onclick", "<svg onload"] {
        assert!(!page.contains(markup), "{markup}: {page}");
    }
    let start = page.find("<main").expect("a main part");
    let end = page.find("<footer").expect("its end");
    insta::assert_snapshot!("page", &page[start..end]);
    assert!(text(served.get("/optimise/e?from=seed&to=seed")).contains("Text of seed"));
    assert!(text(served.get("/optimise/e?to=r9c9")).contains("r9c9"));
    assert!(text(served.get("/optimise")).contains("href=\"/optimise/e\""));
    assert!(text(served.get("/optimise/other")).contains("has no prompt loop"));
    assert!(text(served.get("/experiments/e")).contains("href=\"/optimise/e\""));
}

#[test]
fn everybody_who_may_read_sees_loops_and_only_admins_step_and_stop() {
    let scratch = scratch(&fixing_rounds());
    scratch.ok(START);
    let tokens = ["viewer", "judge", "service", "admin"].map(|it| token_new(&scratch, it));
    let [viewer, judge, service, admin] = &tokens;
    let served = served(&scratch);
    for path in ["/optimise", "/optimise/e"] {
        for token in [viewer, judge] {
            let page = text(send_as(&served, &format!("GET {path}"), token, ""));
            assert!(!page.contains("/step\""), "{page}");
        }
        let refused = send_as(&served, &format!("GET {path}"), service, "");
        assert_eq!(refused.status, 403, "{path}");
    }
    for path in [
        "/optimise/e/step",
        "/optimise/e/stop",
        "/api/bench/optimise",
    ] {
        for token in [viewer, judge, service] {
            let refused = send_as(&served, &format!("POST {path}"), token, "");
            assert_eq!(refused.status, 403, "{path}");
        }
    }
    let queued = send_as(&served, "POST /optimise/e/step", admin, "");
    assert_eq!(queued.status, 303);
    let job = queued.header("location").expect("a job").to_owned();
    let id = job.trim_start_matches("/jobs/");
    wait(&served, id, |job| job["status"] == "done");
    assert!(text(served.get(&job)).contains("href=\"/optimise/e\""));

    let stopped = send_as(&served, "POST /optimise/e/stop", admin, "reason=enough");
    assert_eq!(stopped.status, 303);
    let found = status(&scratch);
    assert_eq!(found["state"], "rejected", "{found:#}");
    assert!(found["reason"].to_string().contains("enough"), "{found:#}");
    assert!(!text(served.get("/optimise/e")).contains("/optimise/e/step"));
    let missing = send_as(&served, "POST /optimise/other/step", admin, "");
    assert_eq!(missing.status, 404);
}

#[test]
fn the_pages_work_in_a_browser_with_and_without_javascript() {
    let scratch = hostile_loop();
    let other = START.replace("--experiment e", "--experiment f");
    scratch.ok(other.replace("--rounds 2", "--rounds 1").as_str());
    let served = served(&scratch);
    drive("tests/optimise/panel.mjs", &served, &[("LOOP", "e")]);
    drive(
        "tests/optimise/panel.mjs",
        &served,
        &[("LOOP", "f"), ("JAVASCRIPT", "off")],
    );
}
