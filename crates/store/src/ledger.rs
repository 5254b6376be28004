//! The role for the ledger of an experiment.

use std::fmt::Debug;

use assize_domain::ledger::Entry;

use crate::Result;

/// Who looked at the confirmation split, and what was tried on it.
pub trait Ledger: Send + Sync + Debug {
    /// The entries of an experiment, in the order of time. An unknown experiment is an error.
    fn ledger_list(&self, experiment: &str) -> Result<Vec<Entry>>;

    /// Adds an entry, whose number is ignored. It is durable when this returns, and no other
    /// writer can displace it. An unknown experiment is an error.
    fn ledger_append(&self, experiment: &str, entry: &Entry) -> Result<()>;
}
