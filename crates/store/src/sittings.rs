//! Sittings and the verdicts that they commit.

use std::fmt::Debug;

use assize_domain::rubric::Rubric;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::VerdictFile;

use crate::Result;
use crate::queue::{Closing, SittingRecord};

/// What committing a sitting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Committed {
    /// Runs that got a new verdict file.
    pub runs_written: u64,
    /// Runs whose verdicts were there already, word for word.
    pub runs_unchanged: u64,
}

/// Takes the verdict file of a run; `false` where the store wants no more, and says why itself.
pub type Take<'a> = &'a mut dyn FnMut(&str, VerdictFile) -> bool;

/// Hands over verdict files.
pub type Give<'a> = &'a mut dyn FnMut(Take<'_>) -> Result<()>;

/// The records of sittings, and committing what a sitting found.
pub trait Sittings: Send + Sync + Debug {
    /// Keeps the record of a sitting, before its cases are handed out.
    fn sitting_open(&self, sitting: &Sitting) -> Result<()>;

    /// The record of a sitting.
    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>>;

    /// A sitting with what has become of it.
    fn sitting_record_get(&self, id: &str) -> Result<Option<SittingRecord>>;

    /// All sittings of an experiment, oldest first.
    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>>;

    /// Closes a sitting, which releases its leases, or changes its state later. The verdicts
    /// of a quarantined sitting are set aside on every run it judged; closing it again
    /// makes them count again.
    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()>;

    /// Writes verdict files, one a run, all or none, and brings the runs' metrics and tags up
    /// to date (`assize_domain::verdict::summarise`). `give` hands them over one by one, so
    /// that nobody holds them all; where it fails, nothing is written. A candidate that this
    /// sitting has judged already with the same scores and rationale is skipped; with others,
    /// it is an error. Files are named `verdicts/SITTING.json`, later parts of one sitting
    /// `verdicts/SITTING.2.json` and so on.
    fn sitting_commit_each(&self, rubric: &Rubric, give: Give<'_>) -> Result<Committed>;

    /// [`Sittings::sitting_commit_each`] for files that are in memory.
    fn sitting_commit(
        &self,
        files: &[(String, VerdictFile)],
        rubric: &Rubric,
    ) -> Result<Committed> {
        self.sitting_commit_each(rubric, &mut |take| {
            let mut files = files.iter();
            while files
                .next()
                .is_some_and(|(run, file)| take(run, file.clone()))
            {}
            Ok(())
        })
    }
}
