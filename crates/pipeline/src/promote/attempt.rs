//! What the ledger records of a run of the gate, and what the seal removes from its report.

use std::collections::BTreeMap;

use assize_domain::ledger::{AttemptOutcome, SCALE};
use assize_domain::promotion::{Check, GateReport, Outcome};
use assize_store::Ledger;

use super::PromoteOptions;
use crate::ledger::{self, Attempt};
use crate::{Result, seal};

/// Checks of this name, or with a name that continues it after a dot, use scores of the
/// confirmation split.
const CONFIRMATION: &str = "confirmation";
/// Checks of the selection split whose figures the ledger keeps, too.
const KEPT: [&str; 2] = ["p_adjusted", "margin"];

/// Records the attempt, before anybody sees its figures. A run of the gate without an author does
/// not open the seal: figures of the confirmation split are then removed from the report. Returns
/// whether they were.
pub(super) fn record(
    store: &dyn Ledger,
    options: &PromoteOptions<'_>,
    report: &mut GateReport,
    scale: Option<f64>,
) -> Result<bool> {
    let has_seen = confirming(report).any(|it| it.figure.is_some());
    match options.author {
        Some(author) if has_seen || !options.dry_run => {
            let mut attempt = found(report, has_seen);
            if let Some(scale) = scale.filter(|_| has_seen) {
                attempt.figures.insert(SCALE.to_owned(), scale);
            }
            ledger::attempt(store, options.experiment, author, attempt)?;
            Ok(false)
        }
        None if has_seen && !seal::is_open(store, options.experiment)? => {
            hide(report);
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn is_confirming(check: &Check) -> bool {
    let rest = check.name.strip_prefix(CONFIRMATION);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn confirming(report: &GateReport) -> impl Iterator<Item = &Check> {
    report.checks.iter().filter(|it| is_confirming(it))
}

fn found(report: &GateReport, has_seen: bool) -> Attempt {
    let ended = |outcome: Outcome| confirming(report).any(|it| it.outcome == outcome);
    let outcome = if report.passed {
        AttemptOutcome::Passed
    } else if has_seen {
        AttemptOutcome::Failed
    } else if ended(Outcome::Sealed) {
        AttemptOutcome::NotReached
    } else if ended(Outcome::Failed) {
        AttemptOutcome::Incomplete
    } else {
        AttemptOutcome::Failed
    };
    let is_kept = |it: &&Check| is_confirming(it) || KEPT.contains(&it.name.as_str());
    let figures = report.checks.iter().filter(is_kept);
    let figures: BTreeMap<String, f64> = figures
        .filter_map(|it| Some((it.name.clone(), it.figure?)))
        .collect();
    Attempt {
        candidate: report.candidate.clone(),
        incumbent: report.incumbent.clone(),
        outcome,
        has_seen_confirmation: has_seen,
        figures,
    }
}

fn hide(report: &mut GateReport) {
    for check in report.checks.iter_mut().filter(|it| is_confirming(it)) {
        check.figure = None;
        if check.outcome != Outcome::NotApplicable {
            check.outcome = Outcome::Sealed;
            check.why = Some("Sealed until the candidate is nominated.".to_owned());
        }
    }
    report.passed = false;
}

#[cfg(test)]
mod tests {
    use assize_domain::judge::Tier;
    use assize_domain::leaderboard::Pair;
    use assize_domain::promotion::{Quantity, Relation};

    use super::*;

    fn check(name: &str, figure: Option<f64>, outcome: Outcome) -> Check {
        Check {
            name: name.to_owned(),
            about: name.to_owned(),
            quantity: Quantity::P,
            figure,
            relation: Relation::AtMost,
            threshold: 0.05,
            outcome,
            why: None,
        }
    }

    fn report(checks: Vec<Check>) -> GateReport {
        let pair = |prompt: &str| Pair {
            model: "m".to_owned(),
            prompt: prompt.to_owned(),
        };
        GateReport {
            candidate: pair("new"),
            incumbent: pair("old"),
            tier: Tier::Expert,
            passed: checks
                .iter()
                .all(|it| !matches!(it.outcome, Outcome::Failed | Outcome::Sealed)),
            checks,
        }
    }

    #[test]
    fn outcomes_say_how_far_an_attempt_came() {
        let first = || check("p_adjusted", Some(0.01), Outcome::Passed);
        let cases = [
            (Some(0.01), Outcome::Passed, AttemptOutcome::Passed),
            (Some(0.2), Outcome::Failed, AttemptOutcome::Failed),
            (None, Outcome::Failed, AttemptOutcome::Incomplete),
            (None, Outcome::Sealed, AttemptOutcome::NotReached),
            (None, Outcome::NotApplicable, AttemptOutcome::Passed),
        ];
        for (figure, outcome, expected) in cases {
            let report = report(vec![first(), check("confirmation", figure, outcome)]);
            let found = found(&report, figure.is_some());
            assert_eq!(found.outcome, expected);
            assert_eq!(found.figures.len(), 1 + usize::from(figure.is_some()));
        }
        let without = report(vec![check("margin", Some(0.1), Outcome::Failed)]);
        assert_eq!(found(&without, false).outcome, AttemptOutcome::Failed);
    }

    #[test]
    fn nothing_of_the_confirmation_is_left_in_a_sealed_report() {
        let mut report = report(vec![
            check("p_adjusted", Some(0.01), Outcome::Passed),
            check("confirmation", Some(0.02), Outcome::Passed),
            check("confirmation.margin", Some(0.7), Outcome::Passed),
            check("confirmation.flag.x", Some(0.1), Outcome::NotApplicable),
            check("confirmations", Some(1.0), Outcome::Passed),
        ]);
        hide(&mut report);
        assert!(!report.passed);
        let figures: Vec<_> = report.checks.iter().map(|it| it.figure).collect();
        assert_eq!(figures, [Some(0.01), None, None, None, Some(1.0)]);
    }
}
