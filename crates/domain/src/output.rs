//! From a model's raw output to a candidate.
//!
//! Raw output is untrusted and kept whole elsewhere; this module only cuts what is not part
//! of the answer (`<think>` blocks, white space, code fences and a JSON wrapper where the task says
//! so).
//! Output that cannot be parsed is a candidate all the same, marked as such: dropping it
//! would make a model look better than it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rule::schema_fault;

/// A task's output contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct OutputContract {
    pub format: OutputFormat,
    /// With `format = "json"`: the member of the object that holds the candidate's text.
    pub field: Option<String>,
    /// With `format = "json"`: providers that can are held to this schema, and every output is
    /// verified against it.
    pub schema: Option<Value>,
    /// The flag that is true where the output fits this contract, and false where it does not.
    pub flag: Option<String>,
    /// With `format = "json"`: what happens to code fences around the whole output.
    pub fences: Fences,
    /// The flag that is true where fences were stripped.
    pub fences_flag: Option<String>,
}

/// What happens to code fences around JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Fences {
    /// They are part of the output, which is then not JSON.
    #[default]
    Keep,
    Strip,
}

/// The flag for stripped fences, unless the task names another.
const FENCED: &str = "fenced";

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
    /// Whether code fences were stripped.
    pub fenced: bool,
}

/// A contract with its schema compiled.
#[derive(Debug)]
pub struct OutputReader<'a> {
    contract: &'a OutputContract,
    validator: Option<Box<jsonschema::Validator>>,
}

impl OutputContract {
    /// The flag that counts stripped fences.
    pub fn fences_flag(&self) -> Option<&str> {
        let named = self.fences_flag.as_deref();
        (self.fences == Fences::Strip).then(|| named.unwrap_or(FENCED))
    }

    /// Sets the contract's own flags, beside those of the checks.
    pub fn set_flags(&self, flags: &mut BTreeMap<String, bool>, fits: bool, fenced: bool) {
        if let Some(flag) = &self.flag {
            let flag = flags.entry(flag.clone()).or_insert(true);
            *flag &= fits;
        }
        if let Some(flag) = self.fences_flag() {
            flags.insert(flag.to_owned(), fenced);
        }
    }
}

impl<'a> OutputReader<'a> {
    /// A schema that does not compile is reported where the task is parsed.
    pub fn new(contract: &'a OutputContract) -> Self {
        let schema = contract.schema.as_ref();
        let validator = schema.and_then(|schema| jsonschema::validator_for(schema).ok());
        Self {
            contract,
            validator: validator.map(Box::new),
        }
    }

    /// Reads one raw output.
    pub fn parse(&self, raw: &str) -> Parsed {
        let answer = cut_thinking(raw);
        let answer = answer.trim();
        if answer.is_empty() {
            return Parsed {
                text: String::new(),
                problem: Some("the output is empty".to_owned()),
                fenced: false,
            };
        }
        let inner = match self.contract.fences {
            Fences::Strip => within_fences(answer),
            Fences::Keep => None,
        };
        let fenced = inner.is_some();
        let answer = inner.unwrap_or(answer);
        let (text, problem) = match self.contract.format {
            OutputFormat::Text => (answer.to_owned(), None),
            OutputFormat::Json => self.parse_json(answer),
        };
        Parsed {
            text,
            problem,
            fenced,
        }
    }

    fn parse_json(&self, answer: &str) -> (String, Option<String>) {
        let failed = |problem: String| (answer.to_owned(), Some(problem));
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => return failed(format!("the output is not JSON: {error}")),
        };
        let problem = self.validator.as_ref().and_then(|validator| {
            let fault = validator.iter_errors(&value).next();
            fault.map(|it| schema_fault(&it))
        });
        let Some(field) = &self.contract.field else {
            return (answer.to_owned(), problem);
        };
        match value.get(field) {
            Some(Value::String(text)) => (text.trim().to_owned(), problem),
            Some(other) => (other.to_string(), problem),
            None => failed(format!("the output has no member '{field}'")),
        }
    }
}

/// What stands between a code fence at the start and one at the end, where that is all of the text.
fn within_fences(answer: &str) -> Option<&str> {
    const FENCE: &str = "```";
    let inner = answer.strip_prefix(FENCE)?.strip_suffix(FENCE)?;
    let (language, inner) = inner.split_once('\n')?;
    let is_plain = language.trim().chars().all(char::is_alphanumeric);
    (is_plain && !inner.contains(FENCE)).then(|| inner.trim())
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
        OutputReader::new(&OutputContract::default()).parse(raw)
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
        let contract = OutputReader::new(&contract);
        assert_eq!(contract.parse("{\"tip\": \" Walk. \"}").text, "Walk.");
        let broken = contract.parse("Walk.");
        assert_eq!(broken.text, "Walk.");
        assert!(broken.problem.is_some_and(|it| it.contains("not JSON")));
        assert!(contract.parse("{\"x\":1}").problem.is_some());
    }

    #[test]
    fn the_schema_is_verified_and_fences_are_stripped_only_where_the_task_says_so() {
        let contract = OutputContract {
            format: OutputFormat::Json,
            schema: Some(serde_json::json!({"type": "object", "required": ["tip"]})),
            flag: Some("ok".to_owned()),
            fences: Fences::Strip,
            ..OutputContract::default()
        };
        let flags = |contract: &OutputContract, raw: &str| {
            let parsed = OutputReader::new(contract).parse(raw);
            let mut flags = BTreeMap::new();
            contract.set_flags(&mut flags, parsed.problem.is_none(), parsed.fenced);
            (parsed, flags)
        };
        let (parsed, set) = flags(&contract, "```json\n{\"tip\": 1}\n```");
        assert_eq!(
            (parsed.text.as_str(), parsed.problem),
            ("{\"tip\": 1}", None)
        );
        assert!(set["ok"] && set["fenced"]);
        let (parsed, set) = flags(&contract, "{\"top\": 1}");
        assert!(parsed.problem.unwrap().contains("does not fit the schema"));
        assert!(!set["ok"] && !set["fenced"]);
        for untouched in [
            "Here: ```json\n{}\n```",
            "```\n{}\n``` ```\n{}\n```",
            "```{}```",
        ] {
            assert!(!flags(&contract, untouched).0.fenced, "{untouched}");
        }
        let strict = OutputContract {
            fences: Fences::Keep,
            ..contract
        };
        let (parsed, set) = flags(&strict, "```json\n{\"tip\": 1}\n```");
        assert!(parsed.problem.unwrap().contains("not JSON"));
        assert!(!set["ok"] && !set.contains_key("fenced"));
    }
}
