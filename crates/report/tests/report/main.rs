//! What people read, as snapshots and as promises that hold for every board.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod boards;
mod formats;
mod hostile;
mod hostile_answers;
mod lineage;
mod terminal;
