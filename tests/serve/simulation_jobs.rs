//! Simulations as jobs of the server.

use assize_test_support::Scratch;
use assize_test_support::jobs::wait;
use assize_test_support::server::Served;
use serde_json::{Value, json};

fn post(served: &Served, request: &Value) -> (u16, Value) {
    let reply = served.send("POST /api/sim/run", request.to_string().as_bytes());
    (reply.status, reply.json())
}

#[test]
fn a_simulation_is_a_job_with_progress_and_tracked_results() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let request = json!({"policies": ["egreedy-v1", "linucb"], "steps": 30, "seeds": 2});
    let (status, queued) = post(&served, &request);
    assert_eq!(status, 202, "{queued}");
    let id = queued["job_id"].as_str().expect("an id").to_owned();
    let experiment = queued["experiment"].as_str().expect("a name").to_owned();
    let job = wait(&served, &id, |job| job["status"] == "done");
    assert_eq!(job["kind"], "simulate", "{job}");
    let line = format!("runs list --experiment {experiment} --limit 0 --json");
    let runs = scratch.ok(line.as_str()).json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(10), "{runs}");
}

#[test]
fn bad_requests_are_refused_by_field() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let cases = [
        (json!({"policies": ["greedy"]}), "policies"),
        (json!({"steps": 0}), "steps"),
        (json!({"seeds": "many"}), "seeds"),
        (json!({"sensitivity": 1}), "sensitivity"),
        (json!({"models": ["a"]}), "models"),
    ];
    for (request, field) in cases {
        let (status, answer) = post(&served, &request);
        assert_eq!(status, 400, "{answer}");
        assert!(answer.to_string().contains(field), "{answer}");
    }
    let jobs = served.send("GET /api/bench/jobs", b"").json();
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(0), "{jobs}");
}
