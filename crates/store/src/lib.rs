//! Tracking stores for runs, verdicts, sittings and promotions.
//!
//! Other crates use a store through roles, a small trait for each kind of caller: [`Cells`]
//! (collect), [`Runs`] (lists and pages), [`Queue`] and [`Leases`] (judging), [`Sittings`]
//! (verdicts), [`Boards`] (compare), [`Promotions`], [`Ledger`] (looks at the confirmation split),
//! [`Copying`] (sync) and [`Following`] (a copy of a server that stays current). [`Judging`] combines the roles that judging needs, and [`Tracking`] all
//! roles but [`Cells`]. A function takes the
//! smallest role that is sufficient. The embedded SQLite store ([`embedded`]) and the one on an
//! MLflow server (`crates/mlflow`) implement each role in a separate module; decisions that they
//! share are in [`rules`]. The local state of this machine, for any tracking URI, is in [`state`];
//! decisions, rewards and models of the online policies are in [`policies`].
//!
//! This is the only crate that contains SQL. It does not depend on providers, grids or statistics.

mod board;
mod cells;
mod copying;
pub mod embedded;
mod error;
pub mod following;
pub mod import;
mod ledger;
pub mod mlflow;
pub mod policies;
mod promotions;
pub mod queue;
mod readers;
pub mod rules;
mod runs;
mod sittings;
mod sqlite;
pub mod state;
mod writer;

pub use board::{BoardRun, Boards};
pub use cells::{Cells, KnownCell, Recorded};
pub use copying::Copying;
pub use error::StoreError;
pub use following::Following;
pub use import::{
    Additions, Change, Imported, ImportedRun, WholeRun, is_bookkeeping, is_core, is_for_judges,
    is_storage_tag,
};
pub use ledger::Ledger;
pub use promotions::Promotions;
pub use queue::{JudgingCounts, Leases, PendingQuery, PendingRun, Queue};
pub use runs::{ExperimentSummary, Run, RunPage, RunQuery, Runs};
pub use sittings::{Committed, FileSink, FileSource, Sittings};

/// The result of a store's method.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The roles that judging needs.
pub trait Judging: Boards + Queue + Leases + Sittings + Ledger {}

impl<S: Boards + Queue + Leases + Sittings + Ledger> Judging for S {}

/// A store with all roles but [`Cells`], for callers that need several.
///
/// Every acknowledged change survives `kill -9` of this process. A change to one run is atomic. A
/// call that changes several runs and fails may have changed some of them, unless its role
/// guarantees more.
///
/// Recording cells is not included: for a remote store the journal does it, so callers that record
/// cells get a separate [`Cells`].
pub trait Tracking: Judging + Promotions + Copying {
    /// The location of the store, as the user would write it.
    fn uri(&self) -> &str;
}
