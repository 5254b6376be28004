//! The embedded store, driven through its interface on real files.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod board;
mod cells;
mod common;
mod files;
mod import;
mod judging;
mod lines;
mod others;
mod promotions;
mod strange;
mod together;
