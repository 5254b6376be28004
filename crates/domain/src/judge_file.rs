//! The judge file: blind cases out, scores back.
//!
//! `judge export` writes one, somebody fills in the scores, `judge apply` reads it. Reading
//! checks the whole file before anything is written and reports every problem with its JSON
//! pointer, so that a person or an agent can mend all of them in one go. [`check`] looks at one
//! case at a time, because a file may hold a hundred thousand.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::rubric::Rubric;

pub mod check;

/// The format's name and version.
pub const FORMAT: &str = "judge/1";

/// One blind case, as it is handed out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Opaque; see [`crate::sitting::case_id`].
    pub case: String,
    pub context: Value,
    pub candidate: String,
    /// Criteria are null, flags come prefilled where a mechanical check computed them.
    pub scores: Map<String, Value>,
    pub rationale: Option<String>,
}

/// Everything of a judge file but its cases.
pub fn head(experiment: &str, sitting: &str, rubric: &Rubric) -> Map<String, Value> {
    let criteria: Vec<Value> = rubric
        .criteria
        .iter()
        .map(|it| json!({"name": it.name, "question": it.question, "min": it.min, "max": it.max, "anchors": it.anchors}))
        .collect();
    let flags: Vec<&str> = rubric.flags.iter().map(|flag| flag.name.as_str()).collect();
    let mut head = Map::new();
    head.insert("assize".to_owned(), json!(FORMAT));
    head.insert("experiment".to_owned(), json!(experiment));
    head.insert("sitting".to_owned(), json!(sitting));
    head.insert(
        "rubric".to_owned(),
        json!({
            "id": rubric.id, "sha256": rubric.sha256, "text": rubric.text,
            "criteria": criteria, "flags": flags, "composite": rubric.composite.to_string(),
        }),
    );
    head.insert("judge".to_owned(), json!({"kind": null, "name": null}));
    head
}

/// The scores of a fresh case: criteria null, flags as the mechanical checks have them.
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

/// A mistake in a judge file.
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

/// One score as the file has it: `None` where it is not given, an error where it is wrong.
pub(crate) fn read_score(
    rubric: &Rubric,
    name: &str,
    value: &Value,
) -> Result<Option<Value>, String> {
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

pub(crate) fn short(value: &Value) -> String {
    cut(&value.to_string())
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
