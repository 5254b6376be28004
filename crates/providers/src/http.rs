//! The small blocking HTTP client that the remote providers share.
//!
//! One [`Client`] speaks to one host: JSON in, JSON out, connections kept open between
//! calls, and each answer bounded in time and in size. Statuses are classified here, once,
//! by their number and never by the body, because gateways fill bodies with anything:
//! error bodies are only read to quote them, and they need not be JSON. What is worth
//! another try, and when, is decided in [`retry`].
//!
//! Redirects are reported and not followed: a redirected POST loses its body. A proxy named
//! in the environment is used (by ureq), except for hosts on this machine.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::{Response, Uri, header};
use ureq::{Agent, Body, Timeout};

use crate::{ProviderError, Result};
pub(crate) use reply::Reply;
use reply::error_message;
use retry::{Backoff, Failure, Retry};

mod reply;
mod retry;
pub mod webhook;

/// No answer that we ask for comes near this; what does is not an answer.
const MAX_BODY_BYTES: u64 = 16 * 1024 * 1024;
const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);
/// One for each request in flight; the default of three would reconnect with `-j 4`.
const MAX_IDLE_CONNECTIONS: usize = 1024;

/// How patient to be with a host.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// The longest that one request may take, from connecting to the answer's last byte.
    pub timeout: Duration,
    /// How many times a request is sent again where that is worth it; a request that timed
    /// out at most once.
    pub retries: u32,
    /// The wait before the first retry. It doubles with each further one, and a random half
    /// of it is left out, so that several clients do not come back at the same moment.
    pub backoff: Duration,
    /// The longest wait before a retry. A server that asks for more is not asked again.
    pub max_wait: Duration,
    /// Where the randomness of the waits comes from.
    pub jitter_seed: u64,
    /// Who waits.
    pub sleep: Sleep,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            retries: 3,
            backoff: Duration::from_millis(500),
            max_wait: Duration::from_mins(1),
            jitter_seed: 0,
            sleep: Sleep::default(),
        }
    }
}

/// A way to wait: the real one by default, something faster or interruptible where given.
#[derive(Clone)]
pub struct Sleep(Arc<dyn Fn(Duration) + Send + Sync>);

impl Sleep {
    /// Waits by calling `wait`.
    pub fn new(wait: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self(Arc::new(wait))
    }

    pub(crate) fn wait(&self, duration: Duration) {
        (self.0)(duration);
    }
}

impl Default for Sleep {
    fn default() -> Self {
        Self::new(thread::sleep)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

/// A connection to one host.
pub(crate) struct Client {
    agent: Agent,
    base_url: String,
    /// The value of the `Authorization` header.
    authorization: Option<String>,
    timeout: Duration,
    backoff: Backoff,
}

impl fmt::Debug for Client {
    /// Leaves the key out, so that no log can show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.base_url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for `base_url`; an address without a scheme is taken as `http://`.
    pub(crate) fn new(base_url: &str, key: Option<&str>, config: &HttpConfig) -> Self {
        let base_url = normalise(base_url);
        let mut settings = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(config.timeout))
            .timeout_connect(Some(config.timeout.min(MAX_CONNECT_TIME)))
            .max_idle_connections(MAX_IDLE_CONNECTIONS)
            .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS)
            .user_agent(concat!("assize/", env!("CARGO_PKG_VERSION")));
        if is_this_machine(&base_url) {
            settings = settings.proxy(None);
        }
        let key = key.map(str::trim).filter(|key| !key.is_empty());
        Self {
            agent: settings.build().into(),
            base_url,
            authorization: key.map(|key| format!("Bearer {key}")),
            timeout: config.timeout,
            backoff: Backoff::new(config),
        }
    }

    /// The host as messages name it.
    pub(crate) fn host(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn get(&self, path: &str) -> Result<Reply> {
        self.send(path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(path, Some(body))
    }

    fn send(&self, path: &str, body: Option<&Value>) -> Result<Reply> {
        self.backoff.run(|| self.attempt(path, body))
    }

    fn attempt(&self, path: &str, body: Option<&Value>) -> std::result::Result<Reply, Failure> {
        let url = format!("{}{path}", self.base_url);
        let started = Instant::now();
        let sent = match (body, &self.authorization) {
            (None, None) => self.agent.get(url).call(),
            (None, Some(key)) => {
                let request = self.agent.get(url);
                request.header(header::AUTHORIZATION, key).call()
            }
            (Some(body), None) => self.agent.post(url).send_json(body),
            (Some(body), Some(key)) => {
                let request = self.agent.post(url);
                request.header(header::AUTHORIZATION, key).send_json(body)
            }
        };
        let mut response = sent.map_err(|error| self.transport_failure(&error))?;
        if !response.status().is_success() {
            return Err(self.status_failure(&mut response));
        }
        let limited = response.body_mut().with_config().limit(MAX_BODY_BYTES);
        let body = limited
            .read_to_vec()
            .map_err(|error| self.transport_failure(&error))?;
        Ok(Reply {
            host: self.base_url.clone(),
            status: response.status().as_u16(),
            headers: response.into_parts().0.headers,
            body,
            elapsed: started.elapsed(),
        })
    }

    fn transport_failure(&self, error: &ureq::Error) -> Failure {
        let host = self.base_url.clone();
        let unreachable = |reason: String| ProviderError::Unreachable {
            host: host.clone(),
            reason,
        };
        match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => Failure::new(
                unreachable("no connection in time".to_owned()),
                Retry::OnceMore,
            ),
            ureq::Error::Timeout(_) => Failure::new(
                ProviderError::Timeout {
                    host,
                    timeout_s: whole_seconds(self.timeout),
                },
                Retry::OnceMore,
            ),
            ureq::Error::Io(cause) => Failure::new(unreachable(cause.to_string()), Retry::Yes),
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                Failure::new(unreachable(error.to_string()), Retry::Yes)
            }
            ureq::Error::Protocol(_) | ureq::Error::BodyExceedsLimit(_) => Failure::new(
                ProviderError::Malformed {
                    host,
                    reason: error.to_string(),
                },
                Retry::No,
            ),
            _ => Failure::new(unreachable(error.to_string()), Retry::No),
        }
    }

    fn status_failure(&self, response: &mut Response<Body>) -> Failure {
        let host = self.base_url.clone();
        let status = response.status().as_u16();
        let message = error_message(response);
        let retry = retry::for_status(status);
        if retry == Retry::No {
            return Failure::new(
                ProviderError::Refused {
                    host,
                    status,
                    message,
                },
                retry,
            );
        }
        let asked = retry::asked_wait(response.headers());
        Failure::new(
            ProviderError::Busy {
                host,
                status,
                message,
                retry_after_ms: asked.map(|wait| wait.as_millis().try_into().unwrap_or(u64::MAX)),
            },
            retry,
        )
        .after(asked)
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

fn normalise(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

fn is_this_machine(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default();
    host == "localhost" || host.starts_with("127.") || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_a_scheme_and_lose_a_trailing_slash() {
        assert_eq!(normalise("localhost:11434"), "http://localhost:11434");
        assert_eq!(normalise(" https://api.test/v1/ "), "https://api.test/v1");
    }

    #[test]
    fn only_loopback_addresses_are_this_machine() {
        for url in [
            "http://localhost:1",
            "http://127.0.0.1:1/v1",
            "http://[::1]:1",
        ] {
            assert!(is_this_machine(url), "{url}");
        }
        for url in ["http://10.0.0.1", "https://localhost.test", "not a url"] {
            assert!(!is_this_machine(url), "{url}");
        }
    }

    #[test]
    fn the_key_is_not_in_the_debug_output() {
        let client = Client::new(
            "http://localhost:1",
            Some("sk-secret"),
            &HttpConfig::default(),
        );
        let shown = format!("{client:?}");
        assert!(
            shown.contains("localhost") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
