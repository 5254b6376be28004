//! MLflow servers with a path prefix, without artifacts, with passwords; and `assize serve` as one.

use serde_json::{Value, json};

use super::{score, write_script};
use assize_test_support::mlflow::Mlflow;
use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch, cells, mlflow_python};

/// Collects, judges and compares a small grid; answers the board.
fn collect_and_judge(scratch: &Scratch, experiment: &str) -> Value {
    write_script(scratch);
    let line = format!(
        "collect --models scripted:alpha,scripted:beta --prompts v1 --n-scenarios 2 --n-tips 2 \
         --script script.json --experiment {experiment} --json"
    );
    assert_eq!(scratch.ok(line.as_str()).summary()["collected"], 4);
    assert_eq!(scratch.ok(line.as_str()).summary()["skipped"], 4);
    let words = "--judge-kind human --judged-by ada";
    scratch.judge(experiment, "judge.json", words, score);
    let board = scratch.board(experiment);
    assert_eq!(board["coverage"]["judged"], 4, "{board}");
    board
}

#[test]
fn a_server_behind_a_prefix_that_serves_no_artifacts() {
    let Some(python) = mlflow_python() else {
        return;
    };
    let words = "--static-prefix /mlflow --no-serve-artifacts \
                 --default-artifact-root {folder}/artifacts --allowed-hosts tracking.test:1";
    let server = Mlflow::start(&python, "/mlflow", words, &[]);
    let scratch = server.scratch();
    let closed = scratch.fails(1, "experiments list");
    assert!(closed.stderr.contains("MLFLOW_HOST_HEADER"), "{closed}");
    let uri = format!(
        "MLFLOW_TRACKING_URI={}\nMLFLOW_HOST_HEADER=Tracking.test:1\n",
        server.url
    );
    scratch.write(".env", &uri);
    let by_upload = collect_and_judge(&scratch, "small");

    // Where the server cannot write files either, they are tags.
    let body = json!({"name": "tagged", "artifact_location": "s3://no-such-bucket/x"});
    ureq::post(&format!("{}/api/2.0/mlflow/experiments/create", server.url))
        .header("Host", "tracking.test:1")
        .send_json(&body)
        .expect("made");
    let by_tags = collect_and_judge(&scratch, "tagged");
    assert_eq!(
        by_tags["rows"][0]["composite"],
        by_upload["rows"][0]["composite"]
    );
    let list = scratch.ok("runs list --experiment tagged --json").json();
    let id = list["runs"][0]["run_id"].as_str().expect("an id");
    let shown = scratch.ok(&["runs", "show", id, "--json"]).json();
    assert_eq!(
        shown["artifacts"].as_array().map(Vec::len),
        Some(6),
        "{shown}"
    );
}

#[test]
fn a_server_that_asks_for_a_password_and_keeps_files_on_its_own_disk() {
    let Some(python) = mlflow_python() else {
        return;
    };
    let words = "--app-name basic-auth --default-artifact-root file://{folder}/artifacts \
                 --serve-artifacts";
    let secrets = [
        ("MLFLOW_FLASK_SERVER_SECRET_KEY", "a-key-for-the-tests"),
        ("MLFLOW_AUTH_ADMIN_PASSWORD", "a-long-pass-phrase"),
    ];
    let server = Mlflow::start(&python, "", words, &secrets);
    let scratch = server.scratch();
    let closed = scratch.fails(1, "experiments list");
    assert!(
        closed.stderr.contains("MLFLOW_TRACKING_USERNAME"),
        "{closed}"
    );
    let address = server.url.trim_start_matches("http://");
    let uri = format!("MLFLOW_TRACKING_URI=http://admin:a-long-pass-phrase@{address}\n");
    scratch.write(".env", &uri);
    collect_and_judge(&scratch, "small");
    let list = scratch.ok("runs list --experiment small --json");
    assert!(!list.stdout.contains("a-long-pass-phrase"), "{list}");
    let named = format!(
        "MLFLOW_TRACKING_URI={}\nMLFLOW_TRACKING_USERNAME=admin\n\
         MLFLOW_TRACKING_PASSWORD=a-long-pass-phrase\n",
        server.url
    );
    scratch.write(".env", &named);
    assert_eq!(scratch.board("small")["coverage"]["judged"], 4);
}

#[test]
fn assize_serve_is_a_tracking_server_too() {
    let kept = Scratch::new();
    let served = Served::start(&kept);
    let scratch = Scratch::new();
    let env = format!(
        "MLFLOW_TRACKING_URI={}\nMLFLOW_TRACKING_TOKEN={}\n",
        served.url, served.token
    );
    scratch.write(".env", &env);
    let board = collect_and_judge(&scratch, "small");
    // What came over the wire is what the store beneath it holds.
    let beneath = kept.ok("runs list --experiment small --json").json();
    assert_eq!(
        beneath["runs"].as_array().map(Vec::len),
        Some(4),
        "{beneath}"
    );
    assert_eq!(kept.board("small")["rows"], board["rows"]);
}

#[test]
fn an_unreachable_server_is_reported_without_credentials() {
    let scratch = Scratch::new();
    scratch.write(
        ".env",
        "MLFLOW_TRACKING_URI=http://ada:s3cret@127.0.0.1:1\n",
    );
    let outcome: Outcome = scratch.fails(1, "experiments list");
    assert!(
        outcome.stderr.contains("http://127.0.0.1:1 is unreachable"),
        "{outcome}"
    );
    assert!(!outcome.stderr.contains("s3cret"), "{outcome}");
    assert!(cells(&outcome).is_empty());
}
