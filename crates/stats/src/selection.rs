//! Corrects the differences of several challengers for the fact that one looks at the largest.
//!
//! The largest of several noisy differences is too large on average, and the more so the more
//! challengers there are and the less they really differ. Over the blocks that all challengers have,
//! F = MS_treatments/MS_residual of their two-way table says how much of the spread between
//! challengers is real: its expectation is 1 if none is. With m the mean of the differences, each is
//! shrunk to m + B(d_j − m), B = max(0, 1 − 1/F), for three and more challengers; for fewer, B = 1.
//! The reference treatment is in every difference alike, so its noise is in m and not in F.
//!
//! Reference: James and Stein (1961); Efron and Morris (1975), JASA 70; Senn (2008), "A note
//! concerning a selection 'paradox' of Dawid's", American Statistician 62.

use crate::StatsError;
use crate::describe::{finite, mean, sum};

/// Differences after the correction.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectionCorrected {
    /// B: how much of a challenger's distance from the mean is kept.
    pub keep: f64,
    /// `None` for fewer than three challengers, and where the challengers' differences have no
    /// residual spread.
    pub f: Option<f64>,
    /// m.
    pub mean: f64,
    /// Blocks that all challengers have.
    pub complete_blocks: usize,
    /// One for each challenger; `None` for one without any block.
    pub differences: Vec<Option<f64>>,
}

/// Shrinks the mean differences of `challengers[challenger][block]` to a reference treatment towards
/// their mean. Challengers without any block are left out.
pub fn selection_corrected(
    challengers: &[Vec<Option<f64>>],
) -> Result<SelectionCorrected, StatsError> {
    let length = challengers.first().map_or(0, Vec::len);
    if let Some(other) = challengers.iter().find(|own| own.len() != length) {
        return Err(StatsError::LengthMismatch {
            left: length,
            right: other.len(),
        });
    }
    let own_mean = |own: &Vec<Option<f64>>| {
        let values: Vec<f64> = own.iter().filter_map(|d| finite(*d)).collect();
        mean(&values)
    };
    let means: Vec<Option<f64>> = challengers.iter().map(own_mean).collect();
    let present: Vec<&Vec<Option<f64>>> = challengers
        .iter()
        .zip(&means)
        .filter_map(|(own, mean)| mean.map(|_| own))
        .collect();
    let centre = mean(&means.iter().flatten().copied().collect::<Vec<_>>());
    let centre = centre.ok_or(StatsError::TooFewBlocks {
        needed: 1,
        found: 0,
    })?;
    let complete: Vec<Vec<f64>> = (0..length)
        .filter_map(|block| present.iter().map(|own| finite(own[block])).collect())
        .collect();
    let (keep, f) = if present.len() < 3 {
        (1.0, None)
    } else if complete.len() < 2 {
        return Err(StatsError::TooFewBlocks {
            needed: 2,
            found: complete.len(),
        });
    } else {
        kept(&complete)
    };
    let corrected = |own: &Option<f64>| own.map(|own| centre + keep * (own - centre));
    Ok(SelectionCorrected {
        keep,
        f,
        mean: centre,
        complete_blocks: complete.len(),
        differences: means.iter().map(corrected).collect(),
    })
}

/// B and F of `blocks[block][treatment]`, a complete table.
fn kept(blocks: &[Vec<f64>]) -> (f64, Option<f64>) {
    let (count, treatments) = (blocks.len() as f64, blocks[0].len() as f64);
    let block_means: Vec<f64> = blocks.iter().map(|own| sum(own) / treatments).collect();
    let means: Vec<f64> = (0..blocks[0].len())
        .map(|treatment| blocks.iter().map(|own| own[treatment]).sum::<f64>() / count)
        .collect();
    let grand = sum(&means) / treatments;
    let between: f64 = means.iter().map(|own| (own - grand).powi(2)).sum();
    let between = count * between / (treatments - 1.0);
    let mut residual = 0.0;
    for (own, block_mean) in blocks.iter().zip(&block_means) {
        for (value, mean) in own.iter().zip(&means) {
            residual += (value - mean - block_mean + grand).powi(2);
        }
    }
    let residual = residual / ((treatments - 1.0) * (count - 1.0));
    if residual <= between * crate::TIE_TOLERANCE {
        return (1.0, None);
    }
    let f = between / residual;
    ((1.0 - 1.0 / f).max(0.0), Some(f))
}
