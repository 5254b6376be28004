//! The prompts of a configuration.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{Source, field_of, yaml};
use crate::names::{self, Unique};
use crate::write::quoted;
use crate::{Result, invalid};

/// The endings of prompt files that are programs.
const PROGRAMS: [&str; 8] = ["js", "cjs", "mjs", "ts", "cts", "mts", "py", "rb"];

/// A prompt as it becomes a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    pub name: String,
    pub system: Option<String>,
    pub body: String,
}

impl PromptText {
    /// The text of the prompt's file.
    pub fn file(&self) -> String {
        let body = self.body.trim_end();
        match &self.system {
            Some(system) => format!("+++\nsystem = {}\n+++\n{body}\n", quoted(system)),
            None if body.starts_with("+++") => format!("+++\n+++\n{body}\n"),
            None => format!("{body}\n"),
        }
    }

    /// The names that its templates use.
    pub fn variables(&self) -> BTreeSet<String> {
        static USES: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"\{\{-?\s*([A-Za-z_]\w*)|\{%-?\s*(?:el)?if\s+(?:not\s+)?([A-Za-z_]\w*)|\{%-?\s*for\s+[\w\s,]+\s+in\s+([A-Za-z_]\w*)").ok()
        });
        static LOOPS: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"\{%-?\s*(?:for\s+(\w+)(?:\s*,\s*(\w+))?\s+in|set\s+(\w+))").ok()
        });
        let text = format!(
            "{}\n{}",
            self.system.as_deref().unwrap_or_default(),
            self.body
        );
        let found = |regex: &Option<Regex>| -> BTreeSet<String> {
            let captures = regex.iter().flat_map(|it| it.captures_iter(&text));
            let names = captures.flat_map(|it| {
                let groups: Vec<String> = it
                    .iter()
                    .skip(1)
                    .flatten()
                    .map(|it| it.as_str().to_owned())
                    .collect();
                groups
            });
            names.collect()
        };
        let own = found(&LOOPS);
        let is_free = |name: &String| !own.contains(name) && name != "loop";
        found(&USES).into_iter().filter(is_free).collect()
    }
}

/// Reads all prompts; those that cannot be carried over are listed.
pub fn read(
    source: Source<'_>,
    value: Option<&Value>,
    notes: &mut Vec<String>,
) -> Result<Vec<PromptText>> {
    let list = match value {
        Some(Value::Array(list)) => list.clone(),
        Some(one @ (Value::String(_) | Value::Object(_))) => vec![one.clone()],
        _ => return invalid(format!("{} has no prompts", source.file)),
    };
    let mut names = Unique::default();
    let mut found = Vec::new();
    let mut number = 0;
    for entry in &list {
        let (label, text) = match entry {
            Value::String(text) => (None, text.clone()),
            Value::Object(object) => {
                let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
                if object.contains_key("config") {
                    notes.push(format!("the config of the prompt {}", entry_name(entry)));
                }
                let raw = text("raw").or_else(|| text("id")).or_else(|| text("path"));
                (text("label"), raw.unwrap_or_default())
            }
            _ => (None, String::new()),
        };
        for (file, text) in texts(source, &text, notes)? {
            number += 1;
            let shown = label
                .clone()
                .or_else(|| file.as_deref().map(stem))
                .unwrap_or_default();
            let name = names::id(&shown);
            let name = if name.is_empty() {
                format!("p{number:02}")
            } else {
                name
            };
            match conversation(&text) {
                Ok((system, body)) => found.push(PromptText {
                    name: names.give(name, '-'),
                    system: system.map(|it| translated(&it)),
                    body: translated(&body),
                }),
                Err(reason) => notes.push(format!("prompt {number} ({reason})")),
            }
        }
    }
    if found.is_empty() {
        return invalid(format!("no prompt of {} can be carried over", source.file));
    }
    Ok(found)
}

fn entry_name(entry: &Value) -> String {
    let label = entry.get("label").or_else(|| entry.get("id"));
    label
        .and_then(Value::as_str)
        .unwrap_or("without a label")
        .to_owned()
}

fn stem(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.')
        .map_or(name, |(stem, _)| stem)
        .to_owned()
}

/// The texts behind one entry: itself, or the contents of the files that it names.
fn texts(
    source: Source<'_>,
    entry: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<(Option<String>, String)>> {
    let is_file =
        |ending: &str| entry.ends_with(&format!(".{ending}")) && !entry.contains(['\n', '{']);
    let path = entry.strip_prefix("file://");
    let path = path.or_else(|| {
        ["txt", "md", "j2", "json", "yaml", "yml"]
            .iter()
            .any(|it| is_file(it))
            .then_some(entry)
    });
    let Some(path) = path else {
        if let Some(ending) = PROGRAMS.iter().find(|it| is_file(it)) {
            notes.push(format!("the prompt {entry} (a program in .{ending})"));
            return Ok(Vec::new());
        }
        return Ok(vec![(None, entry.to_owned())]);
    };
    let mut found = Vec::new();
    for path in expand(source, path) {
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let ending = ending.split(':').next().unwrap_or_default();
        if PROGRAMS.contains(&ending) {
            notes.push(format!("the prompt {path} (a program in .{ending})"));
            continue;
        }
        let text = (source.read)(&path).or_else(|reason| invalid(format!("{path}: {reason}")))?;
        let text = if matches!(ending, "yaml" | "yml") {
            yaml(&path, &text)?.to_string()
        } else {
            text
        };
        // Three dashes on a line separate prompts in one file.
        let is_text = !matches!(ending, "json" | "yaml" | "yml");
        let parts: Vec<&str> = if is_text {
            text.split("\n---\n").collect()
        } else {
            vec![&text]
        };
        let parts = parts.into_iter().filter(|it| !it.trim().is_empty());
        found.extend(parts.map(|it| (Some(path.clone()), it.trim().to_owned())));
    }
    Ok(found)
}

/// The files that a path with `*` in its last part names.
fn expand(source: Source<'_>, path: &str) -> Vec<String> {
    let (folder, pattern) = path.rsplit_once('/').unwrap_or((".", path));
    let Some((start, end)) = pattern.split_once('*') else {
        return vec![path.to_owned()];
    };
    let mut files = (source.list)(folder);
    files.retain(|it| {
        it.len() >= start.len() + end.len() && it.starts_with(start) && it.ends_with(end)
    });
    files.sort();
    files
        .into_iter()
        .map(|it| format!("{folder}/{it}"))
        .collect()
}

/// System message and body; a list of messages in JSON is a conversation.
fn conversation(text: &str) -> std::result::Result<(Option<String>, String), String> {
    if !text.trim_start().starts_with('[') {
        return Ok((None, text.to_owned()));
    }
    let Ok(Value::Array(messages)) = serde_json::from_str(text) else {
        return Ok((None, text.to_owned()));
    };
    let mut parts = Vec::new();
    for message in &messages {
        let of = |key: &str| message.get(key).and_then(Value::as_str);
        let (Some(role), Some(content)) = (of("role"), of("content")) else {
            return Err("its messages are not all a role with a text".to_owned());
        };
        parts.push((role, content.trim()));
    }
    if let [("user", content)] = parts.as_slice() {
        return Ok((None, (*content).to_owned()));
    }
    if let [("system" | "developer", system), ("user", content)] = parts.as_slice() {
        return Ok((Some((*system).to_owned()), (*content).to_owned()));
    }
    if let Some((role, _)) = parts
        .iter()
        .skip(1)
        .find(|(role, _)| !matches!(*role, "user" | "assistant"))
    {
        return Err(format!(
            "a message of the role {role} is not at its beginning"
        ));
    }
    let marked = parts.iter().map(|(role, content)| {
        let role = if *role == "developer" { "system" } else { role };
        format!("[{role}]\n{content}\n")
    });
    Ok((None, marked.collect()))
}

/// Filters that are named otherwise in Jinja, and variables that are named otherwise here.
fn translated(template: &str) -> String {
    let mut text = template.to_owned();
    for (from, to) in [("| dump", "| tojson"), ("|dump", "|tojson")] {
        text = text.replace(from, to);
    }
    for name in ["id", "split", "reference", "expect", "angle", "rubric"] {
        for (before, after) in [("{{ ", " }}"), ("{{", "}}")] {
            let (from, to) = (
                format!("{before}{name}{after}"),
                format!("{before}{}{after}", field_of(name)),
            );
            text = text.replace(&from, &to);
        }
    }
    text
}
