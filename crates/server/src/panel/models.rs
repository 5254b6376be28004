//! The models that are available on the hosts, and dry runs.
//!
//! Both run this program as a subprocess, like a job, so that a page shows exactly what the job
//! would do.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use assize_pipeline::events::{ListedModel, ModelList};
use serde::de::DeserializeOwned;

use crate::App;

/// The timeout of the subprocess.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The models on all hosts, and the hosts that are unreachable.
pub(crate) struct HostModels {
    pub models: Vec<Model>,
    pub unreachable: Vec<String>,
    pub max_model_b: String,
}

impl HostModels {
    pub fn find(app: &App, picked: &[&str]) -> Self {
        let words = ["models", "list", "--json"].map(str::to_owned);
        let listed = run_program(app, &words).unwrap_or_else(|error| ModelList {
            max_model_b: app.config.options.max_model_b,
            unreachable: vec![error],
            ..ModelList::default()
        });
        let max = listed.max_model_b;
        let models = listed.models.into_iter();
        Self {
            models: models.map(|it| model(it, max, picked)).collect(),
            unreachable: listed.unreachable,
            max_model_b: format!("{max:?}"),
        }
    }
}

pub(crate) struct Model {
    pub name: String,
    pub size: String,
    /// Why the size gate rejects it.
    pub rejected: Option<String>,
    pub chosen: bool,
}

fn model(listed: ListedModel, max: f64, picked: &[&str]) -> Model {
    let size = listed.parameter_count.map(|it| it as f64 / 1e9);
    let is_rejected = listed.admitted == Some(false);
    Model {
        chosen: picked.contains(&listed.model.as_str()),
        name: listed.model,
        size: size.map_or_else(|| "size unknown".to_owned(), |it| format!("{it:.1} B")),
        rejected: is_rejected.then(|| format!("larger than {max} B")),
    }
}

/// Runs this program and reads the JSON that it prints.
pub(crate) fn run_program<T: DeserializeOwned>(app: &App, words: &[String]) -> Result<T, String> {
    let failed = |error: std::io::Error| format!("the program could not be run: {error}");
    let mut child = Command::new(&app.config.program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let since = Instant::now();
    while child.try_wait().map_err(failed)?.is_none() {
        if since.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(
                "timeout after 20 seconds: check that the model hosts are reachable".to_owned(),
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        stderr.trim().trim_start_matches("error: ").to_owned()
    })
}
