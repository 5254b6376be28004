//! Linking traces to runs and prompts, and deleting them.

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::TraceDeletion;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Id, Int, Required};
use super::traces::info_of;
use super::{ApiError, ApiResult};

/// The largest number of traces that one request links.
const MAX_LINKS: usize = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct RunLinks {
    trace_ids: Vec<String>,
    run_id: Required,
}

/// Like MLflow, unknown traces and runs are accepted.
pub(crate) fn link_to_run(mlflow: Mlflow<'_>, request: RunLinks) -> ApiResult<Value> {
    if request.trace_ids.len() > MAX_LINKS {
        return Err(ApiError::invalid(format!(
            "Cannot link more than {MAX_LINKS} traces to a run in a single request. Provided {} \
             traces.",
            request.trace_ids.len()
        )));
    }
    mlflow.trace_runs_link(request.trace_ids, &request.run_id.0)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct PromptLinks {
    trace_id: Required,
    prompt_versions: Vec<PromptVersion>,
}

#[derive(Debug, Deserialize)]
struct PromptVersion {
    name: Required,
    version: Id,
}

pub(crate) fn link_prompts(mlflow: Mlflow<'_>, request: PromptLinks) -> ApiResult<Value> {
    if request.prompt_versions.is_empty() {
        return Ok(json!({}));
    }
    info_of(mlflow, &request.trace_id.0)?;
    let prompts = request.prompt_versions.into_iter();
    let prompts = prompts.map(|it| format!("{}/{}", it.name.0, it.version.0));
    mlflow.trace_prompts_link(&request.trace_id.0, prompts.collect())?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Deletion {
    experiment_id: Id,
    #[serde(default)]
    max_timestamp_millis: Option<Int>,
    #[serde(default)]
    max_traces: Option<Int>,
    #[serde(default)]
    request_ids: Vec<String>,
}

/// Deletes traces that clients logged. The trace of a collected run is part of its run.
pub(crate) fn delete(mlflow: Mlflow<'_>, request: Deletion) -> ApiResult<Value> {
    let most = request.max_traces.map(|it| it.0);
    let which = match (request.max_timestamp_millis, request.request_ids) {
        (None, ids) if ids.is_empty() => {
            return Err(ApiError::invalid(
                "Either `max_timestamp_millis` or `trace_ids` must be specified.",
            ));
        }
        (Some(_), ids) if !ids.is_empty() => {
            return Err(ApiError::invalid(
                "Only one of `max_timestamp_millis` and `trace_ids` can be specified.",
            ));
        }
        (None, _) if most.is_some() => {
            return Err(ApiError::invalid(
                "`max_traces` can't be specified if `trace_ids` is specified.",
            ));
        }
        (None, ids) => TraceDeletion::Ids(ids),
        (Some(until), _) => {
            if let Some(most) = most.filter(|it| *it <= 0) {
                return Err(ApiError::invalid(format!(
                    "`max_traces` must be a positive integer, received {most}."
                )));
            }
            let most = most.map(|it| u32::try_from(it).unwrap_or(u32::MAX));
            TraceDeletion::Until(until.0, most)
        }
    };
    let deleted = mlflow.trace_delete(&request.experiment_id.0, which)?;
    Ok(json!({"traces_deleted": deleted}))
}
