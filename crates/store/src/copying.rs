//! What copying an experiment from store to store needs beyond reading it.

use std::fmt::Debug;

use crate::queue::SittingRecord;
use crate::{Additions, Imported, ImportedRun, Result, WholeRun};

/// Reading runs whole and adding to them, for `assize sync`.
pub trait Copying: Send + Sync + Debug {
    /// Copies runs of another store, each whole or not at all; answers in the order given. Copying the same again changes
    /// nothing. A run is known by its cell key, else by its origin (its own id here, or its tag
    /// [`assize_domain::run::tag::COPIED_FROM`]). One that is not here, or has failed here and
    /// not there, is written as it is there. One that is here with the same candidates gets the
    /// verdict files that it lacks, and what either side sets aside is set aside; its metrics
    /// and tags are then derived anew. What else it lacks is added by [`Copying::run_add`].
    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>>;

    /// One run with all that belongs to it but the contents of its files.
    fn run_get_whole(&self, run_id: &str) -> Result<WholeRun>;

    /// Adds to a run what it lacks. Adding the same again changes nothing.
    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()>;

    /// Keeps content as an artifact of a run that has none of this name.
    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()>;

    /// The tags of an experiment; none where there is no such experiment.
    fn experiment_tags_get(&self, experiment: &str) -> Result<Vec<(String, String)>>;

    /// Gives an experiment tags, and makes it where there is none.
    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()>;

    /// How many logged models an experiment has.
    fn logged_model_count(&self, experiment: &str) -> Result<u64>;

    /// Keeps the record of a sitting of another store, with what became of it there, under the
    /// run ids of this one. A sitting that is open there goes on there, so here it is closed.
    /// One that is here already gets the verdicts on anchors that it lacks, and is quarantined
    /// where it is so there; nothing else of it changes. Answers whether anything changed.
    fn sitting_import(&self, record: &SittingRecord) -> Result<bool>;

    /// Removes runs that no reader sees: of several runs of a cell, all but the one that counts.
    /// Answers how many; 0 in a store that keeps cells unique.
    fn runs_tidy(&self, experiment: &str) -> Result<u64>;
}
