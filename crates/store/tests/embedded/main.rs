//! The embedded store, driven through its interface on real files.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod cells;
mod common;
mod judging;
