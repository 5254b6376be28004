//! A check of the gate before its outcome is known.

use assize_domain::promotion::{Check, Outcome, Quantity, Relation};

/// The question and the threshold of a check, without a figure.
pub struct OpenCheck {
    name: String,
    about: String,
    quantity: Quantity,
    relation: Relation,
    threshold: f64,
}

impl OpenCheck {
    pub fn new(name: &str, about: &str, quantity: Quantity, relation: Relation, to: f64) -> Self {
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            quantity,
            relation,
            threshold: to,
        }
    }

    pub fn finish(self, outcome: Outcome, figure: Option<f64>, why: Option<String>) -> Check {
        Check {
            name: self.name,
            about: self.about,
            quantity: self.quantity,
            figure,
            relation: self.relation,
            threshold: self.threshold,
            outcome,
            why,
        }
    }

    /// Skipped, because there are no judges: every score is computed.
    pub fn computed(self) -> Check {
        let why = "Skipped: every score is computed by rules, so there are no judges to compare.";
        self.finish(Outcome::NotApplicable, None, Some(why.to_owned()))
    }

    /// Passed or failed by the figure. Without a figure the check fails; `why` explains failures.
    pub fn against(self, figure: Option<f64>, why: Option<String>) -> Check {
        if figure.is_some_and(|it| self.relation.holds(it, self.threshold)) {
            self.finish(Outcome::Passed, figure, None)
        } else {
            self.finish(Outcome::Failed, figure, why)
        }
    }
}
