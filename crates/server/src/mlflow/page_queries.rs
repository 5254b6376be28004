//! The GraphQL queries that MLflow's pages send: an experiment, and a run.
//!
//! This is not an implementation of GraphQL: the pages send fixed queries, which are known by their
//! names. Anything else is refused.

use assize_domain::error_kind::ErrorKind;
use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, Experiment, LoggedRun, ModelVersion, Search, Slice, View};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiError, ApiResult};

/// The largest number of model versions of a run in a response.
const MAX_VERSIONS: u32 = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct Query {
    #[serde(default, rename = "operationName")]
    name: String,
    #[serde(default)]
    variables: Value,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]
pub(crate) fn answer(mlflow: Mlflow<'_>, query: Query) -> ApiResult<Value> {
    let text = |pointer: &str| query.variables.pointer(pointer).and_then(Value::as_str);
    match query.name.as_str() {
        "MlflowGetExperimentQuery" => {
            let id = text("/input/experimentId").unwrap_or_default();
            let (found, error) = found(mlflow.experiment_get(id))?;
            Ok(json!({"data": {"mlflowGetExperiment": {
                "__typename": "MlflowGetExperimentResponse",
                "apiError": error,
                "experiment": found.as_ref().map(experiment),
            }}, "errors": null}))
        }
        "GetRun" => {
            let id = text("/data/runId").unwrap_or_default();
            let (found, error) = found(mlflow.run_get(id))?;
            let run = match &found {
                Some(found) => Some(run(mlflow, found)?),
                None => None,
            };
            Ok(json!({"data": {"mlflowGetRun": {
                "__typename": "MlflowGetRunResponse",
                "apiError": error,
                "run": run,
            }}, "errors": null}))
        }
        other => Err(ApiError::not_implemented(&format!(
            "the GraphQL query '{other}' is not supported"
        ))),
    }
}

/// What was found, or the error that the page shows.
fn found<T>(outcome: Result<T, assize_store::StoreError>) -> ApiResult<(Option<T>, Value)> {
    match outcome.map_err(ApiError::from) {
        Ok(found) => Ok((Some(found), Value::Null)),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::InvalidInput) => Ok((
            None,
            json!({
                "__typename": "ApiError",
                "code": error.kind.report().code,
                "helpUrl": null,
                "message": error.message,
            }),
        )),
        Err(error) => Err(error),
    }
}

fn experiment(it: &Experiment) -> Value {
    json!({
        "__typename": "MlflowExperiment",
        "artifactLocation": it.artifact_location,
        "creationTime": it.creation_time.to_string(),
        "effectiveTraceArchivalRetention": "",
        "experimentId": it.experiment_id,
        "lastUpdateTime": it.last_update_time.to_string(),
        "lifecycleStage": it.lifecycle_stage,
        "name": it.name,
        "tags": entries("MlflowExperimentTag", &it.tags),
    })
}

fn entries(kind: &str, entries: &[Entry]) -> Vec<Value> {
    let entries = entries.iter();
    let entries = entries.map(|it| json!({"__typename": kind, "key": it.key, "value": it.value}));
    entries.collect()
}

fn run(mlflow: Mlflow<'_>, run: &LoggedRun) -> ApiResult<Value> {
    let info = &run.info;
    let in_experiment = mlflow.experiment_get(&info.experiment_id)?;
    let versions = mlflow.version_search(&Search {
        filter: format!("run_id = '{}'", info.run_id),
        order_by: Vec::new(),
        view: View::All,
        slice: Slice {
            max_results: MAX_VERSIONS,
            offset: 0,
        },
    })?;
    Ok(json!({
        "__typename": "MlflowRunExtension",
        "info": {
            "__typename": "MlflowRunInfo",
            "runName": info.run_name,
            "status": info.status,
            "runUuid": info.run_id,
            "experimentId": info.experiment_id,
            "artifactUri": info.artifact_uri,
            "endTime": info.end_time.map(|it| it.to_string()),
            "lifecycleStage": info.lifecycle_stage,
            "startTime": info.start_time.to_string(),
            "userId": info.user_id,
        },
        "experiment": experiment(&in_experiment),
        "modelVersions": versions.items.iter().map(version).collect::<Vec<_>>(),
        "data": data(run),
        "inputs": inputs(run),
        "outputs": {
            "__typename": "MlflowRunOutputs",
            "modelOutputs": run.outputs.model_outputs.iter().map(|it| json!({
                "__typename": "MlflowModelOutput",
                "modelId": it.model_id,
                "step": it.step.unwrap_or(0).to_string(),
            })).collect::<Vec<_>>(),
        },
    }))
}

fn version(it: &ModelVersion) -> Value {
    json!({
        "__typename": "MlflowModelVersion",
        "status": it.status,
        "version": it.version,
        "name": it.name,
        "source": it.source,
    })
}

fn data(run: &LoggedRun) -> Value {
    let metrics = run.data.metrics.iter().map(|it| {
        json!({
            "__typename": "MlflowMetricExtension",
            "key": it.key,
            // JSON has no NaN and no infinities, and the pages expect a number or nothing.
            "value": it.value,
            "step": it.step.to_string(),
            "timestamp": it.timestamp.to_string(),
        })
    });
    json!({
        "__typename": "MlflowRunData",
        "metrics": metrics.collect::<Vec<_>>(),
        "params": entries("MlflowParam", &run.data.params),
        "tags": entries("MlflowRunTag", &run.data.tags),
    })
}

fn inputs(run: &LoggedRun) -> Value {
    let datasets = run.inputs.dataset_inputs.iter().map(|it| {
        json!({
            "__typename": "MlflowDatasetInput",
            "dataset": {
                "__typename": "MlflowDataset",
                "digest": it.dataset.digest,
                "name": it.dataset.name,
                "profile": it.dataset.profile,
                "schema": it.dataset.schema,
                "source": it.dataset.source,
                "sourceType": it.dataset.source_type,
            },
            "tags": entries("MlflowInputTag", &it.tags),
        })
    });
    let models = run.inputs.model_inputs.iter();
    let models = models.map(|it| json!({"__typename": "MlflowModelInput", "modelId": it.model_id}));
    json!({
        "__typename": "MlflowRunInputs",
        "datasetInputs": datasets.collect::<Vec<_>>(),
        "modelInputs": models.collect::<Vec<_>>(),
    })
}
