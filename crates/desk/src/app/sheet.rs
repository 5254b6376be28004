//! One case with the scores that have been entered so far.

use assize_domain::case::Case;
use assize_domain::rubric::Rubric;
use serde_json::{Map, Value, json};

use crate::Verdict;

/// A case being scored. Changes can be undone one by one until the case is submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    pub case: Case,
    scores: Map<String, Value>,
    pub rationale: String,
    before: Vec<(Map<String, Value>, String)>,
    kept: bool,
    skipped: bool,
}

impl Sheet {
    pub fn new(case: Case, rubric: &Rubric) -> Self {
        let mut scores = case.scores.clone();
        // Every name of the rubric must be present, also if the case lacks it.
        for name in rubric.asked_names() {
            scores.entry(name).or_insert(Value::Null);
        }
        Self {
            rationale: case.rationale.clone().unwrap_or_default(),
            case,
            scores,
            before: Vec::new(),
            kept: false,
            skipped: false,
        }
    }

    pub fn score(&self, criterion: &str) -> Option<i64> {
        self.scores.get(criterion).and_then(Value::as_i64)
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.scores.get(name).and_then(Value::as_bool)
    }

    /// Whether something was changed since the case was submitted.
    pub fn is_changed(&self) -> bool {
        !self.before.is_empty()
    }

    /// Whether a verdict of this case has been stored.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Whether the judge has put this case off.
    pub fn is_skipped(&self) -> bool {
        self.skipped
    }

    pub(super) fn skip(&mut self) {
        self.skipped = true;
    }

    pub(super) fn keep(&mut self) {
        self.kept = true;
        self.skipped = false;
        self.before.clear();
    }

    pub(super) fn set_score(&mut self, criterion: &str, score: i64) {
        self.remember();
        self.scores.insert(criterion.to_owned(), json!(score));
    }

    pub(super) fn turn_flag(&mut self, name: &str) {
        self.remember();
        let set = !self.flag(name).unwrap_or(false);
        self.scores.insert(name.to_owned(), json!(set));
    }

    pub(super) fn set_rationale(&mut self, text: String) {
        if text != self.rationale {
            self.remember();
            self.rationale = text;
        }
    }

    /// Undoes the last change; `false` if there is none.
    pub(super) fn undo(&mut self) -> bool {
        let Some((scores, rationale)) = self.before.pop() else {
            return false;
        };
        self.scores = scores;
        self.rationale = rationale;
        true
    }

    fn remember(&mut self) {
        self.before
            .push((self.scores.clone(), self.rationale.clone()));
    }

    /// The verdict, or the names that still lack a score.
    pub fn verdict(&self, rubric: &Rubric) -> Result<Verdict, Vec<String>> {
        let open = |name: &&str| self.scores.get(*name).is_none_or(Value::is_null);
        let missing: Vec<String> = rubric
            .asked_names()
            .filter(open)
            .map(str::to_owned)
            .collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let rationale = self.rationale.trim();
        Ok(Verdict {
            case: self.case.case.clone(),
            scores: self.scores.clone(),
            rationale: (!rationale.is_empty()).then(|| rationale.to_owned()),
        })
    }
}
