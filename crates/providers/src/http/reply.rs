//! Answers: JSON where all is well, a quotable message where it is not.

use std::io::Read;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Body;
use ureq::http::{HeaderMap, Response, header};

use crate::{ProviderError, Result};

const MAX_ERROR_BODY_BYTES: u64 = 64 * 1024;
/// How much of somebody else's text an error message quotes.
const MAX_QUOTED_CHARS: usize = 300;

/// An answer with a status of success.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(super) host: String,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// What this answer took, without the tries that failed before it.
    pub elapsed: Duration,
}

impl Reply {
    /// The body as the JSON that was asked for.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| self.malformed(&error.to_string()))
    }

    /// Every JSON value of the body: one, or one a line where a server streams anyway.
    pub(crate) fn json_values<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        serde_json::Deserializer::from_slice(&self.body)
            .into_iter()
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| self.malformed(&error.to_string()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The error for a body that reports one although the status says success.
    pub(crate) fn refused(&self, message: &str) -> ProviderError {
        ProviderError::Refused {
            host: self.host.clone(),
            status: self.status,
            message: quote(message),
        }
    }

    /// The error for a body that is not what was asked for.
    pub(crate) fn malformed(&self, reason: &str) -> ProviderError {
        let quoted = quote(&String::from_utf8_lossy(&self.body));
        ProviderError::Malformed {
            host: self.host.clone(),
            reason: format!("{reason}, in: {quoted}"),
        }
    }
}

/// What the server says is wrong, whatever shape it says it in.
pub(super) fn error_message(response: &mut Response<Body>) -> String {
    let reason = response.status().canonical_reason().unwrap_or("no reason");
    if let (true, Some(target)) = (
        response.status().is_redirection(),
        response.headers().get(header::LOCATION),
    ) {
        let target = quote(&String::from_utf8_lossy(target.as_bytes()));
        return format!("it redirects to {target}, use that address");
    }
    let mut body = Vec::new();
    let reader = response.body_mut().as_reader();
    // What arrived before a failure is still worth quoting.
    let _ = reader.take(MAX_ERROR_BODY_BYTES).read_to_end(&mut body);
    let text = String::from_utf8_lossy(&body).into_owned();
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let stated = [
        &json["error"]["message"],
        &json["error"],
        &json["message"],
        &json["detail"],
    ];
    let message = stated
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or(&text)
        .trim();
    if message.is_empty() {
        reason.to_owned()
    } else {
        quote(message)
    }
}

/// `text` on one line, not too much of it, and with nothing that acts on a terminal: a server's
/// words are not ours.
fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let acts =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let line = line.replace(acts, "\u{fffd}");
    match line.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_one_short_line() {
        assert_eq!(quote("a\n  b"), "a b");
        assert_eq!(quote("\u{1b}[2Jred\u{202e}"), "\u{fffd}[2Jred\u{fffd}");
        assert_eq!(
            quote(&"ä".repeat(400)).chars().count(),
            MAX_QUOTED_CHARS + 1
        );
    }
}
