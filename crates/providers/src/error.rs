//! Everything that can go wrong between us and a model.

use assize_domain::error_kind::ErrorKind;

/// Why a provider could not do what it was asked.
///
/// [`ProviderError::is_retryable`] decides what is worth another try,
/// [`ProviderError::is_host_down`] whether going on with other cells makes sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    #[error("the host's address '{address}' is not valid: {reason}")]
    InvalidAddress { address: String, reason: String },
    #[error("{host} cannot be reached ({reason}): is it running?")]
    Unreachable { host: String, reason: String },
    #[error("{host} does not have the model '{model}': {remedy}")]
    ModelNotFound {
        host: String,
        model: String,
        remedy: String,
    },
    #[error("{host} refused the request with HTTP {status}: {message}")]
    Refused {
        host: String,
        status: u16,
        message: String,
    },
    #[error("{host} is overloaded (HTTP {status}): {message}")]
    Busy {
        host: String,
        status: u16,
        message: String,
        /// What the server asked us to wait, where it said.
        retry_after_ms: Option<u64>,
    },
    #[error("{host} did not answer within {timeout_s} s; --timeout changes this")]
    Timeout { host: String, timeout_s: u64 },
    #[error("{host} answered with something that is not the expected JSON: {reason}")]
    Malformed { host: String, reason: String },
    #[error(
        "{host} still holds '{model}' {waited_s} s after it was told to unload: restart that host, \
         or unload it by hand, before another model is loaded"
    )]
    NotFreed {
        host: String,
        model: String,
        waited_s: u64,
    },
    #[error(
        "loading '{model}' needs about {needed_mb} MB, but only {free_mb} MB of memory are free"
    )]
    OutOfMemory {
        model: String,
        needed_mb: u64,
        free_mb: u64,
    },
    #[error("the embedded engine failed on '{model}': {reason}")]
    Engine { model: String, reason: String },
    #[error("command:{name} failed: {reason}")]
    Command {
        name: String,
        reason: String,
        /// Whether it could not even be started.
        is_gone: bool,
    },
    #[error("script: {reason}")]
    Script { reason: String },
}

impl ProviderError {
    /// Whether the same request may succeed if it is sent again.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Busy { .. } | Self::Timeout { .. }
        )
    }

    /// What kind of error it is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => ErrorKind::Unreachable,
            Self::ModelNotFound { .. }
            | Self::Refused { .. }
            | Self::Malformed { .. }
            | Self::Command { .. } => ErrorKind::Io,
            Self::Busy { .. } | Self::NotFreed { .. } | Self::OutOfMemory { .. } => {
                ErrorKind::Unavailable
            }
            Self::Engine { .. } => ErrorKind::Internal,
            Self::InvalidAddress { .. } | Self::Script { .. } => ErrorKind::InvalidInput,
        }
    }

    /// Whether the host does not accept the credentials, or asks for some.
    pub const fn is_denied(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 401 | 403,
                ..
            }
        )
    }

    /// Whether the next cell would fail in the same way.
    pub fn is_host_down(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::ModelNotFound { .. }
                | Self::Command { is_gone: true, .. }
        )
    }
}
