//! Names that tasks allow, from names that other tools allow.

use std::collections::BTreeSet;

/// The id of a scenario: a-z, 0-9 and `-`; empty where nothing of the text remains.
pub fn id(text: &str) -> String {
    slug(text, '-', 60)
}

/// A name of a task: a-z, 0-9, `-` and `_`.
pub fn task(text: &str) -> String {
    let name = slug(text, '-', 60);
    if name.is_empty() {
        "task".to_owned()
    } else {
        name
    }
}

/// A variable of a template.
pub fn field(text: &str) -> String {
    let name = slug(text, '_', 60);
    match name.chars().next() {
        None => "field".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("field_{name}"),
        Some(_) if name == "angle" => "angle_".to_owned(),
        Some(_) => name,
    }
}

fn slug(text: &str, gap: char, most: usize) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        let lower = c.to_ascii_lowercase();
        if lower.is_ascii_alphanumeric() || (lower == '_' && gap == '_') {
            slug.push(lower);
        } else if !slug.is_empty() && !slug.ends_with(gap) {
            slug.push(gap);
        }
        if slug.len() >= most {
            break;
        }
    }
    slug.trim_end_matches(gap).to_owned()
}

/// Names that have been given, so that none is given twice.
#[derive(Debug, Default)]
pub struct Unique(BTreeSet<String>);

impl Unique {
    /// The name itself, or the name with the first free number.
    pub fn give(&mut self, name: String, gap: char) -> String {
        if self.0.insert(name.clone()) {
            return name;
        }
        let free = (2..).map(|number| format!("{name}{gap}{number}"));
        for name in free {
            if self.0.insert(name.clone()) {
                return name;
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        assert_eq!(id("Ticket #12 (late)"), "ticket-12-late");
        assert_eq!(id("…"), "");
        assert_eq!(field("Ticket Text"), "ticket_text");
        assert_eq!(field("2nd"), "field_2nd");
        assert_eq!(field("angle"), "angle_");
        assert_eq!(task("Über/Maß"), "ber-ma");
        let mut names = Unique::default();
        assert_eq!(names.give("a".to_owned(), '-'), "a");
        assert_eq!(names.give("a".to_owned(), '-'), "a-2");
        assert_eq!(names.give("a".to_owned(), '-'), "a-3");
    }
}
