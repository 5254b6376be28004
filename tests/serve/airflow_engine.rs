//! Jobs of `assize serve` with `engine = "airflow"`, where there is no Airflow. The whole stack is
//! in `tests/integrations/airflow_stack.rs`.

use assize_test_support::Scratch;
use assize_test_support::jobs::{id_of, run, wait};
use assize_test_support::server::Served;
use serde_json::json;

const SETTINGS: &str = "engine = \"airflow\"\n[airflow]\nurl = \"http://127.0.0.1:9\"\n\
                        username = \"ada\"\npassword_env = \"AIRFLOW_PASSWORD\"\n";

fn serve(settings: &str, env: &str) -> (Scratch, Served) {
    let scratch = Scratch::new();
    scratch.write("assize.toml", settings);
    scratch.write(".env", env);
    let served = Served::start_with(&scratch, "serve --port 0 --json --allow script.json");
    (scratch, served)
}

#[test]
fn an_unreachable_airflow_fails_the_job_with_its_address() {
    let settings = format!("{SETTINGS}tracking_uri = \"http://127.0.0.1:8\"\n");
    let (_scratch, served) = serve(&settings, "AIRFLOW_PASSWORD=secret\n");
    let id = id_of(&run(&served, &json!({})));
    let job = wait(&served, &id, |job| job["finished_at"].is_string());
    assert_eq!(job["status"], "failed", "{job}");
    let error = job["error"].as_str().expect("a message");
    assert!(
        error.contains("Airflow at http://127.0.0.1:9 is unreachable"),
        "{error}"
    );
    assert_eq!(job["engine_url"], json!(null));
    assert!(!job.to_string().contains("secret"), "{job}");
}

#[test]
fn a_password_that_is_not_set_is_named() {
    let settings = format!("{SETTINGS}tracking_uri = \"http://127.0.0.1:8\"\n");
    let (_scratch, served) = serve(&settings, "");
    let id = id_of(&run(&served, &json!({})));
    let job = wait(&served, &id, |job| job["finished_at"].is_string());
    let error = job["error"].as_str().expect("a message");
    assert!(
        error.contains("the environment variable AIRFLOW_PASSWORD"),
        "{error}"
    );
}

#[test]
fn a_collection_needs_a_tracking_server() {
    let (_scratch, served) = serve(SETTINGS, "AIRFLOW_PASSWORD=secret\n");
    let refused = run(&served, &json!({}));
    assert_eq!(refused.status, 400, "{refused:?}");
    let body = refused.json().to_string();
    assert!(body.contains("airflow.tracking_uri"), "{body}");
}

#[test]
fn settings_are_checked_at_the_start() {
    let scratch = Scratch::new();
    for (settings, message) in [
        ("engine = \"celery\"\n", "engine"),
        ("engine = \"airflow\"\n", "airflow.url"),
    ] {
        scratch.write("assize.toml", settings);
        let refused = scratch.fails(2, "serve --port 0 --json");
        assert!(refused.stderr.contains(message), "{refused}");
    }
}
