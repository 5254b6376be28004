//! The task of an experiment: which one its runs name, and where its files are.
//!
//! Runs carry the name of their task and where its files were when they were collected (older runs
//! only the name, or neither). Every command that works on an experiment gets the task from here, so that an
//! experiment of one's own task is judged with its calibration cases and compared by its current
//! scenarios without `--task`. The files are the current ones: if they were edited since, that is
//! an edit like any other.

use std::path::Path;

use assize_domain::anchor::Anchors;
use assize_domain::builtin;
use assize_domain::run::{param, tag};
use assize_domain::task::{Task, TaskScenarios};
use assize_store::{RunQuery, Runs};

use crate::task_files::{self, BUILT_IN};
use crate::{PipelineError, Result, count};

/// The newest runs that are asked for their task: other tools may have logged some without.
const RUNS_ASKED: u32 = 20;

/// Where to look for an experiment's task besides the places that its runs name.
#[derive(Clone, Copy, Default)]
pub struct Lookup<'a> {
    /// What the user named with `--task`; it must be the experiment's task.
    pub given: Option<&'a str>,
    /// A task that is used where it is the experiment's, and ignored otherwise: the server's.
    pub preferred: Option<&'a str>,
    /// Whether a folder that a run names may be read; every folder may where this is `None`. Runs
    /// can be written by others.
    pub may_read: Option<&'a dyn Fn(&Path) -> bool>,
}

impl std::fmt::Debug for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookup")
            .field("given", &self.given)
            .field("preferred", &self.preferred)
            .finish_non_exhaustive()
    }
}

/// What is read of a task's files.
pub trait TaskContent: Sized {
    fn load(place: &str) -> Result<Self>;

    /// The task's name.
    fn name(&self) -> &str;
}

impl TaskContent for Task {
    fn load(place: &str) -> Result<Self> {
        task_files::load(place)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl TaskContent for TaskScenarios {
    fn load(place: &str) -> Result<Self> {
        task_files::load_scenarios(place)
    }

    fn name(&self) -> &str {
        &self.task
    }
}

/// A task with the place of its files, as `--task` takes it.
#[derive(Debug)]
pub struct FoundTask<T = Task> {
    pub task: T,
    pub place: String,
}

/// The result of looking for an experiment's task.
#[derive(Debug)]
pub enum ExperimentTask<T = Task> {
    Found(Box<FoundTask<T>>),
    /// The runs are too old to name a task, or there are none.
    Unnamed,
    /// The runs name a task whose files were not found.
    Missing {
        experiment: String,
        name: String,
        /// The places that were looked at, each with what is wrong with it.
        searched: Vec<String>,
    },
}

impl<T> ExperimentTask<T> {
    /// The task, where its files were found.
    pub fn task(&self) -> Option<&T> {
        match self {
            Self::Found(found) => Some(&found.task),
            Self::Unnamed | Self::Missing { .. } => None,
        }
    }
}

impl ExperimentTask {
    /// The calibration cases. It is an error if the files were not found: judging without them
    /// must be the user's decision. Runs that name no task get those of the default task, which
    /// are left out later unless its rubric is theirs.
    pub fn anchors(self) -> Result<Anchors> {
        let missing = match self {
            Self::Found(found) => return Ok(found.task.anchors),
            Self::Unnamed => return Ok(task_files::load(builtin::DEFAULT)?.anchors),
            missing @ Self::Missing { .. } => missing,
        };
        Err(missing.problem(
            ", so its calibration cases cannot be mixed in",
            ", or judge without them: --no-anchors",
        ))
    }

    /// The task, for commands that cannot go on without it.
    pub fn need(self) -> Result<FoundTask> {
        match self {
            Self::Found(found) => Ok(*found),
            Self::Unnamed => Ok(FoundTask {
                task: task_files::load(builtin::DEFAULT)?,
                place: builtin::DEFAULT.to_owned(),
            }),
            missing @ Self::Missing { .. } => Err(missing.problem("", "")),
        }
    }

    fn problem(&self, consequence: &str, remedy: &str) -> PipelineError {
        let Self::Missing {
            experiment,
            name,
            searched,
        } = self
        else {
            return PipelineError::Internal("the task was found".to_owned());
        };
        PipelineError::Invalid(format!(
            "the files of the task '{name}' of the experiment '{experiment}' were not \
             found{consequence}. Looked at {}. Name the task's folder with --task DIR{remedy}",
            searched.join(", ")
        ))
    }
}

/// What the newest run says about its task.
struct Recorded {
    name: String,
    source: Option<String>,
}

/// Finds the task of an experiment. An unknown experiment is an error, and so is a given task
/// that is not the experiment's.
pub fn find<T: TaskContent>(
    store: &dyn Runs,
    experiment: &str,
    lookup: Lookup<'_>,
) -> Result<ExperimentTask<T>> {
    let recorded = recorded(store, experiment)?;
    if let Some(given) = lookup.given {
        let task = T::load(given)?;
        if let Some(recorded) = recorded.filter(|it| it.name != task.name()) {
            return Err(PipelineError::Invalid(format!(
                "the experiment '{experiment}' holds runs of the task '{}', and --task {given} is \
                 the task '{}': leave --task out, or name the folder of '{}'",
                recorded.name,
                task.name(),
                recorded.name
            )));
        }
        return Ok(found(task, given));
    }
    let Some(recorded) = recorded else {
        return Ok(ExperimentTask::Unnamed);
    };
    let name = recorded.name;
    if let Some(preferred) = lookup.preferred
        && let Ok(task) = load_named(preferred, &name)
    {
        return Ok(found(task, preferred));
    }
    let mut searched = Vec::new();
    let source = recorded.source.filter(|it| it != BUILT_IN);
    if let Some(source) = source {
        let may_read = lookup.may_read.is_none_or(|it| it(Path::new(&source)));
        let loaded = if may_read {
            load_named(&source, &name)
        } else {
            Err("this server may not read it: start it with --task or --allow".to_owned())
        };
        match loaded {
            Ok(task) => return Ok(found(task, &source)),
            Err(problem) => searched.push(format!("{source} ({problem})")),
        }
    }
    if builtin::NAMES.contains(&name.as_str()) {
        return Ok(found(T::load(&name)?, &name));
    }
    searched.push("the built-in tasks".to_owned());
    for place in [format!("./{name}"), format!("./tasks/{name}")] {
        match load_named(&place, &name) {
            Ok(task) => return Ok(found(task, &place)),
            Err(problem) => searched.push(format!("{place} ({problem})")),
        }
    }
    Ok(ExperimentTask::Missing {
        experiment: experiment.to_owned(),
        name,
        searched,
    })
}

fn found<T>(task: T, place: &str) -> ExperimentTask<T> {
    ExperimentTask::Found(Box::new(FoundTask {
        task,
        place: place.to_owned(),
    }))
}

/// The task at a place, if it has this name; otherwise what is wrong with the place.
fn load_named<T: TaskContent>(place: &str, name: &str) -> std::result::Result<T, String> {
    let is_there = builtin::NAMES.contains(&place) || Path::new(place).is_dir();
    if !is_there {
        return Err("no such folder".to_owned());
    }
    match T::load(place) {
        Ok(task) if task.name() == name => Ok(task),
        Ok(task) => Err(format!("is the task '{}'", task.name())),
        Err(PipelineError::Task { problems, .. }) => Err(format!(
            "{}: see assize validate {place}",
            count(problems.len(), "problem")
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn recorded(store: &dyn Runs, experiment: &str) -> Result<Option<Recorded>> {
    let newest = RunQuery {
        newest_first: true,
        max_results: RUNS_ASKED,
        ..RunQuery::default()
    };
    let value = |entries: &[(String, String)], key: &str| {
        let found = entries.iter().find(|(known, _)| known == key);
        found
            .map(|(_, value)| value.clone())
            .filter(|it| !it.is_empty())
    };
    let page = store.run_list(experiment, &newest)?;
    Ok(page.runs.iter().find_map(|run| {
        Some(Recorded {
            name: value(&run.params, param::TASK)?,
            source: value(&run.tags, tag::TASK_SOURCE),
        })
    }))
}
