//! Operations under `logged-models/`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{
    DatasetRef, Entry, ModelOrder, ModelSearch, ModelStatus, NewLoggedModel,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::artifacts::listed;
use super::fields::{Id, Paging, page};
use super::{ApiError, ApiResult};

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    experiment_id: Id,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    model_type: String,
    #[serde(default)]
    source_run_id: String,
    #[serde(default)]
    params: Vec<Entry>,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn create(mlflow: Mlflow<'_>, request: Create) -> ApiResult<Value> {
    let made = mlflow.logged_model_create(NewLoggedModel {
        experiment_id: request.experiment_id.0,
        name: request.name.filter(|it| !it.is_empty()),
        model_type: request.model_type,
        source_run_id: request.source_run_id,
        params: request.params,
        tags: request.tags,
    })?;
    Ok(json!({"model": made}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Get {
    model_id: String,
    #[serde(default)]
    allow_deleted: String,
}

pub(crate) fn get(mlflow: Mlflow<'_>, request: Get) -> ApiResult<Value> {
    let also_deleted = request.allow_deleted.eq_ignore_ascii_case("true");
    let found = mlflow.logged_model_get(&request.model_id, also_deleted)?;
    Ok(json!({"model": found}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Finalize {
    model_id: String,
    status: Id,
}

pub(crate) fn finalize(mlflow: Mlflow<'_>, request: Finalize) -> ApiResult<Value> {
    let named = |(number, status): &(usize, ModelStatus)| {
        status.name() == request.status.0 || number.to_string() == request.status.0
    };
    let status = ModelStatus::ALL.into_iter().enumerate().find(named);
    let Some((_, status)) = status else {
        return Err(ApiError::invalid(format!(
            "'{}' is not a valid status of a logged model: use LOGGED_MODEL_PENDING, LOGGED_MODEL_READY or \
             LOGGED_MODEL_UPLOAD_FAILED",
            request.status.0
        )));
    };
    let changed = mlflow.logged_model_finalize(&request.model_id, status)?;
    Ok(json!({"model": changed}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Params {
    model_id: String,
    #[serde(default)]
    params: Vec<Entry>,
}

pub(crate) fn params_log(mlflow: Mlflow<'_>, request: Params) -> ApiResult<Value> {
    mlflow.logged_model_params_log(&request.model_id, request.params)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tags {
    model_id: String,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn tags_set(mlflow: Mlflow<'_>, request: Tags) -> ApiResult<Value> {
    mlflow.logged_model_tags_set(&request.model_id, request.tags)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    model_id: String,
    tag_key: String,
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.logged_model_tag_delete(&request.model_id, &request.tag_key)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    model_id: String,
}

pub(crate) fn delete(mlflow: Mlflow<'_>, request: ById) -> ApiResult<Value> {
    mlflow.logged_model_delete(&request.model_id)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Files {
    model_id: String,
    #[serde(default)]
    artifact_directory_path: String,
}

/// Paths in the response are relative to the model's root.
pub(crate) fn files(mlflow: Mlflow<'_>, request: Files) -> ApiResult<Value> {
    let root = mlflow.logged_model_get(&request.model_id, false)?;
    let mut response =
        listed(&mlflow.artifact_list(&request.model_id, &request.artifact_directory_path)?);
    response["root_uri"] = root.info.artifact_uri.into();
    Ok(response)
}

#[derive(Debug, Deserialize)]
struct Order {
    field_name: String,
    #[serde(default)]
    ascending: Option<bool>,
    #[serde(flatten)]
    dataset: DatasetRef,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchRequest {
    experiment_ids: Vec<Id>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    datasets: Vec<DatasetRef>,
    #[serde(default)]
    order_by: Vec<Order>,
    #[serde(flatten)]
    paging: Paging,
}

pub(crate) fn search(mlflow: Mlflow<'_>, request: SearchRequest) -> ApiResult<Value> {
    if request.datasets.iter().any(|it| it.dataset_name.is_empty()) {
        return Err(ApiError::invalid(
            "`dataset_name` in the `datasets` clause must be specified.",
        ));
    }
    let orders = request.order_by.into_iter().map(|order| ModelOrder {
        field: order.field_name,
        ascending: order.ascending.unwrap_or(true),
        dataset: order.dataset,
    });
    let found = mlflow.logged_model_search(&ModelSearch {
        experiment_ids: request.experiment_ids.into_iter().map(|it| it.0).collect(),
        filter: request.filter,
        datasets: request.datasets,
        order_by: orders.collect(),
        slice: request.paging.slice(100, 1_000)?,
    })?;
    page("models", found)
}
