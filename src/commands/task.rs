//! `assize init` and `assize validate`: tasks as folders.

use std::path::Path;

use assize_domain::builtin;
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_pipeline::{PipelineError, task_files};
use assize_report::shell::{command_line, shell_word};
use serde_json::json;

use crate::Exit;
use crate::session::Session;

/// Writes an editable copy of a built-in task, or a template.
pub fn init(session: &Session, dir: &Path, template: Option<&str>) -> anyhow::Result<Exit> {
    let files = match template {
        None => {
            let task = session.task_given.as_deref().unwrap_or(builtin::DEFAULT);
            task_files::init(task, dir)?
        }
        Some(template) => task_files::init_template(template, dir)?,
    };
    let shown = dir.display();
    if session.output.json {
        session
            .output
            .json_line(&json!({"dir": dir, "files": files}))?;
        return Ok(Exit::Done);
    }
    session
        .output
        .say(&format!("Wrote {} into {shown}.", files.join(", ")));
    let validate = format!("validate {}", shell_word(&shown.to_string()));
    let next = command_line::<&str>(&validate, &[]);
    session.output.say(&format!("Next: edit them, then {next}"));
    Ok(Exit::Done)
}

/// Says everything that is wrong with a task.
pub fn validate(session: &Session, dir: Option<&str>) -> anyhow::Result<Exit> {
    let name = dir.unwrap_or(&session.task_name);
    let parsed = match task_files::read(name) {
        Ok(files) => Task::parse(&files),
        Err(PipelineError::Task { problems, .. }) => Err(problems),
        Err(error) => return Err(error.into()),
    };
    let task = match parsed {
        Ok(task) => task,
        Err(problems) if session.output.json => {
            session
                .output
                .json_pretty(&json!({"task": name, "ok": false, "problems": problems}))?;
            return Ok(Exit::Invalid);
        }
        Err(problems) => {
            return Err(PipelineError::Task {
                name: name.to_owned(),
                problems,
            }
            .into());
        }
    };
    let splits: Vec<(Split, usize)> = Split::ALL
        .into_iter()
        .map(|split| (split, task.split(split).count()))
        .collect();
    let prompts: Vec<&str> = task
        .prompts
        .iter()
        .map(|prompt| prompt.name.as_str())
        .collect();
    if session.output.json {
        let scenarios: serde_json::Map<_, _> = splits
            .iter()
            .map(|(split, count)| (split.to_string(), json!(count)))
            .collect();
        session.output.json_pretty(&json!({
            "task": task.name, "ok": true, "problems": [], "scenarios": scenarios, "prompts": prompts,
            "rubric": {"id": task.rubric.id, "sha256": task.rubric.sha256},
        }))?;
        return Ok(Exit::Done);
    }
    let scenarios: Vec<String> = splits
        .iter()
        .map(|(split, count)| format!("{count} {split}"))
        .collect();
    let (low, high) = task.rubric.composite_range();
    session.output.data(&format!(
        "{} is valid.\n  scenarios  {}\n  prompts    {}\n  rubric     {} ({}…), composite {low} to {high}\n",
        task.name,
        scenarios.join(", "),
        prompts.join(", "),
        task.rubric.id,
        &task.rubric.sha256[..8],
    ))?;
    Ok(Exit::Done)
}
