//! The answers behind a board: who wins in which scenario, and the outputs themselves.

use serde::{Deserialize, Serialize};

use super::{Pair, Scores};
use crate::judge::{Judge, Tier};

/// What `compare` shows besides the board; `None` where it was not asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answers {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_scenario: Option<ByScenario>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Vec<PairExamples>>,
    /// For the HTML report only; `runs export` has them for programs.
    #[serde(skip)]
    pub outputs: Option<Outputs>,
}

/// Who wins where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByScenario {
    /// The pair whose difference to the incumbent is drawn: the winner, else the best challenger.
    pub challenger: Option<Pair>,
    /// In the order of the board.
    pub wins: Vec<PairWins>,
    /// The largest difference first; those without one last.
    pub scenarios: Vec<ScenarioRow>,
}

/// In how many scenarios a pair has the highest mean, alone or with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairWins {
    #[serde(flatten)]
    pub pair: Pair,
    pub alone: u32,
    pub tied: u32,
}

/// One scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioRow {
    pub scenario: String,
    /// The pairs with the highest mean; empty where fewer than two pairs are judged.
    pub best: Vec<Pair>,
    /// The challenger's mean minus the incumbent's.
    pub diff: Option<f64>,
    /// In the order of the board; pairs that are not judged here are left out.
    pub pairs: Vec<ScenarioMean>,
}

/// The mean composite of a pair in a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioMean {
    #[serde(flatten)]
    pub pair: Pair,
    pub mean: f64,
    /// Minus the incumbent's.
    pub diff: Option<f64>,
}

/// Outputs of a pair that tell the most about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairExamples {
    #[serde(flatten)]
    pub pair: Pair,
    pub best: Vec<Example>,
    pub worst: Vec<Example>,
    /// The judges' composites are furthest apart; empty where no output has two verdicts that
    /// differ.
    pub disputed: Vec<Example>,
}

/// One output with what judges said of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    pub run_id: String,
    pub scenario: String,
    pub candidate: u32,
    pub text: Option<String>,
    /// Why it does not fit the task's contract and rules.
    pub reasons: Vec<String>,
    /// By the board's tier.
    pub composite: f64,
    /// Between the highest and the lowest composite, where two judges scored it.
    pub spread: Option<f64>,
    /// The latest verdict of every judge, the one that counts first.
    pub opinions: Vec<Opinion>,
}

/// One judge's verdict on an output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opinion {
    pub tier: Tier,
    pub judge: Judge,
    pub composite: f64,
    pub scores: Scores,
    pub rationale: Option<String>,
}

/// All outputs of a board's pairs, side by side.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outputs {
    /// In the order of the board.
    pub pairs: Vec<Pair>,
    pub scenarios: Vec<ScenarioOutputs>,
    /// Cells that were left out, because a page has a limit.
    pub left_out: usize,
}

/// The outputs of every pair in one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioOutputs {
    pub scenario: String,
    /// By pair.
    pub cells: Vec<Vec<Output>>,
}

/// One output.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The output, or why there is none.
    pub text: String,
    pub is_error: bool,
    /// Why it does not fit the task's contract and rules.
    pub reasons: String,
    /// By the board's tier.
    pub composite: Option<f64>,
}
