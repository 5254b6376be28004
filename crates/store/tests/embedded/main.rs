//! The embedded store, driven through its interface on real files.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod board;
mod board_rows;
mod cells;
mod common;
mod concurrency;
mod files;
mod foreign_runs;
mod import;
mod judging;
mod ledger;
mod promotions;
mod stored_runs;
mod unusual_values;
