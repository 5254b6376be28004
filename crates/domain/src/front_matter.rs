//! Front matter: a TOML head between two `+++` lines, then the body.

use serde::de::DeserializeOwned;

use crate::problem::{Problem, parse_toml};

/// A file split into its machine-readable head and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<'a> {
    pub head: &'a str,
    pub body: &'a str,
    /// Line on which the body starts, from 1.
    pub body_line: usize,
}

/// Splits `text`; a file without front matter is all body.
pub fn split<'a>(file: &str, text: &'a str) -> Result<Parts<'a>, Problem> {
    let Some(rest) = text.strip_prefix("+++\n") else {
        return Ok(Parts {
            head: "",
            body: text,
            body_line: 1,
        });
    };
    let end = if rest.starts_with("+++\n") {
        Some(0)
    } else {
        rest.find("\n+++\n")
            .map(|at| at + 1)
            .or_else(|| rest.ends_with("\n+++").then(|| rest.len() - 3))
    };
    let Some(end) = end else {
        return Err(Problem::new(
            file,
            Some(1),
            "the front matter that starts here never ends: close it with a line +++",
        ));
    };
    let head = &rest[..end];
    let body = rest.get(end + 4..).unwrap_or("");
    Ok(Parts {
        head,
        body,
        body_line: head.lines().count() + 3,
    })
}

/// Parses the head of `parts`.
pub fn parse_head<T: DeserializeOwned>(file: &str, parts: &Parts<'_>) -> Result<T, Vec<Problem>> {
    parse_toml(file, parts.head, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_bodies_part() {
        let parts = split("f", "+++\na = 1\n+++\nbody\n").expect("valid");
        assert_eq!(
            (parts.head, parts.body, parts.body_line),
            ("a = 1\n", "body\n", 4)
        );
        let parts = split("f", "just body").expect("valid");
        assert_eq!((parts.head, parts.body), ("", "just body"));
        let parts = split("f", "+++\n+++\nbody").expect("valid");
        assert_eq!((parts.head, parts.body, parts.body_line), ("", "body", 3));
        let parts = split("f", "+++\na = 1\n+++").expect("valid");
        assert_eq!((parts.head, parts.body), ("a = 1\n", ""));
        assert!(split("f", "+++\na = 1\n").is_err());
    }
}
