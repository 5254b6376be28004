//! The bootstrap over blocks, for display and diagnosis.
//!
//! A resample draws S of the S blocks with replacement. With up to [`EXACT_BLOCKS`] blocks all
//! C(2S − 1, S) multisets are enumerated with their multinomial weights S!/(Πc!·S^S), and nothing
//! is random. Above, B resamples are drawn from [`SplitMix64`]: resample b takes S outputs from
//! position b·S on, and an output u becomes the index ⌊u·S/2^64⌋. One index matrix serves every
//! treatment and pair, so resampled treatments stay paired.
//!
//! The percentile interval is too short with few blocks and must not decide anything; use the t
//! interval of [`crate::paired`]. It is here because people know it, and to show the difference.
//!
//! References: Efron and Tibshirani (1993), "An Introduction to the Bootstrap"; Fisher and Hall
//! (1991), "Bootstrap algorithms for small samples", for the enumeration.

use crate::describe::{mean, quantile_sorted, scale, sd};
use crate::rng::SplitMix64;
use crate::{Draws, Interval, StatsError, TIE_TOLERANCE};
use rayon::prelude::*;

/// The most blocks for which resamples are enumerated: C(17, 9) = 24,310 multisets.
pub const EXACT_BLOCKS: usize = 9;

/// The bootstrap distribution of a mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BootstrapMean {
    pub se: f64,
    /// Percentiles: interpolated (type 7) over draws, by inverted CDF over the enumeration.
    pub interval: Interval,
    pub p_above_zero: f64,
    pub p_zero: f64,
}

/// The exact bootstrap distribution of the mean of 1 to [`EXACT_BLOCKS`] values.
pub fn bootstrap_mean_exact(values: &[f64], confidence: f64) -> Result<BootstrapMean, StatsError> {
    let (low, high) = tails(values, confidence)?;
    let mut outcomes = Vec::new();
    for_each_multiset(values.len(), |counts, weight| {
        let total: f64 = counts
            .iter()
            .zip(values)
            .map(|(count, value)| f64::from(*count) * value)
            .sum();
        outcomes.push((total / values.len() as f64, weight));
    })?;
    outcomes.sort_by(|left, right| left.0.total_cmp(&right.0));
    let tie = TIE_TOLERANCE * scale(values);
    let weight_where = |keep: &dyn Fn(f64) -> bool| -> f64 {
        let kept = outcomes.iter().filter(|(mean, _)| keep(*mean));
        kept.map(|(_, weight)| weight).sum()
    };
    let centre: f64 = outcomes.iter().map(|(mean, weight)| mean * weight).sum();
    let variance: f64 = outcomes
        .iter()
        .map(|(mean, weight)| weight * (mean - centre).powi(2))
        .sum();
    Ok(BootstrapMean {
        se: variance.sqrt(),
        interval: Interval {
            low: inverted_cdf(&outcomes, low),
            high: inverted_cdf(&outcomes, high),
        },
        p_above_zero: weight_where(&|mean| mean > tie),
        p_zero: weight_where(&|mean| mean.abs() <= tie),
    })
}

/// The seeded bootstrap distribution of the mean, from one value and two draws on.
pub fn bootstrap_mean(
    values: &[f64],
    confidence: f64,
    draws: Draws,
) -> Result<BootstrapMean, StatsError> {
    let (low, high) = tails(values, confidence)?;
    let mut means: Vec<f64> = (0..draws.count)
        .into_par_iter()
        .map_init(Vec::new, |resample, draw| {
            let mut rng = resample_rng(draws.seed, draw, values.len());
            resample.clear();
            resample.extend((0..values.len()).map(|_| values[rng.below(values.len())]));
            mean(resample).unwrap_or(f64::NAN)
        })
        .collect();
    let too_few_draws = StatsError::ParameterOutOfRange {
        what: "the number of draws",
        value: draws.count as f64,
        range: "at least 2",
    };
    let se = sd(&means).ok_or(too_few_draws.clone())?;
    means.sort_by(f64::total_cmp);
    let tie = TIE_TOLERANCE * scale(values);
    let above = means.iter().filter(|mean| **mean > tie).count();
    let zero = means.iter().filter(|mean| mean.abs() <= tie).count();
    let quantile = |p| quantile_sorted(&means, p).ok_or(too_few_draws.clone());
    Ok(BootstrapMean {
        se,
        interval: Interval {
            low: quantile(low)?,
            high: quantile(high)?,
        },
        p_above_zero: above as f64 / draws.count as f64,
        p_zero: zero as f64 / draws.count as f64,
    })
}

/// The generator at the start of a resample.
pub(crate) fn resample_rng(seed: u64, draw: usize, blocks: usize) -> SplitMix64 {
    SplitMix64::at(seed, (draw as u64).wrapping_mul(blocks as u64))
}

/// Visits every multiset of `blocks` blocks: how often each is drawn, and the probability.
pub(crate) fn for_each_multiset(
    blocks: usize,
    mut visit: impl FnMut(&[u32], f64),
) -> Result<(), StatsError> {
    if !(1..=EXACT_BLOCKS).contains(&blocks) {
        return Err(StatsError::ParameterOutOfRange {
            what: "the number of blocks to enumerate",
            value: blocks as f64,
            range: "1 to 9",
        });
    }
    let mut factorials = vec![1.0];
    for n in 1..=blocks {
        factorials.push(factorials[n - 1] * n as f64);
    }
    let all = factorials[blocks] / (0..blocks).fold(1.0, |power, _| power * blocks as f64);
    let mut counts = vec![0_u32; blocks];
    let size = u32::try_from(blocks).unwrap_or(u32::MAX);
    split(&mut counts, 0, size, &mut |counts| {
        let repeats: f64 = counts.iter().map(|c| factorials[*c as usize]).product();
        visit(counts, all / repeats);
    });
    Ok(())
}

fn split(counts: &mut [u32], place: usize, left: u32, visit: &mut impl FnMut(&[u32])) {
    if place + 1 == counts.len() {
        counts[place] = left;
        return visit(counts);
    }
    for take in 0..=left {
        counts[place] = take;
        split(counts, place + 1, left - take, visit);
    }
}

/// The smallest outcome with at least this much probability at or below it.
pub(crate) fn inverted_cdf(sorted: &[(f64, f64)], probability: f64) -> f64 {
    let mut cumulated = 0.0;
    for (outcome, weight) in sorted {
        cumulated += weight;
        if cumulated >= probability - TIE_TOLERANCE {
            return *outcome;
        }
    }
    sorted.last().map_or(f64::NAN, |(outcome, _)| *outcome)
}

fn tails(values: &[f64], confidence: f64) -> Result<(f64, f64), StatsError> {
    crate::score::check_confidence(confidence)?;
    if values.iter().any(|value| !value.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    if values.is_empty() {
        return Err(StatsError::TooFewBlocks {
            needed: 1,
            found: 0,
        });
    }
    let low = (1.0 - confidence) / 2.0;
    Ok((low, 1.0 - low))
}

#[cfg(test)]
mod tests {
    use super::{bootstrap_mean, bootstrap_mean_exact, for_each_multiset};
    use crate::Draws;

    #[test]
    fn weights_add_up_to_one_over_all_multisets() {
        let (mut visits, mut total) = (0, 0.0);
        for_each_multiset(8, |_, weight| {
            visits += 1;
            total += weight;
        })
        .unwrap();
        assert_eq!(visits, 6435);
        assert!((total - 1.0_f64).abs() < 1e-12);
        assert!(for_each_multiset(10, |_, _| {}).is_err());
        assert!(for_each_multiset(0, |_, _| {}).is_err());
    }

    #[test]
    fn one_value_has_no_spread() {
        let one = bootstrap_mean_exact(&[2.0], 0.95).unwrap();
        assert_eq!((one.se, one.p_above_zero, one.p_zero), (0.0, 1.0, 0.0));
        assert!(bootstrap_mean_exact(&[], 0.95).is_err());
        assert!(bootstrap_mean(&[f64::NAN], 0.95, Draws::default()).is_err());
        assert!(bootstrap_mean(&[1.0], 0.95, Draws { count: 1, seed: 0 }).is_err());
    }
}
