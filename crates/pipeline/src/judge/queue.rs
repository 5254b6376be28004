//! The queue: a sitting takes blind cases, hands in verdicts, and ends.
//!
//! The MCP server, the terminal's desk and the web page are thin layers over this. A sitting leases
//! whole scenarios, so that one judge scores all pairs of a scenario in succession; two judges at once never hold the same case unless double
//! scoring is wanted. What was handed in is durable when [`Queue::submit`] returns, so a
//! killed judge loses the case on the screen at most. A judge who sends nothing for long loses the
//! lease, not what was accepted.
//!
//! Calibration cases are mixed in and look like all others. The queue deliberately shows no
//! model, no prompt and no board; [`Queue::finish`] returns what may be known then.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_domain::anchor::Anchors;
use assize_domain::case::{Case, FileProblem};
use assize_domain::hash::hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{ANCHORS, Sitting, SittingState};
use assize_domain::submission::{self, HeldCase, Submission};
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_stats::rng::SplitMix64;
use assize_store::queue::{LeaseRequest, VerdictSubmission};
use assize_store::{StoreError, Tracking};

use self::cases::Held;
use super::drift::{self, Drift};
use super::export::sitting_id;
use super::{Entropy, check_asked, draw, rubric_of, shuffle};
use crate::{Now, PipelineError, Result};

mod cases;

/// The default time that a sitting without requests keeps its leases.
pub const LEASE_MS: i64 = 30 * 60 * 1000;

/// The judge and the experiment.
#[derive(Debug, Clone)]
pub struct SitOptions {
    pub experiment: String,
    pub judge: Judge,
    /// Only runs that are pending for this kind of judge.
    pub desk: Option<String>,
    /// Determines the order of cases; a random one where none is given.
    pub seed: Option<u64>,
    /// Every case is to be scored by two judges.
    pub double: bool,
    /// The task's calibration cases, which are left out where the rubric is not theirs.
    pub anchors: Anchors,
    pub lease_ms: i64,
    pub entropy: Entropy,
}

/// Progress of a sitting, in cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Progress {
    /// Scored in this sitting.
    pub done: usize,
    /// Held and not scored.
    pub held: usize,
    /// Still to come: what is pending and not leased, and the anchors that will be mixed in.
    pub left: u64,
}

/// The result of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Accepted {
    /// Cases scored for the first time.
    pub scored: usize,
    /// Cases that were scored otherwise before; the earlier verdict stays in the history.
    pub revised: usize,
    /// Cases that were there already, word for word.
    pub unchanged: usize,
}

/// What may be known when a sitting is over.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Finished {
    pub sitting: String,
    pub experiment: String,
    pub judge: Judge,
    pub tier: Tier,
    /// Closed, or quarantined with the drift as the reason.
    pub state: SittingState,
    /// What the anchors say, where enough of them were scored.
    pub drift: Option<Drift>,
    /// Cases scored.
    pub done: usize,
    /// Cases that were held unscored and wait again.
    pub released: usize,
}

impl Finished {
    /// Whether the judge has drifted, so that this sitting's verdicts do not count.
    pub fn is_quarantined(&self) -> bool {
        self.state == SittingState::Quarantined
    }
}

/// An open sitting at the queue.
#[derive(Debug)]
pub struct Queue {
    store: Arc<dyn Tracking>,
    sitting: Sitting,
    judge: Judge,
    rubric: Rubric,
    desk: Option<String>,
    lease_ms: i64,
    /// In the order in which cases are handed out.
    held: Vec<Held>,
    /// Anchors that have not been handed out, last first.
    anchors_left: Vec<usize>,
    batches: u64,
    left: u64,
}

impl Queue {
    /// Opens a sitting; `None` where nothing waits for this tier. Nothing is held yet.
    pub fn open(store: Arc<dyn Tracking>, options: SitOptions, now: &Now) -> Result<Option<Self>> {
        let tier = options.judge.tier();
        let uses = store.rubric_list(&options.experiment)?;
        // One rubric a sitting: the newest that anything waits under.
        let waits = |waiting: u64| waiting > 0 || options.double;
        let newest = uses.into_iter().rev().find(|it| match tier {
            Tier::Expert => waits(it.expert_pending),
            Tier::Auto => waits(it.auto_pending),
        });
        let Some(newest) = newest else {
            return Ok(None);
        };
        let rubric = rubric_of(store.as_ref(), &newest.run_id, &newest.rubric)?;
        check_asked(&rubric)?;
        let seed = match options.seed {
            Some(seed) => seed,
            None => u64::from_le_bytes(draw(options.entropy)?[..8].try_into().unwrap_or_default()),
        };
        let sitting = Sitting {
            id: sitting_id(&now.rfc3339, options.entropy)?,
            experiment: options.experiment,
            tier,
            anchors: options.anchors.only_under(&newest.rubric.sha256),
            rubric: newest.rubric,
            opened_at: now.rfc3339.clone(),
            seed,
            salt: hex(&draw(options.entropy)?),
            runs: Vec::new(),
            judge: Some(options.judge.clone()),
            copies: if options.double { 2 } else { 1 },
            inclusion: Vec::new(),
        };
        store.sitting_open(&sitting)?;
        let mut queue = Self::over(store, sitting, options.judge, rubric, options.lease_ms)?;
        queue.desk = options.desk;
        queue.ask(0, now)?;
        Ok(Some(queue))
    }

    /// Resumes an open sitting, with its leases. Further cases are those pending for `desk`.
    pub fn resume(
        store: Arc<dyn Tracking>,
        id: &str,
        desk: Option<String>,
        lease_ms: i64,
        now: &Now,
    ) -> Result<Self> {
        let unusable = |problem: String| PipelineError::SittingState {
            id: id.to_owned(),
            problem,
        };
        let Some(record) = store.sitting_record_get(id)? else {
            return Err(PipelineError::NoSitting { id: id.to_owned() });
        };
        let sitting = record.sitting;
        if record.state != SittingState::Open {
            return Err(unusable(format!("is {}: open a new one", record.state)));
        }
        let Some(judge) = record.judge else {
            let problem = "was exported as a file: hand it in with assize judge apply";
            return Err(unusable(problem.to_owned()));
        };
        let held = store.lease_list(id)?;
        let newest = store.rubric_list(&sitting.experiment)?;
        let newest = newest.into_iter().find(|it| it.rubric == sitting.rubric);
        let Some(newest) = newest else {
            let problem = "has a rubric that no run is under any more: open a new one";
            return Err(unusable(problem.to_owned()));
        };
        let rubric = rubric_of(store.as_ref(), &newest.run_id, &sitting.rubric)?;
        let mut queue = Self::over(store, sitting, judge, rubric, lease_ms)?;
        queue.desk = desk;
        let mut fresh = Vec::new();
        for run in held {
            let own: Vec<u32> = run.own.iter().map(|it| it.candidate).collect();
            fresh.extend(queue.cases_of(&run.run, run.run.open_candidates())?);
            let mut done = queue.cases_of(&run.run, own.into_iter())?;
            for held in &mut done {
                let verdict = run.own.iter().find(|it| it.candidate == held.candidate);
                held.verdict = verdict.cloned();
            }
            queue.held.extend(done);
        }
        queue.recall_anchors(&record.anchor_files);
        // How many anchors are due depends on what is left.
        queue.ask(0, now)?;
        let before = queue.held.len() + fresh.len();
        queue.take_in(fresh, before);
        Ok(queue)
    }

    fn over(
        store: Arc<dyn Tracking>,
        sitting: Sitting,
        judge: Judge,
        rubric: Rubric,
        lease_ms: i64,
    ) -> Result<Self> {
        let mut anchors_left: Vec<usize> = (0..sitting.anchors.cases.len()).collect();
        shuffle(&mut anchors_left, &mut SplitMix64::new(sitting.seed ^ 0xa5));
        // Short sittings of one judge go round all anchors: the last of the list comes first.
        let seen = cases::anchors_seen(store.as_ref(), &sitting, &judge)?;
        anchors_left.sort_by_key(|place| {
            let times = seen.get(&sitting.anchors.cases[*place].id).copied();
            std::cmp::Reverse(times.unwrap_or(0))
        });
        Ok(Self {
            store,
            judge,
            rubric,
            desk: None,
            lease_ms,
            held: Vec::new(),
            anchors_left,
            batches: 0,
            left: 0,
            sitting,
        })
    }

    pub fn id(&self) -> &str {
        &self.sitting.id
    }

    pub fn experiment(&self) -> &str {
        &self.sitting.experiment
    }

    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// The rubric of every case of this sitting.
    pub fn rubric(&self) -> &Rubric {
        &self.rubric
    }

    /// The next cases, at most so many (at least one): first those that are held already, then
    /// whole scenarios from the queue. Asking again without handing in gives the same
    /// cases; none means that nothing is left for this judge.
    pub fn next(&mut self, limit: usize, now: &Now) -> Result<Vec<Case>> {
        let limit = limit.max(1);
        let unscored = self.unscored().count();
        match self.ask(limit.saturating_sub(unscored), now) {
            // Cases that are leased already can be scored while the server is unreachable.
            Err(PipelineError::Store(StoreError::Unreachable { .. })) if unscored > 0 => {}
            asked => asked?,
        }
        Ok(self.unscored().take(limit).cloned().collect())
    }

    /// Submits verdicts: all of them or none, durable on return. A case that this sitting
    /// has scored already is revised; its earlier verdict stays in the history.
    pub fn submit(&mut self, submissions: &[Submission], now: &Now) -> Result<Accepted> {
        let held = &self.held;
        let find = |id: &str| held.iter().find(|it| it.case.case == id);
        let checked = submission::check(submissions, &self.rubric, |id| {
            find(id).map(|it| HeldCase {
                run_id: &it.run_id,
                candidate: it.candidate,
                flags: &it.flags,
                computed: &it.computed,
            })
        });
        let verdicts = checked.map_err(refused)?;
        let mut accepted = Accepted::default();
        let mut by_run: BTreeMap<&str, Vec<Verdict>> = BTreeMap::new();
        for ((run_id, verdict), submission) in verdicts.into_iter().zip(submissions) {
            match find(&submission.case).and_then(|it| it.verdict.as_ref()) {
                None => accepted.scored += 1,
                Some(same) if *same == verdict => accepted.unchanged += 1,
                Some(_) => accepted.revised += 1,
            }
            by_run.entry(run_id).or_default().push(verdict);
        }
        let file = |verdicts| {
            self.sitting
                .verdict_file(&self.judge, &now.rfc3339, verdicts)
        };
        let files: Vec<(String, VerdictFile)> = by_run
            .into_iter()
            .map(|(run_id, verdicts)| (run_id.to_owned(), file(verdicts)))
            .collect();
        let submission = VerdictSubmission {
            sitting: self.sitting.id.clone(),
            files,
            rubric: self.rubric.clone(),
            until_ms: now.ms.saturating_add(self.lease_ms),
        };
        if let Err(error) = self.store.sitting_submit(&submission) {
            return Err(self.explain(error, submissions));
        }
        self.remember(&submission.files);
        Ok(accepted)
    }

    /// Whether a case is in the hands of this sitting.
    pub fn holds(&self, case: &str) -> bool {
        self.held.iter().any(|it| it.case.case == case)
    }

    /// Whether a case is one of the calibration cases. Never for the judge's eyes.
    pub fn is_anchor(&self, case: &str) -> bool {
        let mut held = self.held.iter();
        held.any(|it| it.run_id == ANCHORS && it.case.case == case)
    }

    /// Cases of runs that are held and not scored.
    pub fn pending_cases(&self) -> usize {
        let held = self.held.iter();
        held.filter(|it| it.verdict.is_none() && it.run_id != ANCHORS)
            .count()
    }

    /// What this sitting has said about a case.
    pub fn verdict(&self, case: &str) -> Option<&Verdict> {
        let held = self.held.iter().find(|it| it.case.case == case)?;
        held.verdict.as_ref()
    }

    /// The cases that this sitting has scored, in the order in which they were handed out.
    pub fn scored(&self) -> impl Iterator<Item = &Case> {
        let scored = self.held.iter().filter(|it| it.verdict.is_some());
        scored.map(|it| &it.case)
    }

    /// How far this sitting has come.
    pub fn progress(&self) -> Progress {
        let held = self.unscored().count();
        // All anchors come before the queue is empty, and none after that.
        let anchors = if self.left > 0 {
            self.anchors_left.len() as u64
        } else {
            0
        };
        Progress {
            done: self.held.len() - held,
            held,
            left: self.left + anchors,
        }
    }

    /// Cases of runs that are pending and not leased.
    pub fn waiting_cases(&self) -> u64 {
        self.left
    }

    /// Renews the leases, because the judge is still there.
    pub fn renew(&mut self, now: &Now) -> Result<()> {
        self.ask(0, now)
    }

    /// Ends the sitting: cases that it leased and did not score are pending again.
    pub fn finish(self, now: &Now) -> Result<Finished> {
        let progress = self.progress();
        let store = self.store.as_ref();
        let (sitting, judge, at) = (&self.sitting, &self.judge, &now.rfc3339);
        let ended = drift::close(store, sitting, judge, &self.rubric, at, true)?;
        Ok(Finished {
            sitting: self.sitting.id,
            experiment: self.sitting.experiment,
            tier: self.sitting.tier,
            judge: self.judge,
            state: ended.state,
            drift: ended.drift,
            done: progress.done,
            released: progress.held,
        })
    }

    fn unscored(&self) -> impl Iterator<Item = &Case> {
        let unscored = self.held.iter().filter(|it| it.verdict.is_none());
        unscored.map(|it| &it.case)
    }

    /// Leases scenarios with at least so many cases.
    fn ask(&mut self, cases: usize, now: &Now) -> Result<()> {
        let leased = self.store.lease_take(&LeaseRequest {
            sitting: self.sitting.id.clone(),
            judge_kind: self.desk.clone(),
            cases,
            now_ms: now.ms,
            until_ms: now.ms.saturating_add(self.lease_ms),
        })?;
        let mut fresh = Vec::new();
        for run in &leased.runs {
            fresh.extend(self.cases_of(run, run.open_candidates())?);
        }
        // What was known about these runs before, under a lease that ran out, is over.
        self.held
            .retain(|old| !fresh.iter().any(|it| it.case.case == old.case.case));
        self.left = leased.left;
        let shown = self.held.len() + fresh.len();
        self.take_in(fresh, shown);
        Ok(())
    }

    fn remember(&mut self, files: &[(String, VerdictFile)]) {
        for (run_id, file) in files {
            for verdict in &file.verdicts {
                let held = self
                    .held
                    .iter_mut()
                    .find(|it| it.run_id == *run_id && it.candidate == verdict.candidate);
                if let Some(held) = held {
                    held.verdict = Some(verdict.clone());
                }
            }
        }
    }

    /// A lost lease in the terms of the cases that were handed in. Their cases leave this
    /// sitting; what was accepted before stays.
    fn explain(&mut self, error: StoreError, submissions: &[Submission]) -> PipelineError {
        let (lost, why) = match error {
            StoreError::LeaseLost { run_ids, .. } => (
                run_ids,
                "the lease ran out and another judge has the case now",
            ),
            StoreError::NoRun { id, .. } => (vec![id], "its run was deleted"),
            other => return other.into(),
        };
        let mut problems = Vec::new();
        for (position, submission) in submissions.iter().enumerate() {
            let held = self.held.iter().find(|it| it.case.case == submission.case);
            if held.is_some_and(|it| lost.contains(&it.run_id)) {
                problems.push(FileProblem {
                    pointer: format!("/{position}/case"),
                    message: format!(
                        "'{}' is stale: {why}. Leave it out, and take the next cases",
                        submission.case
                    ),
                });
            }
        }
        self.held.retain(|it| !lost.contains(&it.run_id));
        refused(problems)
    }
}

fn refused(problems: Vec<FileProblem>) -> PipelineError {
    PipelineError::JudgeFile {
        file: "what was handed in".to_owned(),
        problems,
    }
}
