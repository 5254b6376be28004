//! One request and what an error's answer says.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use ureq::Body;
use ureq::http::{Response, header};

/// The server understood the request and says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
}

impl Refusal {
    pub fn is_missing(&self) -> bool {
        self.status == 404 || self.code == "RESOURCE_DOES_NOT_EXIST"
    }

    pub fn is_there_already(&self) -> bool {
        self.code == "RESOURCE_ALREADY_EXISTS"
    }
}

/// What came of a request that reached the server.
pub(crate) type Answer<T> = Result<T, Refusal>;

/// What the server asks us to wait, in seconds.
pub(super) fn asked_wait(response: &Response<Body>) -> Option<Duration> {
    let asked = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    Duration::try_from_secs_f64(asked.trim().parse().ok()?).ok()
}

/// What an error's body says; it need not be MLflow's.
pub(super) fn refusal(status: u16, body: &[u8]) -> Refusal {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        error_code: String,
        #[serde(default)]
        message: String,
    }
    let (code, message) = match serde_json::from_slice::<Told>(body) {
        Ok(told) => (told.error_code, told.message),
        Err(_) => (String::new(), String::from_utf8_lossy(body).into_owned()),
    };
    let message: String = message.chars().take(300).collect();
    Refusal {
        status,
        code,
        message: message.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// One request.
pub(super) struct Sent<'a> {
    pub method: &'static str,
    pub path: &'a str,
    pub content_type: Option<&'static str>,
    pub body: Option<Cow<'a, [u8]>>,
}

impl<'a> Sent<'a> {
    pub fn json(method: &'static str, path: &'a str, body: Option<&Value>) -> Self {
        Self {
            method,
            path,
            content_type: body.map(|_| "application/json"),
            body: body.map(|body| body.to_string().into_bytes().into()),
        }
    }

    pub fn bytes(method: &'static str, path: &'a str, body: Option<&'a [u8]>) -> Self {
        Self {
            method,
            path,
            content_type: body.map(|_| "application/octet-stream"),
            body: body.map(Into::into),
        }
    }
}
