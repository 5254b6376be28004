//! `runs/…` and `metrics/…`

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
)]

use assize_store::embedded::mlflow::{Mlflow, status};
use assize_store::mlflow::{Batch, DatasetInput, Entry, NewRun, Point, RunChange, Search};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Double, Id, Int, Paging, RunRef, page, view};
use super::{Answer, ApiError};

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    experiment_id: Id,
    #[serde(default)]
    user_id: String,
    #[serde(default)]
    run_name: Option<String>,
    #[serde(default)]
    start_time: Option<Int>,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn create(mlflow: Mlflow<'_>, ask: Create) -> Answer<Value> {
    let run = mlflow.run_create(NewRun {
        experiment_id: ask.experiment_id.0,
        user_id: ask.user_id,
        name: ask.run_name,
        start_time: ask.start_time.map(|it| it.0),
        tags: ask.tags,
    })?;
    Ok(json!({"run": run}))
}

pub(crate) fn get(mlflow: Mlflow<'_>, ask: RunRef) -> Answer<Value> {
    Ok(json!({"run": mlflow.run_get(ask.id()?)?}))
}

pub(crate) fn delete(mlflow: Mlflow<'_>, ask: RunRef) -> Answer<Value> {
    mlflow.run_set_deleted(ask.id()?, true)?;
    Ok(json!({}))
}

pub(crate) fn restore(mlflow: Mlflow<'_>, ask: RunRef) -> Answer<Value> {
    mlflow.run_set_deleted(ask.id()?, false)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Update {
    #[serde(flatten)]
    run: RunRef,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    end_time: Option<Int>,
    #[serde(default)]
    run_name: Option<String>,
}

pub(crate) fn update(mlflow: Mlflow<'_>, ask: Update) -> Answer<Value> {
    let change = RunChange {
        name: ask.run_name,
        status: ask.status.as_deref().map(status).transpose()?,
        end_time: ask.end_time.map(|it| it.0),
    };
    let info = mlflow.run_update(ask.run.id()?, change)?;
    Ok(json!({"run_info": info}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Pair {
    #[serde(flatten)]
    run: RunRef,
    #[serde(flatten)]
    entry: Entry,
}

pub(crate) fn log_parameter(mlflow: Mlflow<'_>, ask: Pair) -> Answer<Value> {
    let batch = Batch {
        params: vec![ask.entry],
        ..Batch::default()
    };
    mlflow.run_log(ask.run.id()?, batch)?;
    Ok(json!({}))
}

pub(crate) fn set_tag(mlflow: Mlflow<'_>, ask: Pair) -> Answer<Value> {
    let batch = Batch {
        tags: vec![ask.entry],
        ..Batch::default()
    };
    mlflow.run_log(ask.run.id()?, batch)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Key {
    #[serde(flatten)]
    run: RunRef,
    key: String,
}

pub(crate) fn delete_tag(mlflow: Mlflow<'_>, ask: Key) -> Answer<Value> {
    mlflow.run_tag_delete(ask.run.id()?, &ask.key)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Metric {
    key: String,
    value: Double,
    timestamp: Int,
    #[serde(default)]
    step: Option<Int>,
    /// Metrics of a dataset or of a logged model would lose what they belong to.
    #[serde(default)]
    model_id: Option<String>,
    #[serde(default)]
    dataset_name: Option<String>,
}

impl Metric {
    fn point(self) -> Answer<Point> {
        let owners = [&self.model_id, &self.dataset_name];
        if owners.into_iter().flatten().any(|it| !it.is_empty()) {
            return Err(ApiError::not_served(
                "metrics of logged models and of datasets are not kept",
            ));
        }
        Ok(Point {
            key: self.key,
            value: self.value.0,
            timestamp: self.timestamp.0,
            step: self.step.map_or(0, |it| it.0),
        })
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogMetric {
    #[serde(flatten)]
    run: RunRef,
    #[serde(flatten)]
    metric: Metric,
}

pub(crate) fn log_metric(mlflow: Mlflow<'_>, ask: LogMetric) -> Answer<Value> {
    let batch = Batch {
        metrics: vec![ask.metric.point()?],
        ..Batch::default()
    };
    mlflow.run_log(ask.run.id()?, batch)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogBatch {
    #[serde(flatten)]
    run: RunRef,
    #[serde(default)]
    metrics: Vec<Metric>,
    #[serde(default)]
    params: Vec<Entry>,
    #[serde(default)]
    tags: Vec<Entry>,
}

pub(crate) fn log_batch(mlflow: Mlflow<'_>, ask: LogBatch) -> Answer<Value> {
    let metrics = ask.metrics.into_iter().map(Metric::point);
    let batch = Batch {
        metrics: metrics.collect::<Answer<_>>()?,
        params: ask.params,
        tags: ask.tags,
    };
    mlflow.run_log(ask.run.id()?, batch)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogInputs {
    #[serde(flatten)]
    run: RunRef,
    #[serde(default)]
    datasets: Vec<DatasetInput>,
    #[serde(default)]
    models: Vec<Value>,
}

pub(crate) fn log_inputs(mlflow: Mlflow<'_>, ask: LogInputs) -> Answer<Value> {
    if !ask.models.is_empty() {
        return Err(ApiError::not_served("logged models are not kept"));
    }
    mlflow.run_inputs_log(ask.run.id()?, ask.datasets)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct History {
    #[serde(flatten)]
    run: RunRef,
    metric_key: String,
    #[serde(flatten)]
    paging: Paging,
}

pub(crate) fn metric_history(mlflow: Mlflow<'_>, ask: History) -> Answer<Value> {
    let slice = ask.paging.slice(25_000, 1_000_000)?;
    let found = mlflow.metric_history(ask.run.id()?, &ask.metric_key, slice)?;
    page("metrics", found)
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchAsk {
    #[serde(default)]
    experiment_ids: Vec<Id>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    run_view_type: Option<String>,
    #[serde(default)]
    order_by: Vec<String>,
    #[serde(flatten)]
    paging: Paging,
}

pub(crate) fn search(mlflow: Mlflow<'_>, ask: SearchAsk) -> Answer<Value> {
    let experiments: Vec<String> = ask.experiment_ids.into_iter().map(|it| it.0).collect();
    let search = Search {
        filter: ask.filter,
        order_by: ask.order_by,
        view: view(ask.run_view_type.as_deref())?,
        slice: ask.paging.slice(1_000, 50_000)?,
    };
    page("runs", mlflow.run_search(&experiments, &search)?)
}
