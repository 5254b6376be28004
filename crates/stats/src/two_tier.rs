//! Estimates one mean from few trusted scores Y and many cheap ones f.
//!
//! **PPI++** ([`prediction_powered`]): n items have both scores and N others only the cheap one.
//! θ̂ = Ȳ_n + λ(f̄_N − f̄_n): the trusted mean, moved by what the cheap scores say about the items
//! that were not trusted-scored. λ = 0 is the trusted mean alone, λ = 1 trusts f fully;
//! λ̂ = Cov(Y, f)/((1 + n/N)·Var f), clipped to [0, 1], has the smallest variance, with Var f over
//! all n + N cheap scores. SE² = Var(Y − λf)/n + λ²Var(f_N)/N. A bias of the cheap scores cancels;
//! a poor cheap scorer gets a small λ and costs nothing.
//!
//! **Inclusion weights** ([`inclusion_weighted`]): all M items have f, and item i was drawn for
//! trusted scoring with a known probability π_i. θ̂ = λf̄ + (1/M)Σ(Y_i − λf_i)/π_i is unbiased
//! whatever the π (Horvitz and Thompson 1952); SE² = Σ(1 − π_i)/π_i²·(Y_i − λf_i)²/M² for
//! independent draws, for the mean of exactly these M items. Hájek's version divides by Σ1/π
//! instead of M: slightly biased, often steadier.
//!
//! **Differences of treatments** ([`paired_two_tier`], [`paired_two_tier_table`]) by block, and the cheap
//! scorer's bias for one treatment minus that for another ([`differential_bias`]) are in the submodule.
//!
//! References: Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient prediction-powered
//! inference"; Särndal, Swensson and Wretman (1992), "Model Assisted Survey Sampling".

mod paired;

pub use paired::{
    Both, DifferentialBias, Scored, TierCell, Trusted, TwoTierDiff, TwoTierTable,
    differential_bias, paired_two_tier, paired_two_tier_table,
};

use crate::describe::{covariance, mean, sum, variance};
use crate::dist::{normal_quantile, t_quantile};
use crate::{Interval, StatsError};

/// How far to trust the cheap scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lambda {
    Fixed(f64),
    /// The λ̂ of PPI++.
    Tuned,
}

/// A mean from two tiers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoTierMean {
    pub lambda: f64,
    pub mean: f64,
    pub se: f64,
    pub interval_z: Interval,
    /// With n − 1 degrees of freedom, for few trusted scores.
    pub interval_t: Interval,
}

/// An item that was drawn for trusted scoring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Its place among all items.
    pub index: usize,
    pub trusted: f64,
    /// The probability with which it was drawn.
    pub inclusion: f64,
}

/// A mean from drawn items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightedMean {
    /// Horvitz–Thompson: unbiased.
    pub mean: f64,
    pub se: f64,
    /// Hájek's ratio version; `None` when nothing was drawn.
    pub hajek: Option<f64>,
    /// What ignoring the inclusion probabilities would give, to show the bias.
    pub unweighted: Option<f64>,
}

/// PPI++: `trusted` and `cheap` belong to the same items, `cheap_only` to others.
pub fn prediction_powered(
    trusted: &[f64],
    cheap: &[f64],
    cheap_only: &[f64],
    lambda: Lambda,
    confidence: f64,
) -> Result<TwoTierMean, StatsError> {
    crate::score::check_confidence(confidence)?;
    if trusted.len() != cheap.len() {
        return Err(StatsError::LengthMismatch {
            left: trusted.len(),
            right: cheap.len(),
        });
    }
    all_finite(trusted.iter().chain(cheap).chain(cheap_only))?;
    let (n, others) = (trusted.len() as f64, cheap_only.len() as f64);
    let lambda = match lambda {
        Lambda::Fixed(lambda) if lambda.is_finite() => lambda,
        Lambda::Fixed(_) => return Err(StatsError::NotFinite),
        Lambda::Tuned => tuned(trusted, cheap, cheap_only).unwrap_or(0.0),
    };
    let few = |needed, found| StatsError::TooFewItems { needed, found };
    let rectified: Vec<f64> = trusted
        .iter()
        .zip(cheap)
        .map(|(y, f)| y - lambda * f)
        .collect();
    let rectified_mean = mean(&rectified).ok_or(few(2, 0))?;
    let own = variance(&rectified).ok_or(few(2, trusted.len()))? / n;
    let (moved, cheap_part) = if lambda == 0.0 {
        (0.0, 0.0)
    } else {
        let found = cheap_only.len();
        let spread = variance(cheap_only).ok_or(few(2, found))?;
        let centre = mean(cheap_only).ok_or(few(2, found))?;
        (lambda * centre, lambda * lambda * spread / others)
    };
    let estimate = rectified_mean + moved;
    let se = (own + cheap_part).sqrt();
    let level = f64::midpoint(1.0, confidence);
    let around = |quantile: Option<f64>| {
        let half = quantile.ok_or(few(2, trusted.len()))? * se;
        Ok(Interval {
            low: estimate - half,
            high: estimate + half,
        })
    };
    Ok(TwoTierMean {
        lambda,
        mean: estimate,
        se,
        interval_z: around(normal_quantile(level))?,
        interval_t: around(t_quantile(level, n - 1.0))?,
    })
}

fn tuned(trusted: &[f64], cheap: &[f64], cheap_only: &[f64]) -> Option<f64> {
    if cheap_only.len() < 2 {
        return None;
    }
    let all: Vec<f64> = cheap.iter().chain(cheap_only).copied().collect();
    let spread = variance(&all).filter(|spread| *spread > 0.0)?;
    let ratio = cheap.len() as f64 / cheap_only.len() as f64;
    let best = covariance(trusted, cheap)? / ((1.0 + ratio) * spread);
    Some(best.clamp(0.0, 1.0))
}

/// Inclusion-weighted mean over all items: `cheap` has one score for each.
pub fn inclusion_weighted(
    cheap: &[f64],
    drawn: &[Drawn],
    lambda: f64,
) -> Result<WeightedMean, StatsError> {
    all_finite(cheap.iter().chain([&lambda]))?;
    all_finite(drawn.iter().map(|item| &item.trusted))?;
    let items = cheap.len() as f64;
    let base = mean(cheap).ok_or(StatsError::TooFewItems {
        needed: 1,
        found: 0,
    })? * lambda;
    let mut residuals = Vec::with_capacity(drawn.len());
    for item in drawn {
        let own = cheap.get(item.index).ok_or(StatsError::IndexOutOfRange {
            what: "item",
            index: item.index,
            len: cheap.len(),
        })?;
        if !(item.inclusion > 0.0 && item.inclusion <= 1.0) {
            return Err(StatsError::ParameterOutOfRange {
                what: "an inclusion probability",
                value: item.inclusion,
                range: "(0, 1]",
            });
        }
        residuals.push((item.trusted - lambda * own, item.inclusion));
    }
    let total = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
        let terms: Vec<f64> = residuals.iter().map(|(r, pi)| term(*r, *pi)).collect();
        sum(&terms)
    };
    let weighted = total(&|r, pi| r / pi);
    let weights = total(&|_, pi| 1.0 / pi);
    let squares = total(&|r, pi| (1.0 - pi) / (pi * pi) * r * r);
    let any = !drawn.is_empty();
    Ok(WeightedMean {
        mean: base + weighted / items,
        se: squares.sqrt() / items,
        hajek: any.then(|| base + weighted / weights),
        unweighted: any.then(|| base + total(&|r, _| r) / drawn.len() as f64),
    })
}

fn all_finite<'a>(mut values: impl Iterator<Item = &'a f64>) -> Result<(), StatsError> {
    if values.all(|value| value.is_finite()) {
        Ok(())
    } else {
        Err(StatsError::NotFinite)
    }
}

#[cfg(test)]
mod tests {
    use super::{Drawn, Lambda, inclusion_weighted, prediction_powered};
    use crate::rng::SplitMix64;

    #[test]
    fn cheap_scores_that_say_nothing_are_not_used() {
        let trusted = [1.0, 2.0, 3.0, 4.0];
        let flat = [2.0; 4];
        let found = prediction_powered(&trusted, &flat, &flat, Lambda::Tuned, 0.95).unwrap();
        assert!(found.lambda == 0.0 && (found.mean - 2.5).abs() < 1e-15);
        let alone = prediction_powered(&trusted, &flat, &[], Lambda::Tuned, 0.95).unwrap();
        assert_eq!(alone, found);
    }

    #[test]
    fn a_biased_cheap_scorer_moves_nothing() {
        let mut rng = SplitMix64::new(5);
        let truth: Vec<f64> = (0..4000).map(|_| 3.0 + rng.next_normal()).collect();
        let cheap: Vec<f64> = truth
            .iter()
            .map(|y| y + 1.0 + 0.3 * rng.next_normal())
            .collect();
        let (known, rest) = (&truth[..200], &cheap[200..]);
        let found = prediction_powered(known, &cheap[..200], rest, Lambda::Tuned, 0.95).unwrap();
        let classical = prediction_powered(known, known, &[], Lambda::Fixed(0.0), 0.95).unwrap();
        assert!((found.mean - 3.0).abs() < 4.0 * found.se);
        assert!(found.se < 0.6 * classical.se);
    }

    #[test]
    fn weighting_removes_the_bias_of_choosing() {
        let cheap: Vec<f64> = (0..10).map(f64::from).collect();
        let truth = |index: usize| cheap[index] + if index < 5 { 2.0 } else { 0.0 };
        let inclusion = |index: usize| if index < 5 { 0.8 } else { 0.3 };
        let mut rng = SplitMix64::new(9);
        let mut total = 0.0;
        for _ in 0..20_000 {
            let drawn: Vec<Drawn> = (0..10)
                .filter(|index| rng.next_f64() < inclusion(*index))
                .map(|index| Drawn {
                    index,
                    trusted: truth(index),
                    inclusion: inclusion(index),
                })
                .collect();
            total += inclusion_weighted(&cheap, &drawn, 1.0).unwrap().mean;
        }
        let expected: f64 = (0..10).map(truth).sum::<f64>() / 10.0;
        assert!((total / 20_000.0 - expected).abs() < 0.01);
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(prediction_powered(&[1.0], &[1.0], &[], Lambda::Tuned, 0.95).is_err());
        assert!(prediction_powered(&[1.0, 2.0], &[1.0], &[], Lambda::Tuned, 0.95).is_err());
        let nan = [f64::NAN, 1.0];
        assert!(prediction_powered(&nan, &nan, &[], Lambda::Tuned, 0.95).is_err());
        let item = Drawn {
            index: 0,
            trusted: 1.0,
            inclusion: 0.0,
        };
        assert!(inclusion_weighted(&[1.0], &[item], 1.0).is_err());
        assert!(inclusion_weighted(&[], &[], 1.0).is_err());
    }
}
