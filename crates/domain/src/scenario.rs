//! Scenarios: the fixed contexts on which every pair is evaluated.
//!
//! They come as TOML (`[[scenario]]` tables), JSONL or CSV, with the same keys. Three keys
//! are ours: `id`, `split` and `reference`; everything else is the scenario's own and becomes
//! template variables.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::{canonical_json, sha256_hex};
use crate::problem::{Problem, line_at, parse_toml};
use crate::rule::own::EXPECT;

mod table;

use table::read_csv;

/// What a set of scenarios is for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Ranks the pairs.
    Selection,
    /// Feeds the writing of new prompts.
    Feedback,
    /// Sealed: confirms one winner before it is promoted.
    Confirmation,
}

impl Split {
    pub const ALL: [Self; 3] = [Self::Selection, Self::Feedback, Self::Confirmation];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Selection => "selection",
            Self::Feedback => "feedback",
            Self::Confirmation => "confirmation",
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|split| split.as_str() == text);
        known.ok_or_else(|| {
            format!("'{text}' is not a split: use selection, feedback or confirmation")
        })
    }
}

/// One fixed context.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub id: String,
    pub split: Split,
    /// The scenario's own fields, in the order of the file.
    pub fields: Map<String, Value>,
    /// A good answer that judges may look at; models never see it.
    pub reference: Option<String>,
    /// Rules that its outputs are held against ([`crate::rule::own`]); models never see them.
    pub expect: Option<Value>,
    /// Over id and fields: what a model can see, and nothing else.
    pub sha256: String,
}

impl Scenario {
    /// The context that judges see: the fields, and the reference where there is one.
    pub fn judge_context(&self) -> Value {
        let mut context = self.fields.clone();
        if let Some(reference) = &self.reference {
            context.insert("reference".to_owned(), Value::from(reference.as_str()));
        }
        if let Some(expect) = &self.expect {
            context.insert(EXPECT.to_owned(), expect.clone());
        }
        Value::Object(context)
    }

    /// Fields that are plain values; they become params of the run.
    pub fn scalars(&self) -> impl Iterator<Item = (&str, String)> {
        self.fields.iter().filter_map(|(key, value)| match value {
            Value::String(text) => Some((key.as_str(), text.clone())),
            Value::Number(number) => Some((key.as_str(), number.to_string())),
            Value::Bool(flag) => Some((key.as_str(), flag.to_string())),
            _ => None,
        })
    }
}

/// Reads a scenario file in the format that its ending names.
pub fn parse_all(file: &str, text: &str) -> Result<Vec<Scenario>, Vec<Problem>> {
    let raw = match file.rsplit_once('.').map(|(_, ending)| ending) {
        Some("toml") => read_toml(file, text),
        Some("jsonl") => read_jsonl(file, text),
        Some("csv") => read_csv(file, text),
        _ => Err(vec![Problem::new(
            file,
            None,
            "scenarios come as .toml, .jsonl or .csv",
        )]),
    }?;
    let mut problems = Vec::new();
    let mut scenarios = Vec::new();
    let mut ids = BTreeSet::new();
    for record in raw {
        let line = record.line;
        match build(record) {
            Ok(scenario) if !ids.insert(scenario.id.clone()) => {
                let message = format!(
                    "the id '{}' is already used by an earlier scenario: choose another",
                    scenario.id
                );
                problems.push(Problem::new(file, Some(line), message));
            }
            Ok(scenario) => scenarios.push(scenario),
            Err(messages) => problems.extend(
                messages
                    .into_iter()
                    .map(|it| Problem::new(file, Some(line), it)),
            ),
        }
    }
    if scenarios.is_empty() && problems.is_empty() {
        problems.push(Problem::new(
            file,
            None,
            "there is no scenario here: add at least one",
        ));
    }
    if problems.is_empty() {
        Ok(scenarios)
    } else {
        Err(problems)
    }
}

/// A scenario as it is read, before it is checked.
struct Record {
    line: usize,
    fields: Map<String, Value>,
    /// Fields that are empty cells of a table. Prompts see them as empty texts; the hash does not cover
    /// them, because a column that another scenario needs does not change this one.
    blank: Vec<String>,
}

impl Record {
    fn new(line: usize, fields: Map<String, Value>) -> Self {
        Self {
            line,
            fields,
            blank: Vec::new(),
        }
    }
}

fn build(record: Record) -> Result<Scenario, Vec<String>> {
    let Record {
        fields: mut record,
        blank,
        ..
    } = record;
    let mut messages = Vec::new();
    let id = match record.shift_remove("id") {
        Some(Value::String(id)) if is_id(&id) => id,
        Some(other) => {
            messages.push(format!("the id {other} may hold a-z, 0-9 and - only"));
            String::new()
        }
        None => {
            messages.push("this scenario has no id: add id = \"…\"".to_owned());
            String::new()
        }
    };
    let split = match record.shift_remove("split") {
        None => Split::Selection,
        Some(Value::String(text)) => text.parse().unwrap_or_else(|error| {
            messages.push(error);
            Split::Selection
        }),
        Some(other) => {
            messages.push(format!(
                "split is {other}: use selection, feedback or confirmation"
            ));
            Split::Selection
        }
    };
    let reference = match record.shift_remove("reference") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => {
            messages.push(format!("reference is {other}: it must be a text"));
            None
        }
    };
    // A text of this name is an ordinary field.
    let is_rules = |it: &Value| it.is_array() || it.is_object();
    let expect = record.get(EXPECT).is_some_and(is_rules);
    let expect = expect.then(|| record.shift_remove(EXPECT)).flatten();
    if record.contains_key("angle") {
        messages.push(
            "a scenario's field cannot be named 'angle': --diversity uses that name".to_owned(),
        );
    }
    if !messages.is_empty() {
        return Err(messages);
    }
    let fields = Value::Object(record.clone());
    let sha256 = sha256_hex(format!("{id}\n{}", canonical_json(&fields)).as_bytes());
    record.extend(blank.into_iter().map(|name| (name, Value::from(""))));
    Ok(Scenario {
        id,
        split,
        fields: record,
        reference,
        expect,
        sha256,
    })
}

fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn read_toml(file: &str, text: &str) -> Result<Vec<Record>, Vec<Problem>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        scenario: Vec<toml::Spanned<Map<String, Value>>>,
    }
    let parsed: File = parse_toml(file, text, 1)?;
    Ok(parsed
        .scenario
        .into_iter()
        .map(|record| Record::new(line_at(text, record.span().start), record.into_inner()))
        .collect())
}

fn read_jsonl(file: &str, text: &str) -> Result<Vec<Record>, Vec<Problem>> {
    let mut records = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        match serde_json::from_str::<Map<String, Value>>(line) {
            Ok(record) => records.push(Record::new(number + 1, record)),
            Err(error) => problems.push(Problem::new(
                file,
                Some(number + 1),
                format!("not a JSON object: {error}"),
            )),
        }
    }
    if problems.is_empty() {
        Ok(records)
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_formats_say_the_same() {
        let toml = "[[scenario]]\nid = \"a\"\npersona = \"nurse\"\ntasks = [\"x\", \"y\"]\n";
        let jsonl = "{\"id\":\"a\",\"persona\":\"nurse\",\"tasks\":[\"x\",\"y\"]}\n\n";
        let csv = "id,persona,tasks\na,nurse,\"[\"\"x\"\",\"\"y\"\"]\"\n";
        let parse = |file, text| parse_all(file, text).expect(file);
        assert_eq!(parse("s.toml", toml), parse("s.jsonl", jsonl));
        assert_eq!(parse("s.toml", toml), parse("s.csv", csv));
    }

    #[test]
    fn mistakes_carry_their_lines() {
        let check = |file, text, expected: &str| {
            let problems = parse_all(file, text).expect_err(text);
            let all = problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n");
            assert!(all.contains(expected), "{all}");
        };
        check(
            "s.toml",
            "[[scenario]]\nid = \"a\"\n[[scenario]]\nid = \"a\"\n",
            "s.toml:3: the id 'a' is already used",
        );
        check("s.toml", "[[scenario]]\nid = \"A b\"\n", "may hold a-z");
        check("s.toml", "[[scenario]]\npersona = \"x\"\n", "has no id");
        check(
            "s.toml",
            "[[scenario]]\nid = \"a\"\nsplit = \"train\"\n",
            "'train' is not a split",
        );
        check("s.toml", "scenario = 3\n", "s.toml:1:");
        check(
            "s.jsonl",
            "{\"id\":\"a\"}\nnope\n",
            "s.jsonl:2: not a JSON object",
        );
        check("s.toml", "", "there is no scenario");
        check("s.xml", "", ".toml, .jsonl or .csv");
    }

    #[test]
    fn the_hash_covers_what_models_see_only() {
        let one = &parse_all("s.jsonl", "{\"id\":\"a\",\"x\":1,\"y\":2}").expect("ok")[0];
        let same = &parse_all(
            "s.jsonl",
            "{\"y\":2,\"reference\":\"r\",\"id\":\"a\",\"x\":1,\"split\":\"feedback\"}",
        )
        .expect("ok")[0];
        let other = &parse_all("s.jsonl", "{\"id\":\"a\",\"x\":1,\"y\":3}").expect("ok")[0];
        assert_eq!(one.sha256, same.sha256);
        assert_ne!(one.sha256, other.sha256);
    }
}
