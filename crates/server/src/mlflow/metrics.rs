//! Operations under `metrics/` that cover several runs.

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{HistorySample, RunPoint, Slice};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Int, OneOrMore, Required};
use super::mistakes::missing;
use super::{ApiError, ApiResult};

/// The largest number of points of [`history_bulk`], and of runs of one request.
const MAX_POINTS: u32 = 25_000;
const MAX_RUNS: usize = 100;
/// The largest number of points of each run in [`history_sample`].
const MAX_SAMPLE: u32 = 2_500;

#[derive(Debug, Deserialize)]
pub(crate) struct Bulk {
    #[serde(default)]
    run_id: OneOrMore,
    #[serde(default)]
    metric_key: Option<String>,
    #[serde(default)]
    max_results: Option<Int>,
}

/// All points of a metric of several runs, sorted by run id.
pub(crate) fn history_bulk(mlflow: Mlflow<'_>, request: Bulk) -> ApiResult<Value> {
    let mut run_ids = request.run_id.0;
    if run_ids.is_empty() {
        return Err(ApiError::invalid(
            "GetMetricHistoryBulk request must specify at least one run_id.",
        ));
    }
    if run_ids.len() > MAX_RUNS {
        return Err(ApiError::invalid(format!(
            "GetMetricHistoryBulk request cannot specify more than {MAX_RUNS} run_ids. Received \
             {} run_ids.",
            run_ids.len()
        )));
    }
    let Some(key) = request.metric_key else {
        return Err(ApiError::invalid(
            "GetMetricHistoryBulk request must specify a metric_key.",
        ));
    };
    let given = request.max_results.map_or(i64::from(MAX_POINTS), |it| it.0);
    let mut left = u32::try_from(given.max(0)).map_or(MAX_POINTS, |it| it.min(MAX_POINTS));
    run_ids.sort_unstable();
    run_ids.dedup();
    let mut metrics = Vec::new();
    for run_id in run_ids {
        if left == 0 {
            break;
        }
        let slice = Slice {
            max_results: left,
            offset: 0,
        };
        let found = mlflow.metric_history(&run_id, &key, slice)?.items;
        left -= u32::try_from(found.len()).unwrap_or(left);
        metrics.extend(found.into_iter().map(|point| RunPoint {
            point,
            run_id: run_id.clone(),
        }));
    }
    Ok(json!({"metrics": metrics}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Sample {
    #[serde(default)]
    run_ids: OneOrMore,
    metric_key: Required,
    #[serde(default)]
    start_step: Option<Int>,
    #[serde(default)]
    end_step: Option<Int>,
    #[serde(default)]
    max_results: Option<Int>,
}

/// Evenly spread points of a metric of several runs, for charts.
pub(crate) fn history_sample(mlflow: Mlflow<'_>, request: Sample) -> ApiResult<Value> {
    let run_ids = request.run_ids.0;
    if run_ids.is_empty() {
        return Err(missing("run_ids"));
    }
    if run_ids.len() > MAX_RUNS {
        return Err(ApiError::invalid(format!(
            "GetMetricHistoryBulkInterval request must specify at most {MAX_RUNS} run_ids. \
             Received {} run_ids.",
            run_ids.len()
        )));
    }
    let given = request.max_results.map_or(i64::from(MAX_SAMPLE), |it| it.0);
    let max_results = u32::try_from(given).ok();
    let Some(max_results) = max_results.filter(|it| (1..=MAX_SAMPLE).contains(it)) else {
        return Err(ApiError::invalid(format!(
            "max_results must be between 1 and {MAX_SAMPLE}. See the API docs for more \
             information about request parameters."
        )));
    };
    let steps = match (request.start_step, request.end_step) {
        (None, None) => None,
        (Some(start), Some(end)) if start.0 > end.0 => {
            return Err(ApiError::invalid(format!(
                "end_step must be greater than start_step. Found start_step={} and end_step={}.",
                start.0, end.0
            )));
        }
        (Some(start), Some(end)) => Some((start.0, end.0)),
        _ => {
            return Err(ApiError::invalid(
                "If either start step or end step are specified, both must be specified.",
            ));
        }
    };
    let sample = HistorySample { max_results, steps };
    let metrics = mlflow.metric_history_sample(&run_ids, &request.metric_key.0, sample)?;
    Ok(if metrics.is_empty() {
        json!({})
    } else {
        json!({"metrics": metrics})
    })
}
