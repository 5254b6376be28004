//! What Assize does: plan → collect → judge → compare → promote, a module each.
//!
//! Every step takes what it works on as parameters (a task, providers, a tracking store, a
//! clock) and reports through return values and one observer; nothing here reads the
//! environment, parses arguments or prints.

pub mod airflow;
pub mod collect;
pub mod compare;
pub mod computed;
mod error;
pub mod estimate;
pub mod events;
pub mod experiment_task;
pub mod guard;
pub mod journal;
pub mod judge;
pub mod ledger;
pub mod lock;
pub mod optimise;
pub mod plan;
pub mod policies;
pub mod process;
pub mod promote;
pub mod seal;
pub mod simulation;
pub mod size_gate;
pub mod sync;
pub mod task_files;
pub mod team;
pub mod whole_file;

pub use error::{PipelineError, count, counted};

/// Shorthand for what the pipeline answers.
pub type Result<T> = std::result::Result<T, PipelineError>;

/// The wall clock, passed in: Unix milliseconds.
pub type Clock = fn() -> i64;

/// The present moment, passed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds.
    pub ms: i64,
    /// The same as RFC 3339 in UTC.
    pub rfc3339: String,
}

impl Now {
    /// The moment of these Unix milliseconds.
    pub fn at(ms: i64) -> Self {
        let text = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
        Self {
            ms,
            rfc3339: format!("{text:.3}"),
        }
    }
}
