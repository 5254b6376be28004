//! The rubric: the pinned, self-describing standard that every judge scores against.
//!
//! One Markdown file: the front matter holds what machines need (criteria, scales, anchors,
//! flags, composite), the prose holds calibrated examples for people and agents. Its hash is
//! over the whole file, because every word of it can move a judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::composite::Composite;
use crate::computed::{By, ComputedCriterion};
use crate::front_matter;
use crate::hash::sha256_hex;
use crate::problem::{Problem, line_of};
use crate::rule::{Compiled, RuleSource};
use crate::run::metric;

/// A valid rubric.
#[derive(Debug, Clone)]
pub struct Rubric {
    pub id: String,
    pub sha256: String,
    /// The whole file, as it travels with every run and every export.
    pub text: String,
    pub title: String,
    /// What judges are asked.
    pub criteria: Vec<Criterion>,
    /// What rules and commands score, and no judge is ever asked.
    pub computed: Arc<[ComputedCriterion]>,
    pub flags: Vec<Flag>,
    pub composite: Composite,
}

/// Everything else follows from the text.
impl PartialEq for Rubric {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
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

/// A criterion as it is written: with levels for judges, or with a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CriterionSource {
    name: String,
    #[serde(default)]
    question: String,
    min: Option<i64>,
    max: Option<i64>,
    #[serde(default)]
    anchors: BTreeMap<String, String>,
    computed: Option<RuleSource>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    id: String,
    #[serde(default)]
    title: String,
    composite: String,
    #[serde(default)]
    criteria: Vec<CriterionSource>,
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
        let composite = {
            let names: Vec<&str> = head.names().collect();
            Composite::parse(&head.composite, &names)
                .map_err(|error| say("composite", error.to_string()))
        };
        let (criteria, computed) = read_criteria(head.criteria, &mut say);
        let (Ok(composite), true) = (composite, problems.is_empty()) else {
            return Err(problems);
        };
        Ok(Self {
            id: head.id,
            sha256: sha256_hex(text.as_bytes()),
            text: text.to_owned(),
            title: head.title,
            criteria,
            computed: computed.into(),
            flags: head.flags,
            composite,
        })
    }

    /// Whether a judge is asked for anything. Otherwise runs are judged as they are collected.
    pub fn needs_judge(&self) -> bool {
        !self.criteria.is_empty()
    }

    /// The lowest score of every computed criterion, for verdicts on anchors: those show how a judge
    /// uses the scale, which computed scores say nothing about.
    pub fn lowest_computed(&self) -> BTreeMap<String, f64> {
        let computed = self.computed.iter();
        computed
            .map(|it| (it.name.clone(), it.min as f64))
            .collect()
    }

    /// The names of everything a judge fills in: criteria, then flags.
    pub fn asked_names(&self) -> impl Iterator<Item = &str> {
        let criteria = self.criteria.iter().map(|it| it.name.as_str());
        criteria.chain(self.flag_names())
    }

    /// The names of everything that a verdict holds: the criteria that judges are asked, those that
    /// are computed, then flags.
    pub fn score_names(&self) -> impl Iterator<Item = &str> {
        self.criterion_names().chain(self.flag_names())
    }

    /// The names of all criteria: those that judges are asked, then those that are computed.
    pub fn criterion_names(&self) -> impl Iterator<Item = &str> {
        let asked = self.criteria.iter().map(|it| it.name.as_str());
        asked.chain(self.computed.iter().map(|it| it.name.as_str()))
    }

    fn flag_names(&self) -> impl Iterator<Item = &str> {
        self.flags.iter().map(|it| it.name.as_str())
    }

    /// The smallest and the largest composite.
    pub fn composite_range(&self) -> (f64, f64) {
        self.composite.range(|name| {
            let asked = self.criteria.iter().find(|it| it.name == name);
            let computed = || self.computed.iter().find(|it| it.name == name);
            let scale = asked
                .map(|it| (it.min, it.max))
                .or_else(|| computed().map(|it| (it.min, it.max)));
            scale.map_or((0.0, 1.0), |(min, max)| (min as f64, max as f64))
        })
    }
}

/// Parts the criteria into those for judges and those that are computed.
fn read_criteria(
    sources: Vec<CriterionSource>,
    say: &mut impl FnMut(&str, String),
) -> (Vec<Criterion>, Vec<ComputedCriterion>) {
    let (mut asked, mut computed) = (Vec::new(), Vec::new());
    for source in sources {
        let here = format!("\"{}\"", source.name);
        if let Some(rule) = source.computed {
            let criterion = ComputedSource {
                name: source.name,
                question: source.question,
                scale: (source.min.unwrap_or(0), source.max.unwrap_or(1)),
                has_anchors: !source.anchors.is_empty(),
                rule,
            };
            computed.extend(criterion.read(|message| say(&here, message)));
            continue;
        }
        let (Some(min), Some(max)) = (source.min, source.max) else {
            let message = format!(
                "'{}' has no min or no max: give it a scale, or a table [criteria.computed]",
                source.name
            );
            say(&here, message);
            continue;
        };
        let criterion = Criterion {
            name: source.name,
            question: source.question,
            min,
            max,
            anchors: source.anchors,
        };
        check_scale(&criterion, say);
        asked.push(criterion);
    }
    (asked, computed)
}

struct ComputedSource {
    name: String,
    question: String,
    scale: (i64, i64),
    has_anchors: bool,
    rule: RuleSource,
}

impl ComputedSource {
    fn read(self, mut say: impl FnMut(String)) -> Option<ComputedCriterion> {
        let (name, (min, max)) = (self.name, self.scale);
        check_range(&name, min, max, &mut say);
        if self.has_anchors {
            say(format!(
                "'{name}' is computed, so no judge reads its anchors: remove [criteria.anchors]"
            ));
        }
        if self.rule.flag.is_some() || self.rule.when.is_some() {
            say(format!(
                "'{name}': flag and when belong to checks, not to computed criteria: remove them"
            ));
        }
        let by = match self
            .rule
            .compile(&format!("the computed criterion '{name}'"))
        {
            Ok(Compiled::Rule(rule)) => By::Rule(rule),
            Ok(Compiled::Command(command)) => By::Command(command),
            Err(message) => {
                say(message);
                return None;
            }
        };
        Some(ComputedCriterion {
            name,
            question: self.question,
            min,
            max,
            by,
        })
    }
}

fn check_range(name: &str, min: i64, max: i64, say: &mut impl FnMut(String)) -> bool {
    let is_right = min < max && max - min <= 100;
    if !is_right {
        say(format!(
            "'{name}' runs from {min} to {max}: max must be above min, by 100 at most"
        ));
    }
    is_right
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
    if !check_range(name, *min, *max, &mut |message| say(&here, message)) {
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
    fn computed_criteria_are_not_asked_of_judges() {
        let mixed = GOOD
            .replace("tone + 2*ok", "tone + 2*label + ok")
            .replace("[[flags]]", "[[criteria]]\nname = \"label\"\nmax = 3\n[criteria.computed]\nequals = \"{{ label }}\"\n[[flags]]");
        let rubric = Rubric::parse("rubric.md", &mixed).expect("sound");
        assert_eq!(rubric.asked_names().collect::<Vec<_>>(), ["tone", "ok"]);
        let all: Vec<&str> = rubric.score_names().collect();
        assert_eq!(all, ["tone", "label", "ok"]);
        assert_eq!(rubric.composite_range(), (1.0, 9.0));
        assert!(rubric.needs_judge());
    }

    #[test]
    fn mistakes_in_computed_criteria_are_reported_with_their_line() {
        let bad = "+++\nid = \"r-1\"\ncomposite = \"a + b\"\n[[criteria]]\nname = \"a\"\n[criteria.computed]\nmatches = '('\n[[criteria]]\nname = \"b\"\nmin = 2\nmax = 1\n[criteria.anchors]\n1 = \"x\"\n[criteria.computed]\nflag = \"f\"\n+++\n";
        let problems = Rubric::parse("rubric.md", bad).expect_err("unsound");
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let all = all.join("\n");
        for expected in [
            "rubric.md:5: not a regular expression",
            "rubric.md:9: 'b' runs from 2 to 1",
            "no judge reads its anchors",
            "flag and when belong to checks",
            "the computed criterion 'b' has 0 rules",
        ] {
            assert!(all.contains(expected), "{expected} is not in\n{all}");
        }
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
