//! The confirmation: one test on scenarios that the choice has not seen.
//!
//! The test is an e-process ([`assize_stats::e_process`]): its error rate holds however often the
//! split is looked at and extended, so that adding scenarios and trying again is legitimate.

use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::e_process::{EProcessSettings, e_process};
use assize_stats::{MIN_TEST_BLOCKS, describe};

use super::open_check::OpenCheck;
use super::{Confirmation, Evidence, FlagShares, comparable, flag_check};
use crate::error::count;
use crate::promote::thresholds::Thresholds;

/// The test, and where it can be made also margin and flags on the same scenarios.
pub fn confirmation(evidence: &Evidence, thresholds: &Thresholds, is_clear: bool) -> Vec<Check> {
    let check = OpenCheck::new(
        "confirmation",
        "confirmed on unseen scenarios: p",
        Quantity::P,
        Relation::AtMost,
        thresholds.level,
    );
    let Some(found) = &evidence.confirmation else {
        let why = "The task has no confirmation split.";
        return vec![check.finish(Outcome::NotApplicable, None, Some(why.to_owned()))];
    };
    if !is_clear {
        let why = "Sealed until every other check passes.";
        return vec![check.finish(Outcome::Sealed, None, Some(why.to_owned()))];
    }
    if let Some(why) = obstacle(found, thresholds) {
        return vec![check.finish(Outcome::Failed, None, Some(why))];
    }
    let mean = describe::mean(&found.differences);
    let mut checks = vec![
        test(check, found, thresholds),
        OpenCheck::new(
            "confirmation.margin",
            "difference on unseen scenarios",
            Quantity::Points,
            Relation::AtLeast,
            thresholds.margin_within(evidence.composite_range),
        )
        .against(mean, None),
    ];
    let flags = found.flags.iter().map(|flag: &FlagShares| {
        let name = format!("confirmation.flag.{}", flag.name);
        let label = format!("{} on unseen scenarios", flag.name);
        flag_check(&name, &label, flag, thresholds)
    });
    checks.extend(flags);
    let conditions = comparable::conditions(
        "confirmation.",
        found.judged_apart,
        &found.comparability,
        thresholds,
    );
    // They are the same questions as on the selection split: only what is wrong is shown.
    let wrong = conditions.into_iter();
    checks.extend(wrong.filter(|it| it.outcome == Outcome::Failed));
    checks
}

/// Why the test cannot be made yet.
fn obstacle(found: &Confirmation, thresholds: &Thresholds) -> Option<String> {
    if found.scenarios < MIN_TEST_BLOCKS {
        let have = count(found.scenarios, "scenario");
        return Some(format!(
            "The confirmation split has {have}; {MIN_TEST_BLOCKS} are needed for a test: add some to the task."
        ));
    }
    let is_incomplete = found.missing_cells > thresholds.missing_cells as usize
        || found.differences.len() < MIN_TEST_BLOCKS;
    is_incomplete.then(|| {
        format!(
            "{} of {} cells of the two pairs are not collected and judged there yet.",
            found.missing_cells,
            2 * found.scenarios
        )
    })
}

fn test(check: OpenCheck, found: &Confirmation, thresholds: &Thresholds) -> Check {
    let settings = EProcessSettings {
        scale: found.scale,
        alpha: thresholds.level,
    };
    let Ok(process) = e_process(&found.differences, settings) else {
        let why = "The differences on the confirmation split cannot be tested.";
        return check.finish(Outcome::Failed, None, Some(why.to_owned()));
    };
    let is_ahead = describe::mean(&found.differences).is_some_and(|mean| mean > 0.0);
    let why = if is_ahead {
        "The test stays valid when scenarios are added to the split and it is tried again."
    } else {
        "The candidate is not ahead there."
    };
    check.against(Some(process.p), Some(why.to_owned()))
}
