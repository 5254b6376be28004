//! Paired differences between two treatments over the blocks that both have.
//!
//! d_s = ȳ(a, s) − ȳ(b, s); SE = sd(d)/√S; t = d̄/SE with S − 1 degrees of freedom; two-sided
//! interval d̄ ± t(1 − α/2)·SE and one-sided lower bound d̄ − t(1 − α)·SE. A block that one
//! treatment lacks says nothing about the difference and is left out, never filled in.
//!
//! The t interval holds its level with few blocks, where a normal or a percentile-bootstrap
//! interval is too short; Student (1908). The effect size is Cohen's d_z = d̄/sd(d).
//!
//! Where every difference is the same the t statistic does not exist, and p is `None`; the
//! sign-flip test in [`crate::max_t`] still answers.

use crate::describe::{correlation, finite, mean, scale, sd};
use crate::dist::{t_quantile, t_two_sided, t_upper};
use crate::score::{check_confidence, t_interval};
use crate::{Interval, StatsError, TIE_TOLERANCE};

/// The blocks that two treatments share.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pairing {
    /// Indices of the shared blocks.
    pub blocks: Vec<usize>,
    pub left: Vec<f64>,
    pub right: Vec<f64>,
    /// left − right, one for each shared block.
    pub differences: Vec<f64>,
    /// Blocks that exactly one of the two treatments has.
    pub dropped: usize,
}

/// A paired comparison of two treatments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedDiff {
    pub blocks: usize,
    pub mean: f64,
    pub sd: f64,
    pub se: f64,
    pub df: usize,
    /// `None` where the differences have no spread.
    pub t: Option<f64>,
    pub p_two_sided: Option<f64>,
    /// For the alternative that the mean is above zero.
    pub p_greater: Option<f64>,
    pub interval: Interval,
    /// One-sided lower bound of the same confidence.
    pub lower_bound: f64,
    pub cohen_dz: Option<f64>,
    /// The difference in the block that is worst for the left treatment.
    pub worst: f64,
}

/// Pairs two treatments' cell means by block.
pub fn pair(left: &[Option<f64>], right: &[Option<f64>]) -> Result<Pairing, StatsError> {
    if left.len() != right.len() {
        return Err(StatsError::LengthMismatch {
            left: left.len(),
            right: right.len(),
        });
    }
    let mut pairing = Pairing::default();
    for (block, (l, r)) in left.iter().zip(right).enumerate() {
        match (finite(*l), finite(*r)) {
            (Some(l), Some(r)) => {
                pairing.blocks.push(block);
                pairing.left.push(l);
                pairing.right.push(r);
                pairing.differences.push(l - r);
            }
            (None, None) => {}
            _ => pairing.dropped += 1,
        }
    }
    Ok(pairing)
}

/// Differences by block, `None` where either side is missing; the input of [`crate::max_t`].
pub fn differences(left: &[Option<f64>], right: &[Option<f64>]) -> Vec<Option<f64>> {
    left.iter()
        .zip(right)
        .map(|(l, r)| Some(finite(*l)? - finite(*r)?))
        .collect()
}

impl Pairing {
    /// The comparison, from two shared blocks on.
    pub fn compare(&self, confidence: f64) -> Result<PairedDiff, StatsError> {
        paired_diff(&self.differences, confidence)
    }

    /// Correlation of the two treatments over blocks: what pairing gains.
    pub fn correlation(&self) -> Option<f64> {
        correlation(&self.left, &self.right)
    }

    /// √(SE²(left) + SE²(right)): the standard error if the pairing were ignored.
    pub fn se_unpaired(&self) -> Option<f64> {
        let blocks = self.blocks.len() as f64;
        let variance = sd(&self.left)?.powi(2) + sd(&self.right)?.powi(2);
        Some((variance / blocks).sqrt())
    }
}

/// Mean, t test, interval and lower bound of differences.
pub fn paired_diff(differences: &[f64], confidence: f64) -> Result<PairedDiff, StatsError> {
    check_confidence(confidence)?;
    if differences.iter().any(|d| !d.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    let blocks = differences.len();
    let too_few = || StatsError::TooFewBlocks {
        needed: 2,
        found: blocks,
    };
    let (mean, sd) = mean(differences).zip(sd(differences)).ok_or_else(too_few)?;
    let se = sd / (blocks as f64).sqrt();
    let df = blocks - 1;
    let has_spread = sd > TIE_TOLERANCE * scale(differences);
    let t = has_spread.then(|| mean / se);
    let interval = t_interval(mean, se, blocks, confidence).ok_or_else(too_few)?;
    let one_sided = t_quantile(confidence, df as f64).ok_or_else(too_few)?;
    Ok(PairedDiff {
        blocks,
        mean,
        sd,
        se,
        df,
        t,
        p_two_sided: t.and_then(|t| t_two_sided(t, df as f64)),
        p_greater: t.and_then(|t| t_upper(t, df as f64)),
        interval,
        lower_bound: mean - one_sided * se,
        cohen_dz: has_spread.then(|| mean / sd),
        worst: differences.iter().copied().fold(f64::INFINITY, f64::min),
    })
}

#[cfg(test)]
mod tests {
    use super::{differences, pair, paired_diff};
    use crate::StatsError;

    #[test]
    fn blocks_that_one_side_lacks_are_left_out() {
        let left = [Some(3.0), None, Some(5.0), None, Some(f64::NAN)];
        let right = [Some(1.0), Some(1.0), Some(2.0), None, Some(1.0)];
        let pairing = pair(&left, &right).unwrap();
        assert_eq!(pairing.blocks, [0, 2]);
        assert_eq!(pairing.differences, [2.0, 3.0]);
        assert_eq!(pairing.dropped, 2);
        let by_block = differences(&left, &right);
        assert_eq!(by_block, [Some(2.0), None, Some(3.0), None, None]);
    }

    #[test]
    fn equal_differences_have_no_t() {
        let same = paired_diff(&[0.1 + 0.2, 0.3, 0.3], 0.95).unwrap();
        assert_eq!((same.t, same.p_greater, same.cohen_dz), (None, None, None));
        assert!((same.interval.low - 0.3).abs() < 1e-9);
        assert_eq!(paired_diff(&[0.0; 8], 0.95).unwrap().t, None);
    }

    #[test]
    fn too_little_or_bad_input_is_refused() {
        let refused = paired_diff(&[1.0], 0.95);
        let (needed, found) = (2, 1);
        assert_eq!(refused, Err(StatsError::TooFewBlocks { needed, found }));
        let nan = paired_diff(&[1.0, f64::NAN], 0.95);
        assert_eq!(nan, Err(StatsError::NotFinite));
        assert!(pair(&[None], &[]).is_err());
    }
}
