//! What waits to be judged, and who is at work on what.
//!
//! A lease says which sitting a run's cases are handed out to, per tier. It belongs to its
//! sitting and lives as long as that does: while the sitting is open and has been heard of
//! recently. Renewing is therefore one write, whatever is held. Taking over a lease raises
//! its epoch, so exactly one of two competing judges wins: embedded in one transaction, over
//! MLflow by a write-once param `lease.<tier>.<slot>.<epoch> = sitting` on the run (slot 2 where
//! two judges are to score every case), where a refusal means lost.

use std::collections::BTreeSet;
use std::fmt::Debug;

use assize_domain::candidate::Candidate;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::{RubricRef, Verdict, VerdictFile};

use crate::{Committed, Result};

/// A judge asks for cases.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRequest {
    /// An open sitting; its experiment, tier, rubric, judge and copies say what it may get.
    pub sitting: String,
    /// Only runs that wait on this kind's desk.
    pub judge_kind: Option<String>,
    /// At least so many cases where there are, rounded up to whole scenarios; 0 only counts
    /// what is left.
    pub cases: usize,
    /// Unix milliseconds.
    pub now_ms: i64,
    /// Until when the sitting counts as alive without being heard of again.
    pub until_ms: i64,
}

/// What a judge got.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Leased {
    /// `judged` holds every candidate that is not this judge's to score.
    pub runs: Vec<PendingRun>,
    /// Cases that wait and that no live sitting holds.
    pub left: u64,
}

/// A run that a sitting holds.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldRun {
    /// `judged` holds every candidate that is not this judge's to score (any more).
    pub run: PendingRun,
    /// What this sitting has found already.
    pub own: Vec<Verdict>,
}

/// Verdicts of a sitting that holds leases.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    pub sitting: String,
    /// One a run; the run `anchors` stands for the sitting's own calibration cases.
    pub files: Vec<(String, VerdictFile)>,
    pub rubric: Rubric,
    pub until_ms: i64,
}

/// How a sitting ends, or goes on to be seen after it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    pub state: SittingState,
    /// RFC 3339, UTC.
    pub at: String,
    /// Who sat, where the record does not say; kept where it is `None`.
    pub judge: Option<Judge>,
    /// What the anchors said, as JSON; kept where it is `None`.
    pub drift: Option<String>,
}

/// Runs that are to be judged again.
#[derive(Debug, Clone, PartialEq)]
pub struct Reopening {
    pub run_ids: Vec<String>,
    /// The rubric that they are under from now on; runs that are under it already are left
    /// alone. Without one, the verdicts of these tiers are set aside.
    pub rubric: Option<Rubric>,
    pub tiers: Vec<Tier>,
}

/// A sitting with what has become of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SittingRecord {
    pub sitting: Sitting,
    pub state: SittingState,
    pub closed_at: Option<String>,
    /// Until when its leases are good, in Unix milliseconds; 0 where it took none.
    pub lives_until_ms: i64,
    /// Who sat, as far as it is known.
    pub judge: Option<Judge>,
    /// What the anchors said when it closed, as JSON.
    pub drift: Option<String>,
    /// Verdicts on its anchors, in order; `candidate` is the anchor's place in the record.
    pub anchor_files: Vec<VerdictFile>,
}

/// A rubric that finished runs of an experiment are under.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RubricUse {
    pub rubric: RubricRef,
    /// The newest of these runs; its `rubric.md` is the rubric.
    pub run_id: String,
    pub runs: u64,
    pub expert_pending: u64,
    pub auto_pending: u64,
}

/// Which pending runs a judge asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuery {
    /// The tier that has not spoken yet.
    pub tier: Tier,
    /// Only runs that wait on this kind's desk.
    pub judge_kind: Option<String>,
}

/// A finished run that a tier has not (wholly) judged.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingRun {
    pub run_id: String,
    pub scenario: String,
    pub judge_kind: String,
    pub rubric: RubricRef,
    /// The JSON text of `context.json`.
    pub context: String,
    pub candidates: Vec<Candidate>,
    /// Candidates that this tier has judged already, under the run's rubric.
    pub judged: BTreeSet<u32>,
}

/// How far judging has come.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct JudgingCounts {
    /// Finished runs.
    pub runs: u64,
    pub candidates: u64,
    pub expert_pending: u64,
    pub expert_judged: u64,
    pub auto_pending: u64,
    pub auto_judged: u64,
    /// Cells for which nothing could be generated.
    pub failed: u64,
    /// Runs by whose desk they wait on, expert tier only.
    pub pending_by_kind: Vec<(String, u64)>,
}

/// Runs that wait for a judge.
pub trait Queue: Send + Sync + Debug {
    /// Visits the finished runs that a tier has not wholly judged, in the order of their
    /// creation, without holding them all in memory. An unknown experiment is an error.
    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()>;

    /// How far judging has come. An unknown experiment is an error.
    fn judging_count(&self, experiment: &str) -> Result<JudgingCounts>;

    /// The rubrics that the finished runs of an experiment are under, the one with the newest
    /// run last. An unknown experiment is an error.
    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>>;

    /// Makes runs pending again; answers how many. Verdicts are kept, candidates are not
    /// touched, and leases on these runs end. Where one of the runs does not exist, none is
    /// reopened.
    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64>;
}

/// Runs that are handed out to open sittings, so that no two judges work on the same case.
pub trait Leases: Send + Sync + Debug {
    /// Hands whole scenarios to an open sitting: all of a scenario's pending cases or none,
    /// and none that as many other live sittings hold as are to score it. The sitting counts
    /// as heard of.
    fn lease_take(&self, request: &LeaseRequest) -> Result<Leased>;

    /// What a sitting holds, with what it has found.
    fn lease_list(&self, sitting: &str) -> Result<Vec<HeldRun>>;

    /// Writes verdicts of an open sitting, as [`Sittings::sitting_commit`](crate::Sittings::sitting_commit)
    /// does, with three differences. Where a lease has passed to another sitting, nothing is
    /// written, and the error is [`StoreError::LeaseLost`](crate::StoreError::LeaseLost). Other
    /// scores for a case that the sitting has judged are kept as a later part, which counts
    /// instead. Each run counts by itself: after another error some verdicts may have been
    /// written, and submitting the same again completes them.
    fn sitting_submit(&self, handed: &Handed) -> Result<Committed>;
}
