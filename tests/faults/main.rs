//! Processes that are killed and servers that become unreachable: nothing is lost and nothing is done twice.

#[cfg(unix)]
mod journal;
mod killed_collect;
mod killed_judge;
#[path = "../support/sittings.rs"]
mod sittings;
