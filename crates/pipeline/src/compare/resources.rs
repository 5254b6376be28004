//! What pairs cost and how long they take, over their runs.

use assize_domain::leaderboard::Resource;
use assize_stats::paired;

use super::read::{RunFigures, Scores};

/// A quantile of the latencies of a pair's runs, interpolated between the two nearest; `None`
/// where none was measured.
pub fn latency_quantile(scores: &Scores, pair: usize, share: f64) -> Option<f64> {
    let measured = finished(scores, pair).filter_map(|it| it.latency_ms);
    let mut measured: Vec<f64> = measured.collect();
    measured.sort_by(f64::total_cmp);
    quantile(&measured, share)
}

/// What a thousand candidates of a pair cost; `None` where no run has a cost.
pub fn cost_per_1000(scores: &Scores, pair: usize) -> Option<f64> {
    let charged = finished(scores, pair).filter_map(|it| Some((it.cost_usd?, it.n_candidates)));
    let (mut cost, mut candidates) = (0.0, 0.0);
    for (charge, count) in charged {
        cost += charge;
        candidates += f64::from(count);
    }
    (candidates > 0.0).then(|| 1000.0 * cost / candidates)
}

/// The mean tokens of thoughts of a pair's candidates; `None` where no run has any.
pub fn thinking_tokens(scores: &Scores, pair: usize) -> Option<f64> {
    let runs = || finished(scores, pair);
    let tokens: f64 = runs().filter_map(|it| it.thinking_tokens).sum();
    let candidates: f64 = runs().map(|it| f64::from(it.n_candidates)).sum();
    (tokens > 0.0 && candidates > 0.0).then(|| tokens / candidates)
}

/// By scenario that both pairs have: the logarithm of how much more one candidate of the first
/// uses than one of the second. Empty where a figure is missing or not above zero.
pub fn log_ratios(scores: &Scores, resource: Resource, pair: usize, other: usize) -> Vec<f64> {
    let (ours, theirs) = (
        by_scenario(scores, resource, pair),
        by_scenario(scores, resource, other),
    );
    let differences = paired::differences(&ours, &theirs);
    differences.into_iter().flatten().collect()
}

/// The logarithm of the mean use of a candidate, by scenario.
fn by_scenario(scores: &Scores, resource: Resource, pair: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0.0); scores.scenarios.len()];
    for run in finished(scores, pair) {
        let count = f64::from(run.n_candidates);
        let used = match resource {
            Resource::Latency => run.latency_ms.map(|it| it * count),
            Resource::Cost => run.cost_usd,
        };
        if let (Some(used), Some(sum)) = (used, sums.get_mut(run.scenario)) {
            sum.0 += used;
            sum.1 += count;
        }
    }
    let mean = |(used, count): (f64, f64)| (used > 0.0 && count > 0.0).then(|| (used / count).ln());
    sums.into_iter().map(mean).collect()
}

fn finished(scores: &Scores, pair: usize) -> impl Iterator<Item = &RunFigures> {
    let runs = scores.runs_of(pair).iter();
    runs.filter(|it| !it.is_failed && it.n_candidates > 0)
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let below = place.floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in the list"
    )]
    let index = below as usize;
    let low = sorted[index];
    let high = sorted[(index + 1).min(last)];
    Some(low + (high - low) * (place - below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.95), Some(3.0));
        let sorted: Vec<f64> = (0..=20).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), Some(10.0));
        assert!((quantile(&sorted, 0.95).unwrap() - 19.0).abs() < 1e-12);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
    }
}
