//! `assize collect --watch`: try a prompt again whenever its file changes, and show what changed.
//!
//! Nothing is tracked, and answers are cached: going back to an earlier wording costs nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::bail;
use assize_domain::sweep::split_label;
use assize_domain::task::Task;
use assize_pipeline::collect::preview::{Preview, preview};
use assize_pipeline::guard::Guard;
use assize_pipeline::{PipelineError, count, task_files};
use serde_json::json;

use super::Plan;
use crate::Exit;
use crate::cli::Collect;
use crate::output::{complain, safe};
use crate::session::{self, Session};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Scenarios that are tried, unless the user says otherwise.
const SCENARIOS: u32 = 2;

/// The outputs so far, by model, prompt, scenario and candidate.
type Shown = BTreeMap<(String, String, String, u32), Result<String, String>>;

struct Watch<'a> {
    session: &'a Session,
    guard: Guard,
    stop: &'a AtomicBool,
    shown: Shown,
}

/// Shows outputs until it is stopped.
pub fn run(session: &Session, mut plan: Plan, args: &Collect) -> anyhow::Result<Exit> {
    let folder = Path::new(&session.task_name);
    if !folder.is_dir() {
        bail!(PipelineError::Invalid(format!(
            "the task '{}' is built in and has no files to watch: write a copy with assize init DIR, and name it with \
             --task DIR",
            session.task_name
        )));
    }
    let is_given = |key: &str| args.options.0.iter().any(|(spec, _)| spec.key == key);
    if !is_given("n_scenarios") {
        plan.options.values.n_scenarios = SCENARIOS;
    }
    if !is_given("n_tips") {
        plan.options.values.n_tips = 1;
    }
    let stop = session::stop_flag()?;
    let mut watch = Watch {
        session,
        guard: session.guard(&plan.options.values)?,
        stop: &stop,
        shown: Shown::new(),
    };
    let mut times = times(folder);
    let previews = watch.generate(&plan, &plan.options.values.prompts)?;
    watch.show_all(previews)?;
    session.output.say(&format!(
        "Watching {} in {}; Ctrl-C ends. Nothing is tracked.",
        count(plan.options.values.prompts.len(), "prompt"),
        folder.display()
    ));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let now = self::times(folder);
        if now == times {
            continue;
        }
        times = now;
        // A file that is half written does not parse; its next change comes soon.
        match task_files::load(&session.task_name) {
            Ok(task) => {
                let changed = changed(&plan.task, &task, &plan.options.values.prompts);
                plan.task = task;
                match watch.generate(&plan, &changed) {
                    Ok(previews) => watch.show_all(previews)?,
                    Err(error) => report(&error),
                }
            }
            Err(error) if folder.is_dir() => report(&error),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Exit::Interrupted)
}

/// Says what is wrong, and goes on: the next change may correct it.
fn report(error: &PipelineError) {
    complain(&safe(&format!("error: {error}")));
    if let PipelineError::Task { problems, .. } = error {
        for problem in problems {
            complain(&safe(&format!("  {problem}")));
        }
    }
}

/// The prompts whose outputs may be others now.
fn changed(before: &Task, after: &Task, prompts: &[String]) -> Vec<String> {
    let others = |task: &Task| {
        let tools = format!("{:?}{:?}", task.tools, task.images);
        (task.sha256.clone(), task.systems.clone(), tools)
    };
    let is_all = others(before) != others(after);
    let content = |task: &Task, name: &str| task.prompt(name).map(|it| it.sha256.clone());
    let is_changed = |name: &&String| is_all || content(before, name) != content(after, name);
    prompts.iter().filter(is_changed).cloned().collect()
}

/// When each of the task's files was changed.
fn times(folder: &Path) -> BTreeMap<std::path::PathBuf, (SystemTime, u64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else {
                continue;
            };
            if about.is_dir() {
                // A task is two levels deep.
                if depth == 0 {
                    folders.push((entry.path(), 1));
                }
            } else if let Ok(time) = about.modified() {
                found.insert(entry.path(), (time, about.len()));
            }
        }
    }
    found
}

impl Watch<'_> {
    fn generate(&self, plan: &Plan, prompts: &[String]) -> Result<Vec<Preview>, PipelineError> {
        if prompts.is_empty() {
            return Ok(Vec::new());
        }
        let mut options = plan.options.clone();
        options.values.prompts = prompts.to_vec();
        let stopped = || self.stop.load(Ordering::Relaxed);
        preview(&plan.task, &options, &plan.admitted, &self.guard, &stopped)
    }

    /// An error means that nobody reads any more.
    fn show_all(&mut self, previews: Vec<Preview>) -> anyhow::Result<()> {
        previews.into_iter().try_for_each(|it| self.show(it))
    }

    fn show(&mut self, it: Preview) -> anyhow::Result<()> {
        let key = (it.model, it.prompt, it.scenario, it.candidate);
        let before = self.shown.insert(key.clone(), it.text.clone());
        let (model, prompt, scenario, candidate) = key;
        let output = &self.session.output;
        if output.json {
            let (name, settings) = split_label(&prompt);
            let settings = (!settings.is_empty()).then(|| settings.to_json());
            output.json_line(&json!({
                "event": "output", "model": model, "prompt": name, "settings": settings, "scenario": scenario,
                "candidate": candidate, "before": before.and_then(Result::ok), "after": it.text.as_ref().ok(),
                "error": it.text.as_ref().err(), "from_cache": it.from_cache,
            }))?;
            return Ok(());
        }
        let cached = if it.from_cache {
            " (from the cache)"
        } else {
            ""
        };
        let head = safe(&format!("{model} × {prompt} × {scenario}"));
        output.data(&format!(
            "{head}{cached}\n{}\n",
            difference(before.as_ref(), &it.text)
        ))?;
        Ok(())
    }
}

/// What was there and what came instead, line by line.
fn difference(before: Option<&Result<String, String>>, after: &Result<String, String>) -> String {
    let quoted = |mark: &str, text: &Result<String, String>| {
        let text = match text {
            Ok(text) => text.clone(),
            Err(error) => format!("[failed: {error}]"),
        };
        let lines = safe(&text);
        let lines = lines.lines().map(|line| format!("  {mark} {line}\n"));
        lines.collect::<String>()
    };
    match before {
        None => quoted("│", after),
        Some(before) if before == after => quoted("=", after),
        Some(before) => format!("{}{}", quoted("-", before), quoted("+", after)),
    }
}
