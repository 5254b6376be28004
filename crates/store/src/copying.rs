//! The role for copying an experiment from store to store.

use std::fmt::Debug;

use crate::queue::SittingRecord;
use crate::{Additions, Imported, ImportedRun, Result, WholeRun};

/// Reads complete runs and adds to them, for `assize sync`.
pub trait Copying: Send + Sync + Debug {
    /// Copies runs of another store, each completely or not at all; returns the results in order.
    /// Copying the same runs again changes nothing. A run is identified by its cell key, else by
    /// its origin (its own id here, or its tag [`assize_domain::run::tag::COPIED_FROM`]). A run
    /// that does not exist here, or that failed here but not there, is written as it is there. A
    /// run that exists here with the same candidates gets the missing verdict files, and sittings
    /// that either side sets aside are set aside; its metrics and tags are then derived again.
    /// Other missing data is added by [`Copying::run_add`].
    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>>;

    /// One run with all its data except the contents of its files.
    fn run_get_whole(&self, run_id: &str) -> Result<WholeRun>;

    /// Adds missing data to a run; idempotent.
    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()>;

    /// Stores an artifact of a run that has none with this name.
    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()>;

    /// The tags of an experiment; empty if it does not exist.
    fn experiment_tags_get(&self, experiment: &str) -> Result<Vec<(String, String)>>;

    /// Sets tags of an experiment; creates it if it does not exist.
    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()>;

    /// The number of logged models of an experiment.
    fn logged_model_count(&self, experiment: &str) -> Result<u64>;

    /// Stores the record of a sitting of another store, with its state there, under the run ids of
    /// this store. A sitting that is open there continues there, so it is closed here. An existing
    /// sitting gets the missing verdicts on anchors, and is quarantined if it is quarantined there;
    /// nothing else changes. Returns whether anything changed.
    fn sitting_import(&self, record: &SittingRecord) -> Result<bool>;

    /// Deletes duplicate runs: of several runs of a cell, all but the one that counts. Returns how
    /// many; 0 in a store that keeps cells unique.
    fn runs_tidy(&self, experiment: &str) -> Result<u64>;
}
