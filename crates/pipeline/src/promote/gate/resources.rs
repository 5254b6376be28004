//! Whether the candidate is not much slower or dearer than the incumbent.
//!
//! Only where a margin is set: how much quality is worth is not for the gate to decide. The test
//! is one of non-inferiority: the upper bound of how much more the candidate uses, over scenarios,
//! must be within the margin.

use assize_domain::leaderboard::Resource;
use assize_domain::promotion::{Check, Quantity, Relation};
use assize_stats::paired;

use super::Evidence;
use super::open_check::OpenCheck;
use crate::promote::thresholds::Thresholds;

/// The checks whose margins are set.
pub fn resources(evidence: &Evidence, thresholds: &Thresholds) -> Vec<Check> {
    let margins = [
        (Resource::Latency, thresholds.latency_margin),
        (Resource::Cost, thresholds.cost_margin),
    ];
    let set = margins
        .into_iter()
        .filter_map(|(resource, margin)| Some((resource, margin?)));
    set.map(|(resource, margin)| check(evidence, resource, margin, thresholds.level))
        .collect()
}

fn check(evidence: &Evidence, resource: Resource, margin: f64, level: f64) -> Check {
    let name = resource.name();
    let more = match resource {
        Resource::Latency => "slower",
        Resource::Cost => "dearer",
    };
    let log_ratios = match resource {
        Resource::Latency => &evidence.log_latency_ratios,
        Resource::Cost => &evidence.log_cost_ratios,
    };
    let upper: Vec<f64> = log_ratios.iter().map(|it| -it).collect();
    // The lower bound of what is saved is the upper bound of what is used.
    let saved = paired::paired_diff(&upper, 1.0 - level).ok();
    let figure = saved.map(|it| (-it.lower_bound).exp_m1());
    let why = match &saved {
        Some(it) => format!(
            "The candidate is {:+.0} % {more} over {} scenarios; the figure is the upper bound.",
            (-it.mean).exp_m1() * 100.0,
            log_ratios.len()
        ),
        None => format!(
            "The {name} of both pairs is not known in two scenarios; {name}_margin in [gate] asks for it."
        ),
    };
    OpenCheck::new(
        name,
        &format!("{more} by at most"),
        Quantity::Share,
        Relation::AtMost,
        margin,
    )
    .against(figure, Some(why))
}
