//! A whole Airflow on loopback, a real MLflow server, and two stand-in Ollama hosts: runs are
//! triggered over REST, and from `assize serve` in a browser.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use assize_test_support::airflow::{Airflow, PASSWORD, run_path};
use assize_test_support::jobs::{id_of, job};
use assize_test_support::mlflow::{Mlflow, tag};
use assize_test_support::ollama_stand_in::{Fault, OllamaStandIn, StandInModel};
use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch, root, score_all, set_up};
use serde_json::{Value, json};

use super::packages::AIRFLOW;
use super::python;

const BENCH: &str = "bench_collect";
const ALPHA: &str = "alpha:0.5b";
const BETA: &str = "beta:1b";
/// Larger than the size gate admits.
const HUGE: &str = "huge:9b";
const CHROMIUM: &str = "/usr/bin/chromium";

struct Stack {
    airflow: Airflow,
    mlflow: Mlflow,
    hosts: [OllamaStandIn; 2],
}

impl Stack {
    fn start() -> Option<Self> {
        let python = python("airflow", &AIRFLOW)?;
        let mlflow = Mlflow::usual()?;
        let alpha = StandInModel::new(ALPHA, 494_032_768, &["Take a walk."]);
        let beta = StandInModel::new(BETA, 999_885_952, &["Drink some water."]);
        let huge = StandInModel::new(HUGE, 9_000_000_000, &["Rest."]);
        let hosts = [
            OllamaStandIn::start(vec![alpha]),
            OllamaStandIn::start(vec![beta, huge]),
        ];
        let named = format!("gpu-a={},gpu-b={}", hosts[0].url(), hosts[1].url());
        let tracking = ("MLFLOW_TRACKING_URI", mlflow.url.as_str());
        let airflow = Airflow::start(&python, &named, &[tracking]);
        for host in ["gpu-a", "gpu-b"] {
            airflow.command(&format!("pools set assize-{host} 1 host"));
        }
        Some(Self {
            airflow,
            mlflow,
            hosts,
        })
    }

    fn trigger(&self, conf: &Value) -> String {
        let (status, made) = self.airflow.trigger(BENCH, conf);
        assert_eq!(status, 200, "{made}");
        made["dag_run_id"].as_str().expect("a run").to_owned()
    }

    /// The value that a task left.
    fn xcom(&self, run: &str, task: &str, key: &str) -> Value {
        let place = format!("{}/taskInstances/{task}/xcomEntries", run_path(BENCH, run));
        let (status, found) = self.airflow.get(&format!("{place}/{key}"));
        assert_eq!(status, 200, "{task} {key}: {found}");
        match &found["value"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            other => other.clone(),
        }
    }
}

#[test]
#[ignore = "starts a whole Airflow: make test-airflow"]
fn the_whole_stack() {
    let Some(stack) = Stack::start() else {
        return;
    };
    one_model_fails_and_the_others_are_kept(&stack);
    a_run_waits_for_a_sitting(&stack);
    mistakes_are_reported_where_the_user_looks(&stack);
    serve_triggers_it(&stack);
}

/// REST trigger, two hosts' pools, one failing model.
fn one_model_fails_and_the_others_are_kept(stack: &Stack) {
    let models = format!("{ALPHA},{BETA},{HUGE}");
    let run = stack.trigger(&json!({
        "models": models, "prompts": "v1,v2-mentor", "n_tips": 2, "n_scenarios": 2,
        "temperature": 0.7, "experiment": "tip-bench-custom",
    }));
    assert_eq!(stack.airflow.ended(BENCH, &run), "failed");
    let error = stack.xcom(&run, "finish", "error");
    let error = error.as_str().expect("a text");
    assert!(error.contains("huge:9b failed on gpu-b"), "{error}");
    let tasks = stack.airflow.tasks(BENCH, &run);
    let state = |task: &str, index: i64| {
        let found = tasks
            .iter()
            .find(|it| it["task_id"] == task && it["map_index"] == index);
        let found = found.unwrap_or_else(|| panic!("{task} {index}: {tasks:?}"));
        (found["state"].clone(), found["pool"].clone())
    };
    assert_eq!(
        state("gpu-a.collect", 0),
        (json!("success"), json!("assize-gpu-a"))
    );
    assert_eq!(
        state("gpu-b.collect", 0),
        (json!("success"), json!("assize-gpu-b"))
    );
    assert_eq!(state("gpu-b.collect", 1).0, "failed");
    assert_eq!(state("compare", -1).0, "success");
    let runs = stack.mlflow.runs("tip-bench-custom");
    assert_eq!(runs.len(), 8, "two models, two prompts, two scenarios");
    assert!(
        runs.iter()
            .all(|it| tag(it, "judge_pending") == Some("true"))
    );
    let board = stack.xcom(&run, "compare", "return_value");
    assert_eq!(board["coverage"]["cells"], 8, "{board}");
    let links = format!("{}/taskInstances/compare/links", run_path(BENCH, &run));
    let links = stack.airflow.get(&links).1;
    let link = links["extra_links"]["Leaderboard"].as_str();
    let experiments = format!("{}/#/experiments/", stack.mlflow.url);
    assert!(
        link.is_some_and(|it| it.starts_with(&experiments)),
        "{links}"
    );
    for host in &stack.hosts {
        assert_eq!(host.most_held_at_once(), 1);
        assert!(host.held_now().is_empty(), "everything was unloaded");
    }
}

/// The deferrable sensor waits in the triggerer, without a worker, until a judge has sat.
fn a_run_waits_for_a_sitting(stack: &Stack) {
    let run = stack.trigger(&json!({
        "models": [ALPHA], "prompts": ["v1"], "n_tips": 1, "n_scenarios": 2, "experiment": "sat",
        "judge_mode": "wait", "poll_seconds": 1,
    }));
    stack.airflow.wait_until("the sensor is deferred", |it| {
        let tasks = it.tasks(BENCH, &run);
        let mut states = tasks
            .iter()
            .filter(|it| it["task_id"] == "wait_for_sitting");
        states.any(|it| it["state"] == "deferred")
    });
    let judge = stack.mlflow.scratch();
    let words = "--judge-kind human --judged-by Ada";
    judge.judge("sat", "judge.json", words, |case| score_all(case, 4));
    assert_eq!(stack.airflow.ended(BENCH, &run), "success");
    let board = stack.xcom(&run, "compare", "return_value");
    assert_eq!(board["coverage"]["judged"], 2, "{board}");
}

fn mistakes_are_reported_where_the_user_looks(stack: &Stack) {
    let airflow = &stack.airflow;
    let (status, told) = airflow.trigger(BENCH, &json!({"n_tips": "five"}));
    assert_eq!(status, 400, "{told}");
    assert!(
        told.to_string().contains("'five' is not of type 'integer'"),
        "{told}"
    );
    airflow.command("pools delete assize-gpu-b");
    let mistakes = [
        (json!({"n_tip": 5}), "did you mean 'n_tips'?"),
        (
            json!({"mlflow_url": "http://127.0.0.1:9"}),
            "the tracking server http://127.0.0.1:9 is unreachable",
        ),
        (
            json!({"models": BETA}),
            "the pool 'assize-gpu-b' does not exist",
        ),
    ];
    for (mistake, message) in mistakes {
        let mut conf =
            json!({"models": ALPHA, "ollama_url": stack.hosts[0].url(), "experiment": "bad"});
        for (key, value) in mistake.as_object().expect("fields") {
            conf[key] = value.clone();
        }
        if mistake["models"] == BETA {
            conf["ollama_url"] = json!(stack.hosts[1].url());
        }
        let run = stack.trigger(&conf);
        assert_eq!(airflow.ended(BENCH, &run), "failed", "{message}");
        let log = airflow.task_log(BENCH, &run, "plan");
        assert!(log.contains(message), "{message}: {log}");
    }
    let named = stack
        .mlflow
        .post("experiments/search", &json!({"max_results": 100}));
    assert!(
        !named.to_string().contains("\"bad\""),
        "nothing is half done: {named}"
    );
}

/// `engine = "airflow"`: jobs of `assize serve` are runs of the DAG. The pool is still missing at
/// first.
fn serve_triggers_it(stack: &Stack) {
    let scratch = Scratch::new();
    scratch.write(
        "assize.toml",
        &format!(
            "engine = \"airflow\"\n[airflow]\nurl = \"{}\"\nusername = \"ada\"\n\
             password_env = \"AIRFLOW_PASSWORD\"\ntracking_uri = \"{}\"\n",
            stack.airflow.url, stack.mlflow.url
        ),
    );
    scratch.write(".env", &format!("AIRFLOW_PASSWORD={PASSWORD}\n"));
    let served = Served::start(&scratch);
    let start = |models: &[&str], experiment: &str| {
        let body = json!({"models": models, "prompts": ["v1"], "n_tips": 1, "n_scenarios": 2,
                          "experiment": experiment});
        id_of(&served.send("POST /api/bench/run", body.to_string().as_bytes()))
    };
    let refused = ended(&served, &start(&[BETA], "no-pool"));
    assert_eq!(refused["status"], "failed", "{refused}");
    let message = refused["error"].as_str().expect("a message");
    assert!(
        message.contains("the pool 'assize-gpu-b' does not exist"),
        "{message}"
    );
    assert_eq!(refused["engine_url"], Value::Null, "nothing was triggered");
    stack.airflow.command("pools set assize-gpu-b 1 host");

    let done = ended(&served, &start(&[ALPHA, BETA], "from-serve"));
    assert_eq!(
        (&done["status"], &done["cells"]["done"]),
        (&json!("done"), &json!(4)),
        "{done}"
    );
    let page = done["engine_url"].as_str().expect("a link").to_owned();
    assert!(
        page.starts_with(&format!("{}/dags/bench_collect/runs/", stack.airflow.url)),
        "{page}"
    );
    assert_eq!(stack.mlflow.runs("from-serve").len(), 4);

    let failed = ended(&served, &start(&[ALPHA, HUGE], "one-fails"));
    assert_eq!(failed["status"], "failed", "{failed}");
    let message = failed["error"].as_str().expect("a message");
    assert!(message.contains("huge:9b failed on gpu-b"), "{message}");

    let study = json!({"policies": ["egreedy-v1", "linucb"], "steps": 20, "seeds": 1, "sensitivity": false});
    let study = served.send("POST /api/sim/run", study.to_string().as_bytes());
    let study = ended(&served, &id_of(&study));
    assert_eq!(study["status"], "done", "{study}");
    assert!(
        study["engine_url"]
            .as_str()
            .is_some_and(|it| it.contains("/dags/sim_run/")),
        "{study}"
    );

    in_the_panel(stack, &served);
}

fn ended(served: &Served, id: &str) -> Value {
    let started = Instant::now();
    loop {
        let job = job(served, id);
        if job["finished_at"].is_string() {
            return job;
        }
        assert!(started.elapsed() < Duration::from_mins(5), "{job}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A job is started with the form, shows Airflow's page, and is cancelled while its model answers
/// slowly.
fn in_the_panel(stack: &Stack, served: &Served) {
    if !Path::new(CHROMIUM).exists() {
        eprintln!("SKIPPED: there is no Chromium here (apt-get install chromium)");
        return;
    }
    let packages = ["panel", "playwright-core", "axe-core"];
    let folder = match set_up("scripts/node-env.sh", &packages) {
        Ok(folder) => folder,
        Err(reason) => {
            eprintln!("SKIPPED: playwright-core and axe-core cannot be had here: {reason}");
            return;
        }
    };
    let [host, _] = &stack.hosts;
    host.fail("/api/chat", 1000, Fault::Slow(Duration::from_secs(1)));
    let output = Command::new("node")
        .arg(root().join("tests/integrations/airflow_panel.mjs"))
        .env("NODE_FOLDER", folder)
        .env("CHROMIUM", CHROMIUM)
        .env("PANEL_URL", &served.url)
        .env("PANEL_TOKEN", &served.token)
        .env("AIRFLOW_URL", &stack.airflow.url)
        .env("MODEL", ALPHA)
        .output()
        .expect("node runs");
    let outcome = Outcome::of(&output);
    assert!(
        outcome.code == 0 && outcome.stdout.trim_end().ends_with("OK"),
        "{outcome}\n{}",
        stack.airflow.logs()
    );
    let run = outcome
        .stdout
        .lines()
        .next()
        .expect("a run's id")
        .to_owned();
    assert_eq!(
        stack.airflow.ended(BENCH, &run),
        "failed",
        "the run was ended in Airflow"
    );
    stack
        .airflow
        .wait_until("the model is unloaded", |_| host.held_now().is_empty());
}
