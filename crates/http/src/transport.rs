//! Requests that got no answer, and why.

use std::io;

use ureq::Timeout;

/// Why there is no answer, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TransportError {
    pub kind: TransportErrorKind,
    pub reason: String,
    /// Whether it may pass by itself: a refused or broken connection, a failing name server.
    pub is_transient: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// No connection in time.
    ConnectTimeout,
    /// A connection, and no whole answer in time.
    Timeout,
    /// The name server says that there is no such host.
    UnknownHost,
    /// No agreement on encryption, or a certificate that is not accepted.
    Tls,
    /// The answer is not HTTP.
    NotHttp,
    /// The answer is longer than anything that was asked for.
    TooLarge,
    /// The connection was refused or broke.
    Connection,
    /// The request could not be sent at all.
    Other,
}

impl TransportError {
    pub(crate) fn new(error: &ureq::Error, is_https: bool) -> Self {
        use TransportErrorKind as Kind;
        let (kind, is_transient) = match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                (Kind::ConnectTimeout, false)
            }
            ureq::Error::Timeout(_) => (Kind::Timeout, false),
            ureq::Error::HostNotFound => (Kind::UnknownHost, true),
            ureq::Error::ConnectionFailed => (Kind::Connection, true),
            ureq::Error::Io(cause) => (io_kind(cause, is_https), true),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => (Kind::Tls, false),
            ureq::Error::Protocol(_) => (Kind::NotHttp, false),
            ureq::Error::BodyExceedsLimit(_) => (Kind::TooLarge, false),
            _ => (Kind::Other, false),
        };
        let reason = match (kind, error) {
            (Kind::ConnectTimeout, _) => "no connection in time".to_owned(),
            (Kind::Timeout, _) => "no answer in time".to_owned(),
            (_, ureq::Error::Io(cause)) => cause.to_string(),
            (_, error) => error.to_string(),
        };
        Self {
            kind,
            reason,
            is_transient,
        }
    }
}

fn io_kind(cause: &io::Error, is_https: bool) -> TransportErrorKind {
    let words = cause.to_string();
    if words.contains("failed to lookup address") {
        // A name server that does not answer knows nothing about the name.
        let is_temporary = words.contains("Temporary") || words.contains("try again");
        return if is_temporary {
            TransportErrorKind::Connection
        } else {
            TransportErrorKind::UnknownHost
        };
    }
    if is_https && cause.kind() == io::ErrorKind::InvalidData {
        TransportErrorKind::Tls
    } else {
        TransportErrorKind::Connection
    }
}
