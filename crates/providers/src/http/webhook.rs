//! Telling the outside: one signed POST, tried a few times.
//!
//! The headers and the signature are those of the Standard Webhooks specification, so that a
//! receiver can use a library that exists already: `webhook-id` is the same for every try of
//! one message, `webhook-timestamp` is the try's time in Unix seconds, and `webhook-signature`
//! is `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. A receiver that refuses old
//! timestamps and known ids cannot be fooled by a replay.
//!
//! Unlike a model host's, a receiver's 500 is worth another try. Only the host is ever named in
//! a message: a webhook's path is often a secret itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use ureq::http::Uri;

use super::retry::{Failure, Retry};
use super::{Client, HttpConfig};
use crate::Result;

/// Secrets that are written in base64 start with this.
const ENCODED_SECRET: &str = "whsec_";

/// A place that wants to know.
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
    pub fn new(url: &str, secret: &str, config: &HttpConfig) -> Self {
        let uri = url.parse::<Uri>().unwrap_or_default();
        let path = uri
            .path_and_query()
            .map_or_else(|| "/".to_owned(), ToString::to_string);
        let scheme = uri.scheme_str().unwrap_or("http");
        let authority = uri.authority().map(ToString::to_string);
        let base = format!("{scheme}://{}", authority.unwrap_or_default());
        let decoded = secret.strip_prefix(ENCODED_SECRET);
        let decoded = decoded.and_then(|text| BASE64.decode(text).ok());
        Self {
            client: Client::new(&base, None, config),
            path,
            key: decoded.unwrap_or_else(|| secret.as_bytes().to_vec()),
        }
    }

    /// Who is told, as messages name it.
    pub fn host(&self) -> &str {
        self.client.host()
    }

    /// Sends `body`, signed anew for each try. `now_s` tells Unix seconds.
    pub fn deliver(&self, id: &str, body: &str, now_s: &dyn Fn() -> i64) -> Result<()> {
        self.client.backoff.run(|| self.attempt(id, body, now_s()))
    }

    fn attempt(&self, id: &str, body: &str, now_s: i64) -> std::result::Result<(), Failure> {
        let client = &self.client;
        let sent = client
            .agent
            .post(format!("{}{}", client.base_url, self.path))
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now_s.to_string())
            .header("webhook-signature", signature(&self.key, id, now_s, body))
            .send(body);
        let mut response = sent.map_err(|error| client.transport_failure(&error))?;
        if response.status().is_success() {
            return Ok(());
        }
        let server_failed = response.status().is_server_error();
        let failure = client.status_failure(&mut response);
        Err(if server_failed {
            failure.worth(Retry::Yes)
        } else {
            failure
        })
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
            &hook.key,
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
        );
        assert_eq!(hook.path, "/services/T000/secret?x=1");
        assert_eq!(
            format!("{hook:?}"),
            r#"Webhook { host: "https://hooks.test", .. }"#
        );
    }
}
