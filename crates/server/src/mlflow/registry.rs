//! Operations under `registered-models/` and `model-versions/`. Prompts are registered models.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, NewVersion, Search, View};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Id, OneOrMore, Paging, Required, page};
use super::mistakes::missing;
use super::{ApiError, ApiResult};

/// A request about a registered model.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    name: Required,
    #[serde(default)]
    new_name: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn create(mlflow: Mlflow<'_>, request: Model) -> ApiResult<Value> {
    let made = mlflow.model_create(&request.name.0, &request.description, &request.tags)?;
    Ok(json!({"registered_model": made}))
}

pub(crate) fn get(mlflow: Mlflow<'_>, request: Model) -> ApiResult<Value> {
    Ok(json!({"registered_model": mlflow.model_get(&request.name.0)?}))
}

pub(crate) fn update(mlflow: Mlflow<'_>, request: Model) -> ApiResult<Value> {
    let changed = mlflow.model_update(&request.name.0, &request.description)?;
    Ok(json!({"registered_model": changed}))
}

pub(crate) fn rename(mlflow: Mlflow<'_>, request: Model) -> ApiResult<Value> {
    let Some(new_name) = request.new_name else {
        return Err(missing("new_name"));
    };
    let changed = mlflow.model_rename(&request.name.0, &new_name)?;
    Ok(json!({"registered_model": changed}))
}

pub(crate) fn delete(mlflow: Mlflow<'_>, request: Model) -> ApiResult<Value> {
    mlflow.model_delete(&request.name.0)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LatestRequest {
    name: Required,
    #[serde(default)]
    stages: OneOrMore,
}

/// The latest versions. All versions are in the stage `None`, because stages cannot be changed.
pub(crate) fn latest(mlflow: Mlflow<'_>, request: LatestRequest) -> ApiResult<Value> {
    let mut latest = mlflow.model_get(&request.name.0)?.latest_versions;
    let mut includes_none_stage = request.stages.0.is_empty();
    for stage in &request.stages.0 {
        match stage.to_ascii_lowercase().as_str() {
            "none" => includes_none_stage = true,
            "staging" | "production" | "archived" => {}
            _ => {
                return Err(ApiError::invalid(format!(
                    "Invalid Model Version stage: {stage}. Value must be one of None, Staging, \
                     Production, Archived."
                )));
            }
        }
    }
    if !includes_none_stage {
        latest.clear();
    }
    Ok(json!({"model_versions": latest}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchRequest {
    #[serde(default)]
    filter: String,
    #[serde(default)]
    order_by: OneOrMore,
    #[serde(flatten)]
    paging: Paging,
}

impl SearchRequest {
    fn search(self, default: u32, most: u32) -> ApiResult<Search> {
        Ok(Search {
            slice: self.paging.slice(default, most)?,
            filter: self.filter,
            order_by: self.order_by.0,
            view: View::All,
        })
    }
}

pub(crate) fn search(mlflow: Mlflow<'_>, request: SearchRequest) -> ApiResult<Value> {
    let found = mlflow.model_search(&request.search(100, 1_000)?)?;
    page("registered_models", found)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    name: Required,
    #[serde(default)]
    version: Option<Id>,
    key: Required,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.model_tag(&request.name.0, &request.key.0, Some(&request.value))?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.model_tag(&request.name.0, &request.key.0, None)?;
    Ok(json!({}))
}

pub(crate) fn version_tag_set(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    let version = request.version.ok_or_else(|| missing("version"))?.0;
    mlflow.version_tag(
        &request.name.0,
        &version,
        &request.key.0,
        Some(&request.value),
    )?;
    Ok(json!({}))
}

pub(crate) fn version_tag_delete(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    let version = request.version.ok_or_else(|| missing("version"))?.0;
    mlflow.version_tag(&request.name.0, &version, &request.key.0, None)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct AliasRequest {
    name: Required,
    alias: Required,
    #[serde(default)]
    version: Option<Id>,
}

pub(crate) fn alias_set(mlflow: Mlflow<'_>, request: AliasRequest) -> ApiResult<Value> {
    let version = request.version.ok_or_else(|| missing("version"))?.0;
    mlflow.model_alias(&request.name.0, &request.alias.0, Some(&version))?;
    Ok(json!({}))
}

pub(crate) fn alias_delete(mlflow: Mlflow<'_>, request: AliasRequest) -> ApiResult<Value> {
    mlflow.model_alias(&request.name.0, &request.alias.0, None)?;
    Ok(json!({}))
}

pub(crate) fn alias_get(mlflow: Mlflow<'_>, request: AliasRequest) -> ApiResult<Value> {
    let found = mlflow.version_by_alias(&request.name.0, &request.alias.0)?;
    Ok(json!({"model_version": found}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    name: Required,
    source: Required,
    #[serde(default)]
    description: String,
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    run_link: String,
    #[serde(default)]
    tags: Vec<Entry>,
    #[serde(default)]
    model_id: String,
}

pub(crate) fn version_create(mlflow: Mlflow<'_>, request: Create) -> ApiResult<Value> {
    let made = mlflow.version_create(NewVersion {
        name: request.name.0,
        source: request.source.0,
        description: request.description,
        run_id: request.run_id,
        run_link: request.run_link,
        model_id: request.model_id,
        tags: request.tags,
    })?;
    Ok(json!({"model_version": made}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct VersionRequest {
    name: Required,
    version: Id,
    #[serde(default)]
    description: String,
}

pub(crate) fn version_get(mlflow: Mlflow<'_>, request: VersionRequest) -> ApiResult<Value> {
    let found = mlflow.version_get(&request.name.0, &request.version.0)?;
    Ok(json!({"model_version": found}))
}

pub(crate) fn version_update(mlflow: Mlflow<'_>, request: VersionRequest) -> ApiResult<Value> {
    let changed =
        mlflow.version_update(&request.name.0, &request.version.0, &request.description)?;
    Ok(json!({"model_version": changed}))
}

pub(crate) fn version_delete(mlflow: Mlflow<'_>, request: VersionRequest) -> ApiResult<Value> {
    mlflow.version_delete(&request.name.0, &request.version.0)?;
    Ok(json!({}))
}

pub(crate) fn version_source(mlflow: Mlflow<'_>, request: VersionRequest) -> ApiResult<Value> {
    let found = mlflow.version_get(&request.name.0, &request.version.0)?;
    Ok(json!({"artifact_uri": found.source}))
}

pub(crate) fn version_search(mlflow: Mlflow<'_>, request: SearchRequest) -> ApiResult<Value> {
    let found = mlflow.version_search(&request.search(10_000, 200_000)?)?;
    page("model_versions", found)
}
