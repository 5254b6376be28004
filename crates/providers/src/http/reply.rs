//! Answers with a status of success, as the JSON that was asked for.

use std::time::Duration;

use assize_http::{Response, quote};
use serde::de::DeserializeOwned;

use crate::{ProviderError, Result};

/// An answer with a status of success.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(super) host: String,
    pub(super) response: Response,
}

impl Reply {
    /// The body as the JSON that was asked for.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.response.body)
            .map_err(|error| self.malformed(&error.to_string()))
    }

    /// Every JSON value of the body: one, or one a line where a server streams anyway.
    pub(crate) fn json_values<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        serde_json::Deserializer::from_slice(&self.response.body)
            .into_iter()
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| self.malformed(&error.to_string()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.header(name)
    }

    /// What this answer took, without the tries that failed before it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.response.elapsed
    }

    /// The error for a body that reports one although the status says success.
    pub(crate) fn refused(&self, message: &str) -> ProviderError {
        ProviderError::Refused {
            host: self.host.clone(),
            status: self.response.status,
            message: quote(message),
        }
    }

    /// The error for a body that is not what was asked for.
    pub(crate) fn malformed(&self, reason: &str) -> ProviderError {
        let quoted = quote(&String::from_utf8_lossy(&self.response.body));
        ProviderError::Malformed {
            host: self.host.clone(),
            reason: format!("{reason}, in: {quoted}"),
        }
    }
}
