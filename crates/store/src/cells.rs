//! The role for recording cells.

use std::fmt::Debug;

use assize_domain::run::CellRecord;

use crate::Result;

/// A cell that is recorded already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCell {
    /// `None` while the cell is in this machine's journal because the server is unreachable.
    pub run_id: Option<String>,
    /// Nothing was generated; recording the cell again replaces this run's content.
    pub failed: bool,
}

/// The result of recording a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// `None` while the cell is in this machine's journal because the server is unreachable.
    pub run_id: Option<String>,
    /// `false` if the cell was recorded already and nothing was written.
    pub written: bool,
}

/// Records cells: a store, or the journal in front of a remote one.
///
/// Every acknowledged cell survives `kill -9` of this process.
pub trait Cells: Send + Sync + Debug {
    /// Which of these cells are recorded, in the order of the request.
    fn cells_known(&self, experiment: &str, cell_keys: &[String])
    -> Result<Vec<Option<KnownCell>>>;

    /// Records these cells as runs; creates the experiment if it does not exist. A cell that is
    /// recorded already and did not fail is not changed. Each cell is recorded completely or not at
    /// all; after an error some may have been recorded, and recording them again changes nothing.
    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>>;
}
