//! MLflow's own Python client against a real `assize serve`.

use std::path::Path;
use std::process::Command;

mod support;

use support::server::Served;
use support::{Scratch, cells, collect, mlflow_python, score_all, script};

/// Runs a script of `tests/mlflow` against a server of its own.
fn run(script: &str, words: &[&str]) {
    let Some(python) = mlflow_python() else {
        return;
    };
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    run_against(&python, &served, &scratch, script, words);
    assert_eq!(served.stop(), Some(0));
}

fn run_against(python: &str, served: &Served, scratch: &Scratch, script: &str, words: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let outcome = Command::new(python)
        .arg(root.join("tests/mlflow").join(script))
        .args(words)
        .current_dir(scratch.path())
        .env("MLFLOW_TRACKING_URI", &served.url)
        .env("MLFLOW_TRACKING_TOKEN", &served.token)
        .env("MLFLOW_DISABLE_TELEMETRY", "true")
        .env("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        .output()
        .expect("Python runs");
    assert!(
        outcome.status.success(),
        "{script}\n{}\n{}",
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr)
    );
}

#[test]
fn a_notebook_s_runs_and_artifacts() {
    run("runs.py", &[]);
}

#[test]
fn every_filter_has_the_answer_of_a_real_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = root.join("tests/data/mlflow/filters.txt");
    run("filters.py", &[data.to_str().expect("a path")]);
}

#[test]
fn the_prompt_registry_s_round_trip() {
    run("prompts.py", &[]);
}

#[test]
fn autologging_and_logged_models() {
    run("models.py", &[]);
}

#[test]
fn verdicts_are_assessments_and_feedback_stands_beside_them() {
    let Some(python) = mlflow_python() else {
        return;
    };
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("good", &["A tip.", "Another."])]));
    let made = scratch.ok(&collect(
        "scripted:good",
        "--prompts v1 --n-scenarios 1 --n-tips 2",
    ));
    let run_id = cells(&made)[0]["run_id"].clone();
    scratch.judge(
        "e",
        "judge.json",
        "--judge-kind human --judged-by ada",
        |case| {
            score_all(case, 4);
            case["rationale"] = "because é".into();
        },
    );
    let served = Served::start(&scratch);
    let run_id = run_id.as_str().expect("an id");
    run_against(&python, &served, &scratch, "feedback.py", &[run_id]);
}
