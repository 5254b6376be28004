//! A headless agent: any command that reads a judge file and prints one.
//!
//! The queue's cases go out in batches as judge files, and what comes back is checked like any
//! verdict. A file with mistakes is sent once more with the mistakes in its field `problems`;
//! what is still wrong then stays pending with its reason. Valid cases of a file are kept even
//! where others are not, and everything kept is durable at once, so that this can be stopped
//! anywhere and started again.
//!
//! How the command is run is up to the caller: here it is a function from text to text.

use std::collections::{BTreeMap, BTreeSet};

use assize_domain::case::Case;
use assize_domain::submission::Submission;
use serde_json::{Map, Value};

use super::file::{self, answer};
use super::queue::Queue;
use crate::process::CommandOutput;
use crate::{Now, PipelineError, Result};

/// Limits of the batches.
#[derive(Debug, Clone, Copy)]
pub struct AgentOptions {
    /// Cases per call of the command.
    pub batch: usize,
    /// At most so many cases in all, rounded up to whole scenarios, calibration cases not counted;
    /// 0 means all.
    pub limit: usize,
    pub now: fn() -> Now,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct AgentSummary {
    /// Cases of runs, without the calibration cases among them.
    pub judged: usize,
    /// Cases that the agent did not judge correctly, by id, each with the reason.
    pub left_pending: BTreeMap<String, String>,
    /// Cases that were not sent to the agent: beyond the limit, or after it failed.
    pub untried: u64,
    pub calls: usize,
    /// As many cases as were asked for have been tried.
    pub limit_reached: bool,
    /// The command itself failed twice in a row: going on would do the same.
    pub gave_up: bool,
    pub interrupted: bool,
}

/// Clears the queue with an agent. `told` is called with the progress: judged so far, cases left.
pub fn clear(
    queue: &mut Queue,
    options: &AgentOptions,
    ask: &mut dyn FnMut(&str) -> CommandOutput,
    told: &dyn Fn(usize, u64),
) -> Result<AgentSummary> {
    let mut summary = AgentSummary::default();
    // Anchors that the agent did not judge correctly: nothing of theirs is pending.
    let mut anchors_given_up = BTreeSet::new();
    let mut failures_in_a_row = 0;
    loop {
        let tried = summary.judged + summary.left_pending.len();
        let room = match options.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(tried),
        };
        summary.limit_reached = room == 0;
        // A scenario that was begun is completed, so that one sitting judges all of its pairs.
        let begun = queue
            .pending_cases()
            .saturating_sub(summary.left_pending.len());
        let room = if room == 0 { begun } else { room };
        if room == 0 {
            break;
        }
        let given_up =
            |case: &str| summary.left_pending.contains_key(case) || anchors_given_up.contains(case);
        // Cases that were given up stay held and come first: look past them.
        let past = summary.left_pending.len() + anchors_given_up.len();
        let mut wanted = options.batch.max(1).min(room) + past;
        if summary.limit_reached {
            // More than is held would lease further scenarios.
            wanted = wanted.min(queue.progress().held);
        }
        let mut cases = queue.next(wanted, &(options.now)())?;
        cases.retain(|case| !given_up(&case.case));
        cases.truncate(options.batch.max(1));
        if cases.is_empty() {
            break;
        }
        let outcome = judge_batch(queue, options, &cases, ask, &mut summary)?;
        let anchors = cases.iter().map(|it| it.case.clone());
        for anchor in anchors.filter(|case| queue.is_anchor(case)) {
            if summary.left_pending.remove(&anchor).is_some() {
                anchors_given_up.insert(anchor);
            }
        }
        let progress = queue.progress();
        told(progress.done, progress.left + progress.held as u64);
        match outcome {
            Outcome::Interrupted => summary.interrupted = true,
            Outcome::CommandFailed => failures_in_a_row += 1,
            Outcome::Answered => failures_in_a_row = 0,
        }
        summary.gave_up = failures_in_a_row >= 2;
        if summary.interrupted || summary.gave_up {
            break;
        }
    }
    summary.gave_up |= failures_in_a_row > 0 && summary.judged == 0;
    let held = queue
        .pending_cases()
        .saturating_sub(summary.left_pending.len());
    summary.untried = queue.waiting_cases() + held as u64;
    Ok(summary)
}

enum Outcome {
    Answered,
    CommandFailed,
    Interrupted,
}

/// One batch: asked, and asked once more with the problems of the first answer.
fn judge_batch(
    queue: &mut Queue,
    options: &AgentOptions,
    cases: &[Case],
    ask: &mut dyn FnMut(&str) -> CommandOutput,
    summary: &mut AgentSummary,
) -> Result<Outcome> {
    let mut open: Vec<Case> = cases.to_vec();
    let mut problems: Vec<String> = Vec::new();
    let mut outcome = Outcome::Answered;
    for _ in 0..2 {
        summary.calls += 1;
        let head = file::head(queue.experiment(), queue.id(), queue.rubric());
        let file = file::batch(head, &open, &problems)?;
        let answer = match ask(&file) {
            CommandOutput::Interrupted => return Ok(Outcome::Interrupted),
            CommandOutput::Failed(reason) => {
                outcome = Outcome::CommandFailed;
                problems = vec![reason];
                continue;
            }
            CommandOutput::Printed(text) => text,
        };
        outcome = Outcome::Answered;
        let Some(answer) = answer::find_judge_file(&answer) else {
            problems = vec!["no JSON object with a list of cases was printed".to_owned()];
            continue;
        };
        let reasons = keep(queue, options, &open, &answer)?;
        let done = open.iter().filter(|it| !reasons.contains_key(&it.case));
        summary.judged += done.filter(|it| !queue.is_anchor(&it.case)).count();
        open.retain(|case| reasons.contains_key(&case.case));
        problems = reasons
            .iter()
            .map(|(case, reason)| format!("case {case}: {reason}"))
            .collect();
        if open.is_empty() {
            return Ok(outcome);
        }
    }
    for case in open {
        let prefix = format!("case {}: ", case.case);
        let own = problems.iter().find_map(|it| it.strip_prefix(&prefix));
        let reason = own.map_or_else(|| problems.join("; "), str::to_owned);
        summary.left_pending.insert(case.case, reason);
    }
    Ok(outcome)
}

/// Submits every valid case of an answer, and returns the reasons for the others, by case.
fn keep(
    queue: &mut Queue,
    options: &AgentOptions,
    cases: &[Case],
    answer: &Map<String, Value>,
) -> Result<BTreeMap<String, String>> {
    let mut reasons = BTreeMap::new();
    for case in cases {
        let found = answer::case_of(answer, &case.case);
        let reason = match found.map_or_else(
            || Err("is missing from the answer".to_owned()),
            |found| answer::submission(case, found),
        ) {
            Ok(submission) => submit(queue, &submission, options)?,
            Err(reason) => Some(reason),
        };
        reasons.extend(reason.map(|reason| (case.case.clone(), reason)));
    }
    Ok(reasons)
}

/// Submits one case, and returns the reason where it was refused.
fn submit(
    queue: &mut Queue,
    submission: &Submission,
    options: &AgentOptions,
) -> Result<Option<String>> {
    match queue.submit(std::slice::from_ref(submission), &(options.now)()) {
        Ok(_) => Ok(None),
        Err(PipelineError::JudgeFile { problems, .. }) => {
            let words: Vec<String> = problems
                .iter()
                .map(|it| format!("{} {}", it.pointer.trim_start_matches("/0/"), it.message))
                .collect();
            Ok(Some(words.join("; ")))
        }
        Err(error) => Err(error),
    }
}
