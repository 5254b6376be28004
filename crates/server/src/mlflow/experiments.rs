//! `experiments/…`

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
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

pub(crate) fn create(mlflow: Mlflow<'_>, ask: Create) -> ApiResult<Value> {
    let id = mlflow.experiment_create(&ask.name, ask.artifact_location.as_deref(), &ask.tags)?;
    Ok(json!({"experiment_id": id}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    experiment_id: Id,
}

pub(crate) fn get(mlflow: Mlflow<'_>, ask: ById) -> ApiResult<Value> {
    let experiment = mlflow.experiment_get(&ask.experiment_id.0)?;
    Ok(json!({"experiment": experiment}))
}

pub(crate) fn delete(mlflow: Mlflow<'_>, ask: ById) -> ApiResult<Value> {
    mlflow.experiment_set_deleted(&ask.experiment_id.0, true)?;
    Ok(json!({}))
}

pub(crate) fn restore(mlflow: Mlflow<'_>, ask: ById) -> ApiResult<Value> {
    mlflow.experiment_set_deleted(&ask.experiment_id.0, false)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ByName {
    experiment_name: String,
}

pub(crate) fn get_by_name(mlflow: Mlflow<'_>, ask: ByName) -> ApiResult<Value> {
    let experiment = mlflow.experiment_get_by_name(&ask.experiment_name)?;
    Ok(json!({"experiment": experiment}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Update {
    experiment_id: Id,
    #[serde(default)]
    new_name: Option<String>,
}

pub(crate) fn update(mlflow: Mlflow<'_>, ask: Update) -> ApiResult<Value> {
    let Some(name) = ask.new_name else {
        return Err(ApiError::invalid(
            "Missing value for required parameter 'new_name'",
        ));
    };
    mlflow.experiment_rename(&ask.experiment_id.0, &name)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    experiment_id: Id,
    key: String,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    mlflow.experiment_tag(&ask.experiment_id.0, &ask.key, Some(&ask.value))?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    mlflow.experiment_tag(&ask.experiment_id.0, &ask.key, None)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchAsk {
    #[serde(flatten)]
    paging: Paging,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    order_by: OneOrMore,
    #[serde(default)]
    view_type: Option<String>,
}

pub(crate) fn search(mlflow: Mlflow<'_>, ask: SearchAsk) -> ApiResult<Value> {
    if !ask.paging.is_limited() {
        return Err(ApiError::invalid(
            "Missing value for required parameter 'max_results'",
        ));
    }
    let found = mlflow.experiment_search(&Search {
        filter: ask.filter,
        order_by: ask.order_by.0,
        view: view(ask.view_type.as_deref())?,
        slice: ask.paging.slice(1_000, 50_000)?,
    })?;
    page("experiments", found)
}
