//! A real Airflow on loopback: api-server, scheduler, dag-processor and triggerer, with the DAGs of
//! `integrations/airflow`, an SQLite database and two model hosts' pools.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::limits::free_port;
use crate::{Outcome, Scratch, binary, root};

const TIMEOUT: Duration = Duration::from_mins(5);
const USER: &str = "ada";
/// The password of the user `ada`, who is an admin.
pub const PASSWORD: &str = "an-airflow-password";

/// A running Airflow that ends with the test.
#[derive(Debug)]
pub struct Airflow {
    pub url: String,
    python: String,
    home: Scratch,
    variables: Vec<(String, String)>,
    processes: Vec<Child>,
    token: String,
}

impl Airflow {
    /// Starts everything; `hosts` is what `ASSIZE_HOSTS` names, and `more` are other variables.
    pub fn start(python: &str, hosts: &str, more: &[(&str, &str)]) -> Self {
        let home = Scratch::new();
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        home.write("passwords.json", &json!({ USER: PASSWORD }).to_string());
        let dags = root().join("integrations/airflow/dags/assize_dags.py");
        let dags = std::fs::read_to_string(dags).expect("the DAGs");
        home.write("dags/assize_dags.py", &dags);
        let mut airflow = Self {
            variables: variables(&home, &url, port, hosts, more),
            url,
            python: python.to_owned(),
            home,
            processes: Vec::new(),
            token: String::new(),
        };
        airflow.command("db migrate");
        let parts = [
            "api-server",
            "scheduler -s",
            "dag-processor",
            "triggerer -s",
        ];
        for part in parts {
            let child = airflow.spawn(part);
            airflow.processes.push(child);
        }
        airflow.sign_in();
        for dag in ["bench_collect", "sim_run"] {
            airflow.wait_until(&format!("{dag} is parsed"), |it| {
                it.get(&format!("/api/v2/dags/{dag}")).0 == 200
            });
        }
        airflow
    }

    fn prepared(&self, words: &str) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(["-m", "airflow"])
            .args(words.split_whitespace())
            .current_dir(self.home.path())
            .envs(self.variables.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command of Airflow to its end.
    pub fn command(&self, words: &str) -> Outcome {
        let output = self.prepared(words).output().expect("python runs");
        let outcome = Outcome::of(&output);
        assert_eq!(outcome.code, 0, "airflow {words}\n{outcome}");
        outcome
    }

    fn spawn(&self, words: &str) -> Child {
        let name = words.split_whitespace().next().unwrap_or_default();
        let log = std::fs::File::create(self.home.file(&format!("{name}.log"))).expect("a log");
        let mut command = self.prepared(words);
        command
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0);
        command.spawn().expect("python runs")
    }

    fn sign_in(&mut self) {
        let body = json!({"username": USER, "password": PASSWORD});
        let started = Instant::now();
        loop {
            let sent = ureq::post(format!("{}/auth/token", self.url)).send_json(&body);
            if let Ok(mut answer) = sent {
                let made: Value = answer.body_mut().read_json().expect("JSON");
                made["access_token"]
                    .as_str()
                    .expect("a token")
                    .clone_into(&mut self.token);
                return;
            }
            assert!(started.elapsed() < TIMEOUT, "{}", self.logs());
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// The ends of all logs, for messages.
    pub fn logs(&self) -> String {
        let names = ["api-server", "scheduler", "dag-processor", "triggerer"];
        let ends = names.map(|name| {
            let text = std::fs::read(self.home.file(&format!("{name}.log"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let from = text.len().saturating_sub(3000);
            let from = (from..text.len()).find(|it| text.is_char_boundary(*it));
            format!("--- {name}\n{}\n", &text[from.unwrap_or(0)..])
        });
        ends.concat()
    }

    /// A request to the REST API: status and body.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let text = body.map(Value::to_string).unwrap_or_default();
        let sent = if body.is_some() {
            agent.run(request.body(text).expect("a request"))
        } else {
            agent.run(request.body(()).expect("a request"))
        };
        let Ok(mut answer) = sent else {
            return (0, Value::Null);
        };
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (answer.status().as_u16(), body)
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, None)
    }

    /// Starts a run over REST.
    pub fn trigger(&self, dag: &str, conf: &Value) -> (u16, Value) {
        let body = json!({"logical_date": null, "conf": conf});
        self.send("POST", &format!("/api/v2/dags/{dag}/dagRuns"), Some(&body))
    }

    /// Waits until a run has ended and returns its state.
    pub fn ended(&self, dag: &str, run: &str) -> String {
        let path = run_path(dag, run);
        let mut state = String::new();
        self.wait_until(&format!("{dag} {run} has ended"), |it| {
            let found = it.get(&path).1["state"].as_str().map(str::to_owned);
            state = found.unwrap_or_default();
            state == "success" || state == "failed"
        });
        state
    }

    /// The tasks of a run.
    pub fn tasks(&self, dag: &str, run: &str) -> Vec<Value> {
        let path = format!("{}/taskInstances?limit=100", run_path(dag, run));
        let mut found = self.get(&path).1;
        let Value::Array(tasks) = found["task_instances"].take() else {
            panic!("{found}");
        };
        tasks
    }

    /// The log of a task's only try.
    pub fn task_log(&self, dag: &str, run: &str, task: &str) -> String {
        let path = format!(
            "{}/taskInstances/{task}/logs/1?full_content=true",
            run_path(dag, run)
        );
        self.get(&path).1.to_string()
    }

    pub fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(
                started.elapsed() < TIMEOUT,
                "not so: {what}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// The path of a run in the REST API.
pub fn run_path(dag: &str, run: &str) -> String {
    let run = run.replace('+', "%2B").replace(':', "%3A");
    format!("/api/v2/dags/{dag}/dagRuns/{run}")
}

fn variables(
    home: &Scratch,
    url: &str,
    port: u16,
    hosts: &str,
    more: &[(&str, &str)],
) -> Vec<(String, String)> {
    let place = home.path().to_str().expect("a path");
    let authority = url.trim_start_matches("http://");
    let sources = root().join("integrations/airflow/src");
    let sources = sources.to_str().expect("a path");
    let connection = format!("http://{USER}:{PASSWORD}@{authority}");
    let own = [
        ("AIRFLOW_HOME", place.to_owned()),
        ("AIRFLOW__CORE__DAGS_FOLDER", format!("{place}/dags")),
        ("AIRFLOW__CORE__LOAD_EXAMPLES", "False".to_owned()),
        ("AIRFLOW__CORE__EXECUTOR", "LocalExecutor".to_owned()),
        ("AIRFLOW__CORE__PARALLELISM", "4".to_owned()),
        (
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION",
            "False".to_owned(),
        ),
        (
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
            format!("{url}/execution/"),
        ),
        (
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS",
            format!("{USER}:admin"),
        ),
        (
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE",
            format!("{place}/passwords.json"),
        ),
        (
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
            format!("sqlite:///{place}/airflow.db"),
        ),
        ("AIRFLOW__API__HOST", "127.0.0.1".to_owned()),
        ("AIRFLOW__API__PORT", port.to_string()),
        ("AIRFLOW__API__BASE_URL", url.to_owned()),
        ("AIRFLOW__API__WORKERS", "1".to_owned()),
        (
            "AIRFLOW__API__SECRET_KEY",
            "a-secret-key-for-tests-only".to_owned(),
        ),
        (
            "AIRFLOW__API_AUTH__JWT_SECRET",
            "a-secret-for-tests-only-of-enough-characters-for-hs512-which-wants-64".to_owned(),
        ),
        ("AIRFLOW_CONN_ASSIZE_AIRFLOW_API", connection),
        ("PYTHONPATH", sources.to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ("ASSIZE_BIN", binary().to_owned()),
        ("ASSIZE_HOSTS", hosts.to_owned()),
        ("ASSIZE_AIRFLOW_RETRIES", "0".to_owned()),
        ("NO_COLOR", "1".to_owned()),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
    let more = more
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    own.chain(more).collect()
}

impl Drop for Airflow {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            let _ = child.wait();
        }
    }
}
