//! Following a run of `bench_collect` or `sim_run` until it has ended.
//!
//! Tasks named `HOST.collect` leave their counts in their entry `outcome` when they end, and the last
//! task, `finish`, leaves what went wrong in `error`. An Airflow that does not answer is asked
//! again for as long as it takes, because its tasks may go on meanwhile.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Airflow, DagRun, RunState, TaskInstance};
use crate::{PipelineError, Result};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a run that was stopped may take to end.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);

/// The cells of the tasks that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Counts {
    pub cells: u64,
    pub collected: u64,
    pub skipped: u64,
    pub failed: u64,
    pub undelivered: u64,
}

/// What a task of a collection leaves.
#[derive(Debug, Deserialize)]
struct Outcome {
    model: String,
    error: Option<String>,
    #[serde(flatten)]
    counts: Counts,
}

/// What happened during a run.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A task has ended; these are the counts of all that have.
    Counted(Counts),
    /// A model was collected, or failed for a reason.
    Model(&'a str, Option<&'a str>),
    /// Airflow does not answer, for a reason.
    Unreachable(&'a str),
    /// Airflow answers again.
    Reachable,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Success,
    /// With what its last task reports.
    Failed(String),
    /// It was asked to stop.
    Stopped,
}

/// Follows a run until it has ended, or until `stop` is set, which ends the run too.
pub fn follow(
    airflow: &Airflow,
    run: &DagRun,
    stop: &AtomicBool,
    mut observe: impl FnMut(Seen<'_>),
) -> Result<(Ended, Counts)> {
    let mut counts = Counts::default();
    let mut settled = HashSet::new();
    let mut is_reachable = true;
    loop {
        if stop.load(Ordering::SeqCst) {
            end(airflow, run)?;
            return Ok((Ended::Stopped, counts));
        }
        match look(airflow, run, &mut settled, &mut counts, &mut observe) {
            Ok(state) => {
                if !is_reachable {
                    observe(Seen::Reachable);
                    is_reachable = true;
                }
                match state {
                    RunState::Success => return Ok((Ended::Success, counts)),
                    RunState::Failed => {
                        return Ok((Ended::Failed(reason(airflow, run)?), counts));
                    }
                    _ => {}
                }
            }
            Err(PipelineError::Service(reason)) => {
                if is_reachable {
                    observe(Seen::Unreachable(&reason));
                    is_reachable = false;
                }
            }
            Err(error) => return Err(error),
        }
        pause(stop);
    }
}

/// Reads the state, and then what ended before it.
fn look(
    airflow: &Airflow,
    run: &DagRun,
    settled: &mut HashSet<(String, i64)>,
    counts: &mut Counts,
    observe: &mut impl FnMut(Seen<'_>),
) -> Result<RunState> {
    let state = airflow.state(run)?;
    for task in airflow.tasks(run)? {
        let is_collection = task.task_id.ends_with(".collect") && task.has_ended();
        let key = (task.task_id.clone(), task.map_index);
        if !is_collection || settled.contains(&key) {
            continue;
        }
        let outcome = airflow.xcom(run, &task, "outcome")?;
        settled.insert(key);
        let outcome = outcome.and_then(|it| serde_json::from_value::<Outcome>(it).ok());
        let Some(outcome) = outcome else {
            continue;
        };
        counts.cells += outcome.counts.cells;
        counts.collected += outcome.counts.collected;
        counts.skipped += outcome.counts.skipped;
        counts.failed += outcome.counts.failed;
        counts.undelivered += outcome.counts.undelivered;
        observe(Seen::Model(&outcome.model, outcome.error.as_deref()));
        observe(Seen::Counted(*counts));
    }
    Ok(state)
}

/// Why a run failed.
fn reason(airflow: &Airflow, run: &DagRun) -> Result<String> {
    let last = TaskInstance {
        task_id: "finish".to_owned(),
        map_index: -1,
        state: None,
    };
    let left = airflow.xcom(run, &last, "error")?;
    let text = left.as_ref().and_then(serde_json::Value::as_str);
    Ok(text.map_or_else(
        || "the run failed, or was ended, in Airflow: see its page".to_owned(),
        str::to_owned,
    ))
}

fn end(airflow: &Airflow, run: &DagRun) -> Result<()> {
    airflow.stop(run)?;
    let started = Instant::now();
    while !airflow.state(run)?.is_over() && started.elapsed() < STOP_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn pause(stop: &AtomicBool) {
    let started = Instant::now();
    while started.elapsed() < POLL_INTERVAL && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(STOP_CHECK_INTERVAL);
    }
}
