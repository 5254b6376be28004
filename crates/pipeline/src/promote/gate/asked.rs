//! What is asked of a figure, and how that becomes a check.

use assize_domain::promotion::{Check, Outcome, Quantity, Relation};

/// A check before it is known how it ended.
pub struct Asked {
    name: String,
    about: String,
    quantity: Quantity,
    relation: Relation,
    threshold: f64,
}

impl Asked {
    pub fn new(name: &str, about: &str, quantity: Quantity, relation: Relation, to: f64) -> Self {
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            quantity,
            relation,
            threshold: to,
        }
    }

    pub fn ended(self, outcome: Outcome, figure: Option<f64>, why: Option<String>) -> Check {
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

    /// Passed or failed by the figure. A figure that cannot be had fails; `why` is for failures.
    pub fn answered(self, figure: Option<f64>, why: Option<String>) -> Check {
        if figure.is_some_and(|it| self.relation.holds(it, self.threshold)) {
            self.ended(Outcome::Passed, figure, None)
        } else {
            self.ended(Outcome::Failed, figure, why)
        }
    }
}
