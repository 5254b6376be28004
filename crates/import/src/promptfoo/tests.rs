//! The tests of a configuration: inline, in YAML or JSON files, or in a CSV file.

use serde_json::{Map, Value};

use super::{Source, csv_tests, yaml};
use crate::{Result, invalid};

/// Keys of a test that are carried over.
const CARRIED: [&str; 5] = ["description", "vars", "assert", "threshold", "metadata"];
/// Files whose content is a value; others are programs or pictures.
const TEXTS: [&str; 5] = ["txt", "md", "json", "yaml", "yml"];

/// One test, with the default test merged in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Test {
    pub description: Option<String>,
    pub vars: Map<String, Value>,
    pub asserts: Vec<Value>,
    pub threshold: Option<f64>,
}

impl Test {
    /// The variables with every combination of the listed ones; the first list changes slowest.
    pub fn combinations(&self) -> Vec<Map<String, Value>> {
        let mut all = vec![Map::new()];
        for (name, value) in &self.vars {
            let values = match value {
                Value::Array(values) => values.clone(),
                one => vec![one.clone()],
            };
            let longer = all.iter().flat_map(|vars| {
                values.iter().map(|value| {
                    let mut vars = vars.clone();
                    vars.insert(name.clone(), value.clone());
                    vars
                })
            });
            all = longer.collect();
        }
        all
    }
}

/// Reads all tests.
pub fn read(
    source: Source<'_>,
    config: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> Result<Vec<Test>> {
    let reader = Reader {
        source,
        templates: config
            .get("assertionTemplates")
            .cloned()
            .unwrap_or_default(),
    };
    let default = config.get("defaultTest").cloned().unwrap_or_default();
    let default = reader.loaded(&default)?;
    let default = reader.test(&default, "defaultTest", notes)?;
    let mut entries = Vec::new();
    match config.get("tests") {
        None | Some(Value::Null) => entries.push(Value::Object(Map::new())),
        Some(Value::Array(list)) => {
            for entry in list {
                reader.add(entry, &mut entries)?;
            }
        }
        Some(one) => reader.add(one, &mut entries)?,
    }
    let mut tests = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        let place = format!("test {}", position + 1);
        let mut test = reader.test(entry, &place, notes)?;
        let mut vars = default.vars.clone();
        vars.extend(test.vars);
        test.vars = vars;
        let is_alone = entry.pointer("/options/disableDefaultAsserts") == Some(&Value::Bool(true));
        let inherited = if is_alone {
            Vec::new()
        } else {
            default.asserts.clone()
        };
        test.asserts = inherited.into_iter().chain(test.asserts).collect();
        test.threshold = test.threshold.or(default.threshold);
        tests.push(test);
    }
    if tests.is_empty() {
        return invalid(format!("{} has no tests", source.file));
    }
    Ok(tests)
}

struct Reader<'a> {
    source: Source<'a>,
    templates: Value,
}

impl Reader<'_> {
    /// Adds an entry of `tests`: a test, or a file of tests.
    fn add(&self, entry: &Value, entries: &mut Vec<Value>) -> Result<()> {
        let path = entry
            .as_str()
            .or_else(|| entry.get("path").and_then(Value::as_str));
        let Some(path) = path else {
            entries.push(entry.clone());
            return Ok(());
        };
        let path = path.strip_prefix("file://").unwrap_or(path);
        let text = self.file(path)?;
        match ending(path) {
            "csv" => entries.extend(csv_tests::read(path, &text)?),
            "jsonl" => {
                for (number, line) in text
                    .lines()
                    .enumerate()
                    .filter(|(_, it)| !it.trim().is_empty())
                {
                    let parsed = serde_json::from_str(line);
                    entries.push(
                        parsed
                            .or_else(|error| invalid(format!("{path}:{}: {error}", number + 1)))?,
                    );
                }
            }
            "json" | "yaml" | "yml" => match yaml(path, &text)? {
                Value::Array(list) => entries.extend(list),
                one => entries.push(one),
            },
            _ => {
                return invalid(format!(
                    "the tests in {path} cannot be read: use .csv, .json, .jsonl or .yaml"
                ));
            }
        }
        Ok(())
    }

    fn file(&self, path: &str) -> Result<String> {
        (self.source.read)(path).or_else(|reason| invalid(format!("{path}: {reason}")))
    }

    /// A value, or the content of the file that it names.
    fn loaded(&self, value: &Value) -> Result<Value> {
        let path = value.as_str().and_then(|it| it.strip_prefix("file://"));
        let Some(path) = path.filter(|it| TEXTS.contains(&ending(it))) else {
            return Ok(value.clone());
        };
        let text = self.file(path)?;
        match ending(path) {
            "json" | "yaml" | "yml" => yaml(path, &text),
            _ => Ok(Value::from(text.trim_end())),
        }
    }

    fn test(&self, value: &Value, place: &str, notes: &mut Vec<String>) -> Result<Test> {
        let Value::Object(test) = value else {
            return Ok(Test::default());
        };
        for key in test.keys().filter(|key| !CARRIED.contains(&key.as_str())) {
            notes.push(format!("'{key}' of {place}"));
        }
        let mut vars = Map::new();
        let given = self.loaded(test.get("vars").unwrap_or(&Value::Null))?;
        for (name, value) in given.as_object().into_iter().flatten() {
            let loaded = self.loaded(value)?;
            if loaded.as_str().is_some_and(|it| it.starts_with("file://")) {
                notes.push(format!(
                    "the content of {loaded}, the variable '{name}' of {place}"
                ));
            }
            vars.insert(name.clone(), loaded);
        }
        let asserts = match test.get("assert") {
            Some(Value::Array(list)) => list
                .iter()
                .map(|it| self.assertion(it))
                .collect::<Result<_>>()?,
            _ => Vec::new(),
        };
        Ok(Test {
            description: test
                .get("description")
                .and_then(Value::as_str)
                .map(str::to_owned),
            vars,
            asserts,
            threshold: test.get("threshold").and_then(Value::as_f64),
        })
    }

    /// An assertion with templates and files filled in.
    fn assertion(&self, value: &Value) -> Result<Value> {
        let named = value.get("$ref").and_then(Value::as_str);
        let name = named.and_then(|it| it.strip_prefix("#/assertionTemplates/"));
        let mut assertion = match name {
            Some(name) => match self.templates.get(name) {
                Some(template) => template.clone(),
                None => return invalid(format!("the assertion template '{name}' does not exist")),
            },
            None => value.clone(),
        };
        if let Some(value) = assertion.get("value").cloned() {
            assertion["value"] = self.loaded(&value)?;
        }
        Ok(assertion)
    }
}

fn ending(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, ending)| ending)
}
