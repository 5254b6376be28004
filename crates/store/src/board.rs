//! The role for reading the data of leaderboards.

use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanFile, RubricRef};

use crate::{Result, Runs};

/// The data of one run that a board needs.
#[derive(Debug, PartialEq)]
pub struct BoardRun<'a> {
    pub run_id: &'a str,
    pub model: &'a str,
    pub prompt: &'a str,
    pub prompt_sha256: &'a str,
    pub scenario: &'a str,
    pub scenario_sha256: &'a str,
    pub model_digest: &'a str,
    /// A description of the other settings that affect the output
    /// ([`assize_domain::run::tag::SETTINGS`]).
    pub settings: &'a str,
    pub status: RunStatus,
    pub rubric: RubricRef<&'a str>,
    pub n_candidates: u32,
    /// Candidates that were requested and could not be generated.
    pub n_failed: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// Tokens of all its candidates.
    pub completion_tokens: Option<f64>,
    /// Those of them that are thoughts.
    pub thinking_tokens: Option<f64>,
    /// The cost of generating.
    pub cost_usd: Option<f64>,
    /// The verdict files of the run, of any tier and rubric, except those that are set aside.
    pub files: Vec<LeanFile<'a>>,
}

/// Reads all runs of an experiment with their scores. Other data on a board is read from single
/// runs ([`Runs`]).
pub trait Boards: Runs {
    /// Visits all runs of a split, oldest first. An unknown experiment is an error.
    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()>;
}
