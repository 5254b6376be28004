//! Operations under `experiments/`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, Search};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Id, OneOrMore, Paging, Required, page, view};
use super::{ApiError, ApiResult};

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    name: Required,
    #[serde(default)]
    artifact_location: Option<String>,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn create(mlflow: Mlflow<'_>, request: Create) -> ApiResult<Value> {
    let id = mlflow.experiment_create(
        &request.name.0,
        request.artifact_location.as_deref(),
        &request.tags,
    )?;
    Ok(json!({"experiment_id": id}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    experiment_id: Id,
}

pub(crate) fn get(mlflow: Mlflow<'_>, request: ById) -> ApiResult<Value> {
    let experiment = mlflow.experiment_get(&request.experiment_id.0)?;
    Ok(json!({"experiment": experiment}))
}

pub(crate) fn delete(mlflow: Mlflow<'_>, request: ById) -> ApiResult<Value> {
    mlflow.experiment_set_deleted(&request.experiment_id.0, true)?;
    Ok(json!({}))
}

pub(crate) fn restore(mlflow: Mlflow<'_>, request: ById) -> ApiResult<Value> {
    mlflow.experiment_set_deleted(&request.experiment_id.0, false)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ByName {
    experiment_name: Required,
}

pub(crate) fn get_by_name(mlflow: Mlflow<'_>, request: ByName) -> ApiResult<Value> {
    let experiment = mlflow.experiment_get_by_name(&request.experiment_name.0)?;
    Ok(json!({"experiment": experiment}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Update {
    experiment_id: Id,
    new_name: Required,
}

pub(crate) fn update(mlflow: Mlflow<'_>, request: Update) -> ApiResult<Value> {
    mlflow.experiment_rename(&request.experiment_id.0, &request.new_name.0)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    experiment_id: Id,
    key: Required,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.experiment_tag(
        &request.experiment_id.0,
        &request.key.0,
        Some(&request.value),
    )?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.experiment_tag(&request.experiment_id.0, &request.key.0, None)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchRequest {
    #[serde(flatten)]
    paging: Paging,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    order_by: OneOrMore,
    #[serde(default)]
    view_type: Option<String>,
}

pub(crate) fn search(mlflow: Mlflow<'_>, request: SearchRequest) -> ApiResult<Value> {
    let found = mlflow.experiment_search(&Search {
        filter: request.filter,
        order_by: request.order_by.0,
        view: view(request.view_type.as_deref())?,
        // Required: a request without it is refused like one with 0.
        slice: request.paging.slice(0, 50_000)?,
    })?;
    page("experiments", found)
}

/// The largest number of experiments of one request, and of datasets in its response.
const MAX_EXPERIMENTS: usize = 20;
const MAX_DATASETS: u32 = 1_000;

#[derive(Debug, Deserialize)]
pub(crate) struct DatasetSearch {
    #[serde(default)]
    experiment_ids: Value,
}

/// The datasets of experiments. MLflow serves this to its own pages only.
pub(crate) fn search_datasets(mlflow: Mlflow<'_>, request: DatasetSearch) -> ApiResult<Value> {
    let ids: Vec<Id> = serde_json::from_value(request.experiment_ids).unwrap_or_default();
    if ids.is_empty() {
        return Err(ApiError::invalid(
            "SearchDatasets request must specify at least one experiment_id.",
        ));
    }
    if ids.len() > MAX_EXPERIMENTS {
        return Err(ApiError::invalid(format!(
            "SearchDatasets request cannot specify more than {MAX_EXPERIMENTS} experiment_ids. \
             Received {} experiment_ids.",
            ids.len()
        )));
    }
    let ids: Vec<String> = ids.into_iter().map(|it| it.0).collect();
    let found = mlflow.dataset_summaries(&ids, MAX_DATASETS)?;
    Ok(if found.is_empty() {
        json!({})
    } else {
        json!({"dataset_summaries": found})
    })
}
