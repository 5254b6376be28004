//! Whether candidate and incumbent were collected and judged alike, and which pairs the choice was
//! made from.

use assize_domain::judge::Tier;
use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::MIN_TEST_BLOCKS;

use super::open_check::OpenCheck;
use super::{Evidence, TierEvidence};
use crate::compare::comparability::Comparability;
use crate::error::count;
use crate::promote::thresholds::Thresholds;

/// Everything that must be the same for both pairs.
pub fn comparable(
    evidence: &Evidence,
    deciding: Option<&TierEvidence>,
    thresholds: &Thresholds,
) -> Vec<Check> {
    conditions(
        "",
        deciding.and_then(|it| it.judged_apart),
        &evidence.comparability,
        thresholds,
    )
}

/// The same on the scenarios of a split; `prefix` starts the names of the checks.
pub fn conditions(
    prefix: &str,
    judged_apart: Option<f64>,
    comparability: &Comparability,
    thresholds: &Thresholds,
) -> Vec<Check> {
    vec![
        judged_alike(prefix, judged_apart, thresholds),
        same_settings(prefix, comparability),
        failed_candidates(prefix, comparability, thresholds),
    ]
}

/// A difference between judges or sittings must not look like one between pairs.
fn judged_alike(prefix: &str, judged_apart: Option<f64>, thresholds: &Thresholds) -> Check {
    let check = OpenCheck::new(
        &format!("{prefix}judged_alike"),
        "verdicts by different judges",
        Quantity::Proportion,
        Relation::AtMost,
        thresholds.judged_apart,
    );
    let Some(apart) = judged_apart else {
        let why = "No scenario is judged for both pairs.";
        return check.finish(Outcome::NotApplicable, None, Some(why.to_owned()));
    };
    let unit = match thresholds.deciding_tier() {
        Tier::Expert => "sittings",
        Tier::Auto => "judges",
    };
    let why = format!(
        "That share of the two pairs' verdicts comes from different {unit}, which may be stricter or \
         kinder: judge both pairs again, side by side."
    );
    check.against(Some(apart), Some(why))
}

fn same_settings(prefix: &str, comparability: &Comparability) -> Check {
    let different = &comparability.settings;
    let why = format!(
        "Only one of the pairs was collected with: {}.",
        different.join("; ")
    );
    OpenCheck::new(
        &format!("{prefix}same_settings"),
        "settings that differ",
        Quantity::Count,
        Relation::AtMost,
        0.0,
    )
    .against(Some(different.len() as f64), Some(why))
}

fn failed_candidates(
    prefix: &str,
    comparability: &Comparability,
    thresholds: &Thresholds,
) -> Check {
    let [ours, theirs] = comparability.lost;
    let why = format!(
        "{:.1} % of the candidate's requests and {:.1} % of the incumbent's produced nothing: the means are \
         over the rest.",
        ours * 100.0,
        theirs * 100.0
    );
    OpenCheck::new(
        &format!("{prefix}failed_candidates"),
        "difference in failed requests",
        Quantity::Share,
        Relation::AtMost,
        thresholds.failed_margin,
    )
    .against(Some((ours - theirs).abs()), Some(why))
}

/// Pairs that were collected and not judged by this tier were left out by somebody's choice, for
/// example by the automatic scores. Then the p over the judged pairs is too small, and only
/// scenarios that the choice has not seen can decide.
pub fn family(evidence: &Evidence, tier: Tier) -> Check {
    let check = OpenCheck::new(
        "family",
        &format!("collected pairs not judged by {tier}"),
        Quantity::Count,
        Relation::AtMost,
        0.0,
    );
    let unjudged = evidence.unjudged_pairs;
    let is_confirmed_elsewhere = evidence
        .confirmation
        .as_ref()
        .is_some_and(|it| it.scenarios >= MIN_TEST_BLOCKS);
    let choice = format!(
        "{} left out before this tier judged, so the candidate was chosen by other scores",
        count(unjudged, "pair") + if unjudged == 1 { " was" } else { " were" },
    );
    if unjudged > 0 && is_confirmed_elsewhere {
        let why = format!("{choice}; the confirmation split decides.");
        return check.finish(Outcome::Passed, Some(unjudged as f64), Some(why));
    }
    let why = format!(
        "{choice}: have them judged too, or give the task a confirmation split of {MIN_TEST_BLOCKS} or more \
         scenarios."
    );
    check.against(Some(unjudged as f64), Some(why))
}
