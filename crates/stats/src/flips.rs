//! The engine of the sign-flip tests: walks sign vectors and gives the studentised statistic of
//! every comparison under each.
//!
//! Under the null hypothesis the difference in a block is as likely to be +d as −d, so every
//! vector of signs over blocks gives an equally likely outcome; the same vector applies to every
//! comparison, which keeps their correlation. Σd² does not change when signs do, therefore
//! t* = r·√(n − 1)/√(1 − r²) with r = Σ ±d/√(n Σd²), and comparing r is comparing t without a
//! square root per step. Comparisons with different numbers of blocks are put on the common,
//! bounded scale t/√(1 + t²) instead.
//!
//! Up to [`EXACT_BLOCKS`] blocks all sign vectors are walked in Gray-code order, one addition per
//! comparison and step. The mirrored vector −ε gives −r, so only half of them are visited. Runs
//! of [`GRAY_RUN_BITS`] bits start from a fresh sum, which bounds rounding and lets runs go to
//! different threads. Above that, vectors are drawn from [`SplitMix64`]: draw b uses the words
//! from position b·⌈S/64⌉ on. Sums over drawn signs come from tables of all 256 sign patterns of
//! eight blocks, which are built once per run of draws.
//!
//! Reference: Fisher (1935), "The Design of Experiments", §21; Ernst (2004), Statistical Science.

use crate::describe::finite;
use crate::rng::SplitMix64;
use crate::{Draws, StatsError};
use rayon::prelude::*;

pub(crate) const EXACT_BLOCKS: usize = 16;
const GRAY_RUN_BITS: usize = 10;
const DRAWS_PER_RUN: usize = 1024;
const PATTERN_BITS: usize = 8;
const PATTERNS: usize = 1 << PATTERN_BITS;
/// Tables that are used in one pass over the draws.
const TABLES: usize = 2;
pub(crate) const LANES: usize = 8;

/// Differences of several comparisons, scaled so that a signed sum is the statistic.
pub(crate) struct Flips {
    /// Comparisons, rounded up to whole lanes; the padding repeats the first comparison.
    width: usize,
    blocks: usize,
    /// `scaled[block * width + comparison]`; zero where the comparison lacks the block.
    scaled: Vec<f64>,
    /// Blocks of each comparison, where they differ.
    ragged: Option<Vec<f64>>,
    draws: Draws,
}

impl Flips {
    /// `comparisons[k][block]`; every comparison needs at least two blocks and the same length.
    pub(crate) fn new(comparisons: &[&[Option<f64>]], draws: Draws) -> Result<Self, StatsError> {
        let length = comparisons.first().map_or(0, |c| c.len());
        if let Some(other) = comparisons.iter().find(|c| c.len() != length) {
            return Err(StatsError::LengthMismatch {
                left: length,
                right: other.len(),
            });
        }
        let used: Vec<usize> = (0..length)
            .filter(|&s| comparisons.iter().any(|c| finite(c[s]).is_some()))
            .collect();
        let width = comparisons.len().next_multiple_of(LANES);
        let mut scaled = vec![0.0; used.len() * width];
        let mut counts = vec![0_usize; width];
        for (k, count) in counts.iter_mut().enumerate() {
            let source = comparisons.get(k).or(comparisons.first());
            let Some(source) = source else { continue };
            let present = || source.iter().filter_map(|d| finite(*d));
            *count = present().count();
            let largest = present().fold(0.0_f64, |m, d| m.max(d.abs()));
            if largest == 0.0 {
                continue;
            }
            let squares: f64 = present().map(|d| (d / largest).powi(2)).sum();
            let norm = largest * (*count as f64 * squares).sqrt();
            for (row, &s) in used.iter().enumerate() {
                scaled[row * width + k] = finite(source[s]).unwrap_or(0.0) / norm;
            }
        }
        let is_ragged = counts.iter().any(|c| *c != counts[0]);
        Ok(Self {
            width,
            blocks: used.len(),
            scaled,
            ragged: is_ragged.then(|| counts.iter().map(|c| *c as f64).collect()),
            draws,
        })
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.blocks <= EXACT_BLOCKS
    }

    /// How many sign vectors the p values are counted over.
    pub(crate) fn vectors(&self) -> usize {
        if self.is_exact() {
            1 << self.blocks
        } else {
            self.draws.count
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The statistics of the data as they are.
    pub(crate) fn observed(&self) -> Vec<f64> {
        let mut sums = self.signed_sums(0);
        self.to_common_scale(&mut sums);
        sums
    }

    /// Visits the statistics under every sign vector (exact: under one of each mirrored pair)
    /// and merges what the visits accumulated. `merge` must not depend on the order.
    pub(crate) fn fold<A: Send>(
        &self,
        start: impl Fn() -> A + Sync + Send,
        visit: impl Fn(&mut A, &[f64]) + Sync + Send,
        merge: impl Fn(A, A) -> A + Sync + Send,
    ) -> A {
        (0..self.runs())
            .into_par_iter()
            .fold(&start, |mut accumulated, run| {
                self.run(run, |statistics| visit(&mut accumulated, statistics));
                accumulated
            })
            .reduce(&start, merge)
    }

    /// The statistics of the comparisons `first..first + LANES` on their own scale r, vector by
    /// vector in a fixed order ([`LANES`] numbers each, the exact ones starting with the data as
    /// they are); exact: of one of each mirrored pair.
    pub(crate) fn lanes(&self, first: usize) -> Vec<f64> {
        let scaled = self.scaled.chunks_exact(self.width.max(1));
        let some = Self {
            width: LANES,
            blocks: self.blocks,
            scaled: scaled
                .flat_map(|row| &row[first..first + LANES])
                .copied()
                .collect(),
            ragged: None,
            draws: self.draws,
        };
        let runs = (0..some.runs()).into_par_iter().map(|run| {
            let mut statistics = Vec::new();
            some.run(run, |lanes| statistics.extend_from_slice(lanes));
            statistics
        });
        runs.collect::<Vec<_>>().concat()
    }

    /// The statistics of the data as they are, each on its own scale r.
    pub(crate) fn observed_r(&self) -> Vec<f64> {
        self.signed_sums(0)
    }

    fn runs(&self) -> usize {
        if self.blocks == 0 {
            0
        } else if self.is_exact() {
            1 << (self.blocks - 1).saturating_sub(GRAY_RUN_BITS)
        } else {
            self.draws.count.div_ceil(DRAWS_PER_RUN)
        }
    }

    fn run(&self, run: usize, visit: impl FnMut(&[f64])) {
        if self.is_exact() {
            self.gray_run(run, visit);
        } else {
            self.drawn_run(run, visit);
        }
    }

    fn gray_run(&self, run: usize, mut visit: impl FnMut(&[f64])) {
        let low_bits = (self.blocks - 1).min(GRAY_RUN_BITS);
        let mut mask = run << low_bits;
        let mut sums = self.signed_sums(mask);
        let mut scratch = Vec::new();
        self.visit_one(&sums, &mut scratch, &mut visit);
        for step in 1_usize..1 << low_bits {
            let bit = step.trailing_zeros() as usize;
            mask ^= 1 << bit;
            let change = if mask >> bit & 1 == 1 { -2.0 } else { 2.0 };
            add_scaled(&mut sums, change, self.row(bit));
            self.visit_one(&sums, &mut scratch, &mut visit);
        }
    }

    fn drawn_run(&self, run: usize, mut visit: impl FnMut(&[f64])) {
        let first = run * DRAWS_PER_RUN;
        let count = DRAWS_PER_RUN.min(self.draws.count - first);
        let words = self.blocks.div_ceil(64);
        let mut rng = SplitMix64::at(self.draws.seed, (first * words) as u64);
        let signs: Vec<[u8; 8]> = (0..count * words)
            .map(|_| rng.next_u64().to_le_bytes())
            .collect();
        let signs: Vec<&[u8]> = signs.chunks_exact(words).map(<[_]>::as_flattened).collect();
        let mut sums = vec![0.0; count * self.width];
        for lane in (0..self.width).step_by(LANES) {
            let of_lanes = self.drawn_sums(lane, &signs);
            for (sums, lanes) in sums.chunks_exact_mut(self.width).zip(&of_lanes) {
                sums[lane..lane + LANES].copy_from_slice(lanes);
            }
        }
        let mut scratch = Vec::new();
        for sums in sums.chunks_exact(self.width) {
            self.visit_one(sums, &mut scratch, &mut visit);
        }
    }

    /// The sums of eight comparisons under every draw's signs, a byte for eight blocks. So few
    /// comparisons at a time keep the tables in the processor's first cache.
    fn drawn_sums(&self, lane: usize, signs: &[&[u8]]) -> Vec<[f64; LANES]> {
        let mut sums = vec![[0.0; LANES]; signs.len()];
        let mut tables = vec![[[0.0; LANES]; PATTERNS]; TABLES];
        let groups: Vec<usize> = (0..self.blocks.div_ceil(PATTERN_BITS)).collect();
        for groups in groups.chunks(TABLES) {
            for (table, group) in tables.iter_mut().zip(groups) {
                self.pattern_sums(*group, lane, table);
            }
            let first = groups[0];
            for (sums, signs) in sums.iter_mut().zip(signs) {
                for (table, pattern) in tables.iter().zip(&signs[first..first + groups.len()]) {
                    add(sums, 1.0, &table[usize::from(*pattern)]);
                }
            }
        }
        sums
    }

    /// Sums of eight blocks under all patterns of their signs; a set bit means minus.
    fn pattern_sums(&self, group: usize, lane: usize, table: &mut [[f64; LANES]; PATTERNS]) {
        let first = group * PATTERN_BITS;
        let members = PATTERN_BITS.min(self.blocks - first);
        let mut rows = [[0.0; LANES]; PATTERN_BITS];
        for (member, row) in rows.iter_mut().enumerate().take(members) {
            row.copy_from_slice(&self.row(first + member)[lane..lane + LANES]);
        }
        table[0] = [0.0; LANES];
        for row in &rows[..members] {
            add(&mut table[0], 1.0, row);
        }
        for pattern in 1..PATTERNS {
            let bit = pattern.trailing_zeros() as usize;
            let mut sums = table[pattern & (pattern - 1)];
            add(&mut sums, -2.0, &rows[bit]);
            table[pattern] = sums;
        }
    }

    fn visit_one(&self, sums: &[f64], scratch: &mut Vec<f64>, visit: &mut impl FnMut(&[f64])) {
        if self.ragged.is_none() {
            return visit(sums);
        }
        scratch.clear();
        scratch.extend_from_slice(sums);
        self.to_common_scale(scratch);
        visit(scratch);
    }

    fn to_common_scale(&self, statistics: &mut [f64]) {
        let Some(counts) = &self.ragged else { return };
        for (r, n) in statistics.iter_mut().zip(counts) {
            *r *= ((n - 1.0) / (1.0 + *r * *r * (n - 2.0))).sqrt();
        }
    }

    fn signed_sums(&self, mask: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.width];
        for block in 0..self.blocks {
            let is_negative = block < EXACT_BLOCKS && mask >> block & 1 == 1;
            let sign = if is_negative { -1.0 } else { 1.0 };
            add_scaled(&mut sums, sign, self.row(block));
        }
        sums
    }

    fn row(&self, block: usize) -> &[f64] {
        &self.scaled[block * self.width..(block + 1) * self.width]
    }
}

fn add(sums: &mut [f64; LANES], factor: f64, row: &[f64; LANES]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

fn add_scaled(sums: &mut [f64], factor: f64, row: &[f64]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += factor * value;
    }
}
