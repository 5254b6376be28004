//! Roles for judging: the queue of pending runs, and leases.
//!
//! A lease assigns a run's cases to a sitting, per tier. It belongs to its sitting and is valid
//! while the sitting is open and has not expired. Renewing is therefore one write, whatever the
//! sitting holds. Taking over a lease increases its epoch, so exactly one of two competing judges
//! succeeds: in the embedded store by a transaction, over MLflow by a write-once param
//! `lease.<tier>.<slot>.<epoch> = sitting` on the run (slot 2 if two judges are to score every
//! case), which the server rejects for the second writer.

use std::collections::BTreeSet;
use std::fmt::Debug;

use assize_domain::candidate::Candidate;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::{RubricRef, Verdict, VerdictFile};

use crate::{Committed, Result};

/// A judge's request for cases.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRequest {
    /// An open sitting; its experiment, tier, rubric, judge and copies determine what it can get.
    pub sitting: String,
    /// Only runs that are assigned to this kind of judge.
    pub judge_kind: Option<String>,
    /// The minimum number of cases, if there are enough, rounded up to whole scenarios; 0 only
    /// counts what is left.
    pub cases: usize,
    /// Unix milliseconds.
    pub now_ms: i64,
    /// The new expiry of the sitting's leases.
    pub until_ms: i64,
}

/// The result of a request for cases.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Leased {
    /// `judged` holds every candidate that this judge must not score.
    pub runs: Vec<PendingRun>,
    /// Pending cases that no live sitting holds.
    pub left: u64,
}

/// A run that a sitting holds a lease on.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldRun {
    /// `judged` holds every candidate that this judge must not score (any more).
    pub run: PendingRun,
    /// The verdicts of this sitting so far.
    pub own: Vec<Verdict>,
}

/// Verdicts that a sitting with leases submits.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictSubmission {
    pub sitting: String,
    /// One file per run; the run id `anchors` stands for the sitting's own calibration cases.
    pub files: Vec<(String, VerdictFile)>,
    pub rubric: Rubric,
    pub until_ms: i64,
}

/// The final state of a sitting, or a later change of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    pub state: SittingState,
    /// RFC 3339, UTC.
    pub at: String,
    /// The judge, if the record does not name one; not changed if `None`.
    pub judge: Option<Judge>,
    /// The results of the anchors, as JSON; not changed if `None`.
    pub drift: Option<String>,
}

/// A request to judge runs again.
#[derive(Debug, Clone, PartialEq)]
pub struct Reopening {
    pub run_ids: Vec<String>,
    /// The new rubric of the runs; runs that already have it are not changed. Without one, the
    /// verdicts of these tiers are set aside.
    pub rubric: Option<Rubric>,
    pub tiers: Vec<Tier>,
}

/// What was computed again about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RecomputedRun {
    pub run_id: String,
    /// The new content of `candidates.json`, with the same texts; `None` where nothing of it changed.
    pub candidates: Option<String>,
    /// Verdicts of rules; `None` where a judge is asked, or where something could not be computed.
    pub verdicts: Option<VerdictFile>,
}

/// A sitting with its current state.
#[derive(Debug, Clone, PartialEq)]
pub struct SittingRecord {
    pub sitting: Sitting,
    pub state: SittingState,
    pub closed_at: Option<String>,
    /// The expiry of its leases in Unix milliseconds; 0 if it has none.
    pub lives_until_ms: i64,
    /// The judge, if known.
    pub judge: Option<Judge>,
    /// The results of the anchors when it closed, as JSON.
    pub drift: Option<String>,
    /// Verdicts on its anchors, in order; `candidate` is the anchor's index in the record.
    pub anchor_files: Vec<VerdictFile>,
}

/// A rubric of finished runs of an experiment.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RubricUse {
    pub rubric: RubricRef,
    /// The newest of these runs; its `rubric.md` is the rubric.
    pub run_id: String,
    pub runs: u64,
    pub expert_pending: u64,
    pub auto_pending: u64,
}

/// A pair of finished runs of an experiment, in one split and under one rubric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackedPair {
    pub split: String,
    pub rubric_sha256: String,
    pub model: String,
    pub model_digest: String,
    pub prompt: String,
    pub prompt_sha256: String,
}

/// A query for pending runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuery {
    /// The tier that has not judged the runs yet.
    pub tier: Tier,
    /// Only runs that are assigned to this kind of judge.
    pub judge_kind: Option<String>,
}

/// A finished run that a tier has not (completely) judged.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingRun {
    pub run_id: String,
    pub scenario: String,
    pub split: String,
    /// Tells the pairs of an experiment apart without naming them.
    pub pair: u64,
    pub judge_kind: String,
    pub rubric: RubricRef,
    /// The JSON text of `context.json`.
    pub context: String,
    pub candidates: Vec<Candidate>,
    /// Candidates that this tier has judged already, under the run's rubric.
    pub judged: BTreeSet<u32>,
}

impl PendingRun {
    /// Whether a computed score is missing, because computing it failed.
    pub fn lacks_computed(&self) -> bool {
        self.candidates.iter().any(|it| !it.not_computed.is_empty())
    }

    /// The cases that are to be scored: candidates with a text and without a verdict of this tier;
    /// none while a computed score is missing, because no verdict could be complete.
    pub fn open_candidates(&self) -> impl Iterator<Item = u32> {
        let all = self.candidates.iter().filter(|_| !self.lacks_computed());
        let open = all.filter(|it| it.text.is_some() && !self.judged.contains(&it.index));
        open.map(|it| it.index)
    }
}

/// The progress of judging.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct JudgingCounts {
    /// Finished runs.
    pub runs: u64,
    pub candidates: u64,
    pub expert_pending: u64,
    pub expert_judged: u64,
    pub auto_pending: u64,
    pub auto_judged: u64,
    /// Cells without any generated candidate.
    pub failed: u64,
    /// Runs by the kind of judge that they are assigned to, expert tier only.
    pub pending_by_kind: Vec<(String, u64)>,
}

/// Pending runs.
pub trait Queue: Send + Sync + Debug {
    /// Visits the finished runs that a tier has not completely judged, in the order of their
    /// creation, without holding them all in memory. An unknown experiment is an error.
    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()>;

    /// The progress of judging. An unknown experiment is an error.
    fn judging_count(&self, experiment: &str) -> Result<JudgingCounts>;

    /// The rubrics of the finished runs of an experiment, the one with the newest run last. An
    /// unknown experiment is an error.
    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>>;

    /// The pairs of the finished runs of an experiment, each once for every split and rubric. An
    /// unknown experiment is an error.
    fn pair_list(&self, experiment: &str) -> Result<Vec<TrackedPair>>;

    /// Makes runs pending again; returns how many. Verdicts are kept, candidates are not changed,
    /// and leases on these runs end. If one of the runs does not exist, none is reopened.
    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64>;

    /// Puts runs under this rubric and stores what was computed about them again; returns how many
    /// changed. Each run is changed completely or not at all; where that is not possible, repeating
    /// the call completes it. Repeating a complete call changes nothing.
    fn runs_recompute(&self, runs: &[RecomputedRun], rubric: &Rubric) -> Result<u64>;
}

/// Leases on runs, so that no two judges work on the same case.
pub trait Leases: Send + Sync + Debug {
    /// Leases whole scenarios to an open sitting: all of a scenario's pending cases or none. A
    /// scenario is skipped if as many other live sittings hold it as are to score it. Renews the
    /// sitting's leases.
    fn lease_take(&self, request: &LeaseRequest) -> Result<Leased>;

    /// The runs that a sitting holds, with its verdicts so far.
    fn lease_list(&self, sitting: &str) -> Result<Vec<HeldRun>>;

    /// Writes verdicts of an open sitting, as
    /// [`Sittings::sitting_commit`](crate::Sittings::sitting_commit) does, with three differences.
    /// If another sitting has taken over a lease, nothing is written, and the error is
    /// [`StoreError::LeaseLost`](crate::StoreError::LeaseLost). Different scores for a case that
    /// the sitting has judged are stored as a later part, which replaces the earlier one. Each run
    /// is committed separately: after another error some verdicts may have been written, and
    /// submitting the same again writes the rest.
    fn sitting_submit(&self, submission: &VerdictSubmission) -> Result<Committed>;
}
