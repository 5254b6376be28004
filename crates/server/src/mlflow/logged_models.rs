//! `logged-models/…`

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
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

pub(crate) fn create(mlflow: Mlflow<'_>, ask: Create) -> ApiResult<Value> {
    let made = mlflow.logged_model_create(NewLoggedModel {
        experiment_id: ask.experiment_id.0,
        name: ask.name.filter(|it| !it.is_empty()),
        model_type: ask.model_type,
        source_run_id: ask.source_run_id,
        params: ask.params,
        tags: ask.tags,
    })?;
    Ok(json!({"model": made}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Get {
    model_id: String,
    #[serde(default)]
    allow_deleted: String,
}

pub(crate) fn get(mlflow: Mlflow<'_>, ask: Get) -> ApiResult<Value> {
    let also_deleted = ask.allow_deleted.eq_ignore_ascii_case("true");
    let found = mlflow.logged_model_get(&ask.model_id, also_deleted)?;
    Ok(json!({"model": found}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Finalize {
    model_id: String,
    status: Id,
}

pub(crate) fn finalize(mlflow: Mlflow<'_>, ask: Finalize) -> ApiResult<Value> {
    let named = |(number, status): &(usize, ModelStatus)| {
        status.name() == ask.status.0 || number.to_string() == ask.status.0
    };
    let status = ModelStatus::ALL.into_iter().enumerate().find(named);
    let Some((_, status)) = status else {
        return Err(ApiError::invalid(format!(
            "'{}' is not a valid status of a logged model: use LOGGED_MODEL_PENDING, LOGGED_MODEL_READY or \
             LOGGED_MODEL_UPLOAD_FAILED",
            ask.status.0
        )));
    };
    let changed = mlflow.logged_model_finalize(&ask.model_id, status)?;
    Ok(json!({"model": changed}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Params {
    model_id: String,
    #[serde(default)]
    params: Vec<Entry>,
}

pub(crate) fn params_log(mlflow: Mlflow<'_>, ask: Params) -> ApiResult<Value> {
    mlflow.logged_model_params_log(&ask.model_id, ask.params)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tags {
    model_id: String,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn tags_set(mlflow: Mlflow<'_>, ask: Tags) -> ApiResult<Value> {
    mlflow.logged_model_tags_set(&ask.model_id, ask.tags)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    model_id: String,
    tag_key: String,
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    mlflow.logged_model_tag_delete(&ask.model_id, &ask.tag_key)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    model_id: String,
}

pub(crate) fn delete(mlflow: Mlflow<'_>, ask: ById) -> ApiResult<Value> {
    mlflow.logged_model_delete(&ask.model_id)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Files {
    model_id: String,
    #[serde(default)]
    artifact_directory_path: String,
}

/// Paths are relative to the model's root.
pub(crate) fn files(mlflow: Mlflow<'_>, ask: Files) -> ApiResult<Value> {
    let root = mlflow.logged_model_get(&ask.model_id, false)?;
    let mut answer = listed(&mlflow.artifact_list(&ask.model_id, &ask.artifact_directory_path)?);
    answer["root_uri"] = root.info.artifact_uri.into();
    Ok(answer)
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
pub(crate) struct SearchAsk {
    #[serde(default)]
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

pub(crate) fn search(mlflow: Mlflow<'_>, ask: SearchAsk) -> ApiResult<Value> {
    if ask.datasets.iter().any(|it| it.dataset_name.is_empty()) {
        return Err(ApiError::invalid(
            "`dataset_name` in the `datasets` clause must be specified.",
        ));
    }
    let orders = ask.order_by.into_iter().map(|order| ModelOrder {
        field: order.field_name,
        ascending: order.ascending.unwrap_or(true),
        dataset: order.dataset,
    });
    let found = mlflow.logged_model_search(&ModelSearch {
        experiment_ids: ask.experiment_ids.into_iter().map(|it| it.0).collect(),
        filter: ask.filter,
        datasets: ask.datasets,
        order_by: orders.collect(),
        slice: ask.paging.slice(100, 1_000)?,
    })?;
    page("models", found)
}
