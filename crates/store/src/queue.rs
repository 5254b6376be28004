//! What the queue's verbs take and answer.
//!
//! A lease says which sitting a run's cases are handed out to, per tier. It belongs to its
//! sitting and lives as long as that does: while the sitting is open and has been heard of
//! recently. Renewing is therefore one write, whatever is held. Taking over a lease raises
//! its epoch, so exactly one of two competing judges wins: embedded in one transaction, over
//! MLflow by a write-once param `lease.<tier>.<slot>.<epoch> = sitting` on the run (slot 2 where
//! two judges are to score every case), where a refusal means lost.

use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::{RubricRef, Verdict, VerdictFile};

use crate::PendingRun;

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
