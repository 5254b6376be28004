//! MLflow's data types, as in its REST API, and its limits.
//!
//! [`Tracking`](crate::Tracking) covers the data of Assize; this module covers runs logged by any
//! MLflow client. The types here serialise to MLflow's JSON, [`filter`] is its search grammar, and
//! [`limits`] checks its limits. MLflow silently truncates some values or sets them to zero;
//! [`limits`] rejects them and names the limit. The methods are on
//! [`Mlflow`](crate::embedded::mlflow::Mlflow).
//!
//! This module deliberately contains no SQL (see `embedded::mlflow`) and no HTTP (see the server).

use assize_domain::run::RunStatus;
use serde::{Deserialize, Serialize, Serializer};

pub mod filter;
pub mod limits;
mod logged_model;

pub use logged_model::{
    DatasetRef, LoggedModel, LoggedModelData, LoggedModelInfo, ModelOrder, ModelPoint, ModelSearch,
    ModelStatus, ModelUse, NewLoggedModel,
};

/// The tag that always equals a run's name.
pub const RUN_NAME_TAG: &str = "mlflow.runName";
/// The tag of a dataset that holds the context in which it was used.
pub const DATASET_CONTEXT_TAG: &str = "mlflow.data.context";

/// A key and its value: a param or a tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub key: String,
    #[serde(default)]
    pub value: String,
}

/// A point of a metric, and its run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunPoint {
    #[serde(flatten)]
    pub point: Point,
    pub run_id: String,
}

/// A sample of the history of a metric: at most `max_results` points, evenly spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySample {
    pub max_results: u32,
    /// The first and the last step.
    pub steps: Option<(i64, i64)>,
}

/// One point of a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    pub key: String,
    #[serde(serialize_with = "number")]
    pub value: f64,
    /// Unix milliseconds.
    pub timestamp: i64,
    pub step: i64,
}

/// JSON has no NaN and no infinities; MLflow's protocol writes them as strings.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_nan() {
        serializer.serialize_str("NaN")
    } else if value.is_infinite() {
        serializer.serialize_str(if *value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        })
    } else {
        serializer.serialize_f64(*value)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    pub experiment_id: String,
    pub name: String,
    pub artifact_location: String,
    pub lifecycle_stage: &'static str,
    pub creation_time: i64,
    pub last_update_time: i64,
    /// Always `default`: there are no others.
    pub workspace: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunInfo {
    pub run_id: String,
    pub run_uuid: String,
    pub run_name: String,
    pub experiment_id: String,
    pub user_id: String,
    pub status: RunStatus,
    pub start_time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<i64>,
    pub artifact_uri: String,
    pub lifecycle_stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunData {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Point>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Entry>,
}

/// A dataset and how it was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetInput {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Entry>,
    pub dataset: Dataset,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    pub name: String,
    pub digest: String,
    #[serde(default)]
    pub source_type: String,
    #[serde(default)]
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// A dataset of an experiment, and the context in which its runs used it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatasetSummary {
    pub experiment_id: String,
    pub name: String,
    pub digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunInputs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dataset_inputs: Vec<DatasetInput>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model_inputs: Vec<ModelUse>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunOutputs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model_outputs: Vec<ModelUse>,
}

/// A run with all logged data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoggedRun {
    pub info: RunInfo,
    pub data: RunData,
    pub inputs: RunInputs,
    pub outputs: RunOutputs,
}

/// The data of a new run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewRun {
    pub experiment_id: String,
    pub user_id: String,
    pub name: Option<String>,
    /// Unix milliseconds; `None` means now.
    pub start_time: Option<i64>,
    pub tags: Vec<Entry>,
}

/// A change to a run; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunChange {
    pub name: Option<String>,
    pub status: Option<RunStatus>,
    pub end_time: Option<i64>,
}

/// Entries that are logged atomically.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    pub metrics: Vec<Point>,
    pub params: Vec<Entry>,
    pub tags: Vec<Entry>,
    /// The metrics that refer to a model, repeated.
    pub model_metrics: Vec<ModelPoint>,
    /// Whether this is one entry and no list of them, which messages name differently.
    pub is_single: bool,
}

/// Which lifecycle stages a search includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    #[default]
    Active,
    Deleted,
    All,
}

/// A limit and an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub max_results: u32,
    pub offset: u64,
}

/// A page of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The offset of the next page, if there is one.
    pub next_offset: Option<u64>,
}

/// A search in MLflow's grammar.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    pub filter: String,
    pub order_by: Vec<String>,
    pub view: View,
    pub slice: Slice,
}

/// A search for runs in MLflow's grammar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunSearch {
    pub experiment_ids: Vec<String>,
    pub filter: String,
    pub order_by: Vec<String>,
    pub view: View,
    pub max_results: u32,
    /// The page token of the previous page.
    pub after: Option<String>,
}

/// A file or folder among a run's artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    /// Relative to the run's root.
    pub path: String,
    pub is_dir: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
}

/// An alias of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alias {
    pub alias: String,
    pub version: String,
}

/// A registered model; with the tag `mlflow.prompt.is_prompt`, a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegisteredModel {
    pub name: String,
    pub creation_timestamp: i64,
    pub last_updated_timestamp: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latest_versions: Vec<ModelVersion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
}

/// A version of a registered model; of a prompt, with its template as a tag.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelVersion {
    pub name: String,
    pub version: String,
    pub creation_timestamp: i64,
    pub last_updated_timestamp: i64,
    pub current_stage: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub source: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_link: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model_id: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// The data of a new version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewVersion {
    pub name: String,
    pub source: String,
    pub description: String,
    pub run_id: String,
    pub run_link: String,
    pub model_id: String,
    pub tags: Vec<Entry>,
}

/// A filter for traces.
#[derive(Debug, Clone, Copy)]
pub struct TraceList<'a> {
    pub experiment_ids: &'a [String],
    /// Of the traces of collected runs, only this run's.
    pub run_id: Option<&'a str>,
    pub is_latest_first: bool,
    pub most: u32,
}

/// The stored data of a trace, in JSON that the store does not parse.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    pub trace_id: String,
    /// `None` if no client logged a trace with this id.
    pub info: Option<String>,
    pub tags: Vec<Entry>,
    pub assessments: Vec<String>,
    /// Runs that clients linked the trace to.
    pub runs: Vec<String>,
    /// Prompt versions (`NAME/VERSION`) that clients linked to it.
    pub prompts: Vec<String>,
}

/// Which logged traces of an experiment to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceDeletion {
    Ids(Vec<String>),
    /// The oldest, up to a time in Unix milliseconds and a number.
    Until(i64, Option<u32>),
}
