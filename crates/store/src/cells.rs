//! Recording cells: what a collection needs of a store.

use std::fmt::Debug;

use assize_domain::run::CellRecord;

use crate::Result;

/// A cell that is recorded already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCell {
    /// `None` while the cell waits in this machine's journal for an unreachable server.
    pub run_id: Option<String>,
    /// Nothing was generated; recording the cell again replaces this run's content.
    pub failed: bool,
}

/// What recording a cell did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// `None` while the cell waits in this machine's journal for an unreachable server.
    pub run_id: Option<String>,
    /// `false` where the cell was there already and nothing was written.
    pub written: bool,
}

/// Where cells are recorded: a store, or the journal before a remote one.
///
/// Every cell that was answered survives `kill -9` of this process.
pub trait Cells: Send + Sync + Debug {
    /// Which of these cells are recorded, in the order asked.
    fn cells_known(&self, experiment: &str, cell_keys: &[String])
    -> Result<Vec<Option<KnownCell>>>;

    /// Records these cells as runs; makes the experiment where there is none. A cell that is
    /// there already and did not fail is left alone. Each cell is recorded whole or not at
    /// all; after an error some may have been, and recording them again changes nothing.
    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>>;
}
