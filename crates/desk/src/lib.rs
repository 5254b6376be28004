//! The judging desk in the terminal: the door for people.
//!
//! [`app`] is a pure machine of keys and cases, [`view`] draws it, and [`run()`] connects both
//! with a terminal and with whoever hands out cases ([`Source`]). Nothing here knows models,
//! prompts, stores or leases: the desk shows what a blind case holds and nothing else.
//!
//! A finished case is handed in at once, so quitting at any key, or being killed, loses the
//! case on the screen at most.

use assize_domain::judge_file::Case;
use serde_json::{Map, Value};

pub mod app;
mod run;
pub mod view;

pub use run::{Ended, run};

/// What the desk hands in for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub case: String,
    pub scores: Map<String, Value>,
    pub rationale: Option<String>,
}

/// How far the sitting is, in cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub done: u64,
    /// Held or waiting.
    pub left: u64,
}

/// Why a verdict was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub message: String,
    /// The case is not this judge's any more.
    pub gone: bool,
}

/// Who hands out cases and takes verdicts.
pub trait Source {
    /// The cases that are held and not scored, more of them where there are; asking again
    /// gives the same ones.
    fn next(&mut self) -> Result<Vec<Case>, String>;

    /// Keeps a verdict for good before it returns.
    fn submit(&mut self, verdict: Verdict) -> Result<(), Refused>;

    fn progress(&self) -> Progress;

    /// Says that somebody still sits here.
    fn renew(&mut self) -> Result<(), String>;
}
