//! The judge file: blind cases out, scores back.
//!
//! One module for the whole life of the file: [`write`] lays out what `judge export` chose,
//! [`publish`] puts it under its name once the sitting is on record, somebody fills in the scores,
//! [`read`] streams it back, and [`check`] compares every case with what was handed out and reports
//! every problem with its JSON pointer, so that all of them can be corrected at once. [`answer`]
//! finds the file in what an agent printed.
//!
//! A file may hold a hundred thousand cases, so it is written and read a case at a time.

pub(super) mod answer;
pub mod check;
mod publish;
mod read;
mod write;

pub use publish::{export_to_file, export_to_stream};
pub use read::Source;
pub(super) use read::{Depth, head_read, head_seen};
pub use write::{batch, head};

/// The format's name and version.
pub const FORMAT: &str = "judge/1";
