//! Addresses that can never work: what is wrong with them, and what to do about it.
//!
//! A refused connection, a timeout and a name server that does not answer are not among them:
//! those are transient.

use assize_http::{Address, TransportError, TransportErrorKind};

use super::refusal::Refusal;

/// The reason where there is no connection because the address is wrong.
pub(super) fn from_transport(error: &TransportError, address: &Address) -> Option<String> {
    let reason = &error.reason;
    match error.kind {
        TransportErrorKind::UnknownHost => Some(format!(
            "no host is named '{}': check the spelling, or use the server's IP address",
            address.host()
        )),
        TransportErrorKind::Tls if address.is_https() => Some(tls(reason, address)),
        TransportErrorKind::NotHttp if !address.is_https() => Some(format!(
            "this is not an HTTP server ({reason}): if it speaks TLS, use https://{}",
            address.without_scheme()
        )),
        _ => None,
    }
}

/// The reason where an answer is not one of an MLflow server.
pub(super) fn from_answer(refusal: &Refusal) -> String {
    let words = match refusal.message.as_str() {
        "" => String::new(),
        message => {
            let start: String = message.chars().take(80).collect();
            format!(", {start:?}")
        }
    };
    format!(
        "something answers here, but not as an MLflow server does ({}{words}): check host and \
         port, the scheme, and the path prefix",
        refusal.status
    )
}

fn tls(reason: &str, address: &Address) -> String {
    if reason.contains("certificate") {
        format!(
            "the server's certificate is not accepted ({reason}): have it signed by an authority \
             that this machine trusts, or set MLFLOW_TRACKING_INSECURE_TLS=true to accept any"
        )
    } else {
        format!(
            "the TLS handshake with the server failed ({reason}): if it has no TLS, use http://{}",
            address.without_scheme()
        )
    }
}
