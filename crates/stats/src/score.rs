//! Score and uncertainty of a single treatment.
//!
//! [`macro_score`] is the estimand of a board: the unweighted mean of a treatment's cell means over
//! its S blocks, SE = sd(ȳ(a,·))/√S, interval mean ± t(1 − α/2, S − 1)·SE.
//!
//! [`row_score`] is the mean over rows for unbalanced data, with standard errors that are robust
//! to correlation within blocks: CR0 = √Σ_g(Σ_{i∈g} e_i)²/n over the G blocks, and
//! CR1 = CR0·√(G/(G − 1)). When every block has the same number of rows CR1 is exactly
//! sd(ȳ(a,·))/√S. It also gives the naive SE that treats rows as independent, the intraclass
//! correlation ICC(1) = (MSB − MSW)/(MSB + (n₀ − 1)·MSW), and the observed design effect
//! (CR1/naive)²: how much too good the naive figure would look.
//!
//! References: Liang and Zeger (1986), Biometrika 73; Cameron and Miller (2015), "A
//! practitioner's guide to cluster-robust inference"; Shrout and Fleiss (1979).

use crate::describe::{finite, mean, sd, sum};
use crate::dist::t_quantile;
use crate::table::Cell;
use crate::{Interval, StatsError};

/// Mean over blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MacroScore {
    pub blocks: usize,
    pub mean: f64,
    /// `None` with one block.
    pub se: Option<f64>,
    /// Two-sided t interval; `None` with one block.
    pub interval: Option<Interval>,
}

/// Mean over rows, with rows of a block allowed to be correlated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowScore {
    pub rows: usize,
    pub blocks: usize,
    pub mean: f64,
    pub sd: Option<f64>,
    /// sd/√n, which is right only if rows are independent.
    pub se_naive: Option<f64>,
    pub se_cr0: f64,
    pub se_cr1: Option<f64>,
    pub icc1: Option<f64>,
    pub design_effect: Option<f64>,
}

/// Unweighted mean of the cell means that are there, with a t interval of the given confidence.
pub fn macro_score(cell_means: &[Option<f64>], confidence: f64) -> Result<MacroScore, StatsError> {
    check_confidence(confidence)?;
    let present: Vec<f64> = cell_means.iter().filter_map(|m| finite(*m)).collect();
    let blocks = present.len();
    let too_few = StatsError::TooFewBlocks {
        needed: 1,
        found: 0,
    };
    let mean = mean(&present).ok_or(too_few)?;
    let se = sd(&present).map(|sd| sd / (blocks as f64).sqrt());
    Ok(MacroScore {
        blocks,
        mean,
        se,
        interval: se.and_then(|se| t_interval(mean, se, blocks, confidence)),
    })
}

/// Mean over rows with naive and cluster-robust standard errors; `None` without rows.
pub fn row_score(cells: &[Option<Cell>]) -> Option<RowScore> {
    let cells: Vec<Cell> = cells.iter().flatten().copied().collect();
    let rows: usize = cells.iter().map(|c| c.rows).sum();
    if rows == 0 {
        return None;
    }
    let n = rows as f64;
    let blocks = cells.len();
    let mean = sum(&map(&cells, |c| c.rows as f64 * c.mean)) / n;
    let within = sum(&map(&cells, |c| c.squared_deviations));
    let between = sum(&map(&cells, |c| c.rows as f64 * (c.mean - mean).powi(2)));
    let sd = (rows > 1).then(|| ((within + between) / (n - 1.0)).sqrt());
    let se_naive = sd.map(|sd| sd / n.sqrt());
    let residual_sums = map(&cells, |c| (c.rows as f64 * (c.mean - mean)).powi(2));
    let se_cr0 = sum(&residual_sums).sqrt() / n;
    let g = blocks as f64;
    let se_cr1 = (blocks > 1).then(|| se_cr0 * (g / (g - 1.0)).sqrt());
    let design_effect = se_cr1
        .zip(se_naive)
        .filter(|(_, naive)| *naive > 0.0)
        .map(|(cr1, naive)| (cr1 / naive).powi(2));
    Some(RowScore {
        rows,
        blocks,
        mean,
        sd,
        se_naive,
        se_cr0,
        se_cr1,
        icc1: icc1(&cells, within, between),
        design_effect,
    })
}

fn icc1(cells: &[Cell], within: f64, between: f64) -> Option<f64> {
    let rows: usize = cells.iter().map(|c| c.rows).sum();
    if cells.len() < 2 || rows == cells.len() {
        return None;
    }
    let n = rows as f64;
    let between_df = (cells.len() - 1) as f64;
    let ms_between = between / between_df;
    let ms_within = within / (rows - cells.len()) as f64;
    let squares: f64 = cells.iter().map(|c| (c.rows as f64).powi(2)).sum();
    let typical_rows = (n - squares / n) / between_df;
    let total = ms_between + (typical_rows - 1.0) * ms_within;
    (total > 0.0).then_some((ms_between - ms_within) / total)
}

fn map(cells: &[Cell], term: impl Fn(&Cell) -> f64) -> Vec<f64> {
    cells.iter().map(term).collect()
}

/// centre ± t((1 + confidence)/2, blocks − 1)·se.
pub(crate) fn t_interval(centre: f64, se: f64, blocks: usize, confidence: f64) -> Option<Interval> {
    let df = blocks.checked_sub(1)? as f64;
    let half_width = t_quantile(f64::midpoint(1.0, confidence), df)? * se;
    Some(Interval {
        low: centre - half_width,
        high: centre + half_width,
    })
}

pub(crate) fn check_confidence(confidence: f64) -> Result<(), StatsError> {
    if confidence > 0.0 && confidence < 1.0 {
        return Ok(());
    }
    Err(StatsError::ParameterOutOfRange {
        what: "confidence",
        value: confidence,
        range: "(0, 1)",
    })
}

#[cfg(test)]
mod tests {
    use super::{macro_score, row_score};
    use crate::table::Cell;

    #[test]
    fn one_block_has_a_mean_and_no_interval() {
        let score = macro_score(&[None, Some(3.0), Some(f64::NAN)], 0.95).unwrap();
        assert_eq!((score.blocks, score.mean), (1, 3.0));
        assert_eq!((score.se, score.interval), (None, None));
        assert!(macro_score(&[None], 0.95).is_err());
        assert!(macro_score(&[Some(1.0)], 1.0).is_err());
    }

    #[test]
    fn a_single_row_has_no_spread() {
        let cell = Cell {
            rows: 1,
            mean: 2.0,
            squared_deviations: 0.0,
        };
        let score = row_score(&[Some(cell), None]).unwrap();
        assert_eq!((score.sd, score.se_cr1, score.icc1), (None, None, None));
        assert_eq!(row_score(&[None]), None);
    }
}
