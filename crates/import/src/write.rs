//! Writes the parts of a task as text.

use serde_json::{Map, Value};

use crate::NOTES_FILE;

/// A string of TOML.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// One scenario a line.
pub fn jsonl(records: &[Map<String, Value>]) -> String {
    let lines = records.iter().map(|record| {
        let line = Value::Object(record.clone());
        format!("{line}\n")
    });
    lines.collect()
}

/// The file that lists what could not be carried over.
pub fn notes(source: &str, notes: &[String]) -> (String, String) {
    let mut text = format!("# What could not be carried over from {source}\n\n");
    if notes.is_empty() {
        text.push_str("Nothing: everything was carried over.\n");
    }
    for note in notes {
        text.push_str(&format!("- {}\n", note.replace('\n', " ")));
    }
    (NOTES_FILE.to_owned(), text)
}

/// Text inside a template that is not a template.
pub fn literal(text: &str) -> String {
    if text.contains("{{") || text.contains("{%") || text.contains("{#") {
        format!("{{% raw %}}{text}{{% endraw %}}")
    } else {
        text.to_owned()
    }
}
