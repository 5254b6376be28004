//! The kinds of errors, and the one table of how each kind is reported.
//!
//! Every crate's error type has a method `kind()`. The command line takes the exit code from
//! [`ErrorKind::report`], the server the HTTP status and the error code; nothing else decides
//! these.

/// Exit codes of the `assize` command.
pub mod exit {
    pub const DONE: u8 = 0;
    /// A service, file or network failed, or Assize itself did.
    pub const FAILED: u8 = 1;
    /// Bad usage or invalid input.
    pub const INVALID: u8 = 2;
    /// It ran, and a gate or threshold said no.
    pub const REFUSED: u8 = 3;
    /// Finished, but some cells failed.
    pub const CELLS_FAILED: u8 = 4;
    pub const INTERRUPTED: u8 = 130;
}

/// The message of an error about a thread that panicked.
pub const WORKER_PANICKED: &str = "worker panicked";

/// What kind of error something is, as far as a caller can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request or the file is wrong; another one can succeed.
    InvalidInput,
    NotFound,
    /// An address that nothing is served at.
    EndpointNotFound,
    AlreadyExists,
    /// The request conflicts with the current state of what it is about.
    Conflict,
    /// Somebody else's change came first; the same request may succeed when it is sent again.
    Superseded,
    /// No credentials, or unknown ones.
    Unauthenticated,
    /// The credentials do not include the right that is needed.
    Forbidden,
    /// Scores that nobody may see before a candidate is nominated.
    Sealed,
    MethodNotAllowed,
    TooLarge,
    /// The request did not arrive in time.
    RequestTimeout,
    /// Part of an API that is not served.
    NotImplemented,
    /// What is stored cannot be read; asking again does not help.
    Corrupt,
    /// A service does not answer.
    Unreachable,
    /// A service or a resource is there, but cannot be used now.
    Unavailable,
    /// A file or a connection failed.
    Io,
    /// The user stopped it; the work so far is kept.
    Interrupted,
    /// A bug in Assize, such as a worker that panicked.
    Internal,
}

/// How a kind of error is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub exit_code: u8,
    pub http_status: u16,
    /// The code in the body of an HTTP answer; MLflow's word where MLflow has one.
    pub code: &'static str,
}

impl ErrorKind {
    pub const ALL: [Self; 19] = [
        Self::InvalidInput,
        Self::NotFound,
        Self::EndpointNotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Superseded,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Sealed,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::RequestTimeout,
        Self::NotImplemented,
        Self::Corrupt,
        Self::Unreachable,
        Self::Unavailable,
        Self::Io,
        Self::Interrupted,
        Self::Internal,
    ];

    /// The table from kind to exit code, HTTP status and error code.
    pub const fn report(self) -> Report {
        let (exit_code, http_status, code) = match self {
            Self::InvalidInput => (exit::INVALID, 400, "INVALID_PARAMETER_VALUE"),
            Self::NotFound => (exit::INVALID, 404, "RESOURCE_DOES_NOT_EXIST"),
            Self::EndpointNotFound => (exit::INVALID, 404, "ENDPOINT_NOT_FOUND"),
            Self::AlreadyExists => (exit::INVALID, 400, "RESOURCE_ALREADY_EXISTS"),
            Self::Conflict => (exit::INVALID, 409, "RESOURCE_CONFLICT"),
            Self::Superseded => (exit::FAILED, 409, "RESOURCE_CONFLICT"),
            Self::Unauthenticated => (exit::FAILED, 401, "UNAUTHENTICATED"),
            Self::Forbidden => (exit::FAILED, 403, "PERMISSION_DENIED"),
            Self::Sealed => (exit::REFUSED, 403, "SEALED"),
            Self::MethodNotAllowed => (exit::INVALID, 405, "ENDPOINT_NOT_FOUND"),
            Self::TooLarge => (exit::INVALID, 413, "INVALID_PARAMETER_VALUE"),
            Self::RequestTimeout => (exit::FAILED, 408, "INVALID_PARAMETER_VALUE"),
            Self::NotImplemented => (exit::INVALID, 501, "NOT_IMPLEMENTED"),
            Self::Corrupt => (exit::FAILED, 422, "DATA_LOSS"),
            Self::Unreachable | Self::Unavailable => (exit::FAILED, 503, "TEMPORARILY_UNAVAILABLE"),
            Self::Io | Self::Internal => (exit::FAILED, 500, "INTERNAL_ERROR"),
            Self::Interrupted => (exit::INTERRUPTED, 503, "TEMPORARILY_UNAVAILABLE"),
        };
        Report {
            exit_code,
            http_status,
            code,
        }
    }

    /// Whether the caller can correct it by asking for something else, as opposed to a service,
    /// file or network that failed.
    pub const fn is_invalid_input(self) -> bool {
        self.report().exit_code == exit::INVALID
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_exit_code_and_its_http_status() {
        let table = ErrorKind::ALL.map(|kind| {
            let it = kind.report();
            (kind, it.exit_code, it.http_status)
        });
        assert_eq!(
            table,
            [
                (ErrorKind::InvalidInput, 2, 400),
                (ErrorKind::NotFound, 2, 404),
                (ErrorKind::EndpointNotFound, 2, 404),
                (ErrorKind::AlreadyExists, 2, 400),
                (ErrorKind::Conflict, 2, 409),
                (ErrorKind::Superseded, 1, 409),
                (ErrorKind::Unauthenticated, 1, 401),
                (ErrorKind::Forbidden, 1, 403),
                (ErrorKind::Sealed, 3, 403),
                (ErrorKind::MethodNotAllowed, 2, 405),
                (ErrorKind::TooLarge, 2, 413),
                (ErrorKind::RequestTimeout, 1, 408),
                (ErrorKind::NotImplemented, 2, 501),
                (ErrorKind::Corrupt, 1, 422),
                (ErrorKind::Unreachable, 1, 503),
                (ErrorKind::Unavailable, 1, 503),
                (ErrorKind::Io, 1, 500),
                (ErrorKind::Interrupted, 130, 503),
                (ErrorKind::Internal, 1, 500),
            ]
        );
    }
}
