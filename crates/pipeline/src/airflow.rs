//! Airflow's REST API (version 2, of Airflow 3): start a DAG, watch its run ([`follow`]), and stop
//! it.
//!
//! Tokens come from `/auth/token` and expire after a day, so a request that is answered with 401
//! is sent once more with a new one. Nothing is retried here: whoever watches asks again anyway.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use assize_http::{Address, Client, HttpConfig, Options, Request, encoded};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{PipelineError, Result};

pub mod follow;

const TIMEOUT: Duration = Duration::from_secs(30);
/// How many entries a page has; Airflow's own limit.
const PAGE: usize = 100;

/// How to sign in.
#[derive(Clone)]
pub enum Login {
    Password {
        username: String,
        password: String,
    },
    /// A token that was made elsewhere.
    Token(String),
}

impl fmt::Debug for Login {
    /// Leaves the secrets out, so that no log can show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// A connection to an Airflow.
pub struct Airflow {
    client: Client,
    login: Login,
    token: Mutex<Option<String>>,
}

impl fmt::Debug for Airflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Airflow")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// The state of a DAG's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    Queued,
    Running,
    Success,
    Failed,
    /// One that later versions may add.
    #[serde(other)]
    Other,
}

impl RunState {
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Success | Self::Failed)
    }
}

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TaskInstance {
    pub task_id: String,
    pub map_index: i64,
    /// `None` before it is scheduled.
    pub state: Option<String>,
}

impl TaskInstance {
    pub fn has_ended(&self) -> bool {
        let ends = ["success", "failed", "skipped", "upstream_failed", "removed"];
        self.state.as_deref().is_some_and(|it| ends.contains(&it))
    }
}

/// One run of a DAG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DagRun {
    pub dag: String,
    pub id: String,
}

impl DagRun {
    fn path(&self) -> String {
        format!(
            "/api/v2/dags/{}/dagRuns/{}",
            part(&self.dag),
            part(&self.id)
        )
    }
}

/// A text as one segment of a path.
fn part(text: &str) -> String {
    encoded(text).replace('/', "%2F")
}

impl Airflow {
    /// The Airflow at `url`; nothing is asked of it yet.
    pub fn new(url: &str, login: Login) -> Result<Self> {
        let address = Address::parse(url)
            .map_err(|error| PipelineError::Invalid(format!("airflow.url: {error}")))?;
        let config = HttpConfig {
            timeout: TIMEOUT,
            ..HttpConfig::default()
        };
        Ok(Self {
            client: Client::new(address, Options::default(), &config),
            login,
            token: Mutex::default(),
        })
    }

    /// Fails where a run of this DAG could not go on: the DAG is missing or paused, or a pool of
    /// its tasks does not exist, in which case Airflow would leave them scheduled for ever.
    pub fn check(&self, dag: &str) -> Result<()> {
        let base = self.client.address().base();
        let path = format!("/api/v2/dags/{}", part(dag));
        let found = self.call("GET", &path, None)?;
        let Some(found) = found else {
            return Err(PipelineError::Service(format!(
                "Airflow at {base} has no DAG '{dag}': install assize-airflow there \
                 (integrations/airflow)"
            )));
        };
        if found["is_paused"] == true {
            return Err(PipelineError::Service(format!(
                "the DAG '{dag}' is paused: run airflow dags unpause {dag}"
            )));
        }
        let tasks = self.call("GET", &format!("{path}/tasks"), None)?;
        let tasks = tasks.unwrap_or_default();
        let tasks = tasks["tasks"].as_array().cloned().unwrap_or_default();
        let wanted: BTreeSet<&str> = tasks.iter().filter_map(|it| it["pool"].as_str()).collect();
        let pools = self.pages("/api/v2/pools", "pools")?;
        let existing: BTreeSet<&str> = pools.iter().filter_map(|it| it["name"].as_str()).collect();
        match wanted.difference(&existing).next() {
            None => Ok(()),
            Some(missing) => Err(PipelineError::Service(format!(
                "the pool '{missing}' does not exist in Airflow, so its tasks would never start: \
                 run airflow pools set {missing} 1 'Assize model host'"
            ))),
        }
    }

    /// Starts a run.
    pub fn trigger(&self, dag: &str, conf: &Value, note: &str) -> Result<DagRun> {
        let body = json!({"logical_date": null, "conf": conf, "note": note});
        let path = format!("/api/v2/dags/{}/dagRuns", part(dag));
        let made = self.call("POST", &path, Some(&body))?.unwrap_or_default();
        let Some(id) = made["dag_run_id"].as_str() else {
            return Err(PipelineError::Service(format!(
                "Airflow did not start '{dag}': its answer names no run"
            )));
        };
        Ok(DagRun {
            dag: dag.to_owned(),
            id: id.to_owned(),
        })
    }

    /// The page of a run, for people.
    pub fn page(&self, run: &DagRun) -> String {
        let base = self.client.address().base();
        format!("{base}/dags/{}/runs/{}", part(&run.dag), part(&run.id))
    }

    pub fn state(&self, run: &DagRun) -> Result<RunState> {
        let found = self.call("GET", &run.path(), None)?;
        let Some(found) = found else {
            return Err(PipelineError::Invalid(format!(
                "the run {} was deleted in Airflow",
                run.id
            )));
        };
        Ok(RunState::deserialize(&found["state"]).unwrap_or(RunState::Other))
    }

    /// All tasks of a run.
    pub fn tasks(&self, run: &DagRun) -> Result<Vec<TaskInstance>> {
        let path = format!("{}/taskInstances", run.path());
        let found = self.pages(&path, "task_instances")?;
        let read = found.into_iter().map(serde_json::from_value);
        read.collect::<std::result::Result<_, _>>()
            .map_err(|error| {
                PipelineError::Service(format!("{path} answered something else: {error}"))
            })
    }

    /// What a task left under a key, if anything.
    pub fn xcom(&self, run: &DagRun, task: &TaskInstance, key: &str) -> Result<Option<Value>> {
        let path = format!(
            "{}/taskInstances/{}/xcomEntries/{key}?map_index={}",
            run.path(),
            part(&task.task_id),
            task.map_index
        );
        let Some(found) = self.call("GET", &path, None)? else {
            return Ok(None);
        };
        // Airflow answers with the value as it is stored, which is JSON in a text.
        let value = match &found["value"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            other => other.clone(),
        };
        Ok(Some(value))
    }

    /// Ends a run: its tasks get a signal, after which they unload their models.
    pub fn stop(&self, run: &DagRun) -> Result<()> {
        let body = json!({"state": "failed", "note": "Cancelled from assize serve"});
        self.call("PATCH", &run.path(), Some(&body))?;
        Ok(())
    }

    fn pages(&self, path: &str, key: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        loop {
            let page = format!("{path}?limit={PAGE}&offset={}", all.len());
            let mut page = self.call("GET", &page, None)?.unwrap_or_default();
            let Value::Array(entries) = page[key].take() else {
                return Ok(all);
            };
            let is_last = entries.len() < PAGE;
            all.extend(entries);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The answer to a request; `None` for a 404.
    fn call(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>> {
        let mut response = self.send(method, path, body, &self.token()?)?;
        if response.status == 401 && matches!(self.login, Login::Password { .. }) {
            self.held().take();
            response = self.send(method, path, body, &self.token()?)?;
        }
        match response.status {
            404 => Ok(None),
            _ if response.is_success() => Ok(Some(json_of(&response.body))),
            401 | 403 => Err(PipelineError::Invalid(format!(
                "Airflow at {} refused the request with HTTP {}: check airflow.username and the \
                 password, or the token ({})",
                self.client.address().base(),
                response.status,
                response.error_message()
            ))),
            status => Err(PipelineError::Service(format!(
                "Airflow answered {path} with HTTP {status}: {}",
                response.error_message()
            ))),
        }
    }

    fn send(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
        token: &str,
    ) -> Result<assize_http::Response> {
        let mut request = Request::new(method, path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        self.client.attempt(&request).map_err(|error| {
            let base = self.client.address().base();
            PipelineError::Service(format!("Airflow at {base} is unreachable: {error}"))
        })
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> Result<String> {
        let (username, password) = match &self.login {
            Login::Token(token) => return Ok(token.clone()),
            Login::Password { username, password } => (username, password),
        };
        if let Some(token) = self.held().clone() {
            return Ok(token);
        }
        let body = json!({"username": username, "password": password});
        let response = self.send("POST", "/auth/token", Some(&body), "")?;
        let base = self.client.address().base();
        if !response.is_success() {
            return Err(PipelineError::Invalid(format!(
                "Airflow at {base} does not let '{username}' sign in (HTTP {}): check \
                 airflow.username and the password",
                response.status
            )));
        }
        let made = json_of(&response.body);
        let Some(token) = made["access_token"].as_str() else {
            return Err(PipelineError::Invalid(format!(
                "{base} does not answer like Airflow 3: check airflow.url"
            )));
        };
        *self.held() = Some(token.to_owned());
        Ok(token.to_owned())
    }
}

fn json_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}
