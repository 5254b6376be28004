//! Recomputing: rules and checks score stored outputs again, without generating.
//!
//! A rule is part of the rubric, so a changed rule is another rubric: as `judge reopen --rubric`
//! does, the runs are put under it, and verdicts under the earlier one stay in the history. Where
//! every criterion is computed the runs are judged at once; where a judge is asked they are pending
//! again if the rubric changed.
//!
//! A run of which something cannot be computed, because a command fails, stays as it is: its earlier
//! scores and verdicts are better than none, and the next call tries again.
//!
//! Rules see the scenario as the run was collected, with one exception: its reference and its own
//! rules, which no model sees, are those that the task has now. Any other field was part of the
//! prompt, so a change of it needs another collection.
//!
//! The commands and rules come from the task's files, never from what is stored with a run.

use std::sync::atomic::{AtomicBool, Ordering};

use assize_domain::candidate::Candidate;
use assize_domain::computed::{Scorer, verdict_file};
use assize_domain::run::{RunStatus, artifact, param, tag};
use assize_domain::task::Task;
use assize_store::queue::RecomputedRun;
use assize_store::{Judging, Run, RunQuery};
use serde_json::Value;

use super::{artifact_parse, case_texts};
use crate::computed::run_command;
use crate::{Now, PipelineError, Result};

/// The number of runs that are written together.
const BATCH: usize = 64;

/// What to score again, and by which rules.
#[derive(Debug)]
pub struct RecomputeOptions<'a> {
    pub experiment: &'a str,
    pub task: &'a Task,
    /// Where the task's files are.
    pub task_source: &'a str,
    /// Change nothing.
    pub dry_run: bool,
    pub stop: &'a AtomicBool,
}

/// What recomputing did.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Recomputed {
    /// Finished runs with candidates.
    pub runs: u64,
    pub candidates: u64,
    /// Runs of which something is other than before; with a dry run, would be.
    pub changed: u64,
    /// Runs that were under another rubric.
    pub under_new_rubric: u64,
    /// Runs whose scenario has other fields in the task now, or is not there any more.
    pub other_scenario: u64,
    /// Candidates of which something could not be computed. Their runs stay as they are.
    pub incomplete: u64,
    /// Why, of the first of them, with its run.
    pub problem: Option<String>,
}

/// Scores every stored output of an experiment again. Interrupted, it keeps what it has written, and
/// the same call again does the rest.
pub fn recompute(
    store: &dyn Judging,
    options: &RecomputeOptions<'_>,
    now: &Now,
) -> Result<Recomputed> {
    let rubric = &options.task.rubric;
    let mut done = Recomputed::default();
    let runs = store
        .run_list(options.experiment, &RunQuery::default())?
        .runs;
    let can_be_judged =
        |run: &&Run| run.status == RunStatus::Finished && run.tag(tag::JUDGE_PENDING).is_some();
    let runs: Vec<&Run> = runs.iter().filter(can_be_judged).collect();
    for batch in runs.chunks(BATCH) {
        let mut again = Vec::with_capacity(batch.len());
        for run in batch {
            if options.stop.load(Ordering::Relaxed) {
                return Err(PipelineError::Interrupted);
            }
            let Some(found) = score(store, run, options, now, &mut done)? else {
                continue;
            };
            let is_moved = run.tag(tag::RUBRIC_SHA256) != Some(rubric.sha256.as_str());
            done.under_new_rubric += u64::from(is_moved);
            if options.dry_run {
                let is_open = !rubric.needs_judge() && run.tag(tag::JUDGE_PENDING) == Some("true");
                done.changed += u64::from(is_moved || found.candidates.is_some() || is_open);
            }
            again.push(found);
        }
        if !options.dry_run {
            done.changed += store.runs_recompute(&again, rubric)?;
        }
    }
    Ok(done)
}

/// What is to be stored of a run; `None` where something of it could not be computed.
fn score(
    store: &dyn Judging,
    run: &Run,
    options: &RecomputeOptions<'_>,
    now: &Now,
    done: &mut Recomputed,
) -> Result<Option<RecomputedRun>> {
    let task = options.task;
    let [text, stored_context] = case_texts(store, &run.run_id)?;
    let text = text.unwrap_or_else(|| "[]".to_owned());
    let stored: Vec<Candidate> = artifact_parse(artifact::CANDIDATES, &run.run_id, &text)?;
    let context = if let Some(context) = current_context(run, task) {
        context
    } else {
        done.other_scenario += 1;
        let text = stored_context.unwrap_or_else(|| "{}".to_owned());
        artifact_parse(artifact::CONTEXT, &run.run_id, &text)?
    };
    let scorer = Scorer::new(&task.rubric, &task.checks, &context);
    let mut candidates = stored.clone();
    let mut is_complete = true;
    for candidate in &mut candidates {
        let Some(text) = &candidate.text else {
            continue;
        };
        let computed = scorer.score(text, &|rule, input| {
            run_command(rule, input, options.task_source, options.stop)
        });
        done.candidates += 1;
        if !computed.not_computed.is_empty() {
            is_complete = false;
            done.incomplete += 1;
            let why = || {
                let mut reasons = computed.reasons.iter();
                let why = reasons.find(|it| it.contains("not computed"))?;
                Some(format!(
                    "candidate {} of run {}: {why}",
                    candidate.index, run.run_id
                ))
            };
            done.problem = done.problem.take().or_else(why);
        }
        let fenced = task.output.fences_flag();
        let fenced = fenced.and_then(|flag| candidate.flags.get(flag)).copied();
        candidate.flags = computed.flags;
        candidate.scores = computed.scores;
        candidate.not_computed = computed.not_computed;
        candidate.reasons = computed.reasons;
        let fits = candidate.problem.is_none();
        let flags = &mut candidate.flags;
        task.output.set_flags(flags, fits, fenced.unwrap_or(false));
    }
    done.runs += 1;
    // A judge may be interrupted in a command; what it then lacks is not stored.
    if options.stop.load(Ordering::Relaxed) {
        return Err(PipelineError::Interrupted);
    }
    if !is_complete {
        return Ok(None);
    }
    let verdicts = verdict_file(&task.rubric, &candidates, &now.rfc3339);
    let rewritten = serde_json::to_string(&candidates)
        .map_err(|error| PipelineError::Internal(error.to_string()))?;
    Ok(Some(RecomputedRun {
        run_id: run.run_id.clone(),
        candidates: (candidates != stored).then_some(rewritten),
        verdicts,
    }))
}

/// The scenario as the task has it now, if it is the same but for what no model sees.
fn current_context(run: &Run, task: &Task) -> Option<Value> {
    let id = run.params.iter().find(|(key, _)| key == param::SCENARIO);
    let scenario = task
        .scenarios
        .iter()
        .find(|it| Some(&it.id) == id.map(|it| &it.1))?;
    let is_same = run.tag(tag::SCENARIO_SHA256) == Some(scenario.sha256.as_str());
    is_same.then(|| scenario.judge_context())
}
