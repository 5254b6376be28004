//! Whether a lead vanishes at equal length.
//!
//! Judges tend to prefer longer answers. Over scenarios, the leader's difference in score is
//! regressed on its difference in length; the intercept is the difference at equal length.

use assize_domain::leaderboard::Pair;
use assize_stats::covariate::paired_at_equal;

use super::read::Scores;
use super::view::View;

/// The level at which the slope of score on length counts.
const LEVEL: f64 = 0.05;

/// A sentence where the lead cannot be told from an effect of length.
pub fn explains(
    scores: &Scores,
    view: &View<'_>,
    leader: usize,
    incumbent: usize,
    name: &Pair,
) -> Option<String> {
    let [ours, theirs] = [leader, incumbent].map(|pair| lengths(scores, pair));
    let (ours, theirs) = (ours?, theirs?);
    let (mut differences, mut longer) = (Vec::new(), Vec::new());
    for scenario in 0..scores.scenarios.len() {
        let score = |pair: usize| *view.means.get(pair)?.get(scenario)?;
        let pairs = score(leader).zip(score(incumbent));
        if let (Some((a, b)), Some(x), Some(y)) = (pairs, ours[scenario], theirs[scenario]) {
            differences.push(a - b);
            longer.push(x - y);
        }
    }
    let found = paired_at_equal(&differences, &longer, 1.0 - LEVEL).ok()??;
    let is_explained =
        found.raw.interval.low > 0.0 && found.slope_p <= LEVEL && found.interval.low <= 0.0;
    is_explained.then(|| {
        format!(
            "{name} writes {:+.0} tokens, and the score depends on length here: at equal length the difference is \
             {:+.2} [{:.2}, {:.2}], which may be nothing",
            found.covariate, found.mean, found.interval.low, found.interval.high
        )
        .replace('-', "−")
    })
}

/// Tokens per candidate by scenario; `None` where no run reports them.
fn lengths(scores: &Scores, pair: usize) -> Option<Vec<Option<f64>>> {
    let mut sums = vec![(0.0, 0_u32); scores.scenarios.len()];
    for run in scores.runs_of(pair) {
        if let Some(tokens) = run.completion_tokens {
            sums[run.scenario].0 += tokens;
            sums[run.scenario].1 += run.n_candidates;
        }
    }
    let is_known = sums.iter().any(|it| it.1 > 0);
    let means = sums
        .into_iter()
        .map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)));
    is_known.then(|| means.collect())
}
