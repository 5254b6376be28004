//! Anchors as blind cases, like all others.

use assize_domain::case::{Case, blank_scores};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{ANCHORS, Sitting};

/// The case of the anchor at this place of the sitting's record.
pub fn case(sitting: &Sitting, rubric: &Rubric, place: u32) -> Option<Case> {
    let anchor = sitting.anchors.cases.get(place as usize)?;
    Some(Case {
        case: sitting.case_id(ANCHORS, place),
        context: anchor.context.clone(),
        candidate: anchor.candidate.clone(),
        scores: blank_scores(rubric, &anchor.flags),
        rationale: None,
    })
}

/// All of a sitting's anchors, in the order of the record.
pub fn cases(sitting: &Sitting, rubric: &Rubric) -> Vec<Case> {
    let places = 0..u32::try_from(sitting.anchors.cases.len()).unwrap_or(u32::MAX);
    places
        .filter_map(|place| case(sitting, rubric, place))
        .collect()
}
