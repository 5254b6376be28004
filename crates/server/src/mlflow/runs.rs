//! Operations under `runs/` and `metrics/`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_store::embedded::mlflow::{Mlflow, status};
use assize_store::mlflow::{
    Batch, DatasetInput, Entry, ModelPoint, ModelUse, NewRun, Point, RunChange, RunSearch,
};
use axum::extract::{Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{Double, Id, Int, NamedEntry, Paging, Required, RunRef, page, token, view};
use super::request::{parsed, respond};
use super::{ApiError, ApiResult};
use crate::App;
use crate::http::stream::{JsonWriter, stream_json};

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

pub(crate) fn create(mlflow: Mlflow<'_>, request: Create) -> ApiResult<Value> {
    let run = mlflow.run_create(NewRun {
        experiment_id: request.experiment_id.0,
        user_id: request.user_id,
        name: request.run_name,
        start_time: request.start_time.map(|it| it.0),
        tags: request.tags,
    })?;
    Ok(json!({"run": run}))
}

pub(crate) fn get(mlflow: Mlflow<'_>, request: RunRef) -> ApiResult<Value> {
    Ok(json!({"run": mlflow.run_get(request.id()?)?}))
}

pub(crate) fn delete(mlflow: Mlflow<'_>, request: RunRef) -> ApiResult<Value> {
    mlflow.run_set_deleted(request.id()?, true)?;
    Ok(json!({}))
}

pub(crate) fn restore(mlflow: Mlflow<'_>, request: RunRef) -> ApiResult<Value> {
    mlflow.run_set_deleted(request.id()?, false)?;
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

pub(crate) fn update(mlflow: Mlflow<'_>, request: Update) -> ApiResult<Value> {
    let change = RunChange {
        name: request.run_name,
        status: request.status.as_deref().map(status).transpose()?,
        end_time: request.end_time.map(|it| it.0),
    };
    let info = mlflow.run_update(request.run.id()?, change)?;
    Ok(json!({"run_info": info}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Pair {
    #[serde(flatten)]
    run: RunRef,
    #[serde(flatten)]
    entry: NamedEntry,
}

pub(crate) fn log_parameter(mlflow: Mlflow<'_>, request: Pair) -> ApiResult<Value> {
    let batch = Batch {
        params: vec![request.entry.into()],
        is_single: true,
        ..Batch::default()
    };
    mlflow.run_log(request.run.id()?, batch)?;
    Ok(json!({}))
}

pub(crate) fn set_tag(mlflow: Mlflow<'_>, request: Pair) -> ApiResult<Value> {
    let batch = Batch {
        tags: vec![request.entry.into()],
        is_single: true,
        ..Batch::default()
    };
    mlflow.run_log(request.run.id()?, batch)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Key {
    #[serde(flatten)]
    run: RunRef,
    key: Required,
}

pub(crate) fn delete_tag(mlflow: Mlflow<'_>, request: Key) -> ApiResult<Value> {
    mlflow.run_tag_delete(request.run.id()?, &request.key.0)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Metric {
    key: Required,
    value: Double,
    timestamp: Int,
    #[serde(default)]
    step: Option<Int>,
    /// The model and the dataset that the metric is about.
    #[serde(default)]
    model_id: Option<String>,
    #[serde(default)]
    dataset_name: Option<String>,
    #[serde(default)]
    dataset_digest: Option<String>,
}

/// All points, and separately those that are about a model.
fn batch_of(run_id: &str, metrics: Vec<Metric>) -> Batch {
    let mut batch = Batch::default();
    for metric in metrics {
        let point = Point {
            key: metric.key.0,
            value: metric.value.0,
            timestamp: metric.timestamp.0,
            step: metric.step.map_or(0, |it| it.0),
        };
        let model_id = metric.model_id.unwrap_or_default();
        let dataset_name = metric.dataset_name.unwrap_or_default();
        if !model_id.is_empty() {
            batch.model_metrics.push(ModelPoint {
                point: point.clone(),
                dataset_name,
                dataset_digest: metric.dataset_digest.unwrap_or_default(),
                model_id,
                run_id: run_id.to_owned(),
            });
        }
        batch.metrics.push(point);
    }
    batch
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogMetric {
    #[serde(flatten)]
    run: RunRef,
    #[serde(flatten)]
    metric: Metric,
}

pub(crate) fn log_metric(mlflow: Mlflow<'_>, request: LogMetric) -> ApiResult<Value> {
    let run_id = request.run.id()?;
    let batch = Batch {
        is_single: true,
        ..batch_of(run_id, vec![request.metric])
    };
    mlflow.run_log(run_id, batch)?;
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

pub(crate) fn log_batch(mlflow: Mlflow<'_>, request: LogBatch) -> ApiResult<Value> {
    let run_id = request.run.id()?;
    let batch = Batch {
        params: request.params,
        tags: request.tags,
        ..batch_of(run_id, request.metrics)
    };
    mlflow.run_log(run_id, batch)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogInputs {
    #[serde(flatten)]
    run: RunRef,
    #[serde(default)]
    datasets: Vec<DatasetInput>,
    #[serde(default)]
    models: Vec<Used>,
}

#[derive(Debug, Deserialize)]
struct Used {
    model_id: String,
    #[serde(default)]
    step: Option<Int>,
}

fn uses(models: Vec<Used>) -> Vec<ModelUse> {
    let models = models.into_iter().map(|it| ModelUse {
        model_id: it.model_id,
        step: it.step.map(|step| step.0),
    });
    models.collect()
}

pub(crate) fn log_inputs(mlflow: Mlflow<'_>, request: LogInputs) -> ApiResult<Value> {
    mlflow.run_inputs_log(request.run.id()?, request.datasets, uses(request.models))?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogOutputs {
    #[serde(flatten)]
    run: RunRef,
    #[serde(default)]
    models: Vec<Used>,
}

pub(crate) fn log_outputs(mlflow: Mlflow<'_>, request: LogOutputs) -> ApiResult<Value> {
    mlflow.run_outputs_log(request.run.id()?, uses(request.models))?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogModel {
    #[serde(flatten)]
    run: RunRef,
    model_json: String,
}

/// Older clients report models that they upload as artifacts. Like MLflow, the server stores these
/// fields in a tag.
pub(crate) fn log_model(mlflow: Mlflow<'_>, request: LogModel) -> ApiResult<Value> {
    let model: serde_json::Map<String, Value> = serde_json::from_str(&request.model_json)
        .map_err(|error| ApiError::invalid(format!("model_json is not a JSON object: {error}")))?;
    let kept = ["run_id", "utc_time_created", "artifact_path", "model_uuid"];
    let mut record: serde_json::Map<String, Value> = model
        .iter()
        .filter(|(key, _)| kept.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut flavors = model.get("flavors").cloned().unwrap_or_else(|| json!({}));
    for (_, flavor) in flavors.as_object_mut().into_iter().flatten() {
        if let Some(fields) = flavor.as_object_mut() {
            fields.shift_remove("config");
        }
    }
    record.insert("flavors".to_owned(), flavors);
    mlflow.run_model_record(request.run.id()?, Value::Object(record))?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct History {
    #[serde(flatten)]
    run: RunRef,
    metric_key: Required,
    #[serde(flatten)]
    paging: Paging,
}

pub(crate) fn metric_history(mlflow: Mlflow<'_>, request: History) -> ApiResult<Value> {
    let slice = request.paging.slice(25_000, 1_000_000)?;
    let found = mlflow.metric_history(request.run.id()?, &request.metric_key.0, slice)?;
    page("metrics", found)
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchRequest {
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

pub(crate) async fn search(State(app): State<App>, request: Request) -> Response {
    respond(async {
        let request: SearchRequest = parsed(request).await?;
        let (max_results, after) = request.paging.after(1_000, 50_000)?;
        let search = RunSearch {
            experiment_ids: request.experiment_ids.into_iter().map(|it| it.0).collect(),
            filter: request.filter,
            order_by: request.order_by,
            view: view(request.run_view_type.as_deref())?,
            max_results,
            after,
        };
        stream_json(app, move |mlflow, writer| {
            write_found(mlflow, &search, writer)
        })
        .await
    })
    .await
}

/// Writes the runs that a search finds.
fn write_found(mlflow: Mlflow<'_>, search: &RunSearch, writer: &mut JsonWriter) -> ApiResult<()> {
    let mut start: &[u8] = b"{\"runs\":[";
    let mut failed = None;
    let next = mlflow.run_search_each(search, &mut |run| {
        writer.buffer().extend_from_slice(start);
        start = b",";
        failed = serde_json::to_writer(writer.buffer(), &run).err();
        failed.is_none() && writer.flush_if_full()
    })?;
    if let Some(error) = failed {
        return Err(ApiError::internal(error.to_string()));
    }
    let end = match (start, next) {
        (b",", Some(position)) => format!("],\"next_page_token\":\"{}\"}}", token(&position)),
        (b",", None) => "]}".to_owned(),
        _ => "{}".to_owned(),
    };
    writer.buffer().extend_from_slice(end.as_bytes());
    Ok(())
}
