//! Sources of variance: two fixed factors × random blocks × replicates.
//!
//! Model: y = μ + α_i + β_j + (αβ)_ij + S_s + (αS)_is + (βS)_js + (αβS)_ijs + ε, where the
//! treatments are all combinations of a levels of the first and b levels of the second factor,
//! blocks are a sample, and each cell has K replicates. Two views of the same sums of squares:
//!
//! * **Shares** SS/ΣSS (η²) describe this table. They are never negative and add up to 1.
//! * **Components** estimate variances by equating mean squares to their expectations
//!   (unrestricted model): σ²(αβS) = (MS_abs − MS_e)/K, σ²(αS) = (MS_as − MS_abs)/(Kb),
//!   σ²(βS) = (MS_bs − MS_abs)/(Ka), σ²(S) = (MS_s − MS_as − MS_bs + MS_abs)/(Kab). Estimates can
//!   come out negative when the truth is near zero; they are given raw, and truncated only where
//!   they are shown.
//!
//! A factor with one level has no effects; its terms have zero degrees of freedom, and the next
//! lower interaction with blocks takes over as the error term. With one replicate the highest
//! interaction and ε cannot be told apart: [`Components::confounded`] is their sum.
//!
//! Gaps: only blocks that every treatment has are used. Unequal replicates are analysed by
//! unweighted cell means with K the harmonic mean, which is exact when they are equal.
//!
//! References: Searle, Casella and `McCulloch` (1992), "Variance Components"; Montgomery, "Design
//! and Analysis of Experiments"; Winer (1971) for unweighted means.

use crate::StatsError;
use crate::dist::f_upper;
use crate::table::{Cell, Table};

/// One value for each source of variation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Terms<T> {
    pub first: T,
    pub second: T,
    pub first_by_second: T,
    pub block: T,
    pub first_by_block: T,
    pub second_by_block: T,
    pub first_by_second_by_block: T,
    pub replicate: T,
}

impl<T: Copy> Terms<T> {
    /// The values in the order of the fields.
    pub fn to_array(&self) -> [T; 8] {
        [
            self.first,
            self.second,
            self.first_by_second,
            self.block,
            self.first_by_block,
            self.second_by_block,
            self.first_by_second_by_block,
            self.replicate,
        ]
    }

    /// The same shape with every value changed.
    pub fn map<U>(&self, change: impl Fn(T) -> U) -> Terms<U> {
        Terms {
            first: change(self.first),
            second: change(self.second),
            first_by_second: change(self.first_by_second),
            block: change(self.block),
            first_by_block: change(self.first_by_block),
            second_by_block: change(self.second_by_block),
            first_by_second_by_block: change(self.first_by_second_by_block),
            replicate: change(self.replicate),
        }
    }
}

/// A line of the analysis of variance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Source {
    pub df: usize,
    pub ss: f64,
}

impl Source {
    /// SS/df; `None` for a source without degrees of freedom.
    pub fn ms(&self) -> Option<f64> {
        (self.df > 0).then(|| self.ss / self.df as f64)
    }
}

/// Variances of the random terms, raw; `None` where the table cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Components {
    pub replicate: Option<f64>,
    pub first_by_second_by_block: Option<f64>,
    pub first_by_block: Option<f64>,
    pub second_by_block: Option<f64>,
    pub block: Option<f64>,
    /// With one replicate: the highest interaction and the replicates together.
    pub confounded: Option<f64>,
}

/// An F test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FTest {
    pub f: f64,
    pub df1: usize,
    pub df2: usize,
    pub p: f64,
}

/// The whole decomposition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decomposition {
    pub sources: Terms<Source>,
    pub components: Components,
    /// Against its interaction with blocks, as are the other two.
    pub first_test: Option<FTest>,
    pub second_test: Option<FTest>,
    pub first_by_second_test: Option<FTest>,
    /// Blocks used, and blocks left out because a treatment lacks them.
    pub blocks: usize,
    pub dropped_blocks: usize,
    /// Harmonic mean of the replicates per cell.
    pub replicates: f64,
}

/// Standard error of a difference of two treatment means, pooled over all treatments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledSe {
    pub se: f64,
    pub df: usize,
}

impl Decomposition {
    /// Shares of the total sum of squares, which add up to 1; `None` if nothing varies.
    pub fn shares(&self) -> Option<Terms<f64>> {
        let total: f64 = self.sources.map(|s| s.ss).to_array().iter().sum();
        (total > 0.0 && total.is_finite()).then(|| self.sources.map(|s| s.ss / total))
    }

    /// √(2·MS(treatment × block)/(K·S)) with every interaction of treatments and blocks pooled.
    pub fn pooled_se_of_difference(&self) -> Option<PooledSe> {
        let pooled = [
            self.sources.first_by_block,
            self.sources.second_by_block,
            self.sources.first_by_second_by_block,
        ];
        let df = pooled.iter().map(|s| s.df).sum();
        let ss = pooled.iter().map(|s| s.ss).sum();
        let ms = Source { df, ss }.ms()?;
        let se = (2.0 * ms / (self.replicates * self.blocks as f64)).sqrt();
        Some(PooledSe { se, df })
    }
}

/// Treatments against blocks and replicates: the treatments as the levels of one factor.
pub fn decompose_treatments(table: &Table) -> Result<Decomposition, StatsError> {
    decompose(table, table.treatments(), 1)
}

/// Two factors against blocks and replicates. Treatment `i * second_levels + j` of the table is
/// level i of the first factor and level j of the second.
pub fn decompose(
    table: &Table,
    first_levels: usize,
    second_levels: usize,
) -> Result<Decomposition, StatsError> {
    if first_levels.checked_mul(second_levels) != Some(table.treatments()) {
        return Err(StatsError::LengthMismatch {
            left: first_levels.saturating_mul(second_levels),
            right: table.treatments(),
        });
    }
    let used = table.complete_blocks();
    if used.is_empty() || table.treatments() == 0 {
        return Err(StatsError::TooFewBlocks {
            needed: 1,
            found: 0,
        });
    }
    let cells: Vec<Cell> = (0..table.treatments())
        .flat_map(|treatment| {
            used.iter()
                .filter_map(move |&block| table.cell(treatment, block))
        })
        .collect();
    let reciprocals: f64 = cells.iter().map(|c| 1.0 / c.rows as f64).sum();
    let design = Design {
        first: first_levels,
        second: second_levels,
        blocks: used.len(),
        replicates: cells.len() as f64 / reciprocals,
    };
    let sources = design.sources(&cells);
    let components = design.components(&sources);
    Ok(Decomposition {
        sources,
        components,
        first_test: f_test(sources.first, sources.first_by_block),
        second_test: f_test(sources.second, sources.second_by_block),
        first_by_second_test: f_test(sources.first_by_second, sources.first_by_second_by_block),
        blocks: used.len(),
        dropped_blocks: table.blocks() - used.len(),
        replicates: design.replicates,
    })
}

struct Design {
    first: usize,
    second: usize,
    blocks: usize,
    replicates: f64,
}

impl Design {
    fn sources(&self, cells: &[Cell]) -> Terms<Source> {
        let (a, b, s) = (self.first - 1, self.second - 1, self.blocks - 1);
        let ss = self.sums_of_squares(cells);
        let source = |df: usize, ss: f64| Source {
            df,
            // A source without degrees of freedom holds nothing but rounding.
            ss: if df == 0 { 0.0 } else { ss },
        };
        Terms {
            first: source(a, ss.first),
            second: source(b, ss.second),
            first_by_second: source(a * b, ss.first_by_second),
            block: source(s, ss.block),
            first_by_block: source(a * s, ss.first_by_block),
            second_by_block: source(b * s, ss.second_by_block),
            first_by_second_by_block: source(a * b * s, ss.first_by_second_by_block),
            replicate: Source {
                df: cells.iter().map(|c| c.rows - 1).sum(),
                ss: cells.iter().map(|c| c.squared_deviations).sum(),
            },
        }
    }

    /// K·Σ (effect)² for every term, from means that are centred first.
    fn sums_of_squares(&self, cells: &[Cell]) -> Terms<f64> {
        let grand = cells.iter().map(|c| c.mean).sum::<f64>() / cells.len() as f64;
        let centred: Vec<f64> = cells.iter().map(|c| c.mean - grand).collect();
        let [first, second, block] = self.single_levels(centred.len());
        let pairs = |left: &[usize], right: &[usize], levels: usize| -> Vec<usize> {
            left.iter()
                .zip(right)
                .map(|(l, r)| l * levels + r)
                .collect()
        };
        let first_effects = effects(&centred, &first);
        let second_effects = effects(&centred, &second);
        let block_effects = effects(&centred, &block);
        let treatment_means = effects(&centred, &pairs(&first, &second, self.second));
        let first_block_means = effects(&centred, &pairs(&first, &block, self.blocks));
        let second_block_means = effects(&centred, &pairs(&second, &block, self.blocks));
        let mut ss = Terms::default();
        for (row, value) in centred.iter().enumerate() {
            let (in_first, in_second) = (first_effects[row], second_effects[row]);
            let in_block = block_effects[row];
            let in_treatment = treatment_means[row] - in_first - in_second;
            let in_first_block = first_block_means[row] - in_first - in_block;
            let in_second_block = second_block_means[row] - in_second - in_block;
            let main = in_first + in_second + in_block;
            let rest = value - main - in_treatment - in_first_block - in_second_block;
            ss.first += in_first * in_first;
            ss.second += in_second * in_second;
            ss.block += in_block * in_block;
            ss.first_by_second += in_treatment * in_treatment;
            ss.first_by_block += in_first_block * in_first_block;
            ss.second_by_block += in_second_block * in_second_block;
            ss.first_by_second_by_block += rest * rest;
        }
        ss.map(|total: f64| total * self.replicates)
    }

    /// The level of each cell in the first factor, the second factor and the blocks.
    fn single_levels(&self, cells: usize) -> [Vec<usize>; 3] {
        let per_first = self.second * self.blocks;
        [
            (0..cells).map(|cell| cell / per_first).collect(),
            (0..cells)
                .map(|cell| cell / self.blocks % self.second)
                .collect(),
            (0..cells).map(|cell| cell % self.blocks).collect(),
        ]
    }

    fn components(&self, sources: &Terms<Source>) -> Components {
        let k = self.replicates;
        let (a, b) = (self.first as f64, self.second as f64);
        let noise = sources.replicate.ms();
        let block = sources.block.ms();
        let first = sources.first_by_block.ms();
        let second = sources.second_by_block.ms();
        let both = sources.first_by_second_by_block.ms();
        let highest = both.or(first).or(second).or(block);
        let above = |ms: Option<f64>, error: Option<f64>, rows: f64| Some((ms? - error?) / rows);
        let mut components = Components {
            replicate: noise,
            confounded: noise.is_none().then_some(highest).flatten(),
            ..Components::default()
        };
        match (self.first > 1, self.second > 1) {
            (true, true) => {
                components.first_by_second_by_block = above(both, noise, k);
                components.first_by_block = above(first, both, k * b);
                components.second_by_block = above(second, both, k * a);
                let interactions = first.zip(second).zip(both).map(|((f, s), t)| f + s - t);
                components.block = above(block, interactions, k * a * b);
            }
            (true, false) => {
                components.first_by_block = above(first, noise, k);
                components.block = above(block, first, k * a);
            }
            (false, true) => {
                components.second_by_block = above(second, noise, k);
                components.block = above(block, second, k * b);
            }
            (false, false) => components.block = above(block, noise, k),
        }
        components
    }
}

/// For each value the mean of the values on the same level.
fn effects(values: &[f64], level_of: &[usize]) -> Vec<f64> {
    let levels = level_of.iter().max().map_or(0, |last| last + 1);
    let mut sums = vec![(0.0, 0.0); levels];
    for (value, &level) in values.iter().zip(level_of) {
        sums[level].0 += value;
        sums[level].1 += 1.0;
    }
    level_of
        .iter()
        .map(|&level| sums[level].0 / sums[level].1)
        .collect()
}

fn f_test(effect: Source, error: Source) -> Option<FTest> {
    let error_ms = error.ms().filter(|ms| *ms > 0.0)?;
    let f = effect.ms()? / error_ms;
    Some(FTest {
        f,
        df1: effect.df,
        df2: error.df,
        p: f_upper(f, effect.df as f64, error.df as f64)?,
    })
}

#[cfg(test)]
#[path = "variance/tests.rs"]
mod tests;
