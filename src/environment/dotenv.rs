//! The file `.env`. A line that cannot be read is reported by its number and skipped: its content may be
//! a secret, so it is never shown.

use std::io;
use std::path::Path;

/// The variables of a file, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DotEnv {
    pub variables: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

impl DotEnv {
    /// Reads a file. One that does not exist holds nothing.
    pub fn read(path: &Path) -> Result<Self, String> {
        if path.is_dir() {
            return Ok(Self::default());
        }
        match std::fs::read(path) {
            Ok(bytes) => Ok(Self::parse(&path.display().to_string(), &bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(file: &str, bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if let Some(variables) = variables(bytes) {
            return Self {
                variables,
                warnings: Vec::new(),
            };
        }
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let mut warnings = Vec::new();
        let mut readable: Vec<u8> = Vec::new();
        let mut first = 0;
        while first < lines.len() {
            // A quoted value may go on over several lines.
            let is_quoted = lines[first].iter().any(|byte| matches!(byte, b'"' | b'\''));
            let last = if is_quoted { lines.len() } else { first + 1 };
            let found =
                (first + 1..=last).find(|end| variables(&lines[first..*end].concat()).is_some());
            if let Some(end) = found {
                readable.extend(lines[first..end].concat());
                first = end;
            } else {
                first += 1;
                warnings.push(format!(
                    "{file}:{first}: this line is not NAME=value and is ignored; put quotes around a value \
                     with spaces"
                ));
            }
        }
        // Values may refer to those above them, so they are read together.
        Self {
            variables: variables(&readable).unwrap_or_default(),
            warnings,
        }
    }
}

/// All variables of a text; `None` if a line of it cannot be read.
fn variables(text: &[u8]) -> Option<Vec<(String, String)>> {
    dotenvy::from_read_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &DotEnv) -> Vec<&str> {
        found.variables.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn an_unreadable_line_is_skipped_and_named_without_its_content() {
        let text = "A=1\nB=two words and sk-secret\nsk-secret\nC=\"${A}\nmore\"\n\nD=x\n";
        let found = DotEnv::parse(".env", text.as_bytes());
        assert_eq!(names(&found), ["A", "C", "D"]);
        assert_eq!(found.variables[1].1, "1\nmore");
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
        assert!(
            found.warnings[0].starts_with(".env:2: "),
            "{:?}",
            found.warnings
        );
        assert!(
            found.warnings[1].starts_with(".env:3: "),
            "{:?}",
            found.warnings
        );
        assert!(!found.warnings.concat().contains("sk-secret"));
    }

    #[test]
    fn a_quote_without_an_end_costs_its_own_line_only() {
        let found = DotEnv::parse(".env", b"A=1\nB=\"open\nC=3\n");
        assert_eq!(names(&found), ["A", "C"]);
        assert!(
            found.warnings[0].starts_with(".env:2: "),
            "{:?}",
            found.warnings
        );
    }

    #[test]
    fn a_byte_order_mark_and_other_encodings() {
        let found = DotEnv::parse(".env", b"\xef\xbb\xbfA=1\nB=\xff\nC=3\n");
        assert_eq!(names(&found), ["A", "C"]);
        assert_eq!(found.warnings.len(), 1);
    }
}
