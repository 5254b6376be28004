//! The plan of an experiment: what a grid would find, how long it would take and what it would
//! cost, before anything is collected. The JSON shape of `assize plan --json` and of the API.
//!
//! What is not known is `null`, and every figure that depends on earlier experiments says whether
//! there were any.

use serde::{Deserialize, Serialize};

use crate::judge::Tier;
use crate::verdict::RubricRef;

/// What a grid would find, take and cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    pub task: String,
    pub rubric: RubricRef,
    /// The smallest and the largest composite that the rubric allows.
    pub composite_range: [f64; 2],
    pub grid: PlannedGrid,
    pub gate: PlannedGate,
    pub spreads: Spreads,
    pub power: Power,
    pub generation: Generation,
    pub judging: Judging,
    /// What providers charge for all outputs, in US dollars; `null` where a model's price is not
    /// known.
    pub cost_usd: Option<f64>,
    /// The design with the fewest outputs that reaches the wanted power; `null` where none does.
    pub cheapest: Option<Cheapest>,
    /// What a reader should know before believing the figures.
    pub notes: Vec<String>,
}

/// What would be collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannedGrid {
    pub models: Vec<String>,
    pub prompts: Vec<String>,
    pub pairs: u32,
    /// Scenarios of the selection split.
    pub scenarios: u32,
    /// Scenarios of the confirmation split; 0 where the task has none.
    pub confirmation: u32,
    /// Candidates per cell.
    pub candidates: u32,
    /// Outputs to generate and to judge: all pairs on the selection split, two on the
    /// confirmation split.
    pub outputs: u64,
}

/// The thresholds that the power is computed for, in points of the composite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannedGate {
    /// The tier whose scores the tests use.
    pub tier: Tier,
    pub level: f64,
    pub margin: f64,
    pub scenario_floor: f64,
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Earlier experiments in the store.
    Earlier,
    /// Documented defaults.
    Defaults,
    /// A guess from the models' sizes, for a CPU.
    ModelSizes,
    /// Nothing is known.
    Unknown,
}

/// How much composites vary, in points, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spreads {
    pub basis: Basis,
    /// The earlier experiments that they were estimated from.
    pub experiments: Vec<String>,
    /// The mean composite.
    pub mean: f64,
    /// The standard deviation between scenarios.
    pub scenario_sd: f64,
    /// The standard deviation of pairs' own ups and downs over scenarios.
    pub pair_by_scenario_sd: f64,
    /// The standard deviation between candidates of one cell.
    pub candidate_sd: f64,
}

/// How often the whole gate would promote a pair that is truly better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Power {
    /// How much better one challenger is, in points; all others equal the incumbent.
    pub effect: f64,
    /// The power that is asked for.
    pub wanted: f64,
    /// For this task: with confirmation where it has such a split.
    pub whole_gate: f64,
    pub without_confirmation: f64,
    /// Where the task has no confirmation split: with one as large as the selection split.
    pub with_confirmation: f64,
    /// How often the gate would promote a pair where all are equal.
    pub false_promotions: f64,
    /// The smallest effect that the whole gate finds with the wanted power; `null` where no effect
    /// within the composite's range is found so often.
    pub smallest_effect: Option<f64>,
    /// The power by effect.
    pub curve: Vec<PowerPoint>,
    /// Experiments that were simulated for the effect asked.
    pub simulations: u32,
}

/// The power at one effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PowerPoint {
    pub effect: f64,
    pub without_confirmation: f64,
    pub with_confirmation: f64,
}

/// How long generating takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Generation {
    /// `null` where it is not known for every model.
    pub hours: Option<f64>,
    pub models: Vec<PlannedModel>,
}

/// One model's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannedModel {
    pub model: String,
    pub outputs: u64,
    /// Wall-clock seconds for one output.
    pub seconds_per_output: Option<f64>,
    pub basis: Basis,
    pub cost_usd_per_1000: Option<f64>,
}

/// How long judging takes an expert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Judging {
    pub cases: u64,
    pub minutes_per_case: f64,
    pub basis: Basis,
    pub hours: f64,
}

/// A design that reaches the wanted power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cheapest {
    pub scenarios: u32,
    pub confirmation: u32,
    pub candidates: u32,
    pub outputs: u64,
    pub power: f64,
    pub generation_hours: Option<f64>,
    pub judging_hours: f64,
    pub cost_usd: Option<f64>,
}
