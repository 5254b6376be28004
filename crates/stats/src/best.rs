//! The probability that a treatment is the best, by the bootstrap over blocks.
//!
//! In each resample (see [`crate::bootstrap`]) every treatment's mean is taken over the same drawn
//! blocks; the treatment with the largest mean gets the resample's weight, and ties share it
//! equally. Exact enumeration to 9 blocks, seeded draws above. Rank intervals come from the same
//! resamples; ties share their average rank.
//!
//! Only blocks that every treatment has are used: a treatment must not lead because it lacks the
//! hard blocks. Leave out a treatment with many gaps before asking.
//!
//! Most draws are decided on whole numbers, of which twice as many fit into a register: see
//! [`quick`]. Where these leave a doubt, the draw is done again with all digits.
//!
//! This is for display. It is not an error rate: with equal treatments one of them still leads, and
//! a bootstrap over few blocks is overconfident. Decisions use [`crate::max_t`].

use crate::bootstrap::{EXACT_BLOCKS, for_each_multiset, resample_rng};
use crate::describe::{finite, scale};
use crate::{Draws, Interval, StatsError, TIE_TOLERANCE};
use rayon::prelude::*;

mod quick;

use quick::Quick;

const LANES: usize = 8;
const DRAWS_PER_RUN: usize = 64;
const RANK_TAIL: f64 = 0.025;

/// How likely each treatment is to be the best.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    pub treatments: Vec<BestTreatment>,
    /// Blocks that every treatment has, on which this is computed.
    pub blocks: usize,
    /// Whether all resamples were enumerated.
    pub is_exact: bool,
}

/// One treatment's part in [`Best`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestTreatment {
    pub p_best: f64,
    /// The middle 95 % of the treatment's rank, 1 for the best.
    pub rank: Interval,
}

/// Probability of best from `means[treatment][block]`: enumerated to 9 blocks, drawn above.
pub fn probability_of_best(means: &[Vec<Option<f64>>], draws: Draws) -> Result<Best, StatsError> {
    let board = Board::new(means)?;
    if board.blocks > EXACT_BLOCKS {
        return board.drawn(draws);
    }
    let mut tally = Tally::new(board.treatments);
    for_each_multiset(board.blocks, |counts, weight| {
        let weighted = |group: &Vec<[f64; LANES]>| {
            let mut sums = [0.0; LANES];
            for (count, row) in counts.iter().zip(group) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += f64::from(*count) * value;
                }
            }
            sums
        };
        let sums: Vec<f64> = board.groups.iter().flat_map(weighted).collect();
        tally.add(&sums[..board.treatments], board.tie, weight);
    })?;
    let rank = |histogram: &[f64]| inverted_ranks(histogram);
    Ok(board.finish(&tally, 1.0, true, rank))
}

/// Probability of best by seeded draws, whatever the number of blocks.
pub fn probability_of_best_drawn(
    means: &[Vec<Option<f64>>],
    draws: Draws,
) -> Result<Best, StatsError> {
    Board::new(means)?.drawn(draws)
}

/// The complete blocks: `groups[group][block]` holds eight treatments, the last group padded with
/// zeros.
struct Board {
    treatments: usize,
    blocks: usize,
    groups: Vec<Vec<[f64; LANES]>>,
    quick: Quick,
    /// Sums closer than this are ties.
    tie: f64,
}

impl Board {
    fn new(means: &[Vec<Option<f64>>]) -> Result<Self, StatsError> {
        let length = means.first().map_or(0, Vec::len);
        if let Some(other) = means.iter().find(|treatment| treatment.len() != length) {
            return Err(StatsError::LengthMismatch {
                left: length,
                right: other.len(),
            });
        }
        let complete: Vec<Vec<f64>> = (0..length)
            .filter_map(|block| {
                means
                    .iter()
                    .map(|treatment| finite(treatment[block]))
                    .collect()
            })
            .collect();
        let treatments = means.len();
        let blocks = complete.len();
        if blocks == 0 {
            return Err(StatsError::TooFewBlocks {
                needed: 1,
                found: 0,
            });
        }
        let lanes = |row: &Vec<f64>, group: usize| {
            let mut lanes = [0.0; LANES];
            for (lane, value) in lanes.iter_mut().zip(&row[group * LANES..]) {
                *lane = *value;
            }
            lanes
        };
        let groups = (0..treatments.div_ceil(LANES))
            .map(|group| complete.iter().map(|row| lanes(row, group)).collect())
            .collect();
        let largest = complete.iter().map(|row| scale(row)).fold(0.0, f64::max);
        Ok(Self {
            treatments,
            blocks,
            groups,
            quick: Quick::new(&complete, treatments),
            tie: TIE_TOLERANCE * largest * blocks as f64,
        })
    }

    fn drawn(&self, draws: Draws) -> Result<Best, StatsError> {
        if draws.count == 0 {
            return Err(StatsError::ParameterOutOfRange {
                what: "the number of draws",
                value: 0.0,
                range: "at least 1",
            });
        }
        // Runs are merged in order, so that shared ties add up to the same bits every time.
        let runs: Vec<Tally> = (0..draws.count.div_ceil(DRAWS_PER_RUN))
            .into_par_iter()
            .map(|run| self.run(run, draws))
            .collect();
        let mut tally = Tally::new(self.treatments);
        for run in &runs {
            tally.merge(run);
        }
        let rank = |histogram: &[f64]| interpolated_ranks(histogram, draws.count);
        Ok(self.finish(&tally, draws.count as f64, false, rank))
    }

    fn run(&self, run: usize, draws: Draws) -> Tally {
        let mut tally = Tally::new(self.treatments);
        let mut keys = Vec::with_capacity(self.treatments);
        let mut resample = vec![0_usize; self.blocks];
        let mut sums = vec![0.0; self.groups.len() * LANES];
        let last = ((run + 1) * DRAWS_PER_RUN).min(draws.count);
        for draw in run * DRAWS_PER_RUN..last {
            let mut rng = resample_rng(draws.seed, draw, self.blocks);
            for block in &mut resample {
                *block = rng.below(self.blocks);
            }
            if self.quick.order(&resample, &mut keys) {
                tally.add_ordered(keys.iter().map(|key| quick::treatment_of(*key)));
                continue;
            }
            for (group, sums) in self.groups.iter().zip(sums.as_chunks_mut().0) {
                *sums = lane_sums(&resample, group);
            }
            tally.add(&sums[..self.treatments], self.tie, 1.0);
        }
        tally
    }

    fn finish(
        &self,
        tally: &Tally,
        total: f64,
        is_exact: bool,
        rank: impl Fn(&[f64]) -> Interval,
    ) -> Best {
        let histograms = tally.ranks.chunks_exact(tally.bins());
        let treatments = tally
            .best
            .iter()
            .zip(histograms)
            .map(|(best, histogram)| BestTreatment {
                p_best: best / total,
                rank: rank(histogram),
            })
            .collect();
        Best {
            treatments,
            blocks: self.blocks,
            is_exact,
        }
    }
}

/// Sums of eight treatments over the drawn blocks. Two running sums halve the wait for each
/// addition.
fn lane_sums(resample: &[usize], group: &[[f64; LANES]]) -> [f64; LANES] {
    let mut sums = [[0.0; LANES]; 2];
    let (pairs, odd) = resample.as_chunks::<2>();
    for pair in pairs {
        for (sums, block) in sums.iter_mut().zip(pair) {
            add(sums, &group[*block]);
        }
    }
    let [mut total, other] = sums;
    add(&mut total, &other);
    for block in odd {
        add(&mut total, &group[*block]);
    }
    total
}

fn add(sums: &mut [f64; LANES], values: &[f64; LANES]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

/// Weight of being best, and of each doubled rank, by treatment.
struct Tally {
    best: Vec<f64>,
    ranks: Vec<f64>,
    order: Vec<usize>,
}

impl Tally {
    fn new(treatments: usize) -> Self {
        Self {
            best: vec![0.0; treatments],
            ranks: vec![0.0; treatments * (2 * treatments + 1)],
            order: (0..treatments).collect(),
        }
    }

    /// Doubled mid-ranks run from 2 to 2·treatments.
    fn bins(&self) -> usize {
        2 * self.best.len() + 1
    }

    fn add(&mut self, sums: &[f64], tie: f64, weight: f64) {
        let bins = self.bins();
        self.order.sort_by(|&i, &j| sums[j].total_cmp(&sums[i]));
        let mut start = 0;
        while start < sums.len() {
            let mut end = start + 1;
            while end < sums.len() && sums[self.order[end - 1]] - sums[self.order[end]] <= tie {
                end += 1;
            }
            for &treatment in &self.order[start..end] {
                self.ranks[treatment * bins + start + 1 + end] += weight;
                if start == 0 {
                    self.best[treatment] += weight / end as f64;
                }
            }
            start = end;
        }
    }

    /// Adds a draw without ties, whose treatments come best first.
    fn add_ordered(&mut self, treatments: impl Iterator<Item = usize>) {
        let bins = self.bins();
        for (place, treatment) in treatments.enumerate() {
            self.ranks[treatment * bins + 2 * place + 2] += 1.0;
            if place == 0 {
                self.best[treatment] += 1.0;
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        let pairs = self.best.iter_mut().zip(&other.best);
        let rank_pairs = self.ranks.iter_mut().zip(&other.ranks);
        for (mine, theirs) in pairs.chain(rank_pairs) {
            *mine += theirs;
        }
    }
}

fn inverted_ranks(histogram: &[f64]) -> Interval {
    let at = |probability: f64| {
        let mut cumulated = 0.0;
        let reached = histogram.iter().position(|weight| {
            cumulated += weight;
            cumulated >= probability - TIE_TOLERANCE
        });
        reached.unwrap_or(histogram.len() - 1) as f64 / 2.0
    };
    Interval {
        low: at(RANK_TAIL),
        high: at(1.0 - RANK_TAIL),
    }
}

fn interpolated_ranks(histogram: &[f64], draws: usize) -> Interval {
    let at = |probability: f64| {
        let position = probability * (draws - 1) as f64;
        let rank_at = |index: f64| {
            let mut cumulated = 0.0;
            let reached = histogram.iter().position(|weight| {
                cumulated += weight;
                cumulated > index
            });
            reached.unwrap_or(histogram.len() - 1) as f64 / 2.0
        };
        let (below, above) = (rank_at(position.floor()), rank_at(position.ceil()));
        below + (above - below) * position.fract()
    };
    Interval {
        low: at(RANK_TAIL),
        high: at(1.0 - RANK_TAIL),
    }
}

#[cfg(test)]
#[path = "best/tests.rs"]
mod tests;
