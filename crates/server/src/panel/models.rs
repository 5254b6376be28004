//! The models that are really there, asked of this very program.
//!
//! It is started as a subprocess, as a job would be, so that a page never says something else
//! than the job does.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use assize_pipeline::events::{ListedModel, ModelList};
use serde::de::DeserializeOwned;

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
        let words = ["models", "list", "--json"].map(str::to_owned);
        let listed = ask_program(app, &words).unwrap_or_else(|error| ModelList {
            max_model_b: app.config.options.max_model_b,
            unreachable: vec![error],
            ..ModelList::default()
        });
        let most = listed.max_model_b;
        let models = listed.models.into_iter();
        Self {
            models: models.map(|it| model(it, most, picked)).collect(),
            unreachable: listed.unreachable,
            max_model_b: format!("{most:?}"),
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

fn model(listed: ListedModel, most: f64, picked: &[&str]) -> Model {
    let size = listed.parameter_count.map(|it| it as f64 / 1e9);
    let is_rejected = listed.admitted == Some(false);
    Model {
        chosen: picked.contains(&listed.model.as_str()),
        name: listed.model,
        size: size.map_or_else(|| "size unknown".to_owned(), |it| format!("{it:.1} B")),
        rejected: is_rejected.then(|| format!("larger than {most} B")),
    }
}

/// Runs this program and reads the JSON that it prints.
pub(crate) fn ask_program<T: DeserializeOwned>(app: &App, words: &[String]) -> Result<T, String> {
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
