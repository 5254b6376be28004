//! A mistake in somebody's files: which file, which line, what is wrong, what to do.

use std::fmt;

/// One mistake. Parsers collect all of them instead of stopping at the first.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    pub file: String,
    pub line: Option<usize>,
    /// What is wrong and how to mend it, as one sentence or two.
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

/// The line (from 1) that holds byte `offset`.
pub fn line_at(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    text[..text.floor_char_boundary(end)].matches('\n').count() + 1
}

/// The line (from 1) of the first mention of `needle`.
pub fn line_of(text: &str, needle: &str) -> Option<usize> {
    text.find(needle).map(|offset| line_at(text, offset))
}
