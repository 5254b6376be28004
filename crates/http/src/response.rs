//! What a server answered, whatever its status.

use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode, header};

use crate::TransportError;
use crate::retry::retry_after;

/// How much of somebody else's text an error message quotes.
const MAX_QUOTED_CHARS: usize = 300;

/// An answer. Errors are answers too: their bodies are read up to a limit, and need not be JSON.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub(crate) headers: HeaderMap,
    pub body: Vec<u8>,
    /// What this answer took, without the tries that failed before it.
    pub elapsed: Duration,
    /// Why the body of an error is cut short, where it is.
    pub incomplete: Option<TransportError>,
}

impl Response {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What the server asks us to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers)
    }

    /// What the server says is wrong, whatever shape it says it in.
    pub fn error_message(&self) -> String {
        if let (true, Some(target)) = (self.is_redirect(), self.headers.get(header::LOCATION)) {
            let target = quote(&String::from_utf8_lossy(target.as_bytes()));
            return format!("it redirects to {target}, use that address");
        }
        let text = String::from_utf8_lossy(&self.body);
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let stated = [
            &json["error"]["message"],
            &json["error"],
            &json["message"],
            &json["detail"],
        ];
        let message = stated.into_iter().find_map(Value::as_str).unwrap_or(&text);
        match message.trim() {
            "" => {
                let status = StatusCode::from_u16(self.status).ok();
                let reason = status.and_then(|it| it.canonical_reason());
                reason.unwrap_or("no reason").to_owned()
            }
            message => quote(message),
        }
    }
}

/// A server's text for an error message: on one line, not too long, and without characters that
/// act on a terminal.
pub fn quote(text: &str) -> String {
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

    #[test]
    fn error_messages_are_found_in_many_shapes() {
        let message = |status: u16, body: &str| {
            let response = Response {
                status,
                headers: HeaderMap::new(),
                body: body.into(),
                elapsed: Duration::ZERO,
                incomplete: None,
            };
            response.error_message()
        };
        assert_eq!(message(400, r#"{"error":{"message":"a"}}"#), "a");
        assert_eq!(message(400, r#"{"error":"b"}"#), "b");
        assert_eq!(message(400, r#"{"detail":"c"}"#), "c");
        assert_eq!(message(500, "boom\nat line 3"), "boom at line 3");
        assert_eq!(message(404, ""), "Not Found");
    }
}
