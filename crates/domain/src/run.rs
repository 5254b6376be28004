//! Runs: the tracked record of one cell, in MLflow's terms.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The names of the tags that every reader and writer of runs shares.
pub mod tag {
    pub const JUDGE_PENDING: &str = "judge_pending";
    pub const AUTO_PENDING: &str = "auto_pending";
    pub const JUDGE_KIND: &str = "judge_kind";
    pub const JUDGED_BY: &str = "judged_by";
    pub const JUDGED_AT: &str = "judged_at";
    pub const AUTO_JUDGED_BY: &str = "auto_judged_by";
    pub const AUTO_JUDGED_AT: &str = "auto_judged_at";
    pub const RUBRIC: &str = "rubric";
    pub const RUBRIC_SHA256: &str = "rubric_sha256";
    pub const PROMPT_SHA256: &str = "prompt_sha256";
    pub const SCENARIO_SHA256: &str = "scenario_sha256";
    pub const MODEL_DIGEST: &str = "model_digest";
    pub const CELL_KEY: &str = "cell_key";
    /// The content of the task as far as judging and comparing depend on it.
    pub const TASK_SHA256: &str = "task_sha256";
    /// Where the task's files were: `built in` or an absolute path. Not part of a cell's identity.
    pub const TASK_SOURCE: &str = "task_source";
    /// What shaped the output besides model, prompt and scenario, in words.
    pub const SETTINGS: &str = "settings";
    /// How many candidates were taken from the cache of answers instead of being generated.
    pub const FROM_CACHE: &str = "from_cache";
    pub const ASSIZE_VERSION: &str = "assize_version";
    pub const PROVENANCE: &str = "provenance";
    /// The host that generated the outputs. Not part of a cell's identity.
    pub const HOST: &str = "host";
    /// The sittings whose verdicts on this run are kept but do not count, separated by spaces.
    pub const SET_ASIDE: &str = "set_aside";
    /// On a copy of a run without a cell key: the id of the run that it was copied from first.
    pub const COPIED_FROM: &str = "copied_from";
    /// Why a failed cell failed.
    pub const ERROR: &str = "error";
}

/// The end of [`tag::SETTINGS`] on runs that were collected by halving: weak pairs lack
/// scenarios, and the pairs that remain were selected on these scores.
pub const ADAPTIVE_SETTING: &str = ", adaptive";

/// The names of params that readers rely on.
pub mod param {
    pub const TASK: &str = "task";
    pub const MODEL: &str = "model";
    pub const PROMPT: &str = "prompt";
    pub const SCENARIO: &str = "scenario";
    pub const SPLIT: &str = "split";
}

/// The names of metrics that readers rely on.
pub mod metric {
    pub const N_CANDIDATES: &str = "n_candidates";
    pub const N_FAILED: &str = "n_failed";
    pub const LATENCY_MS: &str = "latency_ms";
    pub const LOAD_MS: &str = "load_ms";
    pub const PROMPT_TOKENS: &str = "prompt_tokens";
    pub const COMPLETION_TOKENS: &str = "completion_tokens";
    /// Those of the completion's tokens that are thoughts.
    pub const THINKING_TOKENS: &str = "thinking_tokens";
    /// Of the engine, with everything that was in the batch.
    pub const TOKENS_PER_S: &str = "tokens_per_s";
    /// How many candidates were decoded together, on average.
    pub const BATCH_SIZE: &str = "batch_size";
    pub const DIVERSITY: &str = "diversity";
    pub const COST_USD: &str = "cost_usd";
    /// The cost of generating, which judging does not replace.
    pub const GENERATION_COST_USD: &str = "generation_cost_usd";
    pub const COMPOSITE: &str = "composite";

    /// What no score of a rubric may be called, because scores become metrics too.
    pub const TAKEN: [&str; 13] = [
        N_CANDIDATES,
        N_FAILED,
        LATENCY_MS,
        LOAD_MS,
        PROMPT_TOKENS,
        COMPLETION_TOKENS,
        THINKING_TOKENS,
        TOKENS_PER_S,
        BATCH_SIZE,
        DIVERSITY,
        COST_USD,
        GENERATION_COST_USD,
        COMPOSITE,
    ];
}

/// The paths of a run's artifacts.
pub mod artifact {
    pub const PROMPT: &str = "prompt.txt";
    pub const CONTEXT: &str = "context.json";
    pub const CANDIDATES: &str = "candidates.json";
    pub const RAW: &str = "raw.txt";
    pub const RUBRIC: &str = "rubric.md";
    /// The folder of verdict files, one immutable file a sitting.
    pub const VERDICTS: &str = "verdicts/";
}

/// Whether the cell produced anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunStatus {
    Running,
    Scheduled,
    Finished,
    /// No candidate could be generated. The next collect tries the cell again.
    Failed,
    Killed,
}

impl RunStatus {
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Scheduled,
        Self::Finished,
        Self::Failed,
        Self::Killed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Scheduled => "SCHEDULED",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Killed => "KILLED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A finished cell, ready to be tracked as one run.
///
/// Texts are shared (`Arc`), because a grid's runs have most of them in common.
#[derive(Debug, Clone, PartialEq)]
pub struct CellRecord {
    /// Empty only for copies of runs that older tools made.
    pub cell_key: String,
    /// `MODEL × PROMPT × SCENARIO`.
    pub name: String,
    pub status: RunStatus,
    pub start_time_ms: i64,
    pub end_time_ms: i64,
    pub params: Vec<(Arc<str>, Arc<str>)>,
    pub tags: Vec<(Arc<str>, Arc<str>)>,
    pub metrics: Vec<(Cow<'static, str>, f64)>,
    pub artifacts: Vec<(Cow<'static, str>, Arc<str>)>,
}
