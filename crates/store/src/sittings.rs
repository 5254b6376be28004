//! The role for sittings and the verdicts that they commit.

use std::fmt::Debug;

use assize_domain::rubric::Rubric;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::VerdictFile;

use crate::Result;
use crate::queue::{Closing, SittingRecord};

/// The result of committing a sitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Committed {
    /// Runs that got a new verdict file.
    pub runs_written: u64,
    /// Runs that already had identical verdicts.
    pub runs_unchanged: u64,
}

/// Receives the verdict file of a run; returns `false` if the store needs no more. The store then
/// reports the reason itself.
pub type FileSink<'a> = &'a mut dyn FnMut(&str, VerdictFile) -> bool;

/// Produces verdict files.
pub type FileSource<'a> = &'a mut dyn FnMut(FileSink<'_>) -> Result<()>;

/// The records of sittings, and committing their verdicts.
pub trait Sittings: Send + Sync + Debug {
    /// Stores the record of a sitting, before its cases are given to a judge.
    fn sitting_open(&self, sitting: &Sitting) -> Result<()>;

    /// The record of a sitting.
    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>>;

    /// A sitting with its current state.
    fn sitting_record_get(&self, id: &str) -> Result<Option<SittingRecord>>;

    /// All sittings of an experiment, oldest first.
    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>>;

    /// Closes a sitting, which releases its leases, or changes its state later. The verdicts of a
    /// quarantined sitting are set aside on every run that it judged; closing it again makes them
    /// count again.
    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()>;

    /// Writes verdict files, one per run, all or none, and updates the runs' metrics and tags
    /// (`assize_domain::verdict::summarise`). `give` produces them one by one, so that they are
    /// never all in memory; if it fails, nothing is written. A candidate that this sitting has
    /// judged already with the same scores and rationale is skipped; with different ones, it is an
    /// error. Files are named `verdicts/SITTING.json`, later parts of one sitting
    /// `verdicts/SITTING.2.json` and so on.
    fn sitting_commit_each(&self, rubric: &Rubric, give: FileSource<'_>) -> Result<Committed>;

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
