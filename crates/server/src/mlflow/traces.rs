//! Operations on traces and assessments.
//!
//! A logged trace is stored unchanged, and its spans as the file that the client uploads. A run
//! that Assize collected has a trace, too ([`run_trace`](super::run_trace)). Clients can log
//! assessments of both (`mlflow.log_feedback`). Such feedback is not a verdict and does not count
//! for boards, because it was not given blind under the pinned rubric.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_domain::error_kind::ErrorKind;
use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, Trace};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fields::OneOrMore;
use super::mistakes::missing;
use super::{ApiError, ApiResult, messages, run_trace};

/// The tag with the location of a trace's spans.
const LOCATION_TAG: &str = "mlflow.artifactLocation";
/// The largest number of traces per request.
const MAX_TRACES: usize = 500;
/// The name of the file with a trace's spans.
pub(super) const SPANS_FILE: &str = "traces.json";

#[derive(Debug, Deserialize)]
pub(crate) struct Start {
    trace: StartedTrace,
}

#[derive(Debug, Deserialize)]
struct StartedTrace {
    trace_info: Map<String, Value>,
}

pub(crate) fn start(mlflow: Mlflow<'_>, request: Start) -> ApiResult<Value> {
    let mut info = request.trace.trace_info;
    messages::check("trace_info", &info, messages::TRACE)?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let trace_id = text(info.get("trace_id")).filter(|it| !it.is_empty());
    let trace_id = trace_id.ok_or_else(|| missing("trace_id"))?;
    let place = json!(info.get("trace_location"));
    let experiment_id = text(place.pointer("/mlflow_experiment/experiment_id"));
    let experiment_id = experiment_id.ok_or_else(|| missing("experiment_id"))?;
    let request_time = text(info.get("request_time")).unwrap_or_default();
    let time: jiff::Timestamp = request_time.parse().map_err(|_| {
        ApiError::invalid(format!(
            "request_time '{request_time}' is not an RFC 3339 time"
        ))
    })?;
    let mut tags = tags_of(info.remove("tags"))?;
    tags.retain(|tag| tag.key != LOCATION_TAG);
    tags.push(Entry {
        key: LOCATION_TAG.to_owned(),
        value: location(&experiment_id, &trace_id),
    });
    let assessments = assessments_of(info.remove("assessments"))?;
    let record = Value::Object(info).to_string();
    let key = (trace_id.as_str(), time.as_millisecond());
    mlflow.trace_start(&experiment_id, key, &record, &tags)?;
    for assessment in assessments {
        assessment_store(mlflow, &trace_id, assessment)?;
    }
    Ok(json!({"trace": {"trace_info": info_of(mlflow, &trace_id)?}}))
}

fn location(experiment_id: &str, trace_id: &str) -> String {
    format!("mlflow-artifacts:/{experiment_id}/traces/{trace_id}/artifacts")
}

/// Reads tags, which are an object with string values.
fn tags_of(tags: Option<Value>) -> ApiResult<Vec<Entry>> {
    let tags = match tags {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(tags)) => tags,
        Some(other) => {
            return Err(ApiError::invalid(format!(
                "the tags of a trace must be an object with string values, not {other}"
            )));
        }
    };
    let entries = tags.into_iter().map(|(key, value)| match value {
        Value::String(value) => Ok(Entry { key, value }),
        _ => Err(ApiError::invalid(format!(
            "the value of '{key}' is not a string"
        ))),
    });
    entries.collect()
}

/// Reads and checks the assessments of a trace.
fn assessments_of(list: Option<Value>) -> ApiResult<Vec<Map<String, Value>>> {
    let list: Option<Vec<Map<String, Value>>> = serde_json::from_value(json!(list))
        .map_err(|error| ApiError::invalid(format!("the assessments cannot be read: {error}")))?;
    let list = list.unwrap_or_default();
    list.iter().try_for_each(assessment_check)?;
    Ok(list)
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    trace_id: String,
}

pub(crate) fn get(mlflow: Mlflow<'_>, request: ById) -> ApiResult<Value> {
    Ok(json!({"trace": {"trace_info": info_of(mlflow, &request.trace_id)?}}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct ByIds {
    #[serde(default)]
    trace_ids: OneOrMore,
}

/// The traces that exist; like MLflow, unknown ids are ignored.
pub(crate) fn get_many(mlflow: Mlflow<'_>, request: ByIds) -> ApiResult<Value> {
    if request.trace_ids.0.len() > MAX_TRACES {
        return Err(ApiError::invalid(format!(
            "{} traces were requested; the limit is {MAX_TRACES}",
            request.trace_ids.0.len()
        )));
    }
    let mut infos = Vec::new();
    for trace_id in &request.trace_ids.0 {
        infos.extend(find(mlflow, trace_id)?.map(|it| it.info));
    }
    Ok(json!({"trace_infos": infos}))
}

/// A logged trace, or the trace of a run.
pub(super) fn info_of(mlflow: Mlflow<'_>, trace_id: &str) -> ApiResult<Value> {
    let found = find(mlflow, trace_id)?.map(|it| it.info);
    found.ok_or_else(|| ApiError::not_found(format!("Trace with ID '{trace_id}' not found.")))
}

/// A trace, and what clients linked to it.
pub(super) struct FoundTrace {
    pub info: Value,
    pub runs: Vec<String>,
    pub prompts: Vec<String>,
}

pub(super) fn find(mlflow: Mlflow<'_>, trace_id: &str) -> ApiResult<Option<FoundTrace>> {
    let kept = mlflow.trace_get(trace_id)?;
    let (mut info, verdicts) = match &kept.info {
        Some(info) => (read(info)?, Vec::new()),
        None => match run_trace::find(mlflow, trace_id)? {
            Some(trace) => {
                let mut info = trace.info();
                info["tags"][LOCATION_TAG] = location(trace.experiment_id(), trace_id).into();
                (info, trace.assessments(mlflow)?)
            }
            None => return Ok(None),
        },
    };
    add(&mut info, &kept, verdicts)?;
    Ok(Some(FoundTrace {
        info,
        runs: kept.runs,
        prompts: kept.prompts,
    }))
}

/// A file of a trace: an uploaded one, or the spans of a run.
pub(super) fn file(mlflow: Mlflow<'_>, trace_id: &str, path: &str) -> ApiResult<Vec<u8>> {
    if path == SPANS_FILE
        && mlflow.trace_get(trace_id)?.info.is_none()
        && let Some(trace) = run_trace::find(mlflow, trace_id)?
    {
        return Ok(trace.spans(mlflow)?.to_string().into_bytes());
    }
    Ok(mlflow.trace_file_read(trace_id, path)?)
}

fn read(text: &str) -> ApiResult<Value> {
    serde_json::from_str(text).map_err(|error| ApiError::internal(error.to_string()))
}

fn add(info: &mut Value, kept: &Trace, mut assessments: Vec<Value>) -> ApiResult<()> {
    for record in &kept.assessments {
        assessments.push(read(record)?);
    }
    if !assessments.is_empty() {
        info["assessments"] = assessments.into();
    }
    for tag in &kept.tags {
        info["tags"][&tag.key] = tag.value.clone().into();
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
pub(crate) struct Assess {
    trace_id: String,
    assessment: Map<String, Value>,
}

pub(crate) fn assess(mlflow: Mlflow<'_>, request: Assess) -> ApiResult<Value> {
    info_of(mlflow, &request.trace_id)?;
    let old = request.assessment.get("overrides").and_then(Value::as_str);
    let old = old.filter(|it| !it.is_empty());
    let old = old.map(|old| assessment_find(mlflow, &request.trace_id, old));
    let old = old.transpose()?;
    old.as_ref().map_or(Ok(()), ensure_not_verdict)?;
    let kept = assessment_store(mlflow, &request.trace_id, request.assessment)?;
    if let Some(mut old) = old {
        old["valid"] = false.into();
        put(mlflow, &request.trace_id, &old)?;
    }
    Ok(json!({"assessment": kept}))
}

fn put(mlflow: Mlflow<'_>, trace_id: &str, assessment: &Value) -> ApiResult<()> {
    let id = assessment["assessment_id"].as_str().unwrap_or_default();
    Ok(mlflow.assessment_put(trace_id, id, &assessment.to_string())?)
}

fn assessment_check(assessment: &Map<String, Value>) -> ApiResult<()> {
    let has = |field: &str| assessment.get(field).is_some_and(|it| !it.is_null());
    if !assessment
        .get("assessment_name")
        .is_some_and(Value::is_string)
    {
        return Err(missing("assessment_name"));
    }
    if has("feedback") == has("expectation") || has("issue") {
        return Err(ApiError::invalid(
            "an assessment must be either feedback or an expectation; issues are not supported",
        ));
    }
    messages::check("assessment", assessment, messages::ASSESSMENT)
}

fn assessment_store(
    mlflow: Mlflow<'_>,
    trace_id: &str,
    mut assessment: Map<String, Value>,
) -> ApiResult<Value> {
    assessment_check(&assessment)?;
    let (id, now) = stamp(mlflow)?;
    assessment.insert("assessment_id".to_owned(), format!("a-{id}").into());
    assessment.insert("trace_id".to_owned(), trace_id.into());
    for field in ["create_time", "last_update_time"] {
        assessment
            .entry(field)
            .or_insert_with(|| now.clone().into());
    }
    assessment.entry("valid").or_insert(true.into());
    let assessment = Value::Object(assessment);
    put(mlflow, trace_id, &assessment)?;
    Ok(assessment)
}

/// A new id and the current time in RFC 3339.
fn stamp(mlflow: Mlflow<'_>) -> ApiResult<(String, String)> {
    let (id, now_ms) = mlflow.stamp()?;
    let now = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    Ok((id, format!("{now:.3}")))
}

#[derive(Debug, Deserialize)]
pub(crate) struct OneAssessment {
    trace_id: String,
    assessment_id: String,
    #[serde(default)]
    assessment: Map<String, Value>,
}

fn assessment_find(mlflow: Mlflow<'_>, trace_id: &str, id: &str) -> ApiResult<Value> {
    let info = info_of(mlflow, trace_id)?;
    let known = info["assessments"].as_array().into_iter().flatten();
    let found = known.clone().find(|it| it["assessment_id"] == id).cloned();
    found.ok_or_else(|| {
        ApiError::not_found(format!(
            "Assessment with ID '{id}' not found for trace '{trace_id}'"
        ))
    })
}

fn ensure_not_verdict(assessment: &Value) -> ApiResult<()> {
    let id = assessment["assessment_id"].as_str();
    if id.is_some_and(|id| id.starts_with("verdict-")) {
        return Err(ApiError::invalid(
            "verdicts cannot be changed or deleted: judge the case again instead",
        ));
    }
    Ok(())
}

pub(crate) fn assessment_get(mlflow: Mlflow<'_>, request: OneAssessment) -> ApiResult<Value> {
    let found = assessment_find(mlflow, &request.trace_id, &request.assessment_id)?;
    Ok(json!({"assessment": found}))
}

pub(crate) fn assessment_update(mlflow: Mlflow<'_>, request: OneAssessment) -> ApiResult<Value> {
    let mut found = assessment_find(mlflow, &request.trace_id, &request.assessment_id)?;
    ensure_not_verdict(&found)?;
    for (field, value) in request.assessment {
        match (field.as_str(), value) {
            ("metadata", Value::Object(more)) => {
                if !found["metadata"].is_object() {
                    found["metadata"] = json!({});
                }
                for (key, value) in more {
                    found["metadata"][key] = value;
                }
            }
            (
                "assessment_name" | "feedback" | "expectation" | "rationale" | "valid" | "metadata",
                value,
            ) => found[field] = value,
            _ => {}
        }
    }
    if let Value::Object(changed) = &found {
        assessment_check(changed)?;
    }
    found["last_update_time"] = stamp(mlflow)?.1.into();
    put(mlflow, &request.trace_id, &found)?;
    Ok(json!({"assessment": found}))
}

pub(crate) fn assessment_delete(mlflow: Mlflow<'_>, request: OneAssessment) -> ApiResult<Value> {
    let found = match assessment_find(mlflow, &request.trace_id, &request.assessment_id) {
        // Like MLflow: what is not there is deleted already.
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(json!({})),
        found => found?,
    };
    ensure_not_verdict(&found)?;
    mlflow.assessment_delete(&request.trace_id, &request.assessment_id)?;
    // What it overrode is valid again.
    if let Some(old) = found["overrides"].as_str()
        && let Ok(mut old) = assessment_find(mlflow, &request.trace_id, old)
    {
        old["valid"] = true.into();
        put(mlflow, &request.trace_id, &old)?;
    }
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    trace_id: String,
    key: String,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    info_of(mlflow, &request.trace_id)?;
    mlflow.trace_tag(&request.trace_id, &request.key, Some(&request.value))?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, request: Tag) -> ApiResult<Value> {
    mlflow.trace_tag(&request.trace_id, &request.key, None)?;
    Ok(json!({}))
}
