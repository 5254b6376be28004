//! The worker threads of an automatic judge, and the main thread that submits their verdicts.
//!
//! Workers take cases from a channel and have the model score them. The main thread keeps the
//! channel filled from the queue, groups verdicts by run, and submits complete runs, a few at a
//! time.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assize_domain::sitting::ANCHORS;
use assize_domain::verdict::{Usage, Verdict, VerdictFile};
use assize_store::queue::{Leased, VerdictSubmission};
use assize_store::{PendingRun, StoreError};

use super::budget::BudgetStop;
use super::scorer::{Outcome, PendingCase, Scorer, ScoringResult};
use super::{AutoJudge, AutoProgress, AutoSummary, LEASE_MS, Progress};
use crate::judge::artifact_parse;
use crate::{PipelineError, Result};

/// Complete runs wait at most so long, and at most so many, to be submitted together.
const SUBMIT_EVERY: Duration = Duration::from_millis(250);
const RUNS_PER_SUBMIT: usize = 32;
/// The most reasons that a summary lists.
const REASONS: usize = 5;

/// One sitting's workers.
pub(super) struct Workers<'a> {
    judge: &'a AutoJudge<'a>,
    scorer: &'a Scorer<'a>,
    /// Stops the workers: after an error, or when the budget is exhausted.
    halt: AtomicBool,
}

/// A run of which some candidates are being judged.
#[derive(Default)]
struct OpenRun {
    waiting: usize,
    verdicts: Vec<Verdict>,
    usage: Usage,
    failed: bool,
}

/// What the main thread knows of the sitting so far.
struct JudgingState {
    runs: HashMap<Arc<str>, OpenRun>,
    complete: Vec<(Arc<str>, OpenRun)>,
    in_flight: usize,
    /// Cases that were taken from the queue.
    taken: usize,
    /// Cases that wait there and are to be judged now.
    left: u64,
    progress: AutoProgress,
    summary: AutoSummary,
    /// Why the budget allows no more requests.
    budget_stop: Option<BudgetStop>,
    failures_in_a_row: usize,
    last_submit: Instant,
}

impl<'a> Workers<'a> {
    pub fn new(judge: &'a AutoJudge<'a>, scorer: &'a Scorer<'a>) -> Self {
        Self {
            judge,
            scorer,
            halt: AtomicBool::new(false),
        }
    }

    fn stopped(&self) -> bool {
        self.halt.load(Ordering::Relaxed) || self.judge.stop.load(Ordering::Relaxed)
    }

    /// Judges until nothing is left, or until there is a reason to stop.
    pub fn run(&self, first: Leased, progress: Progress<'_>) -> Result<AutoSummary> {
        let started = Instant::now();
        let (work, tasks) = channel::<PendingCase>();
        let tasks = Mutex::new(tasks);
        let (answer, answers) = channel::<Option<Outcome>>();
        let result = std::thread::scope(|scope| {
            for _ in 0..self.judge.in_flight() {
                let (tasks, answer) = (&tasks, answer.clone());
                scope.spawn(move || self.work(tasks, &answer));
            }
            drop(answer);
            let result = self.coordinate(first, work, &answers, progress);
            self.halt.store(true, Ordering::Relaxed);
            result
        });
        let mut summary = result?;
        summary.seconds = started.elapsed().as_secs_f64();
        Ok(summary)
    }

    fn work(&self, tasks: &Mutex<Receiver<PendingCase>>, answer: &Sender<Option<Outcome>>) {
        loop {
            let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(pending) = next else {
                return;
            };
            // After a stop the remaining cases are left unscored.
            let outcome = (!self.stopped()).then(|| self.scorer.score(&pending));
            if answer.send(outcome).is_err() {
                return;
            }
        }
    }

    fn coordinate(
        &self,
        first: Leased,
        work: Sender<PendingCase>,
        answers: &Receiver<Option<Outcome>>,
        progress: Progress<'_>,
    ) -> Result<AutoSummary> {
        let mut state = JudgingState::new();
        self.enqueue_leased(first, &work, &mut state)?;
        Self::enqueue(self.anchors(), &work, &mut state);
        while state.in_flight > 0 {
            match answers.recv_timeout(SUBMIT_EVERY) {
                Ok(outcome) => {
                    state.in_flight -= 1;
                    if let Some(outcome) = outcome {
                        self.record(outcome, &mut state);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if state.complete.len() >= RUNS_PER_SUBMIT
                || state.last_submit.elapsed() >= SUBMIT_EVERY
            {
                self.submit_complete(&mut state)?;
                state.progress.activity = self.scorer.provider.activity();
                progress(state.progress);
            }
            let enough = self.judge.in_flight() * 2;
            if state.in_flight < enough && state.left > 0 && !self.stopped() {
                let portion = self.judge.portion(state.taken);
                let more = self.judge.lease(self.scorer.sitting, portion)?;
                self.enqueue_leased(more, &work, &mut state)?;
            }
        }
        drop(work);
        state.close_open_runs();
        self.submit_complete(&mut state)?;
        progress(state.progress);
        self.conclude(state)
    }

    fn conclude(&self, state: JudgingState) -> Result<AutoSummary> {
        if state.budget_stop == Some(BudgetStop::CostUnknown) {
            return Err(PipelineError::Invalid(format!(
                "{} does not say what its answers cost, so --max-cost cannot be kept: name the price \
                 with --price-per-mtok IN,OUT. The verdicts so far ({}) are kept",
                self.judge.model.id, state.summary.verdicts
            )));
        }
        let mut summary = state.summary;
        summary.cap_reached = state.budget_stop == Some(BudgetStop::CapReached);
        summary.interrupted = self.judge.stop.load(Ordering::Relaxed);
        Ok(summary)
    }

    /// Queues the leased cases for the workers.
    fn enqueue_leased(
        &self,
        leased: Leased,
        work: &Sender<PendingCase>,
        state: &mut JudgingState,
    ) -> Result<()> {
        let left = if leased.runs.is_empty() {
            0
        } else {
            leased.left
        };
        let mut waiting = Vec::new();
        for run in leased.runs {
            waiting.extend(pending_of(run)?);
        }
        state.taken += waiting.len();
        state.left = left.min(self.judge.remaining(state.taken) as u64);
        Self::enqueue(waiting, work, state);
        Ok(())
    }

    /// The sitting's calibration cases, which look like all others.
    fn anchors(&self) -> Vec<PendingCase> {
        let run_id = Arc::<str>::from(ANCHORS);
        let anchors = (0..).zip(&self.scorer.sitting.anchors.cases);
        let pending = anchors.map(|(index, anchor)| PendingCase {
            run_id: Arc::clone(&run_id),
            index,
            identity: Arc::clone(&run_id),
            text: anchor.candidate.clone(),
            flags: anchor.flags.clone(),
            computed: self.scorer.rubric.lowest_computed(),
            context: Arc::new(anchor.context.clone()),
        });
        pending.collect()
    }

    fn enqueue(waiting: Vec<PendingCase>, work: &Sender<PendingCase>, state: &mut JudgingState) {
        for case in &waiting {
            let run_id = Arc::clone(&case.run_id);
            state.runs.entry(run_id).or_default().waiting += 1;
        }
        let open = state
            .runs
            .values()
            .map(|run| run.waiting as u64)
            .sum::<u64>();
        state.progress.total = state.progress.done + open + state.left;
        for case in waiting {
            if work.send(case).is_ok() {
                state.in_flight += 1;
            }
        }
    }

    fn record(&self, outcome: Outcome, state: &mut JudgingState) {
        state.summary.asked_again += u64::from(outcome.asked_again);
        state.summary.usage.add(&outcome.usage);
        state.progress.cost_usd = state.summary.usage.cost_usd;
        state.progress.completion_tokens = state.summary.usage.completion_tokens;
        let Some(run) = state.runs.get_mut(&outcome.run_id) else {
            return;
        };
        run.usage.add(&outcome.usage);
        run.waiting -= 1;
        let reason = match outcome.result {
            ScoringResult::Verdict(verdict) => {
                state.failures_in_a_row = 0;
                state.progress.done += 1;
                run.verdicts.push(verdict);
                None
            }
            ScoringResult::Unusable(reason) => {
                state.failures_in_a_row = 0;
                state.progress.done += 1;
                Some(reason)
            }
            ScoringResult::Failed(reason) => {
                state.failures_in_a_row += 1;
                state.progress.done += 1;
                let enough = (self.judge.in_flight() * 2).max(10);
                if state.failures_in_a_row >= enough && state.summary.gave_up.is_none() {
                    state.summary.gave_up = Some(reason.clone());
                    self.halt.store(true, Ordering::Relaxed);
                }
                Some(reason)
            }
            ScoringResult::NotAsked(budget_stop) => {
                state.budget_stop = Some(budget_stop);
                self.halt.store(true, Ordering::Relaxed);
                run.failed = true;
                None
            }
        };
        if let Some(reason) = reason {
            run.failed = true;
            let reasons = &mut state.summary.reasons;
            // Each reason once, with the first case that it is about.
            let is_known = reasons.iter().any(|it| it.ends_with(&reason));
            if reasons.len() < REASONS && !is_known {
                reasons.push(format!(
                    "{}: {reason}",
                    named(&outcome.run_id, outcome.index)
                ));
            }
        }
        if run.waiting == 0
            && let Some(run) = state.runs.remove(&outcome.run_id)
        {
            state.complete.push((outcome.run_id, run));
        }
    }

    /// Makes the verdicts of complete runs durable.
    fn submit_complete(&self, state: &mut JudgingState) -> Result<()> {
        state.last_submit = Instant::now();
        let now = (self.judge.now)();
        let mut files = BTreeMap::new();
        for (run_id, mut run) in state.complete.drain(..) {
            // Calibration cases belong to the sitting and are never pending.
            if run_id.as_ref() != ANCHORS {
                let is_whole = !run.failed && run.waiting == 0;
                state.summary.judged += u64::from(is_whole);
                state.summary.left_pending += u64::from(!is_whole);
                state.summary.verdicts += run.verdicts.len() as u64;
            }
            if run.verdicts.is_empty() {
                continue;
            }
            run.verdicts.sort_by_key(|verdict| verdict.candidate);
            let sitting = self.scorer.sitting;
            let file = VerdictFile {
                usage: Some(run.usage),
                ..sitting.verdict_file(&self.judge.judge(), &now.rfc3339, run.verdicts)
            };
            files.insert(run_id.to_string(), file);
        }
        let mut submission = VerdictSubmission {
            sitting: self.scorer.sitting.id.clone(),
            files: files.into_iter().collect(),
            rubric: self.scorer.rubric.clone(),
            until_ms: now.ms.saturating_add(LEASE_MS),
        };
        while !submission.files.is_empty() {
            let gone = match self.judge.store.sitting_submit(&submission) {
                Ok(_) => break,
                // Another sitting holds these now, or the run was deleted.
                Err(StoreError::LeaseLost { run_ids, .. }) => run_ids,
                Err(StoreError::NoRun { id, .. }) => vec![id],
                Err(error) => return Err(error.into()),
            };
            let before = submission.files.len();
            submission
                .files
                .retain(|(run_id, _)| !gone.contains(run_id));
            if submission.files.len() == before {
                break;
            }
        }
        Ok(())
    }
}

impl JudgingState {
    fn new() -> Self {
        Self {
            runs: HashMap::new(),
            complete: Vec::new(),
            in_flight: 0,
            taken: 0,
            left: 0,
            progress: AutoProgress::default(),
            summary: AutoSummary::default(),
            budget_stop: None,
            failures_in_a_row: 0,
            last_submit: Instant::now(),
        }
    }

    /// Runs that were begun keep their verdicts; runs that were not begun are not counted as failed.
    fn close_open_runs(&mut self) {
        let begun = self.runs.drain();
        let begun = begun.filter(|(_, run)| run.failed || !run.verdicts.is_empty());
        self.complete.extend(begun);
    }
}

/// What people call a candidate.
fn named(run_id: &str, candidate: u32) -> String {
    if run_id == ANCHORS {
        return "a calibration case".to_owned();
    }
    let run = run_id.get(..8).unwrap_or(run_id);
    format!("candidate {candidate} of run {run}")
}

/// The candidates of a leased run that wait for this judge.
fn pending_of(run: PendingRun) -> Result<Vec<PendingCase>> {
    let context = artifact_parse("context.json", &run.run_id, &run.context)?;
    let (context, run_id) = (Arc::new(context), Arc::<str>::from(run.run_id.as_str()));
    let open = run.candidates.into_iter().filter_map(|candidate| {
        let is_open = !run.judged.contains(&candidate.index);
        // Runs of other programs may have candidates without seeds.
        let identity = match candidate.seed {
            0 => Arc::clone(&run_id),
            seed => seed.to_string().into(),
        };
        Some(PendingCase {
            run_id: Arc::clone(&run_id),
            index: candidate.index,
            identity,
            text: candidate.text.filter(|_| is_open)?,
            flags: candidate.flags,
            computed: candidate.scores,
            context: Arc::clone(&context),
        })
    });
    Ok(open.collect())
}
