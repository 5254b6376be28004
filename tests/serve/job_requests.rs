//! Requests for jobs: invalid fields, the allow-list, and the report of a finished job.

use serde_json::json;

use assize_test_support::jobs::{id_of, run, serve, wait};
use assize_test_support::server::Served;
use assize_test_support::{Scratch, script};

#[test]
fn every_invalid_field_is_named_and_only_allowed_addresses_are_used() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["A tip."])]));
    let served = serve(&scratch);
    let reply = run(
        &served,
        &json!({"n_tips": 0, "temperature": "hot", "prompts": ["v9"], "colour": "red",
                "ollama_url": "http://169.254.169.254/", "mlflow_url": "http://internal:5000",
                "base_url": "http://internal", "script": "/etc/passwd", "task": "/etc"}),
    );
    assert_eq!(reply.status, 400, "{reply:?}");
    let error = reply.json();
    let fields = error["error"]["fields"].as_array().expect("fields").clone();
    let named: Vec<&str> = fields
        .iter()
        .filter_map(|it| it["field"].as_str())
        .collect();
    for field in [
        "temperature",
        "colour",
        "ollama_url",
        "mlflow_url",
        "base_url",
        "script",
        "task",
        "n_tips",
    ] {
        assert!(named.contains(&field), "{field} is not named: {error}");
    }
    // A value that cannot even be read hides no other.
    let reply = run(
        &served,
        &json!({"split": "x", "n_tips": 0, "timeout": -1, "jobs": 0, "experiment": "",
                "max_model_b": -3, "num_ctx": 0, "prompts": ["v9"]}),
    );
    let message = reply.json()["error"]["message"].to_string();
    for part in [
        "split is 'x': use one of ",
        "timeout is -1: use a whole number from 0",
        "n_tips is 0",
        "jobs is 0",
        "experiment must be",
        "max_model_b is -3",
        "num_ctx is 0",
        "prompts has 'v9'",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    let reply = run(&served, &json!({"prompts": ["v9"]}));
    assert!(
        reply.json()["error"]["message"]
            .as_str()
            .expect("words")
            .contains("v9"),
        "{reply:?}"
    );
    assert!(
        served.get("/api/bench/jobs").json()["jobs"]
            .as_array()
            .expect("jobs")
            .is_empty()
    );
    let reply = served.send("POST /api/bench/judge", b"{}");
    assert_eq!(reply.status, 400, "{reply:?}");
}

#[test]
fn the_allow_list_covers_resumed_jobs_and_paths_of_weights() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["A tip."])]));
    let served = serve(&scratch);
    let id = id_of(&run(&served, &json!({})));
    wait(&served, &id, |job| job["status"] == "done");
    let reply = run(&served, &json!({"models": ["embedded:/root/secret.gguf"]}));
    assert_eq!(
        reply.json()["error"]["fields"][0]["field"],
        "models",
        "{reply:?}"
    );
    drop(served);
    let served = Served::start_with(&scratch, "serve --port 0 --json");
    let reply = served.send(&format!("POST /api/bench/jobs/{id}/resume"), b"");
    assert_eq!(reply.status, 400, "{reply:?}");
}

#[test]
fn a_finished_job_reports_what_it_left_out() {
    let scratch = Scratch::new();
    let models = [
        ("a", &["A tip."][..]),
        ("big", &["A tip."]),
        ("judge", &["no JSON"]),
    ];
    let mut all: serde_json::Value = serde_json::from_str(&script(&models)).expect("JSON");
    all["models"]["big"]["parameter_count"] = json!(500_000_000_000_u64);
    scratch.write("script.json", &all.to_string());
    let served = serve(&scratch);
    let both = json!({"models": ["scripted:a", "scripted:big"]});
    let id = id_of(&run(&served, &both));
    let job = wait(&served, &id, |job| job["status"] == "done");
    let error = job["error"].as_str().unwrap_or_default();
    assert!(
        error.starts_with("scripted:big was not admitted: "),
        "{job}"
    );
    assert_eq!(job["cells"], json!({"done": 4, "failed": 0, "total": 4}));

    let ask = json!({"experiment": "e", "judge": "scripted:judge", "script": "script.json"});
    let reply = served.send("POST /api/bench/judge", ask.to_string().as_bytes());
    let job = wait(&served, &id_of(&reply), |job| job["status"] == "done");
    let error = job["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("4 runs are still pending; "), "{job}");
}
