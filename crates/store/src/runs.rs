//! The role for reading and deleting runs.

use std::fmt::Debug;

use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_domain::verdict::VerdictFile;

use crate::Result;

/// An experiment in a list.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ExperimentSummary {
    pub name: String,
    pub experiment_id: String,
    pub runs: u64,
    /// Runs that are pending for the expert tier.
    pub pending: u64,
    /// Runs that the expert tier has judged.
    pub judged: u64,
    /// Unix milliseconds.
    pub last_updated: i64,
}

/// A run without the contents of its artifacts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Run {
    pub run_id: String,
    pub experiment: String,
    pub name: String,
    pub status: RunStatus,
    pub start_time_ms: i64,
    pub end_time_ms: Option<i64>,
    pub params: Vec<(String, String)>,
    /// A value that is not a finite number is `null` in JSON.
    #[schemars(with = "Vec<(String, Option<f64>)>")]
    pub metrics: Vec<(String, f64)>,
    pub tags: Vec<(String, String)>,
    /// Paths. Complete if one run was requested; [`Runs::run_list`] need not fill them in.
    pub artifacts: Vec<String>,
}

impl Run {
    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        let found = self.tags.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A filter for runs; `None` matches all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunQuery {
    pub model: Option<String>,
    pub prompt: Option<String>,
    pub scenario: Option<String>,
    /// Runs that do not name a split are in the selection split.
    pub split: Option<Split>,
    /// Whether the expert tier is pending.
    pub pending: Option<bool>,
    pub status: Option<RunStatus>,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
    /// 0 means no limit.
    pub max_results: u32,
    /// The page token of the previous page.
    pub page_token: Option<String>,
}

/// One page of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    pub runs: Vec<Run>,
    pub next_page_token: Option<String>,
}

/// Experiments, runs and their files.
pub trait Runs: Send + Sync + Debug {
    /// Experiments that hold runs of Assize, by name.
    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>>;

    /// One page of an experiment's runs. An unknown experiment is an error.
    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage>;

    /// One run, by its full id or an unambiguous prefix of it.
    fn run_get(&self, run_id: &str) -> Result<Run>;

    /// Deletes runs, so that no list shows them; their cells can be collected again. If one of them
    /// does not exist, none is deleted.
    fn run_delete(&self, run_ids: &[String]) -> Result<()>;

    /// The content of a text artifact.
    fn artifact_get(&self, run_id: &str, path: &str) -> Result<Option<String>> {
        let contents = self.artifacts_get(run_id, &[path])?;
        Ok(contents.into_iter().next().flatten())
    }

    /// The contents of several text artifacts of a run, in the order of the request.
    fn artifacts_get(&self, run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>>;

    /// The content of an artifact that need not be text.
    fn artifact_get_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>>;

    /// The verdict files of a run, including those that are set aside.
    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>>;
}
