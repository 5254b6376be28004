//! The rubric: the pinned, self-describing standard that every judge scores against.
//!
//! One Markdown file: the front matter holds what machines need (criteria, scales, anchors,
//! flags, composite), the prose holds calibrated examples for people and agents. Its hash is
//! over the whole file, because every word of it can move a judge.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::composite::Composite;
use crate::front_matter;
use crate::hash::sha256_hex;
use crate::problem::{Problem, line_of};
use crate::run::metric;

/// A valid rubric.
#[derive(Debug, Clone, PartialEq)]
pub struct Rubric {
    pub id: String,
    pub sha256: String,
    /// The whole file, as it travels with every run and every export.
    pub text: String,
    pub title: String,
    pub criteria: Vec<Criterion>,
    pub flags: Vec<Flag>,
    pub composite: Composite,
}

/// One scale that a judge scores on, in whole numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    pub name: String,
    #[serde(default)]
    pub question: String,
    pub min: i64,
    pub max: i64,
    /// What each level means, with an example.
    #[serde(default)]
    pub anchors: BTreeMap<String, String>,
}

/// A yes-or-no property of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    pub name: String,
    #[serde(default)]
    pub description: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    id: String,
    #[serde(default)]
    title: String,
    composite: String,
    #[serde(default)]
    criteria: Vec<Criterion>,
    #[serde(default)]
    flags: Vec<Flag>,
}

impl Rubric {
    /// Parses a rubric file and reports every problem in it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let parts = front_matter::split(file, text).map_err(|problem| vec![problem])?;
        let head: Head = front_matter::parse_head(file, &parts)?;
        let mut problems = Vec::new();
        let mut say = |needle: &str, message: String| {
            problems.push(Problem::new(file, line_of(text, needle), message));
        };
        if head.criteria.is_empty() {
            say(
                "+++",
                "the rubric has no criterion: add a [[criteria]] table".to_owned(),
            );
        }
        if head.id.is_empty()
            || !head
                .id
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            say(
                "id",
                format!(
                    "the rubric's id '{}' may hold letters, digits, - _ . only",
                    head.id
                ),
            );
        }
        check_names(&head, &mut say);
        for criterion in &head.criteria {
            check_scale(criterion, &mut say);
        }
        let names: Vec<&str> = head.names().collect();
        let composite = Composite::parse(&head.composite, &names)
            .map_err(|error| say("composite", error.to_string()));
        let Ok(composite) = composite else {
            return Err(problems);
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            id: head.id,
            sha256: sha256_hex(text.as_bytes()),
            text: text.to_owned(),
            title: head.title,
            criteria: head.criteria,
            flags: head.flags,
            composite,
        })
    }

    /// The names of everything a judge fills in: criteria, then flags.
    pub fn score_names(&self) -> impl Iterator<Item = &str> {
        let criteria = self
            .criteria
            .iter()
            .map(|criterion| criterion.name.as_str());
        criteria.chain(self.flags.iter().map(|flag| flag.name.as_str()))
    }

    /// The smallest and the largest composite.
    pub fn composite_range(&self) -> (f64, f64) {
        self.composite.range(|name| {
            let criterion = self
                .criteria
                .iter()
                .find(|criterion| criterion.name == name);
            criterion.map_or((0.0, 1.0), |it| (it.min as f64, it.max as f64))
        })
    }
}

impl Head {
    fn names(&self) -> impl Iterator<Item = &str> {
        let criteria = self
            .criteria
            .iter()
            .map(|criterion| criterion.name.as_str());
        criteria.chain(self.flags.iter().map(|flag| flag.name.as_str()))
    }
}

fn check_names(head: &Head, say: &mut impl FnMut(&str, String)) {
    let mut seen: Vec<&str> = Vec::new();
    for name in head.names() {
        let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
        if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            say(
                name,
                format!("'{name}' is not a score's name: use letters, digits and _"),
            );
        }
        if metric::TAKEN.contains(&name) {
            say(
                name,
                format!("a score cannot be named '{name}': every run has a metric of that name"),
            );
        }
        if seen.contains(&name) {
            say(
                name,
                format!("'{name}' is declared twice: names of criteria and flags must differ"),
            );
        }
        seen.push(name);
    }
}

fn check_scale(criterion: &Criterion, say: &mut impl FnMut(&str, String)) {
    let Criterion {
        name,
        min,
        max,
        anchors,
        ..
    } = criterion;
    let here = format!("\"{name}\"");
    if min >= max || max - min > 100 {
        say(
            &here,
            format!("'{name}' runs from {min} to {max}: max must be above min, by 100 at most"),
        );
        return;
    }
    for level in *min..=*max {
        if anchors
            .get(&level.to_string())
            .is_none_or(|text| text.trim().is_empty())
        {
            let message = format!(
                "'{name}' has no anchor for level {level}: add {level} = \"…\" to [criteria.anchors]"
            );
            say(&here, message);
        }
    }
    for level in anchors.keys() {
        if !level
            .parse::<i64>()
            .is_ok_and(|level| (*min..=*max).contains(&level))
        {
            say(
                &here,
                format!("'{name}' anchors level '{level}', outside {min} to {max}: remove it"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "+++\nid = \"r-1\"\ncomposite = \"tone + 2*ok\"\n[[criteria]]\nname = \"tone\"\nmin = 1\nmax = 2\n[criteria.anchors]\n1 = \"rude\"\n2 = \"kind\"\n[[flags]]\nname = \"ok\"\n+++\nProse.\n";

    #[test]
    fn a_sound_rubric_is_read() {
        let rubric = Rubric::parse("rubric.md", GOOD).expect("sound");
        assert_eq!(rubric.score_names().collect::<Vec<_>>(), ["tone", "ok"]);
        assert_eq!(rubric.composite_range(), (1.0, 4.0));
        assert_eq!(rubric.sha256, sha256_hex(GOOD.as_bytes()));
    }

    #[test]
    fn every_mistake_is_reported() {
        let bad = GOOD
            .replace("2 = \"kind\"\n", "3 = \"x\"\n")
            .replace("tone + 2*ok", "tone + charm");
        let problems = Rubric::parse("rubric.md", &bad).expect_err("unsound");
        let all = problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n");
        assert!(all.contains("no anchor for level 2"), "{all}");
        assert!(all.contains("level '3'"), "{all}");
        assert!(
            all.contains("rubric.md:3: the composite names 'charm'"),
            "{all}"
        );
    }
}
