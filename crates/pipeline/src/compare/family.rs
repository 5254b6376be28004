//! Every pair against the incumbent, as one family of tests.
//!
//! The board shows these figures and the promotion gate decides on them; both call this.

use assize_domain::leaderboard::{Pair, Versus};
use assize_stats::{Alternative, Draws, Interval, max_t, paired};

/// Random draws where there are too many scenarios to enumerate.
const DRAWS: usize = 10_000;

/// Every pair's paired difference to the incumbent, tested as one family.
pub fn against(
    means: &[Vec<Option<f64>>],
    incumbent: Option<usize>,
    seed: u64,
) -> Vec<Option<Versus>> {
    let Some(incumbent) = incumbent else {
        return vec![None; means.len()];
    };
    let challengers: Vec<usize> = (0..means.len()).filter(|pair| *pair != incumbent).collect();
    let differences: Vec<Vec<Option<f64>>> = challengers
        .iter()
        .map(|pair| paired::differences(&means[*pair], &means[incumbent]))
        .collect();
    let draws = Draws { count: DRAWS, seed };
    let tests = max_t::max_t(&differences, Alternative::Greater, draws)
        .map(|family| family.tests)
        .unwrap_or_default();
    let mut versus = vec![None; means.len()];
    for (position, pair) in challengers.into_iter().enumerate() {
        let shared: Vec<f64> = differences[position].iter().flatten().copied().collect();
        let Some(mean) = assize_stats::describe::mean(&shared) else {
            continue;
        };
        let test = tests.get(position).copied().flatten();
        let paired = paired::paired_diff(&shared, 0.95).ok();
        versus[pair] = Some(Versus {
            diff: mean,
            ci95: paired.map(|it| ends(it.interval)),
            lower95: paired.map(|it| it.lower_bound),
            scenarios: u32::try_from(shared.len()).unwrap_or(u32::MAX),
            p: test.map(|it| it.p),
            p_adjusted: test.map(|it| it.p_adjusted),
        });
    }
    versus
}

pub fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

/// The pair to ship: of those that are significantly ahead the one with the largest difference;
/// where there is none, the one with the largest difference. Of equals the one with more
/// scenarios is taken, then the later name, as on the board.
pub fn leader(versus: &[Option<Versus>], level: f64, pairs: &[Pair]) -> Option<usize> {
    let ahead = |it: &Versus| it.diff > 0.0 && it.p_adjusted.is_some_and(|p| p <= level);
    let challengers = || {
        let found = versus.iter().enumerate();
        found.filter_map(|(pair, it)| Some((pair, it.as_ref()?)))
    };
    let largest = |a: &(usize, &Versus), b: &(usize, &Versus)| {
        let by_name = || pairs.get(a.0).cmp(&pairs.get(b.0));
        let by_scenarios = || a.1.scenarios.cmp(&b.1.scenarios);
        let by_difference = a.1.diff.total_cmp(&b.1.diff);
        by_difference.then_with(by_scenarios).then_with(by_name)
    };
    let significant = challengers().filter(|(_, it)| ahead(it)).max_by(largest);
    significant
        .or_else(|| challengers().max_by(largest))
        .map(|(pair, _)| pair)
}
