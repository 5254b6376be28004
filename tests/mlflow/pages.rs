//! `assize serve --mlflow-ui`: MLflow's own pages, from an installed package, over our server.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use assize_test_support::browser;
use assize_test_support::server::{Served, token_new};
use assize_test_support::{Scratch, mlflow_python};

/// The folder of the Python with MLflow, for `PATH`; `None`, with a message, where it cannot be had.
fn python_folder() -> Option<PathBuf> {
    let python = mlflow_python()?;
    let folder = Path::new(&python).parent().expect("a folder").to_owned();
    Some(folder)
}

/// A server that has found the package by itself.
fn serve(scratch: &Scratch, python: &Path) -> Served {
    let mut command = scratch.command("serve --port 0 --json --mlflow-ui");
    command.env("PATH", python);
    Served::start_command(scratch, command)
}

fn created(served: &Served, path: &str, body: &Value, pointer: &str) -> String {
    let reply = served.post(path, body);
    assert_eq!(reply.status, 200, "{path} {reply:?}");
    let id = reply.json();
    id.pointer(pointer)
        .and_then(Value::as_str)
        .expect("an id")
        .to_owned()
}

fn done(served: &Served, path: &str, body: &Value) {
    let reply = served.post(path, body);
    assert_eq!(reply.status, 200, "{path} {reply:?}");
}

/// An experiment with three runs, each with a history, params and files; and a prompt.
fn fill(served: &Served) -> (String, String) {
    let name = json!({"name": "pages-check"});
    let experiment = created(served, "experiments/create", &name, "/experiment_id");
    let mut last = String::new();
    for number in 0..3 {
        let new = json!({"experiment_id": experiment, "run_name": format!("run-{number}"), "start_time": 1_790_000_000_000_i64 + number});
        let run = created(served, "runs/create", &new, "/run/info/run_id");
        let points = (0..20).map(|step| {
            let value = 1.0 / f64::from(step + 1);
            json!({"key": "loss", "value": value, "timestamp": 1_790_000_000_000_i64 + i64::from(step), "step": step})
        });
        let mut metrics: Vec<Value> = points.collect();
        metrics.push(json!({"key": "accuracy", "value": 0.75, "timestamp": 1_790_000_000_000_i64}));
        let params = json!([{"key": "learning_rate", "value": "0.125"}]);
        done(
            served,
            "runs/log-batch",
            &json!({"run_id": run, "metrics": metrics, "params": params}),
        );
        let files = format!("/api/2.0/mlflow-artifacts/artifacts/{experiment}/{run}/artifacts");
        let put = |path: &str, text: &str| {
            let reply = served.send(&format!("PUT {files}/{path}"), text.as_bytes());
            assert_eq!(reply.status, 200, "{reply:?}");
        };
        put("notes.txt", "a note among the artifacts");
        put("more/data.json", "{\"a\": 1}");
        let dataset =
            json!({"name": "corpus", "digest": "d1", "source_type": "local", "source": "s"});
        done(
            served,
            "runs/log-inputs",
            &json!({"run_id": run, "datasets": [{"dataset": dataset}]}),
        );
        done(
            served,
            "runs/update",
            &json!({"run_id": run, "status": "FINISHED", "end_time": 1_790_000_009_000_i64}),
        );
        last = run;
    }
    let is_prompt = json!({"key": "mlflow.prompt.is_prompt", "value": "true"});
    done(
        served,
        "registered-models/create",
        &json!({"name": "greeting", "tags": [is_prompt]}),
    );
    let tags = json!([
        is_prompt,
        {"key": "mlflow.prompt.text", "value": "Hello {{name}}, welcome to the court"},
        {"key": "_mlflow_prompt_type", "value": "text"},
    ]);
    done(
        served,
        "model-versions/create",
        &json!({"name": "greeting", "source": "dummy-source", "tags": tags}),
    );
    (experiment, last)
}

#[test]
fn experiments_runs_charts_artifacts_and_prompts_work_in_a_browser() {
    let Some(python) = python_folder() else {
        return;
    };
    let scratch = Scratch::new();
    let served = serve(&scratch, &python);
    let (experiment, run) = fill(&served);
    let ids = [("EXPERIMENT", experiment.as_str()), ("RUN", run.as_str())];
    browser::drive("tests/mlflow/pages/walk.mjs", &served, &ids);
}

#[test]
fn pages_need_a_sign_in_and_let_viewers_only_read() {
    let Some(python) = python_folder() else {
        return;
    };
    let scratch = Scratch::new();
    let served = serve(&scratch, &python);
    let host = format!("Host: {}", served.authority());
    let page = served.raw("GET /mlflow/", &[&host, "Accept: text/html"], b"");
    assert_eq!(page.status, 303, "{page:?}");
    assert!(
        page.header("location")
            .is_some_and(|it| it.starts_with("/sign-in")),
        "{page:?}"
    );
    let data = "GET /mlflow/ajax-api/2.0/mlflow/experiments/search?max_results=5";
    assert_eq!(served.raw(data, &[&host], b"").status, 401);

    let index = served.get("/mlflow/");
    assert_eq!(index.status, 200, "{index:?}");
    let policy = index.header("content-security-policy").expect("a policy");
    assert!(policy.contains("script-src 'self';"), "{policy}");
    let text = String::from_utf8_lossy(&index.body).into_owned();
    let script = text
        .split("src=\"")
        .find(|it| it.starts_with("static-files/static/js/"));
    let script = script
        .and_then(|it| it.split('"').next())
        .expect("a script");
    let script = served.get(&format!("/mlflow/{script}"));
    assert_eq!(script.status, 200);
    assert_eq!(
        script.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    for path in [
        "../index.html",
        "..%2f..%2fhandlers.py",
        "nothing.js",
        "static",
    ] {
        let reply = served.get(&format!("/mlflow/static-files/{path}"));
        assert!([400, 404].contains(&reply.status), "{path} {reply:?}");
    }

    let viewer = format!("Authorization: Bearer {}", token_new(&scratch, "viewer"));
    assert_eq!(served.raw(data, &[&host, &viewer], b"").status, 200);
    let create = "POST /mlflow/ajax-api/2.0/mlflow/experiments/create";
    let headers = [host.as_str(), &viewer, "Content-Type: application/json"];
    assert_eq!(
        served.raw(create, &headers, b"{\"name\": \"x\"}").status,
        403
    );
    let query = json!({"operationName": "Other", "variables": {}}).to_string();
    let reply = served.send("POST /mlflow/graphql", query.as_bytes());
    assert_eq!(reply.status, 501, "{reply:?}");
    assert_eq!(served.get("/graphql").status, 404);
}

#[test]
fn a_folder_without_pages_is_refused_with_the_remedy() {
    let scratch = Scratch::new();
    let outcome = scratch.fails(2, "serve --port 0 --mlflow-ui .");
    assert!(
        outcome.stderr.contains("there are no pages of MLflow in ."),
        "{outcome}"
    );
    let outcome = scratch.fails(2, "serve --only policies --mlflow-ui .");
    assert!(outcome.stderr.contains("leave --only out"), "{outcome}");
    let outcome = scratch.fails(2, "serve --tracking-uri http://127.0.0.1:9 --mlflow-ui .");
    assert!(outcome.stderr.contains("has its own pages"), "{outcome}");
    let empty = tempfile::tempdir().expect("a folder");
    let mut command = scratch.command("serve --port 0 --mlflow-ui");
    let output = command.env("PATH", empty.path()).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("pip install mlflow"), "{told}");
    // Without the option there are no such pages.
    let served = Served::start(&scratch);
    assert_eq!(served.get("/mlflow/").status, 404);
}
