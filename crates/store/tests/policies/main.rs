//! The policies' storage, driven through its interface on real files.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;
mod counts;
mod files;
mod history;
mod log;
mod models;
mod rewards;
mod shadows;
mod users;
