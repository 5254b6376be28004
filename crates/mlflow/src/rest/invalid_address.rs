//! Permanently invalid server addresses: the reason and the remedy.
//!
//! A refused connection, a timeout and a DNS server that does not respond are not among them: those
//! errors are transient.

use assize_http::{Address, TransportError, TransportErrorKind};

use super::refusal::Refusal;

/// The reason, if the connection failed because the address is invalid.
pub(super) fn from_transport(error: &TransportError, address: &Address) -> Option<String> {
    let reason = &error.reason;
    match error.kind {
        TransportErrorKind::UnknownHost => Some(format!(
            "the host name '{}' cannot be resolved: check the spelling, or use the server's IP address",
            address.host()
        )),
        TransportErrorKind::Tls if address.is_https() => Some(tls(reason, address)),
        TransportErrorKind::NotHttp if !address.is_https() => Some(format!(
            "this is not an HTTP server ({reason}): if it uses TLS, use https://{}",
            address.without_scheme()
        )),
        _ => None,
    }
}

/// The reason, if the response did not come from an MLflow server.
pub(super) fn from_answer(refusal: &Refusal) -> String {
    let words = match refusal.message.as_str() {
        "" => String::new(),
        message => {
            let start: String = message.chars().take(80).collect();
            format!(", {start:?}")
        }
    };
    format!(
        "the server at this address is not an MLflow server ({}{words}): check the scheme, the \
         host, the port and the path prefix",
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
