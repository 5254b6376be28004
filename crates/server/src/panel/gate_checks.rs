//! The checks of a gate as the pages show them.

use assize_domain::promotion::{Check, Outcome};
use assize_report::gate_table::{numbers, outcome_label};

/// One check of a gate.
pub(crate) struct CheckLine {
    pub mark: &'static str,
    pub word: &'static str,
    pub about: String,
    pub figure: String,
    pub needs: String,
    pub why: String,
    pub failed: bool,
}

impl From<&Check> for CheckLine {
    fn from(it: &Check) -> Self {
        let (mark, word) = outcome_label(it.outcome);
        let (figure, needs) = numbers(it);
        Self {
            mark,
            word,
            about: it.about.clone(),
            figure,
            needs,
            why: it.why.clone().unwrap_or_default(),
            failed: it.outcome == Outcome::Failed,
        }
    }
}
