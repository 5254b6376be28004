//! A mistake in a task's files: which file, which line, what is wrong, what to do.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// One mistake. Parsers collect all of them instead of stopping at the first.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    pub file: String,
    pub line: Option<usize>,
    /// What is wrong and how to correct it, as one sentence or two.
    pub message: String,
}

impl Problem {
    pub fn new(file: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            message: message.into(),
        }
    }

    /// A TOML error, with the line it points at.
    pub fn from_toml(file: &str, text: &str, first_line: usize, error: &toml::de::Error) -> Self {
        let line = error
            .span()
            .map(|span| first_line + line_at(text, span.start) - 1);
        Self::new(file, line, error.message().trim().replace('\n', " "))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// Reads TOML whose first line is line `first_line` of `file`. All unknown keys are reported,
/// not only the first.
pub fn parse_toml<T: DeserializeOwned>(
    file: &str,
    text: &str,
    first_line: usize,
) -> Result<T, Vec<Problem>> {
    let problem = |error: &toml::de::Error| Problem::from_toml(file, text, first_line, error);
    let mut table = DeTable::parse(text).map_err(|error| vec![problem(&error)])?;
    let mut problems = Vec::new();
    loop {
        match T::deserialize(Deserializer::from(table.clone())) {
            Ok(parsed) if problems.is_empty() => return Ok(parsed),
            Ok(_) => return Err(problems),
            Err(error) => {
                problems.push(problem(&error));
                if !error
                    .span()
                    .is_some_and(|span| without_key(table.get_mut(), &span))
                {
                    return Err(problems);
                }
            }
        }
    }
}

/// Takes the key out that stands at `span`; an error that points elsewhere is not about a key.
fn without_key(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let key = table.keys().find(|key| key.span() == *span).cloned();
    match key {
        Some(key) => table.remove(&key).is_some(),
        None => table
            .iter_mut()
            .any(|(_, value)| without_key_in(value, span)),
    }
}

fn without_key_in(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => without_key(table, span),
        DeValue::Array(values) => values.iter_mut().any(|value| without_key_in(value, span)),
        _ => false,
    }
}

/// The line (from 1) that holds byte `offset`.
pub fn line_at(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    text[..text.floor_char_boundary(end)].matches('\n').count() + 1
}

/// The line (from 1) of the first mention of `needle`.
pub fn line_of(text: &str, needle: &str) -> Option<usize> {
    text.find(needle).map(|offset| line_at(text, offset))
}
