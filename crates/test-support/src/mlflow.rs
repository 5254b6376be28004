//! A real MLflow server on a free port of this machine, with a database of its own.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::limits::{Slot, free_port, heavyweight};
use crate::postgres::Postgres;
use crate::{Scratch, mlflow_python, set_up};

/// A server that ends with the test.
#[derive(Debug)]
pub struct Mlflow {
    pub port: u16,
    /// With the path prefix.
    pub url: String,
    child: Child,
    command: Command,
    folder: tempfile::TempDir,
    _slot: Slot,
}

impl Mlflow {
    /// A server that serves artifacts by itself, where MLflow can be had.
    pub fn usual() -> Option<Self> {
        let words = "--artifacts-destination {folder}/artifacts";
        Some(Self::start(&mlflow_python()?, "", words, &[]))
    }

    /// The usual server with a PostgreSQL database, where both can be had.
    pub fn on_postgres(database: &Postgres) -> Option<Self> {
        let packages = ["mlflow-postgres", "mlflow", "psycopg2-binary"];
        let python = match set_up("scripts/python-env.sh", &packages) {
            Ok(python) => python,
            Err(reason) => {
                eprintln!("SKIPPED: MLflow and psycopg2 cannot be had here: {reason}");
                return None;
            }
        };
        let words = format!(
            "--artifacts-destination {{folder}}/artifacts --backend-store-uri {}",
            database.uri
        );
        Some(Self::start(&python, "", &words, &[]))
    }

    /// Starts `mlflow server` with more words; `{folder}` is a folder of its own.
    pub fn start(python: &str, prefix: &str, words: &str, variables: &[(&str, &str)]) -> Self {
        let slot = heavyweight();
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let place = folder.path().to_str().expect("a path").to_owned();
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        let mut command = Command::new(python);
        command
            .args([
                "-m",
                "mlflow",
                "server",
                "--host",
                "127.0.0.1",
                "--workers",
                "1",
            ])
            .args(["--port", &port.to_string()])
            .args([
                "--backend-store-uri",
                &format!("sqlite:///{place}/mlflow.db"),
            ])
            .args(words.split_whitespace().map(|word| {
                word.replace("{folder}", &place)
                    .replace("{port}", &port.to_string())
            }))
            .current_dir(folder.path())
            .env("MLFLOW_DISABLE_TELEMETRY", "true")
            .env("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0);
        let child = command.spawn().expect("python runs");
        let mut server = Self {
            port,
            url: format!("http://127.0.0.1:{port}{prefix}"),
            child,
            command,
            folder,
            _slot: slot,
        };
        server.wait();
        server
    }

    fn wait(&mut self) {
        let started = Instant::now();
        let health = format!("{}/health", self.url);
        while ureq::get(&health).call().is_err() {
            let ended = self.child.try_wait().expect("a child");
            let waited = started.elapsed() > Duration::from_mins(3);
            if ended.is_some() || waited {
                let log = self.folder.path().join("log");
                let log = std::fs::read_to_string(log).unwrap_or_default();
                panic!("the MLflow server did not start ({ended:?}):\n{log}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A scratch folder whose commands track here.
    pub fn scratch(&self) -> Scratch {
        let scratch = Scratch::new();
        self.adopt(&scratch);
        scratch
    }

    /// Makes a scratch folder's commands track here.
    pub fn adopt(&self, scratch: &Scratch) {
        scratch.write(".env", &format!("MLFLOW_TRACKING_URI={}\n", self.url));
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}/api/2.0/mlflow/{path}", self.url);
        let sent = ureq::post(&url)
            .config()
            .http_status_as_error(false)
            .build()
            .send_json(body);
        let mut answer = sent.expect("an answer");
        let is_fine = answer.status().is_success();
        let told = answer.body_mut().read_to_string().expect("a text");
        assert!(is_fine, "{path}: {told}");
        serde_json::from_str(&told).expect("JSON")
    }

    pub fn get(&self, path: &str) -> Value {
        let url = format!("{}/api/2.0/mlflow/{path}", self.url);
        let mut answer = ureq::get(&url).call().expect("an answer");
        answer.body_mut().read_json().expect("JSON")
    }

    /// All active runs of an experiment, as the server has them.
    pub fn runs(&self, experiment: &str) -> Vec<Value> {
        let found = self.get(&format!(
            "experiments/get-by-name?experiment_name={experiment}"
        ));
        let id = &found["experiment"]["experiment_id"];
        let body = serde_json::json!({"experiment_ids": [id], "max_results": 1000});
        let answer = self.post("runs/search", &body);
        answer["runs"].as_array().cloned().unwrap_or_default()
    }

    /// Starts the server again, on the same data and at the same address.
    pub fn restart(&mut self) {
        self.child = self.command.spawn().expect("python runs");
        self.wait();
    }

    /// Replaces the server by a new one at the same address, without any data.
    pub fn renew(&mut self) {
        self.kill();
        for entry in std::fs::read_dir(self.folder.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).expect("a folder is removed");
            } else if path.extension().is_some_and(|it| it == "db") {
                std::fs::remove_file(path).expect("a file is removed");
            }
        }
        self.restart();
    }

    /// The folder with the server's database and artifacts.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Ends the server as a crash would.
    pub fn kill(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.child.wait();
    }
}

impl Drop for Mlflow {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The value of a run's tag.
pub fn tag<'a>(run: &'a Value, key: &str) -> Option<&'a str> {
    let tags = run["data"]["tags"].as_array()?;
    tags.iter().find(|it| it["key"] == key)?["value"].as_str()
}
