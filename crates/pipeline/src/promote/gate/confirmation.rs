//! The confirmation: one test on scenarios that the choice has not seen.
//!
//! The test is an e-process ([`assize_stats::e_process`]): its error rate holds however often the
//! split is looked at and extended, so that adding scenarios and trying again is legitimate.

use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::e_process::{EProcessSettings, e_process, further_blocks};
use assize_stats::{Draws, MIN_TEST_BLOCKS, describe};

use super::open_check::OpenCheck;
use super::{Confirmation, Evidence, FlagShares, flag_check};
use crate::error::count;
use crate::promote::thresholds::Thresholds;

/// More scenarios than this are never proposed.
const MOST_SCENARIOS: usize = 500;
/// Simulated continuations of the test.
const CONTINUATIONS: usize = 200;

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
        test(check, found, evidence, thresholds),
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
        flag_check(&name, flag, thresholds)
    });
    checks.extend(flags);
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

fn test(
    check: OpenCheck,
    found: &Confirmation,
    evidence: &Evidence,
    thresholds: &Thresholds,
) -> Check {
    let settings = EProcessSettings {
        scale: found.scale,
        alpha: thresholds.level,
    };
    let Ok(process) = e_process(&found.differences, settings) else {
        let why = "The differences on the confirmation split cannot be tested.";
        return check.finish(Outcome::Failed, None, Some(why.to_owned()));
    };
    let mean = describe::mean(&found.differences).unwrap_or(0.0);
    let draws = Draws {
        count: CONTINUATIONS,
        seed: evidence.seed,
    };
    let more = further_blocks(
        &found.differences,
        mean,
        found.scale,
        MOST_SCENARIOS,
        settings,
        draws,
    );
    let outlook = match more.ok().and_then(|it| it.p80) {
        _ if mean <= 0.0 => "The candidate is not ahead there.".to_owned(),
        Some(more) => format!(
            "The test stays valid when scenarios are added: if the difference of {mean:+.2} holds, {more} more \
             confirmation scenarios are enough in 80 % of cases."
        ),
        None => format!(
            "The test stays valid when scenarios are added, but a difference of {mean:+.2} would need more than \
             {MOST_SCENARIOS}."
        ),
    };
    check.against(Some(process.p), Some(outlook))
}
