//! Simulates data with known effects, to check the coverage of intervals and the level of tests.
//!
//! y = effect(treatment) + S(block) + (treatment × block) + ε with independent normal terms, drawn
//! from [`SplitMix64`]. The terms of a data set are drawn in a fixed order, so a seed names a data
//! set.

use crate::StatsError;
use crate::rng::SplitMix64;
use crate::table::{Row, Table};

/// A balanced design of treatments × blocks × replicates.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockModel {
    /// The true mean of every treatment; all equal is the null hypothesis.
    pub treatment_effects: Vec<f64>,
    pub blocks: usize,
    pub replicates: usize,
    pub block_sd: f64,
    pub treatment_by_block_sd: f64,
    pub replicate_sd: f64,
}

impl BlockModel {
    /// The rows of the data set that `seed` names.
    pub fn rows(&self, seed: u64) -> Vec<Row> {
        let mut rng = SplitMix64::new(seed);
        let treatments = self.treatment_effects.len();
        let mut rows = Vec::with_capacity(treatments * self.blocks * self.replicates);
        for block in 0..self.blocks {
            let shared = self.block_sd * rng.next_normal();
            for (treatment, effect) in self.treatment_effects.iter().enumerate() {
                let centre = effect + shared + self.treatment_by_block_sd * rng.next_normal();
                for _ in 0..self.replicates {
                    let value = centre + self.replicate_sd * rng.next_normal();
                    rows.push(Row {
                        treatment,
                        block,
                        value,
                    });
                }
            }
        }
        rows
    }

    /// The same data collapsed to cells.
    pub fn table(&self, seed: u64) -> Result<Table, StatsError> {
        Table::from_rows(self.treatment_effects.len(), self.blocks, &self.rows(seed))
    }
}

/// A seed for data set number `index` of a simulation, unrelated to its neighbours.
pub fn seed_of(simulation_seed: u64, index: u64) -> u64 {
    SplitMix64::at(simulation_seed, index).next_u64()
}
