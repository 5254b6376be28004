//! The role for following a tracking server, so that a copy on this machine stays current.
//!
//! A server such as MLflow has no searchable time of last change. Assize therefore writes a metric
//! with each of its own changes, and [`Following::runs_changed`] finds these. What other programs
//! change is found by reading all runs now and then ([`Following::runs_each`]). A run is compared
//! by its version, a hash of everything that the server says about it, so that an unchanged run
//! costs nothing more.

use assize_domain::judge::Tier;
use assize_domain::promotion::Promotion;

use crate::queue::SittingRecord;
use crate::{Result, Run, Tracking};

/// An experiment of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedExperiment {
    pub id: i64,
    pub name: String,
    pub tags: Vec<(String, String)>,
    /// Unix milliseconds; 0 if the server does not say. It never changes, so another time for the
    /// same id means another server.
    pub created_ms: i64,
    /// Unix milliseconds.
    pub updated_ms: i64,
}

/// The version of a run. The runs that hold sittings and promotion histories have one, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunVersion {
    pub run_id: String,
    pub experiment_id: i64,
    pub version: i64,
}

/// The latest owner of a slot of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLease {
    pub tier: Tier,
    pub slot: u32,
    pub epoch: u32,
    pub sitting: String,
}

/// A run that readers see, with the contents that boards need.
#[derive(Debug, Clone, PartialEq)]
pub struct FollowedRun {
    pub run: Run,
    pub experiment_id: i64,
    /// Paths and contents of the committed verdict files.
    pub verdict_files: Vec<(String, String)>,
    pub leases: Vec<RunLease>,
}

/// A run that could not be read, for example because one of its files is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRun {
    pub run: RunVersion,
    pub reason: String,
}

/// Some runs of a server, as they are now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Followed {
    /// Every run that was looked at.
    pub seen: Vec<String>,
    /// The runs whose version was not known. Each of them is in `runs`, or a sitting, or a
    /// promotion history, or no reader sees it.
    pub changed: Vec<RunVersion>,
    pub runs: Vec<FollowedRun>,
    pub sittings: Vec<SittingRecord>,
    /// The complete histories of tasks.
    pub promotions: Vec<(String, Vec<Promotion>)>,
    /// Runs that are to be read again later. Those that are not in `changed` are left as they were.
    pub skipped: Vec<SkippedRun>,
}

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFile {
    pub run_id: String,
    pub path: String,
    pub content: Vec<u8>,
}

/// The known version of a run.
pub type KnownVersions<'a> = &'a (dyn Fn(&str) -> Option<i64> + Sync);

/// Receives some runs; returns `false` if no more are needed.
pub type FollowedSink<'a> = &'a mut dyn FnMut(Followed) -> Result<bool>;

/// Reads what has changed on a server.
pub trait Following: Tracking {
    /// An error if this server cannot be followed.
    fn follow_check(&self) -> Result<()>;

    /// All active experiments, including those of other programs.
    fn experiments_follow(&self) -> Result<Vec<FollowedExperiment>>;

    /// Which of these experiments hold runs of Assize.
    fn experiments_used(&self, experiments: &[i64]) -> Result<Vec<i64>>;

    /// Visits the runs that Assize changed at this time or later, by the clock of the machine that
    /// changed them. Deleted runs are visited, too.
    fn runs_changed(
        &self,
        experiments: &[i64],
        since_ms: i64,
        known: KnownVersions<'_>,
        visit: FollowedSink<'_>,
    ) -> Result<()>;

    /// Visits all active runs of an experiment, oldest first, page by page.
    fn runs_each(
        &self,
        experiment: i64,
        known: KnownVersions<'_>,
        visit: FollowedSink<'_>,
    ) -> Result<()>;

    /// These runs as they are now. Runs that do not exist are left out of `runs`.
    fn runs_follow(&self, run_ids: &[String]) -> Result<Followed>;

    /// Gives the server's store a copy to find pending runs in, because reading all runs from the
    /// server takes long. Decisions still rest on the server.
    fn copy_set(&self, copy: std::sync::Arc<crate::embedded::EmbeddedStore>);

    /// Clears everything that was cached, because another server answers at this address.
    fn forget(&self);
}
