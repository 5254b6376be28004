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

use self::value::{items, last_number, list, number_of, pointer, text_of};
use crate::case::cut;

mod language;
mod operand;
pub mod own;
mod source;
pub mod text;
mod value;

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

/// What a rule says about a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From 0 to 1.
    pub share: f64,
    /// Why it is not 1.
    pub why: Option<String>,
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
        let expected = match &self.kind {
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
                Expected::Texts(texts.collect())
            }
            Kind::SetF1(it) => Expected::Set(self.set(&it.fill(context)?)),
            Kind::Own(_) => Expected::Own(Box::new(OwnRules::read(context)?)),
            Kind::Similarity(it) | Kind::Edits(it, _) => {
                let text = self.without(&text_of(&it.fill(context)?)).into_owned();
                Expected::Texts(vec![text])
            }
            Kind::Bleu(it) | Kind::Rouge(it) => {
                Expected::Words(text::words(&self.without(&text_of(&it.fill(context)?))))
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
                Expected::Pattern(regex(&text_of(&it.fill(context)?))?)
            }
            _ => Expected::Nothing,
        };
        Ok(FilledRule {
            rule: self,
            expected,
        })
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
        let found = match &self.rule.field {
            None => Ok(Cow::Owned(Value::Null)),
            Some(pointer) => subject.json().and_then(|json| {
                let found = json.pointer(pointer).map(Cow::Borrowed);
                found.ok_or_else(|| format!("it has no member {pointer}"))
            }),
        };
        let outcome = match found {
            Err(why) => Outcome::fails(why),
            Ok(value) if self.rule.field.is_some() => self.decide(Some(&value), &text_of(&value)),
            Ok(_) => self.decide_text(subject),
        };
        self.finish(outcome)
    }

    /// About the whole text; it is parsed only where the rule asks for more than a text.
    fn decide_text(&self, subject: &Subject<'_>) -> Outcome {
        if let (Kind::Own(expect), Expected::Own(rules)) = (&self.rule.kind, &self.expected) {
            return rules.measure(subject, *expect);
        }
        let wants_json = match (&self.rule.kind, &self.expected) {
            (Kind::JsonSchema(_), _) => true,
            (Kind::Equals(_), Expected::Value(value)) => value.is_object() || value.is_array(),
            _ => false,
        };
        if !wants_json {
            return self.decide(None, subject.text);
        }
        match subject.json() {
            Ok(json) => self.decide(Some(json), subject.text),
            Err(why) => Outcome::fails(why),
        }
    }

    fn decide(&self, value: Option<&Value>, text: &str) -> Outcome {
        match (&self.rule.kind, &self.expected) {
            (Kind::Equals(_), Expected::Value(expected)) => self.equals(expected, value, text),
            (Kind::OneOf(_), Expected::Texts(texts)) => {
                let found = self.rule.without(text.trim());
                Outcome::holds_if(texts.iter().any(|it| *it == *found), || {
                    format!("'{}' is none of {}", cut(text), cut(&texts.join(", ")))
                })
            }
            (Kind::Contains(_), Expected::Texts(texts)) => {
                let found = self.rule.without(text);
                let missing = texts.iter().find(|it| !found.contains(it.as_str()));
                Outcome::holds_unless(missing, |it| format!("'{}' is missing", cut(it)))
            }
            (Kind::ContainsAny(_), Expected::Texts(texts)) => {
                let found = self.rule.without(text);
                Outcome::holds_if(texts.iter().any(|it| found.contains(it.as_str())), || {
                    format!("none of {} is there", cut(&texts.join(", ")))
                })
            }
            (Kind::NotContains(_), Expected::Texts(texts)) => {
                let found = self.rule.without(text);
                let there = texts.iter().find(|it| found.contains(it.as_str()));
                Outcome::holds_unless(there, |it| format!("it holds '{}'", cut(it)))
            }
            (Kind::Matches(pattern), expected) => {
                Outcome::holds_if(matches(pattern, expected, text), || {
                    "the expression is not found".to_owned()
                })
            }
            (Kind::NotMatches(pattern), expected) => {
                Outcome::holds_if(!matches(pattern, expected, text), || {
                    "the expression is found".to_owned()
                })
            }
            (Kind::Number(_, tolerance), Expected::Number(expected)) => {
                let found = value.and_then(number_of).or_else(|| last_number(text));
                number(*expected, *tolerance, found, text)
            }
            (Kind::JsonSchema(validator), _) => schema(validator, value),
            (Kind::Edits(_, most), Expected::Texts(texts)) => {
                let expected = texts.first().map_or("", String::as_str);
                let edits = text::edits(expected, &self.rule.without(text));
                Outcome::holds_if(edits <= *most, || format!("{edits} edits, at most {most}"))
            }
            _ => self.grade(value, text),
        }
    }

    fn grade(&self, value: Option<&Value>, text: &str) -> Outcome {
        let rule = self.rule;
        match (&rule.kind, &self.expected) {
            (Kind::SetF1(_), Expected::Set(expected)) => {
                let found = match value {
                    Some(value) => rule.set(value),
                    None => rule.set(&Value::from(text)),
                };
                Outcome::graded(text::set_f1(expected, &found), || {
                    let lacking = expected.difference(&found).count();
                    let extra = found.difference(expected).count();
                    format!("{lacking} missing, {extra} too many")
                })
            }
            (Kind::Similarity(_), Expected::Texts(texts)) => {
                let expected = texts.first().map_or("", String::as_str);
                let share = text::similarity(expected, &rule.without(text));
                Outcome::graded(share, || format!("similarity {share:.2}"))
            }
            (Kind::Bleu(_), Expected::Words(expected)) => {
                let share = text::bleu(expected, &text::words(&rule.without(text)));
                Outcome::graded(share, || format!("BLEU {share:.2}"))
            }
            (Kind::Rouge(_), Expected::Words(expected)) => {
                let share = text::rouge_l(expected, &text::words(&rule.without(text)));
                Outcome::graded(share, || format!("ROUGE-L {share:.2}"))
            }
            (kind, _) => about(kind, text),
        }
    }

    fn equals(&self, expected: &Value, value: Option<&Value>, text: &str) -> Outcome {
        let is_same = match value {
            Some(value) if expected.is_object() || expected.is_array() => value == expected,
            Some(Value::Number(found)) if expected.is_number() => {
                found.as_f64() == expected.as_f64()
            }
            _ => self.rule.without(text.trim()) == self.rule.without(text_of(expected).trim()),
        };
        Outcome::holds_if(is_same, || {
            let expected = text_of(expected);
            format!("expected '{}', found '{}'", cut(&expected), cut(text))
        })
    }

    /// Applies the threshold, and the reason that the task gives.
    fn finish(&self, mut outcome: Outcome) -> Outcome {
        if let Some(least) = self.rule.at_least {
            let holds = outcome.share >= least;
            outcome.share = f64::from(u8::from(holds));
            outcome.why = outcome.why.filter(|_| !holds);
        }
        if outcome.why.is_some() && self.rule.reason.is_some() {
            outcome.why.clone_from(&self.rule.reason);
        }
        outcome
    }

    /// Whether the reason is the task's own.
    pub fn has_own_reason(&self) -> bool {
        self.rule.reason.is_some()
    }
}

impl Outcome {
    fn fails(why: String) -> Self {
        Self {
            share: 0.0,
            why: Some(why),
        }
    }

    fn holds_if(holds: bool, why: impl FnOnce() -> String) -> Self {
        Self {
            share: f64::from(u8::from(holds)),
            why: (!holds).then(why),
        }
    }

    fn holds_unless<T>(fault: Option<T>, why: impl FnOnce(T) -> String) -> Self {
        Self {
            share: f64::from(u8::from(fault.is_none())),
            why: fault.map(why),
        }
    }

    fn graded(share: f64, why: impl FnOnce() -> String) -> Self {
        Self {
            share,
            why: (share < 1.0).then(why),
        }
    }

    pub fn holds(&self) -> bool {
        self.share >= 1.0
    }
}

/// Rules that compare with nothing.
fn about(kind: &Kind, text: &str) -> Outcome {
    let words = || text.split_whitespace().count();
    match kind {
        Kind::MaxWords(most) => {
            let words = words();
            Outcome::holds_if(words <= *most, || format!("{words} words, at most {most}"))
        }
        Kind::MinWords(least) => {
            let words = words();
            Outcome::holds_if(words >= *least, || {
                format!("{words} words, at least {least}")
            })
        }
        Kind::MaxChars(most) => {
            let chars = text.chars().count();
            Outcome::holds_if(chars <= *most, || {
                format!("{chars} characters, at most {most}")
            })
        }
        // Short texts are hard to tell apart, so only a sure detection counts against one.
        Kind::Language(wanted) => {
            let other = whatlang::detect(text)
                .filter(|found| found.lang() != *wanted && found.is_reliable());
            Outcome::holds_unless(other, |it| format!("it is in {}", it.lang().eng_name()))
        }
        _ => Outcome::fails("the rule was not filled in".to_owned()),
    }
}

fn matches(pattern: &Pattern, expected: &Expected, text: &str) -> bool {
    match (pattern, expected) {
        (Pattern::Fixed(regex), _) | (_, Expected::Pattern(regex)) => regex.is_match(text),
        _ => false,
    }
}

fn number(expected: f64, tolerance: Tolerance, found: Option<f64>, text: &str) -> Outcome {
    let Some(found) = found else {
        return Outcome::fails(format!("'{}' has no number", cut(text)));
    };
    let most = match tolerance {
        Tolerance::Absolute(size) => size,
        Tolerance::Relative(share) => share * expected.abs(),
    };
    // Decimal fractions such as 0.1 are not exact, so a tolerance of 0.1 admits 0.1 and a little.
    let slack = f64::EPSILON * 4.0 * expected.abs().max(found.abs());
    Outcome::holds_if((found - expected).abs() <= most + slack, || {
        format!("expected {expected}, found {found}")
    })
}

fn schema(validator: &jsonschema::Validator, value: Option<&Value>) -> Outcome {
    let Some(value) = value else {
        return Outcome::fails("it is not JSON".to_owned());
    };
    let fault = validator.iter_errors(value).next();
    Outcome::holds_unless(fault, |it| schema_fault(&it))
}

/// What is wrong with a value under a schema, in one short line.
pub fn schema_fault(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let message: String = error.to_string().chars().take(120).collect();
    if place.is_empty() {
        format!("it does not fit the schema: {message}")
    } else {
        format!("it does not fit the schema at {place}: {message}")
    }
}

fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("not a regular expression: {error}"))
}

#[cfg(test)]
mod tests;
