//! The leaderboard, in the shape that every reader of JSON gets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judge::Tier;
use crate::verdict::RubricRef;

/// (model, prompt) pairs ranked, with uncertainty. What is not computed is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaderboard {
    pub experiment: String,
    pub rubric: Option<RubricRef>,
    pub tier: Tier,
    pub split: String,
    pub incumbent: Option<Pair>,
    pub rows: Vec<Row>,
    pub decision: Option<Decision>,
    pub variance: Option<Variance>,
    pub coverage: Coverage,
    /// The smallest and the largest composite that the rubric allows.
    pub composite_range: Option<[f64; 2]>,
    /// What a reader should know before believing the rows.
    pub warnings: Vec<String>,
}

/// What is ranked, shipped and promoted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pair {
    pub model: String,
    pub prompt: String,
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} × {}", self.model, self.prompt)
    }
}

/// One pair's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub rank: u32,
    pub model: String,
    pub prompt: String,
    pub scenarios: u32,
    pub candidates: u32,
    pub composite: Estimate,
    pub criteria: BTreeMap<String, f64>,
    pub flags: BTreeMap<String, f64>,
    pub vs_incumbent: Option<Versus>,
    pub p_best: Option<f64>,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
}

impl Row {
    pub fn pair(&self) -> Pair {
        Pair {
            model: self.model.clone(),
            prompt: self.prompt.clone(),
        }
    }
}

/// A mean over scenarios with its uncertainty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub mean: f64,
    /// Standard error over scenarios; `null` with one scenario.
    pub se: Option<f64>,
    pub ci95: Option<[f64; 2]>,
}

/// The paired difference to the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Versus {
    pub diff: f64,
    pub ci95: Option<[f64; 2]>,
    pub p: Option<f64>,
    pub p_adjusted: Option<f64>,
}

/// What the figures carry, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub winner: Option<Pair>,
    pub reason: String,
    pub scenarios_needed: Option<u32>,
}

/// Shares of the total sum of squares; they add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variance {
    pub model: f64,
    pub prompt: f64,
    pub interaction: f64,
    pub scenario: f64,
    pub by_scenario: f64,
    pub noise: f64,
}

/// How much of the grid the figures stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Coverage {
    pub cells: u32,
    pub judged: u32,
    pub pending: u32,
    pub failed: u32,
}
