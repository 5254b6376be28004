//! A task from a data set: a file of records with questions and, mostly, answers.
//!
//! The columns that Inspect and Hugging Face's data sets usually have are known by their names.
//! The known answers decide how outputs are scored: labels, numbers, choices and JSON objects are
//! compared by rules without a judge; free text is judged with the known answer beside it.

use std::collections::BTreeSet;

use assize_domain::scenario::Split;
use serde_json::{Map, Value};

use crate::names::{self, Unique};
use crate::write;
use crate::{Import, Result, invalid};

mod answers;
mod columns;
mod kind;
pub mod read;

use answers::Answers;
use columns::Columns;
use read::Records;

/// A data set and how to read it.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
    pub text: &'a str,
    /// The name of the new task.
    pub name: &'a str,
    /// Columns and what they are in the task, as `--map` names them.
    pub maps: &'a [(String, String)],
}

/// Makes the files of a task.
pub fn import(source: Source<'_>) -> Result<Import> {
    let mut records = read::read(source.file, source.text)?;
    rename(&mut records, source)?;
    let mut notes = Vec::new();
    let columns = Columns::find(&records, &mut notes);
    let answers = Answers::read(&records, &columns, &mut notes)?;
    let scenarios = scenarios(&records, &columns, &answers, &mut notes);
    let kind = kind::Kind::of(&answers);
    let mut files = kind.files(source, &columns, &answers);
    let prompts = files.keys().filter(|it| it.starts_with("prompts/")).count();
    files.insert("scenarios.jsonl".to_owned(), write::jsonl(&scenarios));
    files.extend([write::notes(source.file, &notes)]);
    Ok(Import {
        files,
        scenarios: scenarios.len(),
        prompts,
        notes,
        models: Vec::new(),
    })
}

/// Renames columns. The side of `A=B` that is a column of the file is the source; the left one where
/// both are.
fn rename(records: &mut Records, source: Source<'_>) -> Result<()> {
    for (left, right) in source.maps {
        let (from, to) = if records.columns.contains(left) {
            (left, right)
        } else if records.columns.contains(right) {
            (right, left)
        } else {
            return invalid(format!(
                "--map {left}={right}: {} has neither column; its columns are {}",
                source.file,
                records.columns.join(", ")
            ));
        };
        if from != to && records.columns.contains(to) {
            return invalid(format!(
                "--map {left}={right}: {} already has a column '{to}': rename that one too",
                source.file
            ));
        }
        for column in records.columns.iter_mut().filter(|it| *it == from) {
            column.clone_from(to);
        }
        for row in &mut records.rows {
            let renamed = std::mem::take(row).into_iter();
            let renamed =
                renamed.map(|(key, value)| (if key == *from { to.clone() } else { key }, value));
            *row = renamed.collect();
        }
    }
    Ok(())
}

/// The records as scenarios.
fn scenarios(
    records: &Records,
    columns: &Columns,
    answers: &Answers,
    notes: &mut Vec<String>,
) -> Vec<Map<String, Value>> {
    let mut ids = Unique::default();
    let digits = records.rows.len().to_string().len();
    let splits = splits(records, columns, notes);
    let mut scenarios = Vec::new();
    for (position, row) in records.rows.iter().enumerate() {
        let mut scenario = Map::new();
        let named = columns.id.as_ref().and_then(|it| row.get(it)).map(text_of);
        let id = named.map(|it| names::id(&it)).unwrap_or_default();
        let id = if id.is_empty() {
            format!("case-{:0digits$}", position + 1)
        } else {
            id
        };
        scenario.insert("id".to_owned(), ids.give(id, '-').into());
        if let Some(split) = splits.get(position) {
            scenario.insert("split".to_owned(), split.as_str().into());
        }
        for (column, field) in &columns.fields {
            // Every scenario has every field: a prompt may use it.
            let value = row.get(column).cloned().unwrap_or(Value::Null);
            let value = if value.is_null() {
                Value::from("")
            } else {
                value
            };
            scenario.insert(field.clone(), value);
        }
        answers.add_to(position, &mut scenario);
        scenarios.push(scenario);
    }
    if scenarios.len() < 5 {
        notes.push(format!(
            "{} scenarios are too few for a test of significance: add some, five at least",
            scenarios.len()
        ));
    }
    scenarios
}

/// The split of every record, where the file uses our names for them.
fn splits(records: &Records, columns: &Columns, notes: &mut Vec<String>) -> Vec<Split> {
    let Some(column) = &columns.split else {
        return Vec::new();
    };
    let texts = records.rows.iter().map(|row| row.get(column).map(text_of));
    let texts: Vec<String> = texts.map(Option::unwrap_or_default).collect();
    let known: Option<Vec<Split>> = texts.iter().map(|it| it.parse().ok()).collect();
    if known.is_none() {
        let names: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().collect();
        notes.push(format!(
            "the column '{column}' has other values than selection, feedback and confirmation ({}): all scenarios are in \
             the selection split",
            names.join(", ")
        ));
    }
    known.unwrap_or_default()
}

/// A plain value as text, anything else as JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
