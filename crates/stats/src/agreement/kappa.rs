//! The cross table of two raters, and what follows from it alone: κ, AC1 and τ-b.
//!
//! κ = 1 − Σw·O/Σw·E over all cells, where O are the observed counts, E those expected from the
//! margins, and w the disagreement weight: 1 off the diagonal, |i − j|/(k − 1), or its square. The
//! k levels are those of the scale, used or not, so that κ does not change its meaning with the
//! sample. AC1 = (p − e)/(1 − e) with e = Σπ(1 − π)/(k − 1) over the mean margins π. τ-b =
//! (P − Q)/√((P + Q + T)(P + Q + U)) for concordant, discordant and one-sided tied pairs
//! (Kendall 1945).

use super::{Scale, jackknife_se};
use crate::StatsError;

const MOST_LEVELS: i64 = 1000;

/// How much a disagreement counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    Unweighted,
    Linear,
    Quadratic,
}

/// Counts of items by both raters' levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Crosstab {
    low: i32,
    levels: usize,
    counts: Vec<f64>,
}

impl Crosstab {
    /// Counts pairs of levels; a level outside the scale is refused.
    pub fn new(pairs: &[(i32, i32)], scale: Scale) -> Result<Self, StatsError> {
        let width = i64::from(scale.high) - i64::from(scale.low) + 1;
        let levels = usize::try_from(width)
            .ok()
            .filter(|_| (2..=MOST_LEVELS).contains(&width))
            .ok_or(StatsError::ParameterOutOfRange {
                what: "the number of levels",
                value: width as f64,
                range: "2 to 1000",
            })?;
        let mut table = Self {
            low: scale.low,
            levels,
            counts: vec![0.0; levels * levels],
        };
        for pair in pairs {
            let outside = [pair.0, pair.1]
                .into_iter()
                .find(|score| !(scale.low..=scale.high).contains(score));
            if let Some(score) = outside {
                return Err(StatsError::ParameterOutOfRange {
                    what: "a score",
                    value: f64::from(score),
                    range: "the scale's levels",
                });
            }
            *table.count_mut(*pair) += 1.0;
        }
        Ok(table)
    }

    /// Cohen's κ; `None` where chance alone would agree on everything.
    pub fn kappa(&self, weights: Weights) -> Option<f64> {
        let total: f64 = self.counts.iter().sum();
        let (rows, columns) = self.margins();
        let farthest = (self.levels - 1) as f64;
        let (mut observed, mut expected) = (0.0, 0.0);
        for (i, row) in rows.iter().enumerate() {
            for (j, column) in columns.iter().enumerate() {
                let distance = i.abs_diff(j) as f64 / farthest;
                let weight = match weights {
                    Weights::Unweighted => f64::from(i != j),
                    Weights::Linear => distance,
                    Weights::Quadratic => distance * distance,
                };
                observed += weight * self.counts[i * self.levels + j];
                expected += weight * row * column / total;
            }
        }
        (expected > 0.0).then(|| 1.0 - observed / expected)
    }

    pub(super) fn kappa_jackknife_se(&self, pairs: &[(i32, i32)], weights: Weights) -> Option<f64> {
        let mut table = self.clone();
        jackknife_se(pairs.iter().map(|pair| {
            *table.count_mut(*pair) -= 1.0;
            let left_out = table.kappa(weights);
            *table.count_mut(*pair) += 1.0;
            left_out
        }))
    }

    /// Gwet's AC1; `None` without items.
    pub fn gwet_ac1(&self) -> Option<f64> {
        let total: f64 = self.counts.iter().sum();
        if total == 0.0 {
            return None;
        }
        let diagonal: f64 = (0..self.levels)
            .map(|level| self.counts[level * (self.levels + 1)])
            .sum();
        let (rows, columns) = self.margins();
        let chance: f64 = rows
            .iter()
            .zip(&columns)
            .map(|(row, column)| (row + column) / (2.0 * total))
            .map(|share| share * (1.0 - share))
            .sum::<f64>()
            / (self.levels - 1) as f64;
        Some((diagonal / total - chance) / (1.0 - chance))
    }

    /// Kendall's τ-b; `None` where a rater uses one level only.
    pub fn kendall_tau_b(&self) -> Option<f64> {
        let total: f64 = self.counts.iter().sum();
        let (mut concordant, mut discordant) = (0.0, 0.0);
        for (place, count) in self.counts.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            let (i, j) = (place / self.levels, place % self.levels);
            for below in self.counts.chunks_exact(self.levels).skip(i + 1) {
                concordant += count * below[j + 1..].iter().sum::<f64>();
                discordant += count * below[..j].iter().sum::<f64>();
            }
        }
        let pairs = |n: f64| n * (n - 1.0) / 2.0;
        let (rows, columns) = self.margins();
        let untied = |margin: &[f64]| pairs(total) - margin.iter().map(|n| pairs(*n)).sum::<f64>();
        let scale = (untied(&rows) * untied(&columns)).sqrt();
        (scale > 0.0).then(|| (concordant - discordant) / scale)
    }

    fn margins(&self) -> (Vec<f64>, Vec<f64>) {
        let rows = self.counts.chunks_exact(self.levels);
        let row_sums = rows.clone().map(|row| row.iter().sum()).collect();
        let mut column_sums = vec![0.0; self.levels];
        for row in rows {
            for (sum, count) in column_sums.iter_mut().zip(row) {
                *sum += count;
            }
        }
        (row_sums, column_sums)
    }

    fn count_mut(&mut self, pair: (i32, i32)) -> &mut f64 {
        let level = |score: i32| score.abs_diff(self.low) as usize;
        let place = level(pair.0) * self.levels + level(pair.1);
        &mut self.counts[place]
    }
}
