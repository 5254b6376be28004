//! Tests in a CSV file: a column for each variable, and `__expected` for assertions.

use serde_json::{Map, Value, json};

use crate::Result;
use crate::dataset::read;

/// The rows as tests.
pub fn read(path: &str, text: &str) -> Result<Vec<Value>> {
    let records = read::read_texts(path, text)?;
    Ok(records.rows.iter().map(test).collect())
}

fn test(row: &Map<String, Value>) -> Value {
    let mut vars = Map::new();
    let mut asserts = Vec::new();
    let mut found = Map::new();
    for (column, value) in row {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match column.as_str() {
            "__description" => drop(found.insert("description".to_owned(), text.into())),
            "__threshold" => {
                let number = text.trim().parse::<f64>().ok();
                found.extend(number.map(|it| ("threshold".to_owned(), json!(it))));
            }
            name if name.starts_with("__expected") => {
                if !text.trim().is_empty() {
                    asserts.push(assertion(text.trim()));
                }
            }
            name if name.starts_with("__") => {
                if !text.is_empty() {
                    found.insert(name.to_owned(), text.into());
                }
            }
            name => drop(vars.insert(name.to_owned(), text.into())),
        }
    }
    found.insert("vars".to_owned(), vars.into());
    found.insert("assert".to_owned(), asserts.into());
    Value::Object(found)
}

/// `contains: text`, `levenshtein(3): text`, `is-json`, or a text that must be equal.
fn assertion(text: &str) -> Value {
    let (head, value) = text
        .split_once(':')
        .map_or((text, None), |(head, value)| (head, Some(value.trim())));
    let (name, threshold) = match head.split_once('(') {
        Some((name, rest)) => (
            name,
            rest.strip_suffix(')').and_then(|it| it.parse::<f64>().ok()),
        ),
        None => (head, None),
    };
    let name = name.trim();
    let kind = match name {
        "fn" | "eval" => "javascript",
        "grade" => "llm-rubric",
        other => other,
    };
    let plain = kind.strip_prefix("not-").unwrap_or(kind);
    let is_known = super::assertions::TYPES.contains(&plain);
    if !is_known || (value.is_none() && !matches!(plain, "is-json" | "contains-json")) {
        return json!({"type": "equals", "value": text});
    }
    let mut assertion = json!({"type": kind});
    if let Some(value) = value {
        let is_list = plain.ends_with("-any") || plain.ends_with("-all");
        let items = || value.split(',').map(str::trim).collect::<Vec<_>>();
        assertion["value"] = if is_list {
            json!(items())
        } else {
            json!(value)
        };
    }
    if let Some(threshold) = threshold {
        assertion["threshold"] = json!(threshold);
    }
    assertion
}
