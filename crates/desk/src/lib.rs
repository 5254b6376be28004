//! The judging desk in the terminal.
//!
//! [`app`] is a pure state machine driven by keys, [`view`] draws it, and [`run()`] connects both
//! to a terminal and to the queue of cases ([`Source`]). This crate knows nothing about models,
//! prompts, stores or leases: the desk shows the content of a blind case and nothing else.
//!
//! A finished case is submitted at once, so quitting at any key, or a crash, loses at most the
//! case on the screen.

use assize_domain::case::Case;
use serde_json::{Map, Value};

pub mod app;
mod run;
pub mod view;

pub use run::{Ended, run};

/// The judge's verdict for one case, as the desk submits it.
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

/// Why a verdict was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub message: String,
    /// This judge no longer holds the case.
    pub gone: bool,
}

/// The queue of cases, as the desk uses it.
pub trait Source {
    /// The cases that are held and not yet scored, after leasing more than the `skipped` ones if
    /// possible. Idempotent: asking again returns the same cases.
    fn next(&mut self, skipped: usize) -> Result<Vec<Case>, String>;

    /// Stores a verdict durably before it returns.
    fn submit(&mut self, verdict: Verdict) -> Result<(), Refused>;

    fn progress(&self) -> Progress;

    /// Renews the sitting's leases.
    fn renew(&mut self) -> Result<(), String>;
}
