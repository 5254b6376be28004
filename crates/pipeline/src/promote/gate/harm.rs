//! Whether some scenario or segment loses what the mean gains.

use assize_domain::promotion::{Check, Outcome, Quantity, Relation};

use super::open_check::OpenCheck;
use super::{Evidence, TierEvidence};
use crate::compare::harm::{self, Effects};
use crate::promote::thresholds::Thresholds;

/// The worst scenario and the worst segment, by shrunken effects.
pub fn harm(
    evidence: &Evidence,
    deciding: Option<&TierEvidence>,
    thresholds: &Thresholds,
) -> [Check; 2] {
    let effects = deciding.map_or_else(Effects::default, |it| {
        Effects::of(
            &it.cells[0],
            &it.cells[1],
            &evidence.segments,
            thresholds.level,
        )
    });
    [
        worst_scenario(evidence, &effects, thresholds),
        worst_segment(evidence, &effects, thresholds),
    ]
}

fn worst_scenario(evidence: &Evidence, effects: &Effects, thresholds: &Thresholds) -> Check {
    let worst = effects.scenarios.first();
    let why = match worst {
        Some((place, observed, _)) => evidence.scenarios.get(*place).map(|name| {
            let kind = if effects.are_bounds {
                "an upper bound"
            } else {
                "without the noise of few candidates"
            };
            format!("That is {name}: {observed:+.2} as observed, {kind}.")
        }),
        None => Some("Too few scenarios are judged for both pairs.".to_owned()),
    };
    OpenCheck::new(
        "worst_scenario",
        "worst scenario",
        Quantity::Points,
        Relation::AtLeast,
        thresholds.scenario_floor_within(evidence.composite_range),
    )
    .against(worst.map(|(_, _, estimate)| *estimate), why)
}

fn worst_segment(evidence: &Evidence, effects: &Effects, thresholds: &Thresholds) -> Check {
    let check = OpenCheck::new(
        "worst_segment",
        "worst segment",
        Quantity::Points,
        Relation::AtLeast,
        thresholds.segment_floor_within(evidence.composite_range),
    );
    let Some(worst) = effects.segments.first() else {
        let why = "No field of the scenarios groups them into segments.";
        return check.finish(Outcome::NotApplicable, None, Some(why.to_owned()));
    };
    let why = format!(
        "That is {} = {}, {} scenarios: {:+.2} as observed.",
        worst.field, worst.value, worst.scenarios, worst.diff
    );
    check.against(Some(harm::estimate(worst)), Some(why))
}
