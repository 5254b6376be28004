//! Assertions as rules of a scenario.

use serde_json::{Map, Value, json};

use super::regex_syntax;
use super::tests::Test;
use crate::write::literal;

/// The types that promptfoo knows in a CSV file and that a text could be mistaken for otherwise.
pub const TYPES: [&str; 20] = [
    "equals",
    "contains",
    "icontains",
    "contains-any",
    "contains-all",
    "icontains-any",
    "icontains-all",
    "starts-with",
    "regex",
    "is-json",
    "contains-json",
    "levenshtein",
    "similar",
    "llm-rubric",
    "javascript",
    "python",
    "webhook",
    "rouge-n",
    "cost",
    "latency",
];

/// The edit distance that promptfoo allows unless the assertion says otherwise.
const DEFAULT_DISTANCE: f64 = 5.0;

/// What a scenario's outputs are held against.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectation {
    rules: Vec<Value>,
    at_least: Option<f64>,
    rubric: Vec<String>,
}

impl Expectation {
    /// Translates the assertions of a test; those that cannot be carried over are listed.
    pub fn of(
        test: &Test,
        vars: &Map<String, Value>,
        place: &str,
        notes: &mut Vec<String>,
    ) -> Self {
        let mut found = Self {
            at_least: test.threshold,
            ..Self::default()
        };
        for assertion in &test.asserts {
            let kind = assertion
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if let Err(reason) = found.add(kind, assertion, vars) {
                let note = format!("the assertion '{kind}' of {place}: {reason}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        found
    }

    /// Writes it into its scenario.
    pub fn add_to(self, scenario: &mut Map<String, Value>) {
        // A test without assertions passes.
        let mut expect = json!({"rules": self.rules});
        if let Some(at_least) = self.at_least {
            expect["at_least"] = json!(at_least);
        }
        scenario.insert("expect".to_owned(), expect);
        if !self.rubric.is_empty() {
            scenario.insert("rubric".to_owned(), self.rubric.join("\n").into());
        }
    }

    fn add(
        &mut self,
        kind: &str,
        assertion: &Value,
        vars: &Map<String, Value>,
    ) -> Result<(), String> {
        let value = filled(assertion.get("value").unwrap_or(&Value::Null), vars)?;
        if kind == "llm-rubric" {
            self.rubric.push(text_of(&value));
            return Ok(());
        }
        let (plain, is_not) = kind
            .strip_prefix("not-")
            .map_or((kind, false), |it| (it, true));
        let threshold = assertion.get("threshold").and_then(Value::as_f64);
        let mut rule = rule(plain, &value, threshold)?;
        for key in ["transform", "provider", "rubricPrompt", "contextTransform"] {
            if assertion.get(key).is_some() {
                return Err(format!("it has a {key}"));
            }
        }
        if is_not {
            rule["not"] = json!(true);
        }
        let weight = assertion
            .get("weight")
            .and_then(Value::as_f64)
            .unwrap_or(1.0);
        if (weight - 1.0).abs() > f64::EPSILON {
            rule["weight"] = json!(weight);
        }
        self.rules.push(rule);
        Ok(())
    }
}

/// The rule for a type of assertion without `not-`.
fn rule(kind: &str, value: &Value, threshold: Option<f64>) -> Result<Value, String> {
    let text = text_of(value);
    let one = || json!([literal(&text)]);
    let exact: &[&str] = &[];
    Ok(match kind {
        "equals" if value.is_object() || value.is_array() => json!({"equals": value}),
        "equals" if text.trim() != text || text.is_empty() => {
            json!({"matches": literal(&format!("\\A{}\\z", regex::escape(&text)))})
        }
        "equals" => json!({"equals": literal(&text)}),
        "contains" => json!({"contains": one(), "ignore": exact}),
        "icontains" => json!({"contains": one()}),
        "contains-all" => json!({"contains": list(value), "ignore": exact}),
        "icontains-all" => json!({"contains": list(value)}),
        "contains-any" => json!({"contains_any": list(value), "ignore": exact}),
        "icontains-any" => json!({"contains_any": list(value)}),
        "starts-with" => json!({"matches": literal(&format!("\\A{}", regex::escape(&text)))}),
        "regex" => json!({"matches": literal(&regex_syntax::translated(&text)?)}),
        "is-json" => {
            let schema = match value {
                Value::Null => json!({}),
                Value::String(text) => {
                    super::yaml("the schema", text).map_err(|it| it.to_string())?
                }
                other => other.clone(),
            };
            json!({"json_schema": schema})
        }
        "levenshtein" => {
            let distance = threshold.unwrap_or(DEFAULT_DISTANCE);
            json!({"edits": literal(&text), "at_most": distance.max(0.0).floor()})
        }
        "javascript" | "python" | "ruby" => {
            return Err(
                "it is a program: write it as a computed criterion with command".to_owned(),
            );
        }
        "similar" => return Err("it needs a model for embeddings".to_owned()),
        "cost" | "latency" => return Err("the board shows it for every pair".to_owned()),
        "assert-set" => return Err("sets of assertions have no counterpart".to_owned()),
        _ => return Err("it has no counterpart".to_owned()),
    })
}

/// A list, or a text with commas.
fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(|it| literal(&text_of(it))).collect(),
        other => {
            let text = text_of(other);
            text.split(',').map(|it| literal(it.trim())).collect()
        }
    }
}

/// The value with variables filled in; other templates cannot be.
fn filled(value: &Value, vars: &Map<String, Value>) -> Result<Value, String> {
    match value {
        Value::String(text) if text.contains("{{") || text.contains("{%") => {
            let mut filled = text.clone();
            for (name, value) in vars {
                for form in [format!("{{{{ {name} }}}}"), format!("{{{{{name}}}}}")] {
                    filled = filled.replace(&form, &text_of(value));
                }
            }
            if filled.contains("{{") || filled.contains("{%") {
                return Err("its value is a template with more than variables".to_owned());
            }
            Ok(Value::from(filled))
        }
        Value::Array(items) => items.iter().map(|it| filled(it, vars)).collect(),
        other => Ok(other.clone()),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
