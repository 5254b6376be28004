//! Rules about a candidate's text: what can be decided without a judge.
//!
//! A check turns a rule into a flag ([`crate::check`]), a computed criterion into a score
//! ([`crate::computed`]). A rule that compares takes what it compares with from the scenario: it is
//! filled in once for a scenario ([`Rule::fill`]) and then measured on every candidate.
//!
//! The result is a share: 1 where the rule holds, 0 where it does not, and something between for
//! graded rules. Running a command is not a rule of this module, which does no I/O: see
//! [`CommandRule`].

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use self::value::{items, list, number_of, pointer, text_of};
use crate::case::cut;

mod language;
mod measure;
mod operand;
pub mod own;
mod source;
pub mod text;
mod value;

use measure::Measure;
pub use measure::{Outcome, schema_fault};
pub use operand::Operand;
pub use own::{Expect, OwnRules};
pub use source::{Compiled, RuleSource};

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    kind: Kind,
    /// JSON pointer to the part of the candidate that the rule is about.
    field: Option<String>,
    ignore: Vec<Ignore>,
    /// A graded rule holds from this share on.
    at_least: Option<f64>,
    /// What is said where it does not hold.
    reason: Option<String>,
}

/// A program that scores candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRule {
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
    pub timeout_s: u64,
}

/// Differences between texts that do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ignore {
    Case,
    /// How much white space there is.
    Whitespace,
    /// Everything but letters, digits and white space.
    Punctuation,
}

/// How far a number may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tolerance {
    Absolute(f64),
    /// As a share of the expected number.
    Relative(f64),
}

#[derive(Debug)]
enum Kind {
    Equals(Operand),
    OneOf(Operand),
    Contains(Operand),
    ContainsAny(Operand),
    NotContains(Operand),
    Matches(Pattern),
    NotMatches(Pattern),
    Number(Operand, Tolerance),
    JsonSchema(Box<jsonschema::Validator>),
    SetF1(Operand),
    Similarity(Operand),
    /// At most so many letters are added, removed or replaced.
    Edits(Operand, usize),
    /// The scenario's own rules.
    Own(Expect),
    Bleu(Operand),
    Rouge(Operand),
    MaxWords(usize),
    MinWords(usize),
    MaxChars(usize),
    Language(whatlang::Lang),
}

#[derive(Debug)]
enum Pattern {
    Fixed(Regex),
    Filled(Operand),
}

/// A candidate's text, parsed as JSON at most once.
#[derive(Debug)]
pub struct Subject<'a> {
    text: &'a str,
    json: OnceCell<Result<Value, String>>,
}

/// A rule whose expected value is filled in for a scenario.
#[derive(Debug)]
pub struct FilledRule<'a> {
    rule: &'a Rule,
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    Nothing,
    Value(Value),
    /// With differences that do not count taken out.
    Texts(Vec<String>),
    Set(BTreeSet<String>),
    Words(Vec<String>),
    Number(f64),
    Pattern(Regex),
    Own(Box<OwnRules>),
}

impl<'a> Subject<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            json: OnceCell::new(),
        }
    }

    fn json(&self) -> Result<&Value, String> {
        let parsed = self.json.get_or_init(|| {
            serde_json::from_str(self.text).map_err(|error| format!("it is not JSON: {error}"))
        });
        parsed.as_ref().map_err(Clone::clone)
    }
}

impl Rule {
    /// Fills in what it compares with; `context` holds the scenario's fields and its reference.
    pub fn fill(&self, context: &Value) -> Result<FilledRule<'_>, String> {
        Ok(FilledRule {
            rule: self,
            expected: self.expected(context)?,
        })
    }

    fn expected(&self, context: &Value) -> Result<Expected, String> {
        Ok(match &self.kind {
            Kind::Equals(it) => Expected::Value(it.fill(context)?),
            Kind::OneOf(it)
            | Kind::Contains(it)
            | Kind::ContainsAny(it)
            | Kind::NotContains(it) => {
                let texts = list(&it.fill(context)?);
                let is_whole = matches!(self.kind, Kind::OneOf(_));
                let texts = texts.iter().map(|it| {
                    let text = if is_whole { it.trim() } else { it };
                    self.without(text).into_owned()
                });
                let texts: Vec<String> = texts.collect();
                self.check_texts(&texts)?;
                Expected::Texts(texts)
            }
            Kind::SetF1(it) => Expected::Set(self.set(&it.fill(context)?)),
            Kind::Own(_) => Expected::Own(Box::new(OwnRules::read(context)?)),
            Kind::Similarity(it) | Kind::Edits(it, _) => {
                let text = self.without(&text_of(&it.fill(context)?)).into_owned();
                Expected::Texts(vec![text])
            }
            Kind::Bleu(it) | Kind::Rouge(it) => {
                let words = text::words(&self.without(&text_of(&it.fill(context)?)));
                if words.is_empty() {
                    return Err("the text that the rule compares with has no words".to_owned());
                }
                Expected::Words(words)
            }
            Kind::Number(it, _) => {
                let value = it.fill(context)?;
                let number = number_of(&value);
                Expected::Number(number.ok_or_else(|| {
                    format!(
                        "'{}' is not a number, which the rule expects",
                        cut(&text_of(&value))
                    )
                })?)
            }
            Kind::Matches(Pattern::Filled(it)) | Kind::NotMatches(Pattern::Filled(it)) => {
                let source = text_of(&it.fill(context)?);
                if source.is_empty() {
                    return Err(
                        "the regular expression is empty, and every answer matches it".to_owned(),
                    );
                }
                Expected::Pattern(regex(&source)?)
            }
            _ => Expected::Nothing,
        })
    }

    /// Whether what it compares with is the same for every scenario.
    fn is_fixed(&self) -> bool {
        match &self.kind {
            Kind::Equals(it)
            | Kind::OneOf(it)
            | Kind::Contains(it)
            | Kind::ContainsAny(it)
            | Kind::NotContains(it)
            | Kind::Number(it, _)
            | Kind::SetF1(it)
            | Kind::Similarity(it)
            | Kind::Edits(it, _)
            | Kind::Bleu(it)
            | Kind::Rouge(it) => it.is_fixed(),
            _ => false,
        }
    }

    /// Refuses texts that say nothing about an answer: an empty one is in every text, and a list of
    /// none holds or fails whatever the answer is. Where nothing is forbidden, nothing has to be.
    fn check_texts(&self, texts: &[String]) -> Result<(), String> {
        let is_found = !matches!(self.kind, Kind::OneOf(_));
        if is_found && texts.iter().any(String::is_empty) {
            return Err(
                "the text that the rule looks for is empty, and every answer contains it"
                    .to_owned(),
            );
        }
        if texts.is_empty() && !matches!(self.kind, Kind::NotContains(_)) {
            return Err("the list that the rule compares with is empty".to_owned());
        }
        Ok(())
    }

    /// Whether it stands for the scenario's own rules.
    fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own(_))
    }

    /// A text without the differences that do not count.
    fn without<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        if self.ignore.contains(&Ignore::Punctuation) {
            let kept = |c: &char| c.is_alphanumeric() || c.is_whitespace();
            text = Cow::Owned(text.chars().filter(kept).collect());
        }
        if self.ignore.contains(&Ignore::Whitespace) {
            let words: Vec<&str> = text.split_whitespace().collect();
            text = Cow::Owned(words.join(" "));
        }
        if self.ignore.contains(&Ignore::Case) {
            text = Cow::Owned(text.to_lowercase());
        }
        text
    }

    fn set(&self, value: &Value) -> BTreeSet<String> {
        let items = items(value).into_iter();
        let items = items.map(|it| self.without(it.trim()).into_owned());
        items.filter(|it| !it.is_empty()).collect()
    }
}

impl FilledRule<'_> {
    /// Measures a candidate.
    pub fn measure(&self, subject: &Subject<'_>) -> Outcome {
        Measure::new(self.rule, &self.expected).of(subject)
    }

    /// Whether the reason is the task's own.
    pub fn has_own_reason(&self) -> bool {
        self.rule.reason.is_some()
    }
}

fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("not a regular expression: {error}"))
}

#[cfg(test)]
mod tests;
