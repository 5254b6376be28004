//! Addresses that can never work: what is wrong with them, and what to do about it.
//!
//! A refused connection, a timeout and a name server that does not answer are not among them:
//! those pass.

use std::io;

use super::message::Refusal;
use crate::address::Address;

/// Where it is the address's fault that there is no connection.
pub(super) fn connection(error: &ureq::Error, address: &Address) -> Option<String> {
    let is_tls = address.base.starts_with("https:");
    match error {
        ureq::Error::HostNotFound => Some(unknown_name(address)),
        ureq::Error::Io(error) => {
            let words = error.to_string();
            if words.contains("failed to lookup address") {
                let is_passing = words.contains("Temporary") || words.contains("try again");
                return (!is_passing).then(|| unknown_name(address));
            }
            (is_tls && error.kind() == io::ErrorKind::InvalidData).then(|| tls(&words, address))
        }
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) if is_tls => {
            Some(tls(&error.to_string(), address))
        }
        ureq::Error::Protocol(_) if !is_tls => Some(format!(
            "this is no HTTP server ({error}): if it speaks TLS, use https://{}",
            address.rest()
        )),
        _ => None,
    }
}

/// An answer that no MLflow server gives.
pub(super) fn answer(refusal: &Refusal) -> String {
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

fn unknown_name(address: &Address) -> String {
    format!(
        "no host is named '{}': check the spelling, or use the server's IP address",
        address.name()
    )
}

fn tls(words: &str, address: &Address) -> String {
    if words.contains("certificate") {
        format!(
            "the server's certificate is not accepted ({words}): have it signed by somebody whom \
             this machine trusts, or set MLFLOW_TRACKING_INSECURE_TLS=true to take any"
        )
    } else {
        format!(
            "the server does not speak TLS as we do ({words}): if it has none, use http://{}",
            address.rest()
        )
    }
}
