//! Operations under `experiments/`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, Search};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Id, OneOrMore, Paging, page, view};
use super::{ApiError, ApiResult};

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    name: String,
    #[serde(default)]
    artifact_location: Option<String>,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn create(mlflow: Mlflow<'_>, request: Create) -> ApiResult<Value> {
    let id = mlflow.experiment_create(
        &request.name,
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
    experiment_name: String,
}

pub(crate) fn get_by_name(mlflow: Mlflow<'_>, request: ByName) -> ApiResult<Value> {
    let experiment = mlflow.experiment_get_by_name(&request.experiment_name)?;
    Ok(json!({"experiment": experiment}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Update {
    experiment_id: Id,
    #[serde(default)]
    new_name: Option<String>,
}

pub(crate) fn update(mlflow: Mlflow<'_>, request: Update) -> ApiResult<Value> {
    let Some(name) = request.new_name else {
        return Err(ApiError::invalid(
            "Missing value for required parameter 'new_name'",
        ));
    };
    mlflow.experiment_rename(&request.experiment_id.0, &name)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    experiment_id: Id,
    key: String,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.experiment_tag(&request.experiment_id.0, &request.key, Some(&request.value))?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.experiment_tag(&request.experiment_id.0, &request.key, None)?;
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
    if !request.paging.is_limited() {
        return Err(ApiError::invalid(
            "Missing value for required parameter 'max_results'",
        ));
    }
    let found = mlflow.experiment_search(&Search {
        filter: request.filter,
        order_by: request.order_by.0,
        view: view(request.view_type.as_deref())?,
        slice: request.paging.slice(1_000, 50_000)?,
    })?;
    page("experiments", found)
}
