//! What a loop remembers of its start besides its settings: the task, the options of its collections and the
//! incumbent's prompt. It travels in the log's first event.

use assize_domain::hash::{canonical_json, sha256_fields};
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_optimise::{Event, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::LoopLog;
use crate::{PipelineError, Result};

/// How a loop was set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The task as `--task` takes it.
    pub task: String,
    pub task_name: String,
    /// The content that the loop depends on ([`content_sha256`]).
    pub task_sha256: String,
    /// Where the loop's runs are tracked, without credentials.
    pub tracking_uri: String,
    /// The options that were given, by key.
    pub options: Map<String, Value>,
    /// The incumbent's prompt, which need not be among the task's files.
    pub incumbent: Version,
}

impl Setup {
    /// The setup of a loop.
    pub fn of(log: &LoopLog<'_>) -> Result<Self> {
        let Some(Event::Started(started)) = log.events().first() else {
            return Err(PipelineError::Internal(
                "the log does not begin with its start".to_owned(),
            ));
        };
        serde_json::from_value(started.setup.clone()).map_err(|error| {
            PipelineError::Invalid(format!(
                "the loop of '{}' cannot be continued: its setup cannot be read ({error}). It may have been started \
                 by a newer version of assize",
                log.experiment()
            ))
        })
    }

    /// Refuses a task whose content has changed since the start: scores before and after could not be
    /// compared. Confirmation scenarios may be added at any time.
    pub fn check(&self, task: &Task) -> Result<()> {
        if task.name != self.task_name {
            return Err(PipelineError::Invalid(format!(
                "this loop is about the task '{}', and {} is the task '{}'",
                self.task_name, self.task, task.name
            )));
        }
        if content_sha256(task) == self.task_sha256 {
            return Ok(());
        }
        Err(PipelineError::Invalid(format!(
            "the rubric, the output contract, the angles or scenarios of the task '{}' have changed since this loop was \
             started, so scores could not be compared: restore {}, or stop this loop and start one in another \
             experiment",
            self.task_name, self.task
        )))
    }
}

/// Identifies what a loop's scores depend on: everything but prompts and confirmation scenarios.
pub(super) fn content_sha256(task: &Task) -> String {
    let scenarios: Vec<String> = task
        .scenarios
        .iter()
        .filter(|it| it.split != Split::Confirmation)
        .map(|it| format!("{} {} {}\n", it.id, it.split, it.sha256))
        .collect();
    let output = serde_json::to_value(&task.output).unwrap_or_default();
    sha256_fields(&[
        ("rubric", &task.rubric.sha256),
        ("scenarios", &scenarios.concat()),
        ("output", &canonical_json(&output)),
        ("angles", &task.angles.join("\n")),
    ])
}
