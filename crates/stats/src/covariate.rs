//! A difference of two treatments at equal values of a covariate, for instance of length.
//!
//! If values rise with a covariate, a treatment may score better only because its covariate is larger.
//! By block s, d_s is the difference of the two treatments' values and x_s that of their covariates. In the
//! regression d_s = a + b·x_s the intercept a is the difference where the covariate does not differ,
//! with S − 2 degrees of freedom.
//!
//! What the adjustment means is for the reader to decide: if a longer answer is a better one, length is
//! a part of the effect and not an error.
//!
//! Reference: Cochran (1957), "Analysis of covariance", Biometrics 13.

use crate::describe::mean;
use crate::dist::{t_quantile, t_two_sided};
use crate::paired::{PairedDiff, paired_diff};
use crate::{Interval, StatsError};

/// A difference of two treatments at equal values of a covariate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EqualCovariate {
    /// Without the adjustment.
    pub raw: PairedDiff,
    /// The mean difference of the covariate.
    pub covariate: f64,
    pub slope: f64,
    /// Two-sided, for the slope.
    pub slope_p: f64,
    /// The intercept: the difference where the covariate does not differ.
    pub mean: f64,
    pub se: f64,
    pub interval: Interval,
}

/// Regresses the differences d_s of two treatments on their differences x_s in a covariate:
/// d_s = a + b·x_s, with a t interval of a on S − 2 degrees of freedom. `None` where the covariate
/// or the residuals do not vary.
pub fn paired_at_equal(
    differences: &[f64],
    covariate: &[f64],
    confidence: f64,
) -> Result<Option<EqualCovariate>, StatsError> {
    if differences.len() != covariate.len() {
        return Err(StatsError::LengthMismatch {
            left: differences.len(),
            right: covariate.len(),
        });
    }
    if covariate.iter().any(|it| !it.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    let raw = paired_diff(differences, confidence)?;
    let blocks = differences.len() as f64;
    let df = blocks - 2.0;
    let (Some(centre), true) = (mean(covariate), df >= 1.0) else {
        return Ok(None);
    };
    let spread: f64 = covariate.iter().map(|x| (x - centre).powi(2)).sum();
    let joint: f64 = covariate
        .iter()
        .zip(differences)
        .map(|(x, d)| (x - centre) * (d - raw.mean))
        .sum();
    let slope = joint / spread;
    let intercept = raw.mean - slope * centre;
    let residuals = covariate.iter().zip(differences);
    let squares: f64 = residuals
        .map(|(x, d)| (d - intercept - slope * x).powi(2))
        .sum();
    let noise = squares / df;
    let se = (noise * (1.0 / blocks + centre * centre / spread)).sqrt();
    let t = slope / (noise / spread).sqrt();
    let quantile = t_quantile(f64::midpoint(1.0, confidence), df);
    let (Some(quantile), Some(slope_p)) = (quantile, t_two_sided(t, df)) else {
        return Ok(None);
    };
    Ok((se.is_finite() && t.is_finite()).then_some(EqualCovariate {
        raw,
        covariate: centre,
        slope,
        slope_p,
        mean: intercept,
        se,
        interval: Interval {
            low: intercept - quantile * se,
            high: intercept + quantile * se,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::paired_at_equal;

    #[test]
    fn a_covariate_must_vary_and_match() {
        let differences = [1.0, 2.0, 1.5, 3.0, 2.5, 4.0];
        assert_eq!(paired_at_equal(&differences, &[1.0; 6], 0.95), Ok(None));
        assert!(paired_at_equal(&differences, &[1.0; 5], 0.95).is_err());
        assert!(paired_at_equal(&differences, &[f64::NAN; 6], 0.95).is_err());
    }
}
