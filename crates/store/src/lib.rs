//! Where runs, verdicts, sittings and promotions are tracked.
//!
//! Everything above this crate talks to a store by roles, a small trait for each kind of caller:
//! [`Cells`] (collect), [`Runs`] (lists and pages), [`Queue`] and [`Leases`] (judging),
//! [`Sittings`] (verdicts), [`Boards`] (compare), [`Promotions`] and [`Copying`] (sync).
//! [`Judging`] is the roles that judging needs together, [`Tracking`] a store with all roles but
//! [`Cells`]; a function takes the smallest that it can do with. The embedded SQLite store
//! ([`embedded`]) and the one on an MLflow server (`crates/mlflow`) implement each role in a
//! module of its own; what both decide alike is in [`rules`]. What is local to this machine,
//! whatever the tracking URI, is [`state`].
//!
//! This is the only crate that knows SQL. It knows nothing of providers, grids or statistics.

mod board;
mod cells;
mod copying;
pub mod embedded;
mod error;
pub mod import;
pub mod mlflow;
mod promotions;
pub mod queue;
pub mod rules;
mod runs;
mod sittings;
mod sqlite;
pub mod state;

pub use board::{BoardRun, Boards};
pub use cells::{Cells, KnownCell, Recorded};
pub use copying::Copying;
pub use error::StoreError;
pub use import::{
    Additions, Change, Imported, ImportedRun, WholeRun, is_bookkeeping, is_core, is_for_judges,
    is_stand_in,
};
pub use promotions::Promotions;
pub use queue::{JudgingCounts, Leases, PendingQuery, PendingRun, Queue};
pub use runs::{ExperimentSummary, Run, RunPage, RunQuery, Runs};
pub use sittings::{Committed, Give, Sittings, Take};

/// Shorthand for what the store answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// What judging needs of a store.
pub trait Judging: Boards + Queue + Leases + Sittings {}

impl<S: Boards + Queue + Leases + Sittings> Judging for S {}

/// A whole store, for callers that need several roles.
///
/// What any method has answered survives `kill -9` of this process. A change to one run is made
/// whole or not at all. A call that changes several runs and fails may have changed some of
/// them, unless its role promises more.
///
/// Recording cells is not part of it: before a remote store that is the journal's work, so
/// whoever records is given a [`Cells`].
pub trait Tracking: Judging + Promotions + Copying {
    /// Where this is, as the user would name it.
    fn uri(&self) -> &str;
}
