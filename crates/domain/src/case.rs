//! A blind case: what a judge sees of one candidate, and the scores that come back.
//!
//! Every way to judge hands out the same cases and reads scores by the same rule: the judge file,
//! the queue, the terminal, the web page and an agent's tools.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::rubric::Rubric;

/// One blind case, as it is handed out.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Case {
    /// Opaque; see [`crate::sitting::case_id`].
    pub case: String,
    pub context: Value,
    pub candidate: String,
    /// Criteria are null, flags come prefilled where a mechanical check computed them.
    pub scores: Map<String, Value>,
    pub rationale: Option<String>,
}

/// The scores of a case that is not judged: criteria null, flags as the mechanical checks have
/// them.
pub fn blank_scores(rubric: &Rubric, flags: &BTreeMap<String, bool>) -> Map<String, Value> {
    let criteria = rubric
        .criteria
        .iter()
        .map(|it| (it.name.clone(), Value::Null));
    let flags = rubric
        .flags
        .iter()
        .map(|it| (it.name.clone(), json!(flags.get(&it.name))));
    criteria.chain(flags).collect()
}

/// A mistake in what a judge handed in: in a judge file, or in a list of submissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileProblem {
    /// JSON pointer.
    pub pointer: String,
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pointer, self.message)
    }
}

/// One score as the judge wrote it: `None` where it is not given, an error where it is invalid.
pub fn read_score(rubric: &Rubric, name: &str, value: &Value) -> Result<Option<Value>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let Some(criterion) = rubric
        .criteria
        .iter()
        .find(|criterion| criterion.name == name)
    else {
        let message = || format!("is {}, but a flag is true or false", short(value));
        return value
            .as_bool()
            .map(|set| Some(json!(set)))
            .ok_or_else(message);
    };
    let (min, max) = (criterion.min, criterion.max);
    match value.as_i64() {
        Some(score) if (min..=max).contains(&score) => Ok(Some(json!(score))),
        Some(_) => Err(format!("is {value}, but {name} runs from {min} to {max}")),
        None if value.is_f64() => Err(format!("is {value}, but scores are whole numbers")),
        None => Err(format!(
            "is {}, but {name} is a whole number from {min} to {max}",
            short(value)
        )),
    }
}

/// A value as a message quotes it.
pub fn short(value: &Value) -> String {
    cut(&value.to_string())
}

/// The first 40 characters of a text.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
