//! Scores that need no judge: running the commands of computed criteria.
//!
//! A command is a program of whoever wrote the task. Nothing confines it: it has the rights, the
//! environment and the network of this process. It runs in the task's folder, gets one candidate and
//! its context as JSON on stdin, and prints scores as JSON ([`assize_domain::computed`]). It has a
//! limited time and may print a limited amount.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_domain::rule::CommandRule;
use assize_domain::task::Task;
use serde_json::Value;

use crate::process::{self, CommandOutput, Limits};
use crate::{PipelineError, Result};

/// The most that a command may print.
const MOST_BYTES: u64 = 64 * 1024;

/// Refuses a task whose rubric runs commands.
pub fn refuse_commands(task: &Task) -> Result<()> {
    let mut commands = task.rubric.computed.iter();
    match commands.find(|it| it.command().is_some()) {
        Some(criterion) => Err(PipelineError::Invalid(format!(
            "the criterion '{}' of {} runs a command, which jobs of assize serve do not do unless \
             serve_allow_commands = true in its settings",
            criterion.name, task.rubric.id
        ))),
        None => Ok(()),
    }
}

/// Runs a command on its input. `task_source` is the task's folder, where it has one.
pub fn run_command(
    rule: &CommandRule,
    input: &Value,
    task_source: &str,
    stop: &AtomicBool,
) -> std::result::Result<Value, String> {
    let Some((program, arguments)) = rule.command.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let folder = Path::new(task_source);
    if folder.is_absolute() && folder.is_dir() {
        command.current_dir(folder);
    }
    let limits = Limits {
        timeout: Duration::from_secs(rule.timeout_s),
        timeout_name: "timeout_s",
        most_bytes: MOST_BYTES,
        on_stderr: None,
        stopped: &|| stop.load(Ordering::Relaxed),
    };
    let printed = match process::ask(command, &input.to_string(), &limits) {
        CommandOutput::Printed(text) => text,
        CommandOutput::Failed(reason) => return Err(reason),
        CommandOutput::Interrupted => return Err("interrupted".to_owned()),
    };
    serde_json::from_str(printed.trim())
        .map_err(|error| format!("what the command printed is not JSON: {error}"))
}
