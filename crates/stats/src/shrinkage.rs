//! Shrinks noisy estimates of many effects towards their mean (empirical Bayes).
//!
//! y_i is an estimate of θ_i with known sampling variance v_i, and the θ_i vary around μ with
//! variance τ². τ² solves Σ(y_i − μ̂)²/(v_i + τ²) = n − 1 (Paule and Mandel 1982) and is 0 where
//! even τ² = 0 gives less; μ̂ = Σw_i·y_i/Σw_i with w_i = 1/(v_i + τ²).
//!
//! The posterior mean is y_i − (1 − B_i)(y_i − μ̂) with B_i = τ²/(τ² + v_i): the noisier an estimate
//! is, the more it is moved. Its variance is B_i·v_i + (1 − B_i)²/Σw. An effect that is far outside
//! the others would be moved the most although it is the least likely to be noise; the move is
//! therefore limited to that of an estimate at z = Φ⁻¹(1 − 0.2/n) standard deviations √(v_i + τ²)
//! from μ̂ (Efron and Morris 1972, limited translation). The limit grows with n, so that the smallest
//! of many estimates is not more extreme just because there are more of them.
//!
//! References: Morris (1983), JASA 78; Paule and Mandel (1982), J. Res. NBS 87; Efron and Morris
//! (1972), JASA 67; DerSimonian and Kacker (2007), Contemporary Clinical Trials 28.

use crate::StatsError;
use crate::describe::sum;
use crate::dist::normal_quantile;

/// The expected number of estimates at the limit of translation, if all effects are normal.
const LIMITED_ESTIMATES: f64 = 0.2;

/// Effects that were shrunk together.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrunken {
    /// μ̂.
    pub mean: f64,
    /// The standard error of μ̂.
    pub mean_se: f64,
    /// τ²: the variance of the effects without the noise.
    pub between_variance: f64,
    /// One for each estimate.
    pub effects: Vec<Effect>,
}

/// One effect after shrinking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    pub mean: f64,
    pub sd: f64,
}

/// Shrinks `estimates` with sampling `variances` towards their mean.
pub fn shrink(estimates: &[f64], variances: &[f64]) -> Result<Shrunken, StatsError> {
    if estimates.len() != variances.len() {
        return Err(StatsError::LengthMismatch {
            left: estimates.len(),
            right: variances.len(),
        });
    }
    if !estimates.iter().chain(variances).all(|v| v.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    if let Some(&value) = variances.iter().find(|v| **v < 0.0) {
        return Err(StatsError::ParameterOutOfRange {
            what: "a sampling variance",
            value,
            range: "[0, ∞)",
        });
    }
    if estimates.is_empty() {
        return Err(StatsError::TooFewItems {
            needed: 1,
            found: 0,
        });
    }
    let between_variance = between_variance(estimates, variances);
    let (mean, weight) = weighted_mean(estimates, variances, between_variance);
    let most = normal_quantile(1.0 - LIMITED_ESTIMATES / estimates.len() as f64);
    let most = most.unwrap_or(f64::INFINITY).max(0.0);
    let effects = estimates.iter().zip(variances).map(|(y, v)| {
        let total = v + between_variance;
        if total == 0.0 {
            return Effect { mean: *y, sd: 0.0 };
        }
        let keep = between_variance / total;
        let away = (y - mean).clamp(-most * total.sqrt(), most * total.sqrt());
        let variance = keep * v + (1.0 - keep).powi(2) / weight;
        Effect {
            mean: y - (1.0 - keep) * away,
            sd: variance.sqrt(),
        }
    });
    Ok(Shrunken {
        mean,
        mean_se: 1.0 / weight.sqrt(),
        between_variance,
        effects: effects.collect(),
    })
}

/// Paule and Mandel's τ² by bisection: the weighted squares fall as τ² grows.
fn between_variance(estimates: &[f64], variances: &[f64]) -> f64 {
    let df = (estimates.len() - 1) as f64;
    let excess = |between: f64| {
        let (mean, _) = weighted_mean(estimates, variances, between);
        let squares: Vec<f64> = estimates
            .iter()
            .zip(variances)
            .map(|(y, v)| (y - mean).powi(2) / (v + between))
            .collect();
        sum(&squares) - df
    };
    let largest = estimates.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
    let least = variances.iter().fold(f64::INFINITY, |m, v| m.min(*v));
    // Below the rounding of the estimates, τ² is zero as well as anything.
    let start = if least > 0.0 {
        0.0
    } else {
        largest.powi(2) * 1e-24
    };
    if estimates.len() < 2 || largest == 0.0 || excess(start) <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (start, 4.0 * largest.powi(2) * estimates.len() as f64);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if excess(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The mean weighted by 1/(v + τ²), and the sum of the weights.
fn weighted_mean(estimates: &[f64], variances: &[f64], between: f64) -> (f64, f64) {
    let weights: Vec<f64> = variances.iter().map(|v| 1.0 / (v + between)).collect();
    let total = sum(&weights);
    if !total.is_finite() {
        let plain = sum(estimates) / estimates.len() as f64;
        return (plain, f64::INFINITY);
    }
    let weighted: Vec<f64> = estimates.iter().zip(&weights).map(|(y, w)| y * w).collect();
    (sum(&weighted) / total, total)
}
