//! Rank tests: Wilcoxon's signed ranks for one comparison, Friedman's for many treatments.
//!
//! **Wilcoxon** (1945): zero differences are dropped, |d| is ranked with ties sharing their
//! average rank, and W⁺ is the sum of the ranks of positive differences. The null distribution
//! over all sign vectors is counted exactly by convolution, ties included.
//!
//! **Friedman** (1937): treatments are ranked within blocks;
//! χ² = [12/(S·k(k + 1))·ΣR_j² − 3S(k + 1)]/(1 − Σ(τ³ − τ)/(S·k(k² − 1))), compared with χ² of
//! k − 1 degrees of freedom. The χ² approximation is rough below ten blocks.
//!
//! Ties are numbers that are exactly equal, as in `SciPy`; differences of decimal fractions that
//! are tied on paper may differ in their last bit, so round them first if ties matter.
//!
//! They are here because readers ask for them; the decisions use [`crate::max_t`], which tests
//! the mean that the board shows.

use crate::StatsError;
use crate::describe::{finite, mid_ranks};
use crate::dist::chi2_upper;

/// The most differences that are counted exactly.
const EXACT_LIMIT: usize = 500;

/// Friedman's test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Friedman {
    pub chi2: f64,
    pub df: usize,
    pub p: f64,
    /// Blocks that every treatment has, on which this is computed.
    pub blocks: usize,
}

/// Exact two-sided p of Wilcoxon's signed-rank test; 1 if every difference is zero.
pub fn wilcoxon_signed_rank(differences: &[f64]) -> Result<f64, StatsError> {
    if differences.iter().any(|d| !d.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    if differences.is_empty() {
        return Err(StatsError::TooFewBlocks {
            needed: 1,
            found: 0,
        });
    }
    if differences.len() > EXACT_LIMIT {
        return Err(StatsError::ParameterOutOfRange {
            what: "the number of differences",
            value: differences.len() as f64,
            range: "at most 500",
        });
    }
    let nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let sizes: Vec<f64> = nonzero.iter().map(|d| d.abs()).collect();
    let doubled: Vec<usize> = mid_ranks(&sizes).into_iter().map(doubled_rank).collect();
    let positive: usize = doubled
        .iter()
        .zip(&nonzero)
        .filter(|(_, d)| **d > 0.0)
        .map(|(rank, _)| rank)
        .sum();
    let total: usize = doubled.iter().sum();
    // Probability of each value of the doubled W⁺, one rank at a time.
    let mut probability = vec![0.0; total + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for rank in doubled {
        reached += rank;
        for value in (0..=reached).rev() {
            let with = if value >= rank {
                probability[value - rank]
            } else {
                0.0
            };
            probability[value] = f64::midpoint(probability[value], with);
        }
    }
    let below: f64 = probability[..=positive].iter().sum();
    let above: f64 = probability[positive..].iter().sum();
    Ok((2.0 * below.min(above)).min(1.0))
}

/// Friedman's test over `means[treatment][block]`, on the blocks that every treatment has.
pub fn friedman(means: &[Vec<Option<f64>>]) -> Result<Friedman, StatsError> {
    let length = means.first().map_or(0, Vec::len);
    if let Some(other) = means.iter().find(|treatment| treatment.len() != length) {
        return Err(StatsError::LengthMismatch {
            left: length,
            right: other.len(),
        });
    }
    let treatments = means.len();
    if treatments < 2 {
        return Err(StatsError::ParameterOutOfRange {
            what: "the number of treatments",
            value: treatments as f64,
            range: "at least 2",
        });
    }
    let mut rank_sums = vec![0.0; treatments];
    let mut tied = 0.0;
    let mut blocks = 0_usize;
    for block in 0..length {
        let row: Option<Vec<f64>> = means
            .iter()
            .map(|treatment| finite(treatment[block]))
            .collect();
        let Some(row) = row else { continue };
        blocks += 1;
        for (sum, rank) in rank_sums.iter_mut().zip(mid_ranks(&row)) {
            *sum += rank;
        }
        tied += tie_term(&row);
    }
    let (k, s) = (treatments as f64, blocks as f64);
    let correction = 1.0 - tied / (s * k * (k * k - 1.0));
    if blocks < 2 {
        return Err(StatsError::TooFewBlocks {
            needed: 2,
            found: blocks,
        });
    }
    if correction <= 0.0 {
        return Ok(Friedman {
            chi2: 0.0,
            df: treatments - 1,
            p: 1.0,
            blocks,
        });
    }
    let squares: f64 = rank_sums.iter().map(|sum| sum * sum).sum();
    let raw = 12.0 / (s * k * (k + 1.0)) * squares - 3.0 * s * (k + 1.0);
    let chi2 = (raw / correction).max(0.0);
    let p = chi2_upper(chi2, k - 1.0).ok_or(StatsError::NotFinite)?;
    Ok(Friedman {
        chi2,
        df: treatments - 1,
        p,
        blocks,
    })
}

/// Σ(τ³ − τ) over groups of τ tied values.
#[expect(clippy::float_cmp, reason = "a tie is exact equality")]
fn tie_term(values: &[f64]) -> f64 {
    let same = |value: &f64| values.iter().filter(|other| *other == value).count() as f64;
    // Each member of a group of τ adds τ² − 1, which makes τ³ − τ for the group.
    values.iter().map(|value| same(value).powi(2) - 1.0).sum()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "mid-ranks are positive multiples of one half"
)]
fn doubled_rank(rank: f64) -> usize {
    (rank * 2.0) as usize
}

#[cfg(test)]
mod tests {
    use super::{friedman, wilcoxon_signed_rank};

    #[test]
    fn smallest_p_is_two_vectors() {
        let p = wilcoxon_signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((p - 2.0 / 32.0).abs() < 1e-15);
    }

    #[test]
    fn zeros_say_nothing() {
        assert_eq!(wilcoxon_signed_rank(&[0.0; 5]), Ok(1.0));
        assert!(wilcoxon_signed_rank(&[]).is_err());
        assert!(wilcoxon_signed_rank(&[f64::NAN]).is_err());
    }

    #[test]
    fn friedman_takes_ties_for_equality_and_refuses_too_little() {
        let tied = friedman(&[vec![Some(1.0); 5], vec![Some(1.0); 5]]).unwrap();
        assert_eq!((tied.chi2, tied.p), (0.0, 1.0));
        assert!(friedman(&[vec![Some(1.0); 5]]).is_err());
        assert!(friedman(&[vec![Some(1.0)], vec![Some(2.0)]]).is_err());
    }
}
