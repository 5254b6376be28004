//! Calls of tools: the model's choice of a function and its arguments is the candidate.

use assize_domain::hash::canonical_json;
use serde_json::{Value, json};

/// A tool that the model called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub name: String,
    pub arguments: Value,
}

impl ToolCall {
    /// Arguments that come as a text are JSON in it, unless the model wrote something else.
    pub(crate) fn with_text(name: String, arguments: &str) -> Self {
        let arguments = match arguments.trim() {
            "" => json!({}),
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        Self { name, arguments }
    }
}

/// The calls as canonical JSON: an object for one, a list for several; `None` for none.
pub(crate) fn call_text(calls: &[ToolCall]) -> Option<String> {
    let call = |it: &ToolCall| json!({"name": it.name, "arguments": it.arguments});
    match calls {
        [] => None,
        [only] => Some(canonical_json(&call(only))),
        several => Some(canonical_json(&several.iter().map(call).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_canonical_json() {
        let one = ToolCall::with_text("find".to_owned(), "{\"b\": 1, \"a\": 2}");
        assert_eq!(
            call_text(std::slice::from_ref(&one)).as_deref(),
            Some("{\"arguments\":{\"a\":2,\"b\":1},\"name\":\"find\"}")
        );
        let odd = ToolCall::with_text("find".to_owned(), "{broken");
        let both = call_text(&[one, odd]).expect("two calls");
        assert!(
            both.starts_with('[') && both.contains("\"arguments\":\"{broken\""),
            "{both}"
        );
        assert_eq!(call_text(&[]), None);
    }
}
