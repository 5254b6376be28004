//! The models that are really there, asked of this very program.
//!
//! It is started as a subprocess, as a job would be, so that a page never says something else
//! than the job does.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::App;

/// A list of models or a dry run that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was found on the hosts.
pub(crate) struct HostModels {
    pub models: Vec<Model>,
    pub unreachable: Vec<String>,
    pub max_model_b: String,
}

impl HostModels {
    pub fn look(app: &App, picked: &[&str]) -> Self {
        let listed = ask_program(app, &["models".into(), "list".into(), "--json".into()]);
        let listed = listed.unwrap_or_else(|error| json!({"unreachable": [error]}));
        Self {
            models: models(&listed, picked),
            unreachable: texts(&listed["unreachable"]),
            max_model_b: listed["max_model_b"].to_string(),
        }
    }
}

pub(crate) struct Model {
    pub name: String,
    pub size: String,
    /// Why the size gate does not admit it.
    pub rejected: Option<String>,
    pub chosen: bool,
}

fn models(listed: &Value, picked: &[&str]) -> Vec<Model> {
    let list = listed["models"].as_array().cloned().unwrap_or_default();
    let most = listed["max_model_b"].as_f64().unwrap_or(f64::INFINITY);
    list.iter()
        .filter_map(|it| {
            let name = it["model"].as_str().or_else(|| it["name"].as_str())?;
            let size = it["parameter_count"].as_f64().map(|it| it / 1e9);
            let rejected = match it["rejected"].as_str() {
                Some(why) => Some(why.to_owned()),
                None => size
                    .filter(|it| *it > most)
                    .map(|_| format!("larger than {most} B")),
            };
            Some(Model {
                chosen: picked.contains(&name),
                name: name.to_owned(),
                size: size.map_or_else(|| "size unknown".to_owned(), |it| format!("{it:.1} B")),
                rejected,
            })
        })
        .collect()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned))
        .collect()
}

/// Runs this program and reads the JSON that it prints.
pub(crate) fn ask_program(app: &App, words: &[String]) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("this program could not be asked: {error}");
    let mut child = Command::new(&app.config.program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let since = Instant::now();
    while child.try_wait().map_err(failed)?.is_none() {
        if since.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err("no answer within 20 seconds: is a model host asleep?".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        said.trim().trim_start_matches("error: ").to_owned()
    })
}
