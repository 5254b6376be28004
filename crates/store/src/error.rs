//! Errors of the tracking stores.

use assize_domain::error_kind::{ErrorKind, WORKER_PANICKED};

/// An error of a tracking store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the tracking store {path} failed: {source}")]
    Sqlite {
        path: String,
        source: rusqlite::Error,
    },
    #[error("{path}: {reason}")]
    Unusable { path: String, reason: String },
    #[error("there is no experiment '{name}': {remedy}")]
    NoExperiment { name: String, remedy: String },
    #[error("there is no run '{id}'{hint}")]
    NoRun { id: String, hint: String },
    #[error(
        "the lease of sitting {sitting} on {} has expired and another judge has taken it over; \
         nothing was written", runs(.run_ids.len())
    )]
    LeaseLost {
        sitting: String,
        run_ids: Vec<String>,
    },
    #[error("there is no sitting '{id}': see `assize judge status`")]
    NoSitting { id: String },
    /// The request conflicts with the current state of the run, the sitting or the experiment.
    #[error("{0}")]
    Conflict(String),
    #[error(
        "the champion of '{task}' has changed meanwhile ({champion}), so nothing was promoted: \
         run the command again to compare with it"
    )]
    Superseded { task: String, champion: String },
    #[error(
        "the policy history has changed meanwhile ({seen}), so nothing was recorded: look at \
         `assize policy history` and run the command again"
    )]
    HistoryChanged { seen: String },
    /// Writes arrive faster than the disk takes them.
    #[error(
        "{path}: {waiting} writes are waiting already, so this one was refused: send it again later"
    )]
    Overloaded { path: String, waiting: usize },
    /// The server cannot be reached or keeps failing; the same request may succeed later.
    #[error("the tracking server {uri} is unreachable: {reason}")]
    Unreachable { uri: String, reason: String },
    /// The address of the server is wrong, so that a retry cannot succeed.
    #[error("{uri}: {reason}")]
    InvalidAddress { uri: String, reason: String },
    /// The requested MLflow name or id does not exist.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    AlreadyExists(String),
    /// A value that cannot be stored, or an invalid search.
    #[error("{0}")]
    Invalid(String),
    /// A record that is damaged, or was written by a newer version.
    #[error(
        "{what} cannot be read ({reason}): it may have been written by a newer version of assize"
    )]
    Unreadable { what: String, reason: String },
    #[error("run {run_id} holds {what} that cannot be read: {reason}")]
    Corrupt {
        run_id: String,
        what: String,
        reason: String,
    },
    /// A bug in Assize.
    #[error("internal error: {0}")]
    Internal(String),
}

impl StoreError {
    /// The error about a thread that panicked.
    pub fn worker_panicked() -> Self {
        Self::Internal(WORKER_PANICKED.to_owned())
    }

    /// What kind of error it is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::InvalidAddress { .. } => ErrorKind::InvalidInput,
            Self::NotFound(_)
            | Self::NoRun { .. }
            | Self::NoExperiment { .. }
            | Self::NoSitting { .. } => ErrorKind::NotFound,
            Self::AlreadyExists(_) => ErrorKind::AlreadyExists,
            Self::Conflict(_) | Self::LeaseLost { .. } => ErrorKind::Conflict,
            Self::Superseded { .. } | Self::HistoryChanged { .. } => ErrorKind::Superseded,
            Self::Overloaded { .. } => ErrorKind::Unavailable,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Sqlite { .. } | Self::Unusable { .. } => ErrorKind::Io,
            Self::Unreadable { .. } | Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

fn runs(number: usize) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} run{ending}")
}
