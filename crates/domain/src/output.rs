//! From a model's raw output to a candidate.
//!
//! Raw output is untrusted and kept whole elsewhere; this module only cuts what is not part
//! of the answer (`<think>` blocks, white space, a JSON wrapper where the task asks for one).
//! Output that cannot be parsed is a candidate all the same, marked as such: dropping it
//! would make a model look better than it is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A task's output contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct OutputContract {
    pub format: OutputFormat,
    /// With `format = "json"`: the member of the object that holds the candidate's text.
    pub field: Option<String>,
    /// With `format = "json"`: providers that can are held to this schema.
    pub schema: Option<Value>,
    /// The flag that is false where the output cannot be parsed.
    pub flag: Option<String>,
}

/// What models are asked to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    #[default]
    Text,
    Json,
}

/// A raw output, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub text: String,
    /// Why the output does not fit the contract, where it does not.
    pub problem: Option<String>,
}

impl OutputContract {
    /// Reads one raw output.
    pub fn parse(&self, raw: &str) -> Parsed {
        let answer = cut_thinking(raw);
        let answer = answer.trim();
        if answer.is_empty() {
            return Parsed {
                text: String::new(),
                problem: Some("the output is empty".to_owned()),
            };
        }
        match self.format {
            OutputFormat::Text => Parsed {
                text: answer.to_owned(),
                problem: None,
            },
            OutputFormat::Json => self.parse_json(answer),
        }
    }

    fn parse_json(&self, answer: &str) -> Parsed {
        let failed = |problem: String| Parsed {
            text: answer.to_owned(),
            problem: Some(problem),
        };
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => return failed(format!("the output is not JSON: {error}")),
        };
        let Some(field) = &self.field else {
            return Parsed {
                text: answer.to_owned(),
                problem: None,
            };
        };
        match value.get(field) {
            Some(Value::String(text)) => Parsed {
                text: text.trim().to_owned(),
                problem: None,
            },
            Some(other) => Parsed {
                text: other.to_string(),
                problem: None,
            },
            None => failed(format!("the output has no member '{field}'")),
        }
    }
}

/// Cuts `<think>…</think>` blocks; one that never ends takes the rest with it.
pub fn cut_thinking(raw: &str) -> String {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut kept = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(start) = rest.find(OPEN) {
        kept.push_str(&rest[..start]);
        let inner = &rest[start + OPEN.len()..];
        rest = inner
            .find(CLOSE)
            .map_or("", |end| &inner[end + CLOSE.len()..]);
    }
    // Some chat templates open the block in the prompt, so that only its end is written.
    match rest.find(CLOSE) {
        Some(end) if kept.trim().is_empty() => kept.push_str(&rest[end + CLOSE.len()..]),
        _ => kept.push_str(rest),
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(raw: &str) -> Parsed {
        OutputContract::default().parse(raw)
    }

    #[test]
    fn thinking_is_cut() {
        assert_eq!(text("<think>a</think> Tip. ").text, "Tip.");
        assert_eq!(
            text("One <think>a</think>two<think>b</think> three").text,
            "One two three"
        );
        assert_eq!(text("so I think…</think>\nTip.").text, "Tip.");
        let endless = text("<think>a b c");
        assert_eq!(endless.text, "");
        assert!(endless.problem.is_some());
    }

    #[test]
    fn json_is_unwrapped_or_marked() {
        let contract = OutputContract {
            format: OutputFormat::Json,
            field: Some("tip".to_owned()),
            ..OutputContract::default()
        };
        assert_eq!(contract.parse("{\"tip\": \" Walk. \"}").text, "Walk.");
        let broken = contract.parse("Walk.");
        assert_eq!(broken.text, "Walk.");
        assert!(broken.problem.is_some_and(|it| it.contains("not JSON")));
        assert!(contract.parse("{\"x\":1}").problem.is_some());
    }
}
