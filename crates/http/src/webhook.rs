//! Webhooks: one signed POST, tried a few times.
//!
//! The headers and the signature are those of the Standard Webhooks specification, so that a
//! receiver can use a library that exists already: `webhook-id` is the same for every try of
//! one message, `webhook-timestamp` is the try's time in Unix seconds, and `webhook-signature`
//! is `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. A receiver that refuses old
//! timestamps and known ids cannot be fooled by a replay.
//!
//! Every 5xx of a receiver is worth another try. Only the host is ever named in a message: a
//! webhook's path is often a secret itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{
    Address, AddressError, Client, FailedTry, HttpConfig, Options, Request, Response, Retry,
    TransportError, TransportErrorKind,
};

/// Secrets that are written in base64 start with this.
const ENCODED_SECRET: &str = "whsec_";

/// Why a message was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    #[error("{host} is unreachable ({reason})")]
    Unreachable { host: String, reason: String },
    #[error("{host} refused it with HTTP {status}: {message}")]
    Refused {
        host: String,
        status: u16,
        message: String,
    },
}

/// The receiver of messages.
pub struct Webhook {
    client: Client,
    path: String,
    key: Vec<u8>,
}

impl fmt::Debug for Webhook {
    /// Leaves the path and the key out, so that no log can show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("host", &self.host())
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// `secret` is used as it is, or decoded where it is `whsec_` and base64.
    pub fn new(url: &str, secret: &str, config: &HttpConfig) -> Result<Self, AddressError> {
        let (address, path) = Address::with_path(url)?;
        let decoded = secret.strip_prefix(ENCODED_SECRET);
        let decoded = decoded.and_then(|text| BASE64.decode(text).ok());
        Ok(Self {
            client: Client::new(address, Options::default(), config),
            path,
            key: decoded.unwrap_or_else(|| secret.as_bytes().to_vec()),
        })
    }

    /// The receiver as messages name it.
    pub fn host(&self) -> &str {
        self.client.address().base()
    }

    /// Sends `body`, signed anew for each try. `now_s` tells Unix seconds.
    pub fn deliver(
        &self,
        id: &str,
        body: &str,
        now_s: &dyn Fn() -> i64,
    ) -> Result<(), WebhookError> {
        self.client.backoff().run(|| {
            let now_s = now_s();
            let request = Request::new("POST", &self.path)
                .body("application/json", body.as_bytes())
                .header("webhook-id", id)
                .header("webhook-timestamp", now_s.to_string())
                .header("webhook-signature", signature(&self.key, id, now_s, body));
            self.classify(self.client.attempt(&request))
        })
    }

    fn classify(
        &self,
        outcome: Result<Response, TransportError>,
    ) -> Result<(), FailedTry<WebhookError>> {
        let host = self.host().to_owned();
        match outcome {
            Ok(response) if response.is_success() => Ok(()),
            Ok(response) => {
                let retry = match response.status {
                    429 | 500.. => Retry::Yes,
                    408 => Retry::OnceMore,
                    _ => Retry::No,
                };
                let error = WebhookError::Refused {
                    host,
                    status: response.status,
                    message: response.error_message(),
                };
                Err(FailedTry::new(error, retry).after(response.retry_after()))
            }
            Err(error) => {
                let retry = match error.kind {
                    TransportErrorKind::ConnectTimeout | TransportErrorKind::Timeout => {
                        Retry::OnceMore
                    }
                    _ if error.is_transient => Retry::Yes,
                    _ => Retry::No,
                };
                let reason = error.reason;
                let error = WebhookError::Unreachable { host, reason };
                Err(FailedTry::new(error, retry))
            }
        }
    }
}

fn signature(key: &[u8], id: &str, timestamp_s: i64, body: &str) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(format!("{id}.{timestamp_s}.{body}").as_bytes());
    format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_s_example_is_signed_as_it_says() {
        let hook = Webhook::new(
            "http://127.0.0.1:1/x",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            &HttpConfig::default(),
        );
        let signed = signature(
            &hook.expect("an address").key,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn neither_path_nor_key_is_shown() {
        let hook = Webhook::new(
            "https://hooks.test/services/T000/secret?x=1",
            "key",
            &HttpConfig::default(),
        )
        .expect("an address");
        assert_eq!(hook.path, "/services/T000/secret?x=1");
        assert_eq!(
            format!("{hook:?}"),
            r#"Webhook { host: "https://hooks.test", .. }"#
        );
    }
}
