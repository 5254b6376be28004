//! The workers of an automatic judge, and the one who hands their verdicts in.
//!
//! Workers take candidates from a channel and ask. The main thread keeps the channel filled
//! from the queue, gathers what comes back by run, and hands complete runs in, a few at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assize_domain::sitting::ANCHORS;
use assize_domain::verdict::{Usage, Verdict, VerdictFile};
use assize_store::queue::{Handed, Leased};
use assize_store::{PendingRun, StoreError};

use super::ask::{Asker, Found, Outcome, Pending};
use super::purse::Shut;
use super::{AutoJudge, AutoProgress, AutoSummary, LEASE_MS, Progress};
use crate::judge::artifact_parse;
use crate::{PipelineError, Result};

/// Complete runs wait at most so long, and at most so many, to be handed in together.
const HAND_IN_EVERY: Duration = Duration::from_millis(250);
const RUNS_AT_ONCE: usize = 32;
/// Reasons that a summary tells.
const REASONS: usize = 5;

/// One sitting's workers.
pub(super) struct Bench<'a> {
    judge: &'a AutoJudge<'a>,
    asker: &'a Asker<'a>,
    /// Candidates in one request.
    batch: usize,
    /// Ends the workers: the user's stop, an error, the cap.
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

/// What the main thread keeps.
struct Desk {
    runs: HashMap<Arc<str>, OpenRun>,
    complete: Vec<(Arc<str>, OpenRun)>,
    in_flight: usize,
    /// Cases that were taken from the queue.
    taken: usize,
    /// Cases that wait there and are to be judged now.
    left: u64,
    progress: AutoProgress,
    summary: AutoSummary,
    shut: Option<Shut>,
    failures_in_a_row: usize,
    last_hand_in: Instant,
}

impl<'a> Bench<'a> {
    pub fn new(judge: &'a AutoJudge<'a>, asker: &'a Asker<'a>, batch: usize) -> Self {
        Self {
            judge,
            asker,
            batch,
            halt: AtomicBool::new(false),
        }
    }

    fn stopped(&self) -> bool {
        self.halt.load(Ordering::Relaxed) || self.judge.stop.load(Ordering::Relaxed)
    }

    /// Judges until nothing is left, or until there is a reason to stop.
    pub fn clear(&self, first: Leased, progress: Progress<'_>) -> Result<AutoSummary> {
        let started = Instant::now();
        let (work, tasks) = channel::<Vec<Pending>>();
        let tasks = Mutex::new(tasks);
        let (answer, answers) = channel::<Vec<Outcome>>();
        let result = std::thread::scope(|scope| {
            for _ in 0..self.judge.jobs.max(1) {
                let (tasks, answer) = (&tasks, answer.clone());
                scope.spawn(move || self.work(tasks, &answer));
            }
            drop(answer);
            let result = self.preside(first, work, &answers, progress);
            self.halt.store(true, Ordering::Relaxed);
            result
        });
        let mut summary = result?;
        summary.seconds = started.elapsed().as_secs_f64();
        Ok(summary)
    }

    fn work(&self, tasks: &Mutex<Receiver<Vec<Pending>>>, answer: &Sender<Vec<Outcome>>) {
        loop {
            let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(pending) = next else {
                return;
            };
            // What is not asked any more is simply not answered.
            let outcomes = if self.stopped() {
                Vec::new()
            } else {
                self.asker.ask(&pending)
            };
            if answer.send(outcomes).is_err() {
                return;
            }
        }
    }

    fn preside(
        &self,
        first: Leased,
        work: Sender<Vec<Pending>>,
        answers: &Receiver<Vec<Outcome>>,
        progress: Progress<'_>,
    ) -> Result<AutoSummary> {
        let mut desk = Desk::new();
        self.hand_out(first, &work, &mut desk)?;
        self.give(self.anchors(), &work, &mut desk);
        while desk.in_flight > 0 {
            match answers.recv_timeout(HAND_IN_EVERY) {
                Ok(outcomes) => {
                    desk.in_flight -= 1;
                    for outcome in outcomes {
                        self.take(outcome, &mut desk);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if desk.complete.len() >= RUNS_AT_ONCE || desk.last_hand_in.elapsed() >= HAND_IN_EVERY {
                self.hand_in(&mut desk)?;
                progress(desk.progress);
            }
            let enough = self.judge.jobs.max(1) as usize * 2;
            if desk.in_flight < enough && desk.left > 0 && !self.stopped() {
                let portion = self.judge.portion(desk.taken);
                let more = self.judge.lease(self.asker.sitting, portion)?;
                self.hand_out(more, &work, &mut desk)?;
            }
        }
        drop(work);
        desk.close_open_runs();
        self.hand_in(&mut desk)?;
        progress(desk.progress);
        self.conclude(desk)
    }

    fn conclude(&self, desk: Desk) -> Result<AutoSummary> {
        if desk.shut == Some(Shut::CostUnknown) {
            return Err(PipelineError::Invalid(format!(
                "{} does not say what its answers cost, so --max-cost cannot be kept: name the price \
                 with --price-per-mtok IN,OUT. The verdicts so far ({}) are kept",
                self.judge.model.id, desk.summary.verdicts
            )));
        }
        let mut summary = desk.summary;
        summary.cap_reached = desk.shut == Some(Shut::CapReached);
        summary.interrupted = self.judge.stop.load(Ordering::Relaxed);
        Ok(summary)
    }

    /// Gives the workers what was leased.
    fn hand_out(&self, leased: Leased, work: &Sender<Vec<Pending>>, desk: &mut Desk) -> Result<()> {
        let left = if leased.runs.is_empty() {
            0
        } else {
            leased.left
        };
        let mut waiting = Vec::new();
        for run in leased.runs {
            waiting.extend(pending_of(run)?);
        }
        desk.taken += waiting.len();
        desk.left = left.min(self.judge.remaining(desk.taken) as u64);
        self.give(waiting, work, desk);
        Ok(())
    }

    /// The sitting's calibration cases, which look like all others.
    fn anchors(&self) -> Vec<Pending> {
        let run_id = Arc::<str>::from(ANCHORS);
        let anchors = (0..).zip(&self.asker.sitting.anchors.cases);
        let pending = anchors.map(|(index, anchor)| Pending {
            run_id: Arc::clone(&run_id),
            index,
            text: anchor.candidate.clone(),
            flags: anchor.flags.clone(),
            context: Arc::new(anchor.context.clone()),
        });
        pending.collect()
    }

    fn give(&self, waiting: Vec<Pending>, work: &Sender<Vec<Pending>>, desk: &mut Desk) {
        for case in &waiting {
            let run_id = Arc::clone(&case.run_id);
            desk.runs.entry(run_id).or_default().waiting += 1;
        }
        let open = desk
            .runs
            .values()
            .map(|run| run.waiting as u64)
            .sum::<u64>();
        desk.progress.total = desk.progress.done + open + desk.left;
        let mut waiting = waiting.into_iter().peekable();
        while waiting.peek().is_some() {
            let batch: Vec<Pending> = waiting.by_ref().take(self.batch).collect();
            if work.send(batch).is_ok() {
                desk.in_flight += 1;
            }
        }
    }

    fn take(&self, outcome: Outcome, desk: &mut Desk) {
        desk.summary.asked_again += u64::from(outcome.asked_again);
        desk.summary.usage.add(&outcome.usage);
        desk.progress.cost_usd = desk.summary.usage.cost_usd;
        let Some(run) = desk.runs.get_mut(&outcome.run_id) else {
            return;
        };
        run.usage.add(&outcome.usage);
        run.waiting -= 1;
        let reason = match outcome.found {
            Found::Verdict(verdict) => {
                desk.failures_in_a_row = 0;
                desk.progress.done += 1;
                run.verdicts.push(verdict);
                None
            }
            Found::Unusable(reason) => {
                desk.failures_in_a_row = 0;
                desk.progress.done += 1;
                Some(reason)
            }
            Found::Failed(reason) => {
                desk.failures_in_a_row += 1;
                desk.progress.done += 1;
                let enough = (self.judge.jobs.max(1) as usize * 2).max(10);
                if desk.failures_in_a_row >= enough && desk.summary.gave_up.is_none() {
                    desk.summary.gave_up = Some(reason.clone());
                    self.halt.store(true, Ordering::Relaxed);
                }
                Some(reason)
            }
            Found::Unasked(shut) => {
                desk.shut = Some(shut);
                self.halt.store(true, Ordering::Relaxed);
                run.failed = true;
                None
            }
        };
        if let Some(reason) = reason {
            run.failed = true;
            let reasons = &mut desk.summary.reasons;
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
            && let Some(run) = desk.runs.remove(&outcome.run_id)
        {
            desk.complete.push((outcome.run_id, run));
        }
    }

    /// Makes the verdicts of complete runs durable.
    fn hand_in(&self, desk: &mut Desk) -> Result<()> {
        desk.last_hand_in = Instant::now();
        let now = (self.judge.now)();
        let mut files = BTreeMap::new();
        for (run_id, mut run) in desk.complete.drain(..) {
            // Anchors belong to the sitting, and nothing of them waits.
            if run_id.as_ref() != ANCHORS {
                let is_whole = !run.failed && run.waiting == 0;
                desk.summary.judged += u64::from(is_whole);
                desk.summary.left_pending += u64::from(!is_whole);
                desk.summary.verdicts += run.verdicts.len() as u64;
            }
            if run.verdicts.is_empty() {
                continue;
            }
            run.verdicts.sort_by_key(|verdict| verdict.candidate);
            let file = VerdictFile {
                sitting: self.asker.sitting.id.clone(),
                tier: self.asker.sitting.tier,
                judge: self.judge.judge(),
                rubric: self.asker.sitting.rubric.clone(),
                judged_at: now.rfc3339.clone(),
                verdicts: run.verdicts,
                usage: Some(run.usage),
                amends: None,
            };
            files.insert(run_id.to_string(), file);
        }
        let mut handed = Handed {
            sitting: self.asker.sitting.id.clone(),
            files: files.into_iter().collect(),
            rubric: self.asker.rubric.clone(),
            until_ms: now.ms.saturating_add(LEASE_MS),
        };
        while !handed.files.is_empty() {
            let gone = match self.judge.store.sitting_submit(&handed) {
                Ok(_) => break,
                // Somebody else judges these now, or nobody can any more.
                Err(StoreError::LeaseLost { run_ids, .. }) => run_ids,
                Err(StoreError::NoRun { id, .. }) => vec![id],
                Err(error) => return Err(error.into()),
            };
            let before = handed.files.len();
            handed.files.retain(|(run_id, _)| !gone.contains(run_id));
            if handed.files.len() == before {
                break;
            }
        }
        Ok(())
    }
}

impl Desk {
    fn new() -> Self {
        Self {
            runs: HashMap::new(),
            complete: Vec::new(),
            in_flight: 0,
            taken: 0,
            left: 0,
            progress: AutoProgress::default(),
            summary: AutoSummary::default(),
            shut: None,
            failures_in_a_row: 0,
            last_hand_in: Instant::now(),
        }
    }

    /// Runs that were begun keep what was found; runs that were not are nobody's failure.
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
fn pending_of(run: PendingRun) -> Result<Vec<Pending>> {
    let context = artifact_parse("context.json", &run.run_id, &run.context)?;
    let (context, run_id) = (Arc::new(context), Arc::<str>::from(run.run_id.as_str()));
    let open = run.candidates.into_iter().filter_map(|candidate| {
        let is_open = !run.judged.contains(&candidate.index);
        Some(Pending {
            run_id: Arc::clone(&run_id),
            index: candidate.index,
            text: candidate.text.filter(|_| is_open)?,
            flags: candidate.flags,
            context: Arc::clone(&context),
        })
    });
    Ok(open.collect())
}
