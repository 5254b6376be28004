//! The composite score: a small linear expression over a rubric's criteria and flags.
//!
//! `relevance + actionability + tone + 2*format_ok - overlong` is data, not code: a sum of
//! terms, each a name, a number, or a number times a name. No parentheses, no functions.

use std::collections::BTreeMap;
use std::fmt;

/// A parsed composite.
#[derive(Debug, Clone, PartialEq)]
pub struct Composite {
    source: String,
    constant: f64,
    /// Coefficients by name, in order of first mention.
    terms: Vec<(String, f64)>,
}

/// Why an expression is not a composite.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompositeError {
    #[error("the composite is empty: write a sum such as relevance + 2*format_ok - overlong")]
    Empty,
    #[error("the composite '{source_text}' has '{found}' where {expected} is expected")]
    Syntax {
        source_text: String,
        found: String,
        expected: &'static str,
    },
    #[error("the composite names '{0}', which is neither a criterion nor a flag of this rubric")]
    UnknownName(String),
}

impl Composite {
    /// Parses `source`; `known` are the names it may use.
    pub fn parse(source: &str, known: &[&str]) -> Result<Self, CompositeError> {
        let tokens = tokenize(source);
        if tokens.is_empty() {
            return Err(CompositeError::Empty);
        }
        let wrong = |found: Option<&Token>, expected| CompositeError::Syntax {
            source_text: source.to_owned(),
            found: found.map_or_else(|| "the end".to_owned(), ToString::to_string),
            expected,
        };
        let mut composite = Self {
            source: source.trim().to_owned(),
            constant: 0.0,
            terms: Vec::new(),
        };
        let mut rest = tokens.iter().peekable();
        let mut first = true;
        while rest.peek().is_some() || first {
            let mut sign = 1.0;
            match rest.peek() {
                Some(Token::Sign(minus)) => {
                    sign = if *minus { -1.0 } else { 1.0 };
                    rest.next();
                }
                other if !first => return Err(wrong(other.copied(), "+ or -")),
                _ => {}
            }
            first = false;
            let (mut number, mut name) = (None, None);
            loop {
                match rest.next() {
                    Some(Token::Number(value)) if number.is_none() => number = Some(*value),
                    Some(Token::Name(text)) if name.is_none() => name = Some(text.clone()),
                    other => return Err(wrong(other, "a name or a number")),
                }
                if matches!(rest.peek(), Some(Token::Times)) {
                    rest.next();
                } else {
                    break;
                }
            }
            composite.add(sign * number.unwrap_or(1.0), name);
        }
        for (name, _) in &composite.terms {
            if !known.contains(&name.as_str()) {
                return Err(CompositeError::UnknownName(name.clone()));
            }
        }
        Ok(composite)
    }

    fn add(&mut self, coefficient: f64, name: Option<String>) {
        let Some(name) = name else {
            self.constant += coefficient;
            return;
        };
        match self.terms.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += coefficient,
            None => self.terms.push((name, coefficient)),
        }
    }

    /// The value for these scores; `None` where a score it needs is missing.
    pub fn evaluate(&self, scores: &BTreeMap<String, f64>) -> Option<f64> {
        self.terms
            .iter()
            .try_fold(self.constant, |sum, (name, coefficient)| {
                scores.get(name).map(|score| sum + coefficient * score)
            })
    }

    /// The smallest and the largest value it can take, given each name's range.
    pub fn range(&self, range_of: impl Fn(&str) -> (f64, f64)) -> (f64, f64) {
        self.terms.iter().fold(
            (self.constant, self.constant),
            |(low, high), (name, weight)| {
                let (min, max) = range_of(name);
                let (a, b) = (weight * min, weight * max);
                (low + a.min(b), high + a.max(b))
            },
        )
    }

    /// The names it uses, with their weights.
    pub fn terms(&self) -> &[(String, f64)] {
        &self.terms
    }
}

impl fmt::Display for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// `true` is minus.
    Sign(bool),
    Times,
    Number(f64),
    Name(String),
    Other(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sign(minus) => f.write_str(if *minus { "-" } else { "+" }),
            Self::Times => f.write_str("*"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
            Self::Other(c) => write!(f, "{c}"),
        }
    }
}

fn tokenize(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(c) = rest.chars().next() {
        let word = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let (token, length) = match c {
            '+' => (Token::Sign(false), 1),
            '-' | '−' => (Token::Sign(true), c.len_utf8()),
            '*' | '·' => (Token::Times, c.len_utf8()),
            '0'..='9' | '.' => {
                let end = word(|c| c.is_ascii_digit() || c == '.');
                match rest[..end].parse() {
                    Ok(number) => (Token::Number(number), end),
                    Err(_) => (Token::Other(c), c.len_utf8()),
                }
            }
            c if c.is_alphabetic() || c == '_' => {
                let end = word(|c| c.is_alphanumeric() || c == '_');
                (Token::Name(rest[..end].to_owned()), end)
            }
            other => (Token::Other(other), other.len_utf8()),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = [
        "relevance",
        "actionability",
        "tone",
        "format_ok",
        "overlong",
    ];

    fn value(source: &str, scores: &[f64; 5]) -> f64 {
        let scores = NAMES
            .iter()
            .map(ToString::to_string)
            .zip(scores.iter().copied())
            .collect();
        Composite::parse(source, &NAMES)
            .expect(source)
            .evaluate(&scores)
            .expect("complete")
    }

    #[test]
    fn tip_v1_scores_seventeen_at_most() {
        let source = "relevance + actionability + tone + 2*format_ok - overlong";
        assert!((value(source, &[5.0, 5.0, 5.0, 1.0, 0.0]) - 17.0).abs() < 1e-12);
        assert!((value(source, &[1.0, 2.0, 3.0, 0.0, 1.0]) - 5.0).abs() < 1e-12);
        let composite = Composite::parse(source, &NAMES).expect("valid");
        let range = composite.range(|name| {
            if name.contains('o') && name.len() > 7 && name != "actionability" {
                (0.0, 1.0)
            } else {
                (1.0, 5.0)
            }
        });
        assert_eq!(range, (2.0, 17.0));
    }

    #[test]
    fn signs_constants_and_order_of_factors() {
        assert!(
            (value("-tone + 3 + relevance*0.5", &[4.0, 0.0, 1.0, 0.0, 0.0]) - 4.0).abs() < 1e-12
        );
        assert!((value("tone + tone − 2·tone", &[0.0, 0.0, 5.0, 0.0, 0.0])).abs() < 1e-12);
    }

    #[test]
    fn mistakes_are_named() {
        let parse = |source| {
            Composite::parse(source, &NAMES)
                .expect_err(source)
                .to_string()
        };
        assert!(parse(" ").contains("empty"));
        assert!(parse("tone +").contains("the end"));
        assert!(parse("tone tone").contains("+ or -"));
        assert!(parse("(tone)").contains('('));
        assert!(parse("2*3").contains('3'));
        assert!(parse("1.2.3*tone").contains('1'));
        assert!(parse("charm").contains("charm"));
    }

    #[test]
    fn a_missing_score_gives_no_value() {
        let composite = Composite::parse("tone", &NAMES).expect("valid");
        assert_eq!(composite.evaluate(&BTreeMap::new()), None);
    }
}
