//! The JSON shapes of MLflow's REST API.
//!
//! Servers omit empty fields. Integers may be encoded as strings, and NaN and infinities always
//! are.

use std::collections::BTreeMap;

use assize_domain::run::RunStatus;
use assize_store::Run;
use assize_store::mlflow::DatasetInput;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The metric that Assize writes with each of its changes to a run: the time in Unix milliseconds.
/// It makes changes searchable, and is not part of the run's data.
pub(crate) const CHANGED: &str = "assize.changed_ms";

/// A run as the server returned it.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "RunShape")]
pub(crate) struct Tracked {
    pub run_id: String,
    pub experiment_id: String,
    pub name: String,
    pub status: RunStatus,
    pub start_time_ms: i64,
    pub end_time_ms: Option<i64>,
    pub artifact_uri: String,
    pub is_active: bool,
    pub params: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    pub metrics: BTreeMap<String, Point>,
    pub datasets: Vec<DatasetInput>,
    /// When Assize changed the run last ([`CHANGED`]).
    pub changed_ms: Option<f64>,
}

/// A value of a metric; in a run, the latest one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub value: f64,
    pub timestamp_ms: i64,
    pub step: i64,
}

impl Tracked {
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).map(String::as_str)
    }

    pub fn param(&self, key: &str) -> Option<&str> {
        self.params.get(key).map(String::as_str)
    }

    pub fn metric(&self, key: &str) -> Option<f64> {
        self.metrics.get(key).map(|point| point.value)
    }

    /// Whether any judge has scored the run.
    pub fn is_judged(&self) -> bool {
        self.params.keys().any(|key| key.starts_with("verdict."))
    }

    /// The order of runs: of two runs of one cell, the first one counts.
    pub fn sort_key(&self) -> (i64, &str) {
        (self.start_time_ms, &self.run_id)
    }
}

#[derive(Deserialize)]
struct RunShape {
    info: InfoShape,
    #[serde(default)]
    data: DataShape,
    #[serde(default)]
    inputs: InputsShape,
}

#[derive(Deserialize, Default)]
struct InputsShape {
    #[serde(default)]
    dataset_inputs: Vec<DatasetInput>,
}

#[derive(Deserialize)]
struct InfoShape {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    experiment_id: String,
    #[serde(default)]
    run_name: String,
    #[serde(default)]
    status: String,
    #[serde(default, deserialize_with = "whole")]
    start_time: Option<i64>,
    #[serde(default, deserialize_with = "whole")]
    end_time: Option<i64>,
    #[serde(default)]
    artifact_uri: String,
    #[serde(default)]
    lifecycle_stage: String,
}

#[derive(Deserialize, Default)]
struct DataShape {
    #[serde(default)]
    params: Vec<Pair>,
    #[serde(default)]
    tags: Vec<Pair>,
    #[serde(default)]
    metrics: Vec<MetricShape>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Pair {
    pub key: String,
    #[serde(default)]
    pub value: String,
}

#[derive(Deserialize)]
pub(crate) struct MetricShape {
    key: String,
    #[serde(default)]
    value: Value,
    #[serde(default, deserialize_with = "whole")]
    timestamp: Option<i64>,
    #[serde(default, deserialize_with = "whole")]
    step: Option<i64>,
}

impl MetricShape {
    pub fn point(&self) -> Point {
        Point {
            value: number(&self.value),
            timestamp_ms: self.timestamp.unwrap_or(0),
            step: self.step.unwrap_or(0),
        }
    }
}

impl From<RunShape> for Tracked {
    fn from(shape: RunShape) -> Self {
        let RunShape { info, data, inputs } = shape;
        let pairs = |pairs: Vec<Pair>| pairs.into_iter().map(|it| (it.key, it.value)).collect();
        let metrics = data.metrics.into_iter().map(|it| {
            let point = it.point();
            (it.key, point)
        });
        let mut metrics: BTreeMap<String, Point> = metrics.collect();
        let changed = metrics.remove(CHANGED);
        Self {
            run_id: info.run_id,
            experiment_id: info.experiment_id,
            name: info.run_name,
            // An unknown status does not count as finished.
            status: RunStatus::parse(&info.status).unwrap_or(RunStatus::Running),
            start_time_ms: info.start_time.unwrap_or(0),
            end_time_ms: info.end_time,
            artifact_uri: info.artifact_uri,
            is_active: info.lifecycle_stage != "deleted",
            params: pairs(data.params),
            tags: pairs(data.tags),
            metrics,
            datasets: inputs.dataset_inputs,
            changed_ms: changed.map(|it| it.value),
        }
    }
}

impl From<Run> for Tracked {
    /// A run of a copy on this machine, whose files and points are not needed.
    fn from(run: Run) -> Self {
        let point = |(key, value)| {
            let point = Point {
                value,
                timestamp_ms: 0,
                step: 0,
            };
            (key, point)
        };
        Self {
            run_id: run.run_id,
            experiment_id: String::new(),
            name: run.name,
            status: run.status,
            start_time_ms: run.start_time_ms,
            end_time_ms: run.end_time_ms,
            artifact_uri: String::new(),
            is_active: true,
            params: run.params.into_iter().collect(),
            tags: run.tags.into_iter().collect(),
            metrics: run.metrics.into_iter().map(point).collect(),
            datasets: Vec::new(),
            changed_ms: None,
        }
    }
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    })
}

/// A metric's value. A missing one is zero, because MLflow omits zeros.
fn number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Value::String(text) => match text.as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            other => other.parse().unwrap_or(f64::NAN),
        },
        _ => 0.0,
    }
}

/// A metric's value in the API's encoding.
pub(crate) fn number_json(value: f64) -> Value {
    if value.is_nan() {
        json!("NaN")
    } else if value.is_infinite() {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(value)
    }
}

#[derive(Deserialize)]
pub(crate) struct RunAnswer {
    pub run: Tracked,
}

#[derive(Deserialize)]
pub(crate) struct RunsAnswer {
    #[serde(default)]
    pub runs: Vec<Tracked>,
    #[serde(default)]
    pub next_page_token: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Experiment {
    #[serde(rename = "experiment_id")]
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub lifecycle_stage: String,
    #[serde(default, deserialize_with = "whole")]
    pub creation_time: Option<i64>,
    #[serde(default, deserialize_with = "whole")]
    pub last_update_time: Option<i64>,
    #[serde(default)]
    pub tags: Vec<Pair>,
}

#[derive(Deserialize)]
pub(crate) struct ExperimentAnswer {
    pub experiment: Experiment,
}

#[derive(Deserialize)]
pub(crate) struct ExperimentsAnswer {
    #[serde(default)]
    pub experiments: Vec<Experiment>,
    #[serde(default)]
    pub next_page_token: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct CreatedExperiment {
    pub experiment_id: String,
}

#[derive(Deserialize)]
pub(crate) struct FilesAnswer {
    #[serde(default)]
    pub files: Vec<FileShape>,
}

#[derive(Deserialize)]
pub(crate) struct FileShape {
    pub path: String,
    #[serde(default)]
    pub is_dir: bool,
    #[serde(default, deserialize_with = "whole")]
    pub file_size: Option<i64>,
}

#[derive(Deserialize)]
pub(crate) struct HistoryAnswer {
    #[serde(default)]
    pub metrics: Vec<MetricShape>,
    #[serde(default)]
    pub next_page_token: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ModelsAnswer {
    #[serde(default)]
    pub models: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    pub next_page_token: Option<String>,
}

/// An empty response.
#[derive(Deserialize)]
pub(crate) struct Nothing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_however_numbers_are_written() {
        let run: Tracked = serde_json::from_value(json!({
            "info": {"run_uuid": "r", "run_id": "r", "experiment_id": "1", "status": "FINISHED",
                     "start_time": "5", "end_time": 6, "lifecycle_stage": "active"},
            "data": {"metrics": [{"key": "a", "value": "NaN", "timestamp": "7"},
                                 {"key": "b", "value": "-Infinity"}, {"key": "c"}],
                     "tags": [{"key": "t"}]},
        }))
        .unwrap();
        assert_eq!((run.start_time_ms, run.end_time_ms), (5, Some(6)));
        assert!(run.metric("a").is_some_and(f64::is_nan) && run.metrics["a"].timestamp_ms == 7);
        assert_eq!(run.metric("b"), Some(f64::NEG_INFINITY));
        assert_eq!((run.metric("c"), run.tag("t")), (Some(0.0), Some("")));
        assert!(run.is_active && run.status == RunStatus::Finished);
    }
}
