//! Requests to a model host, and what its answers mean for a provider.
//!
//! The client is `assize_http`'s; here a status or a failed connection becomes a
//! [`ProviderError`], by its number and never by the body, because gateways fill bodies with
//! anything.
//!
//! Worth another try is what passes by itself: a full queue or a rate limit (429, 503, 529), a
//! gateway without its backend (502, 504), a connection refused or reset. A timeout has already
//! cost its whole time, so it gets one more try and no second; the same for an upstream's
//! timeout, which gateways report as 408. Everything else would fail the same way again, 500
//! included: local servers answer 500 to a model that does not fit into memory or a runner that
//! crashed on this very input, and gateways to a missing key.

use std::time::Duration;

use assize_http::{
    Address, Authorization, Client, FailedTry, HttpConfig, Options, Request, Response, Retry,
    TransportError, TransportErrorKind,
};
use serde_json::Value;

use crate::{ProviderError, Result};
pub(crate) use reply::Reply;

mod reply;

/// A connection to one model host.
pub(crate) struct HostClient {
    client: Client,
    /// Sent with every request.
    headers: Vec<(&'static str, String)>,
}

impl std::fmt::Debug for HostClient {
    /// Without the headers, which may hold a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HostClient").field(&self.client).finish()
    }
}

/// How a provider takes its key.
pub(crate) enum Key {
    Bearer(Option<String>),
    Headers(Vec<(&'static str, String)>),
}

impl HostClient {
    /// A client for `base_url`; an address without a scheme is taken as `http://`.
    pub(crate) fn new(base_url: &str, key: Option<&str>, config: &HttpConfig) -> Result<Self> {
        Self::with_key(base_url, Key::Bearer(key.map(str::to_owned)), config)
    }

    pub(crate) fn with_key(base_url: &str, key: Key, config: &HttpConfig) -> Result<Self> {
        let address =
            Address::parse_or_http(base_url).map_err(|error| ProviderError::InvalidAddress {
                address: error.address,
                reason: error.reason,
            })?;
        let (key, headers) = match key {
            Key::Bearer(key) => (key.map(|it| it.trim().to_owned()), Vec::new()),
            Key::Headers(headers) => (None, headers),
        };
        let key = key.filter(|key| !key.is_empty());
        let options = Options {
            authorization: key.map(Authorization::Bearer),
            ..Options::default()
        };
        Ok(Self {
            headers,
            client: Client::new(address, options, config),
        })
    }

    /// The host as messages name it.
    pub(crate) fn host(&self) -> &str {
        self.client.address().base()
    }

    pub(crate) fn get(&self, path: &str) -> Result<Reply> {
        self.send(Request::get(path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Request::new("POST", path).json(body))
    }

    fn send(&self, request: Request<'_>) -> Result<Reply> {
        let headers = self.headers.iter();
        let request = headers.fold(request, |it, (name, value)| it.header(name, value.as_str()));
        self.client.send(&request, |outcome| match outcome {
            Ok(response) if response.is_success() => Ok(Reply {
                host: self.host().to_owned(),
                response,
            }),
            Ok(response) => Err(self.status_failure(&response)),
            Err(error) => Err(self.transport_failure(error)),
        })
    }

    fn transport_failure(&self, error: TransportError) -> FailedTry<ProviderError> {
        let host = self.host().to_owned();
        let TransportError {
            kind,
            reason,
            is_transient,
        } = error;
        let unreachable = |reason| ProviderError::Unreachable {
            host: host.clone(),
            reason,
        };
        match kind {
            TransportErrorKind::ConnectTimeout => {
                FailedTry::new(unreachable(reason), Retry::OnceMore)
            }
            TransportErrorKind::Timeout => {
                let timeout_s = whole_seconds(self.client.timeout());
                FailedTry::new(ProviderError::Timeout { host, timeout_s }, Retry::OnceMore)
            }
            TransportErrorKind::NotHttp | TransportErrorKind::TooLarge => {
                FailedTry::new(ProviderError::Malformed { host, reason }, Retry::No)
            }
            _ if is_transient => FailedTry::new(unreachable(reason), Retry::Yes),
            _ => FailedTry::new(unreachable(reason), Retry::No),
        }
    }

    fn status_failure(&self, response: &Response) -> FailedTry<ProviderError> {
        let host = self.host().to_owned();
        let status = response.status;
        let message = response.error_message();
        let retry = match status {
            429 | 502 | 503 | 504 | 529 => Retry::Yes,
            408 => Retry::OnceMore,
            _ => {
                let refused = ProviderError::Refused {
                    host,
                    status,
                    message,
                };
                return FailedTry::new(refused, Retry::No);
            }
        };
        let asked = response.retry_after();
        let busy = ProviderError::Busy {
            host,
            status,
            message,
            retry_after_ms: asked.map(|wait| wait.as_millis().try_into().unwrap_or(u64::MAX)),
        };
        FailedTry::new(busy, retry).after(asked)
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
