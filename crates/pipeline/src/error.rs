//! Everything that can go wrong between a command and its result.

use assize_domain::case::FileProblem;
use assize_domain::error_kind::{ErrorKind, WORKER_PANICKED};
use assize_domain::problem::Problem;
use assize_optimise::OptimiseError;
use assize_policy::PolicyError;
use assize_providers::ProviderError;
use assize_store::StoreError;

/// Why a step of the pipeline could not be done.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Something the user asked for cannot be.
    #[error("{0}")]
    Invalid(String),
    #[error("there is no sitting '{id}': see `assize judge status`")]
    NoSitting { id: String },
    /// A sitting that is not in the state that was asked for.
    #[error("sitting {id} {problem}")]
    SittingState { id: String, problem: String },
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
    #[error("cannot write {path}: {source}")]
    NotWritten {
        path: String,
        source: std::io::Error,
    },
    #[error(
        "{host} holds {models} in memory, and it was not loaded by Assize: two models would be resident at \
         once. Unload it there, wait until it expires, or let --evict unload it"
    )]
    Occupied { host: String, models: String },
    #[error(
        "the confirmation split of '{experiment}' is sealed: its scores can confirm a winner only if nobody \
         chose it by them, so they are shown once a candidate is nominated. Nominate one with `assize \
         promote`, or look anyway with --unseal (in the API, as an admin: \
         unseal=true), which the ledger records"
    )]
    Sealed { experiment: String },
    /// A service that was asked failed or refused.
    #[error("{0}")]
    Service(String),
    #[error(transparent)]
    Optimise(#[from] OptimiseError),
    #[error(
        "the experiment '{experiment}' has no prompt loop: start one with `assize optimise start`"
    )]
    NoLoop { experiment: String },
    /// Another process works on the same thing.
    #[error("{0}")]
    Busy(String),
    /// A gate or a threshold says no.
    #[error("{0}")]
    Refused(String),
    /// Some cells failed, and the rest cannot go on without them.
    #[error("{0}")]
    CellsFailed(String),
    #[error("interrupted; the work so far is kept")]
    Interrupted,
    /// A bug in Assize.
    #[error("internal error: {0}")]
    Internal(String),
}

impl PipelineError {
    /// The error about a thread that panicked.
    pub fn worker_panicked() -> Self {
        Self::Internal(WORKER_PANICKED.to_owned())
    }

    /// What kind of error it is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Provider(error) => error.kind(),
            Self::Policy(_) | Self::Invalid(_) | Self::Task { .. } | Self::JudgeFile { .. } => {
                ErrorKind::InvalidInput
            }
            Self::NoSitting { .. } | Self::NoLoop { .. } => ErrorKind::NotFound,
            Self::SittingState { .. } | Self::Busy(_) | Self::Refused(_) => ErrorKind::Conflict,
            Self::Optimise(error) => optimise_kind(error),
            Self::File { .. } | Self::NotWritten { .. } => ErrorKind::Io,
            Self::Sealed { .. } => ErrorKind::Sealed,
            Self::Occupied { .. } | Self::Service(_) | Self::CellsFailed(_) => {
                ErrorKind::Unavailable
            }
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

const fn optimise_kind(error: &OptimiseError) -> ErrorKind {
    match error {
        OptimiseError::IllegalEvent { .. } | OptimiseError::UnreadableEvent { .. } => {
            ErrorKind::Corrupt
        }
        OptimiseError::UnknownVersion(_) => ErrorKind::NotFound,
        OptimiseError::Setting { .. } => ErrorKind::InvalidInput,
        OptimiseError::NotFeedback { .. } => ErrorKind::Internal,
    }
}

/// A number with the words that go with it: `1 cell is`, `2 cells are`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `1 problem`, `2 problems`.
pub fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}
