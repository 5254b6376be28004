//! Conditions of a script on a text: what it must contain and what it must not.

use serde::Deserialize;

/// A text, or a list of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum Texts {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

/// Holds where every one of `contains` occurs, and none of `lacks`.
#[derive(Debug)]
pub struct Condition {
    contains: Vec<String>,
    lacks: Vec<String>,
}

impl Condition {
    /// Both lists as the script has them; an empty text would occur everywhere.
    pub fn new(contains: Texts, lacks: Texts) -> Result<Self, &'static str> {
        let condition = Self {
            contains: contains.into_vec(),
            lacks: lacks.into_vec(),
        };
        let mut texts = condition.contains.iter().chain(&condition.lacks);
        if texts.any(String::is_empty) {
            return Err("an empty text occurs in every text: write what to look for, or omit it");
        }
        Ok(condition)
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.contains.is_empty() && self.lacks.is_empty()
    }

    /// Whether it holds; `occurs` tells whether a text occurs.
    pub fn holds(&self, occurs: impl Fn(&str) -> bool) -> bool {
        self.contains.iter().all(|text| occurs(text)) && !self.lacks.iter().any(|text| occurs(text))
    }
}
