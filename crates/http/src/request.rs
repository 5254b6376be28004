//! One request, which may be sent several times.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

/// A method, a path below the server's address, and what goes with it.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Cow<'a, [u8]>>,
    pub(crate) silence: Option<Duration>,
}

impl<'a> Request<'a> {
    pub fn new(method: &'static str, path: &'a str) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
            body: None,
            silence: None,
        }
    }

    pub fn get(path: &'a str) -> Self {
        Self::new("GET", path)
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string().into_bytes())
    }

    #[must_use]
    pub fn bytes(self, body: &'a [u8]) -> Self {
        self.body("application/octet-stream", body)
    }

    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            body: Some(body.into()),
            ..self.header("content-type", content_type)
        }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// How long the server may be silent between the request and its answer's first byte.
    #[must_use]
    pub fn silence(self, silence: Option<Duration>) -> Self {
        Self { silence, ..self }
    }

    pub fn path(&self) -> &str {
        self.path
    }

    pub fn body_len(&self) -> usize {
        self.body.as_ref().map_or(0, |it| it.len())
    }
}
