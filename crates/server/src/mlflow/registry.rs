//! `registered-models/…` and `model-versions/…`: prompts are registered models too.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, NewVersion, Search, View};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Id, OneOrMore, Paging, page};
use super::{ApiError, ApiResult};

/// A registered model, and what a request says of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    name: String,
    #[serde(default)]
    new_name: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn create(mlflow: Mlflow<'_>, ask: Model) -> ApiResult<Value> {
    let made = mlflow.model_create(&ask.name, &ask.description, &ask.tags)?;
    Ok(json!({"registered_model": made}))
}

pub(crate) fn get(mlflow: Mlflow<'_>, ask: Model) -> ApiResult<Value> {
    Ok(json!({"registered_model": mlflow.model_get(&ask.name)?}))
}

pub(crate) fn update(mlflow: Mlflow<'_>, ask: Model) -> ApiResult<Value> {
    let changed = mlflow.model_update(&ask.name, &ask.description)?;
    Ok(json!({"registered_model": changed}))
}

pub(crate) fn rename(mlflow: Mlflow<'_>, ask: Model) -> ApiResult<Value> {
    let Some(new_name) = ask.new_name else {
        return Err(ApiError::invalid(
            "Missing value for required parameter 'new_name'",
        ));
    };
    let changed = mlflow.model_rename(&ask.name, &new_name)?;
    Ok(json!({"registered_model": changed}))
}

pub(crate) fn delete(mlflow: Mlflow<'_>, ask: Model) -> ApiResult<Value> {
    mlflow.model_delete(&ask.name)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LatestAsk {
    name: String,
    #[serde(default)]
    stages: OneOrMore,
}

/// Versions are never moved to another stage than the first, `None`.
pub(crate) fn latest(mlflow: Mlflow<'_>, ask: LatestAsk) -> ApiResult<Value> {
    let mut latest = mlflow.model_get(&ask.name)?.latest_versions;
    let mut asks_for_first = ask.stages.0.is_empty();
    for stage in &ask.stages.0 {
        match stage.to_ascii_lowercase().as_str() {
            "none" => asks_for_first = true,
            "staging" | "production" | "archived" => {}
            _ => {
                return Err(ApiError::invalid(format!(
                    "Invalid Model Version stage: {stage}. Value must be one of None, Staging, \
                     Production, Archived."
                )));
            }
        }
    }
    if !asks_for_first {
        latest.clear();
    }
    Ok(json!({"model_versions": latest}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchAsk {
    #[serde(default)]
    filter: String,
    #[serde(default)]
    order_by: OneOrMore,
    #[serde(flatten)]
    paging: Paging,
}

impl SearchAsk {
    fn search(self, default: u32, most: u32) -> ApiResult<Search> {
        Ok(Search {
            slice: self.paging.slice(default, most)?,
            filter: self.filter,
            order_by: self.order_by.0,
            view: View::All,
        })
    }
}

pub(crate) fn search(mlflow: Mlflow<'_>, ask: SearchAsk) -> ApiResult<Value> {
    let found = mlflow.model_search(&ask.search(100, 1_000)?)?;
    page("registered_models", found)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    name: String,
    #[serde(default)]
    version: Option<Id>,
    key: String,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    mlflow.model_tag(&ask.name, &ask.key, Some(&ask.value))?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    mlflow.model_tag(&ask.name, &ask.key, None)?;
    Ok(json!({}))
}

pub(crate) fn version_tag_set(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    let version = ask.version.unwrap_or_default().0;
    mlflow.version_tag(&ask.name, &version, &ask.key, Some(&ask.value))?;
    Ok(json!({}))
}

pub(crate) fn version_tag_delete(mlflow: Mlflow<'_>, ask: Tag) -> ApiResult<Value> {
    let version = ask.version.unwrap_or_default().0;
    mlflow.version_tag(&ask.name, &version, &ask.key, None)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct AliasAsk {
    name: String,
    alias: String,
    #[serde(default)]
    version: Option<Id>,
}

pub(crate) fn alias_set(mlflow: Mlflow<'_>, ask: AliasAsk) -> ApiResult<Value> {
    let version = ask.version.unwrap_or_default().0;
    mlflow.model_alias(&ask.name, &ask.alias, Some(&version))?;
    Ok(json!({}))
}

pub(crate) fn alias_delete(mlflow: Mlflow<'_>, ask: AliasAsk) -> ApiResult<Value> {
    mlflow.model_alias(&ask.name, &ask.alias, None)?;
    Ok(json!({}))
}

pub(crate) fn alias_get(mlflow: Mlflow<'_>, ask: AliasAsk) -> ApiResult<Value> {
    let found = mlflow.version_by_alias(&ask.name, &ask.alias)?;
    Ok(json!({"model_version": found}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    name: String,
    source: String,
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

pub(crate) fn version_create(mlflow: Mlflow<'_>, ask: Create) -> ApiResult<Value> {
    let made = mlflow.version_create(NewVersion {
        name: ask.name,
        source: ask.source,
        description: ask.description,
        run_id: ask.run_id,
        run_link: ask.run_link,
        model_id: ask.model_id,
        tags: ask.tags,
    })?;
    Ok(json!({"model_version": made}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct VersionAsk {
    name: String,
    version: Id,
    #[serde(default)]
    description: String,
}

pub(crate) fn version_get(mlflow: Mlflow<'_>, ask: VersionAsk) -> ApiResult<Value> {
    let found = mlflow.version_get(&ask.name, &ask.version.0)?;
    Ok(json!({"model_version": found}))
}

pub(crate) fn version_update(mlflow: Mlflow<'_>, ask: VersionAsk) -> ApiResult<Value> {
    let changed = mlflow.version_update(&ask.name, &ask.version.0, &ask.description)?;
    Ok(json!({"model_version": changed}))
}

pub(crate) fn version_delete(mlflow: Mlflow<'_>, ask: VersionAsk) -> ApiResult<Value> {
    mlflow.version_delete(&ask.name, &ask.version.0)?;
    Ok(json!({}))
}

pub(crate) fn version_source(mlflow: Mlflow<'_>, ask: VersionAsk) -> ApiResult<Value> {
    let found = mlflow.version_get(&ask.name, &ask.version.0)?;
    Ok(json!({"artifact_uri": found.source}))
}

pub(crate) fn version_search(mlflow: Mlflow<'_>, ask: SearchAsk) -> ApiResult<Value> {
    let found = mlflow.version_search(&ask.search(10_000, 200_000)?)?;
    page("model_versions", found)
}
