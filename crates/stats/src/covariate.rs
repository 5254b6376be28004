//! A difference of two treatments at equal values of a covariate, for instance of length.
//!
//! If values rise with a covariate, a treatment may score better only because its covariate is larger.
//! The slope b is estimated within cells, where treatment and block are the same and only the
//! replicates differ: b = Σ(x − x̄_c)(y − ȳ_c)/Σ(x − x̄_c)², pooled over all cells c of all treatments. By
//! block, D_s = d_s − b·x_s, where d_s and x_s are the differences of the two treatments' cell means of value
//! and covariate; the adjusted difference is θ̂ = mean D.
//!
//! The slope is uncertain, too. Block s contributes ψ_s = (D_s − D̄)/S − x̄·u_s/Σ(x − x̄_c)² with
//! u_s = Σ(x − x̄_c)(y − ȳ_c − b(x − x̄_c)) over the rows of the block, and SE² = S/(S − 1)·Σψ_s², clustered by
//! block, with S − 1 degrees of freedom.
//!
//! What the adjustment means is for the reader to decide: if a longer answer is a better one, length is
//! a part of the effect and not an error.
//!
//! References: Cochran (1957), "Analysis of covariance", Biometrics 13; Liang and Zeger (1986).

use crate::describe::{mean, sum};
use crate::dist::{t_quantile, t_two_sided};
use crate::paired::{PairedDiff, paired_diff};
use crate::score::check_confidence;
use crate::{Interval, StatsError};

/// One observation with its covariate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CovariateRow {
    pub treatment: usize,
    pub block: usize,
    pub value: f64,
    pub covariate: f64,
}

/// Rows collapsed to cells, with the slope of the value on the covariate within cells.
#[derive(Debug, Clone, PartialEq)]
pub struct WithinSlope {
    /// The slope b.
    pub slope: f64,
    blocks: usize,
    /// Mean value and covariate by treatment and block.
    cells: Vec<Option<(f64, f64)>>,
    /// u_s/Σ(x − x̄_c)² by block.
    leverage: Vec<f64>,
}

/// A difference at equal values of the covariate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdjustedDiff {
    pub blocks: usize,
    /// Without the adjustment.
    pub raw: f64,
    /// The mean difference of the covariate.
    pub covariate: f64,
    pub slope: f64,
    /// At equal values of the covariate.
    pub mean: f64,
    pub se: f64,
    pub df: usize,
    pub interval: Interval,
    /// One-sided, of the same confidence.
    pub lower_bound: f64,
}

impl WithinSlope {
    /// Collapses rows and estimates the slope; rows that are not finite are left out. `None` where
    /// the covariate does not vary within any cell.
    pub fn from_rows(
        treatments: usize,
        blocks: usize,
        rows: &[CovariateRow],
    ) -> Result<Option<Self>, StatsError> {
        let mut cells = vec![(0_usize, 0.0_f64, 0.0_f64); treatments * blocks];
        for row in rows {
            for (what, index, len) in [
                ("treatment", row.treatment, treatments),
                ("block", row.block, blocks),
            ] {
                if index >= len {
                    return Err(StatsError::IndexOutOfRange { what, index, len });
                }
            }
        }
        let rows = || {
            rows.iter()
                .filter(|row| row.value.is_finite() && row.covariate.is_finite())
        };
        for row in rows() {
            let (count, value, covariate) = &mut cells[row.treatment * blocks + row.block];
            *count += 1;
            *value += row.value;
            *covariate += row.covariate;
        }
        let cells: Vec<Option<(f64, f64)>> = cells
            .into_iter()
            .map(|(count, y, x)| (count > 0).then(|| (y / count as f64, x / count as f64)))
            .collect();
        let centred = |row: &CovariateRow| {
            let (y, x) = cells[row.treatment * blocks + row.block].unwrap_or_default();
            (row.value - y, row.covariate - x)
        };
        let (mut squares, mut products, mut size) = (0.0, 0.0, 0.0_f64);
        for row in rows() {
            let (y, x) = centred(row);
            squares += x * x;
            products += x * y;
            size += row.covariate * row.covariate;
        }
        if squares <= size * crate::TIE_TOLERANCE {
            return Ok(None);
        }
        let slope = products / squares;
        let mut leverage = vec![0.0; blocks];
        for row in rows() {
            let (y, x) = centred(row);
            leverage[row.block] += x * (y - slope * x) / squares;
        }
        Ok(Some(Self {
            slope,
            blocks,
            cells,
            leverage,
        }))
    }

    /// The difference `left` − `right` at equal values of the covariate, over the blocks that both
    /// treatments have.
    pub fn adjusted(
        &self,
        left: usize,
        right: usize,
        confidence: f64,
    ) -> Result<AdjustedDiff, StatsError> {
        check_confidence(confidence)?;
        let cell =
            |treatment: usize, block: usize| *self.cells.get(treatment * self.blocks + block)?;
        let pairs: Vec<(usize, f64, f64)> = (0..self.blocks)
            .filter_map(|block| {
                let (l, r) = (cell(left, block)?, cell(right, block)?);
                Some((block, l.0 - r.0, l.1 - r.1))
            })
            .collect();
        let count = pairs.len();
        let too_few = || StatsError::TooFewBlocks {
            needed: 2,
            found: count,
        };
        if count < 2 {
            return Err(too_few());
        }
        let raw: Vec<f64> = pairs.iter().map(|it| it.1).collect();
        let covariate: Vec<f64> = pairs.iter().map(|it| it.2).collect();
        let (raw, covariate) = mean(&raw).zip(mean(&covariate)).ok_or_else(too_few)?;
        let centre = raw - self.slope * covariate;
        let mut contributions: Vec<f64> = self.leverage.iter().map(|u| -covariate * u).collect();
        for (block, d, x) in &pairs {
            contributions[*block] += (d - self.slope * x - centre) / count as f64;
        }
        let squares: Vec<f64> = contributions.iter().map(|it| it * it).collect();
        let df = count - 1;
        let se = (count as f64 / df as f64 * sum(&squares)).sqrt();
        let quantile = |level| t_quantile(level, df as f64).ok_or_else(too_few);
        let half = quantile(f64::midpoint(1.0, confidence))? * se;
        Ok(AdjustedDiff {
            blocks: count,
            raw,
            covariate,
            slope: self.slope,
            mean: centre,
            se,
            df,
            interval: Interval {
                low: centre - half,
                high: centre + half,
            },
            lower_bound: centre - quantile(confidence)? * se,
        })
    }
}
/// A difference of two treatments at equal values of a covariate that is known by block only.
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
    fn the_intercept_is_the_difference_at_equal_covariates() {
        // Figures of scipy.stats.linregress: slope, intercept, p and standard error of the intercept.
        let differences = [1.0, 2.0, 1.5, 3.0, 2.5, 4.0];
        let covariate = [10.0, 20.0, 12.0, 33.0, 21.0, 45.0];
        let found = paired_at_equal(&differences, &covariate, 0.95)
            .unwrap()
            .unwrap();
        assert!(
            (found.slope - 0.079_616_036_137_775_28).abs() < 1e-9,
            "{found:?}"
        );
        assert!(
            (found.mean - 0.462_356_484_095_614_5).abs() < 1e-9,
            "{found:?}"
        );
        assert!(
            (found.slope_p - 0.000_542_231_993_437_908_2).abs() < 1e-9,
            "{found:?}"
        );
        assert!(
            (found.se - 0.208_680_358_086_424_27).abs() < 1e-9,
            "{found:?}"
        );
        assert_eq!(paired_at_equal(&differences, &[1.0; 6], 0.95), Ok(None));
        assert!(paired_at_equal(&differences, &covariate[1..], 0.95).is_err());
    }
}
