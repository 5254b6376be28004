//! Who loses: the scenarios and segments in which a pair is worse than the incumbent.
//!
//! Effects are shrunk towards their mean ([`assize_stats::block_effects`]), so that more scenarios
//! do not look like more harm. A segment is one value of a scalar field of the scenarios.

use assize_domain::leaderboard::{Harm, Pair, ScenarioEffect, SegmentEffect};
use assize_stats::block_effects::{Noise, block_effects, group_effects};
use assize_stats::table::Cell;

/// The most effects that a board lists.
const MOST_LISTED: usize = 50;

/// Estimates that are closer than this are equal.
const TIE: f64 = 1e-9;

/// The values of one scalar field of the scenarios.
#[derive(Debug, Clone, PartialEq)]
pub struct Segments {
    pub field: String,
    pub values: Vec<String>,
    /// By scenario: the place of its value.
    pub value_of: Vec<Option<usize>>,
}

/// The differences of a pair to the incumbent by scenario and segment, the smallest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    /// Place of the scenario, difference as observed, estimate.
    pub scenarios: Vec<(usize, f64, f64)>,
    pub segments: Vec<SegmentEffect>,
    /// Estimates are upper bounds, because cells have one candidate each.
    pub are_bounds: bool,
}

impl Effects {
    /// Computes the effects from the cells of the two pairs. `level` is the error rate of upper bounds.
    pub fn of(
        candidate: &[Option<Cell>],
        incumbent: &[Option<Cell>],
        segments: &[Segments],
        level: f64,
    ) -> Self {
        let Ok(found) = block_effects(candidate, incumbent, level) else {
            return Self::default();
        };
        let differences: Vec<(usize, f64)> = found
            .blocks
            .iter()
            .map(|it| (it.block, it.difference))
            .collect();
        let mut scenarios: Vec<(usize, f64, f64)> = found
            .blocks
            .iter()
            .map(|it| (it.block, it.difference, it.estimate))
            .collect();
        scenarios.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.1.total_cmp(&b.1)));
        let mut of_segments: Vec<SegmentEffect> = segments
            .iter()
            .flat_map(|it| segment_effects(it, &differences))
            .collect();
        of_segments.sort_by(|a, b| estimate(a).total_cmp(&estimate(b)));
        Self {
            scenarios,
            segments: of_segments,
            are_bounds: found.noise == Noise::Spread,
        }
    }

    /// The effects as a board lists them.
    pub fn listed(self, pair: Pair, names: &[(String, String)]) -> Option<Harm> {
        let effect = |(place, diff, estimate): (usize, f64, f64)| {
            Some(ScenarioEffect {
                scenario: names.get(place)?.0.clone(),
                diff,
                estimate,
            })
        };
        let mut scenarios: Vec<ScenarioEffect> =
            self.scenarios.into_iter().filter_map(effect).collect();
        // Copies of an experiment can have its runs in another order: their boards are the same.
        let rounded = |it: &ScenarioEffect| (it.estimate / TIE).round();
        scenarios.sort_by(|a, b| {
            let by_estimate = rounded(a).total_cmp(&rounded(b));
            by_estimate.then_with(|| a.scenario.cmp(&b.scenario))
        });
        scenarios.truncate(MOST_LISTED);
        (!scenarios.is_empty()).then_some(Harm {
            pair,
            scenarios,
            segments: self.segments,
            upper_bounds: self.are_bounds,
        })
    }
}

/// The estimate of a segment, or what was observed.
pub fn estimate(segment: &SegmentEffect) -> f64 {
    segment.estimate.unwrap_or(segment.diff)
}

fn segment_effects(segments: &Segments, differences: &[(usize, f64)]) -> Vec<SegmentEffect> {
    let (groups, values): (Vec<usize>, Vec<f64>) = differences
        .iter()
        .filter_map(|(scenario, difference)| {
            let group = *segments.value_of.get(*scenario)?;
            Some((group?, *difference))
        })
        .unzip();
    let effects = group_effects(&values, &groups).unwrap_or_default();
    let effects = effects.into_iter().filter(|it| !it.is_single);
    effects
        .map(|it| SegmentEffect {
            field: segments.field.clone(),
            value: segments.values[it.group].clone(),
            scenarios: u32::try_from(it.blocks).unwrap_or(u32::MAX),
            diff: it.mean,
            estimate: it.estimate,
        })
        .collect()
}
