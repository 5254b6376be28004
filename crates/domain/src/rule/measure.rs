//! Measuring a candidate with a rule that is filled in.

use std::borrow::Cow;

use serde_json::Value;

use super::value::{last_number, number_of, text_of};
use super::{Expected, Kind, Pattern, Rule, Subject, Tolerance, text};
use crate::case::cut;

/// A rule with what it compares with.
#[derive(Debug, Clone, Copy)]
pub struct Measure<'a> {
    rule: &'a Rule,
    expected: &'a Expected,
}

/// What a rule says about a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From 0 to 1.
    pub share: f64,
    /// Why it is not 1.
    pub why: Option<String>,
}

impl<'a> Measure<'a> {
    pub fn new(rule: &'a Rule, expected: &'a Expected) -> Self {
        Self { rule, expected }
    }

    /// Measures a candidate.
    pub fn of(&self, subject: &Subject<'_>) -> Outcome {
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
        if let (Kind::Own(expect), Expected::Own(rules)) = (&self.rule.kind, self.expected) {
            return rules.measure(subject, *expect);
        }
        let wants_json = match (&self.rule.kind, self.expected) {
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
        match (&self.rule.kind, self.expected) {
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
        match (&rule.kind, self.expected) {
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
}

impl Outcome {
    pub(super) fn fails(why: String) -> Self {
        Self {
            share: 0.0,
            why: Some(why),
        }
    }

    pub(super) fn holds_if(holds: bool, why: impl FnOnce() -> String) -> Self {
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
