//! Everything that can go wrong between a command and its result.

use assize_domain::judge_file::FileProblem;
use assize_domain::problem::Problem;
use assize_providers::ProviderError;
use assize_store::StoreError;

/// Why a step of the pipeline could not be done.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Something the user asked for cannot be.
    #[error("{0}")]
    Invalid(String),
    #[error("{} in the task {name}", count(.problems.len(), "problem"))]
    Task {
        name: String,
        problems: Vec<Problem>,
    },
    #[error("{} in {file}; nothing was written", count(.problems.len(), "problem"))]
    JudgeFile {
        file: String,
        problems: Vec<FileProblem>,
    },
    #[error("{path}: {reason}")]
    File { path: String, reason: String },
    #[error(
        "{host} holds {models} in memory, and it was not loaded by Assize: two models would be resident at \
         once. Unload it there, wait until it expires, or let --evict unload it"
    )]
    Occupied { host: String, models: String },
    #[error("interrupted; the work so far is kept")]
    Interrupted,
}

impl PipelineError {
    /// Whether the user can mend it by asking for something else, as opposed to a service,
    /// file or network that failed.
    pub fn is_invalid_input(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::Task { .. } | Self::JudgeFile { .. } => true,
            Self::Store(error) => error.is_invalid_input(),
            Self::Provider(error) => matches!(error, ProviderError::Script { .. }),
            Self::File { .. } | Self::Occupied { .. } | Self::Interrupted => false,
        }
    }
}

/// `1 problem`, `2 problems`.
pub fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}
