//! Traces and assessments.
//!
//! A verdict is an assessment: who, value, rationale. The trace of a run that Assize collected
//! is `tr-RUN_ID`; its assessments are the scores of all its verdict files, one a candidate and
//! criterion, and whatever clients logged beside them (`mlflow.log_feedback`). Feedback is not
//! a verdict: it was not given blind under the pinned rubric, so no board counts it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
)]

use assize_domain::judge::Tier;
use assize_domain::run::artifact;
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::{Entry, Trace};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, ApiError};

/// Where the client puts a trace's spans.
const LOCATION_TAG: &str = "mlflow.artifactLocation";
/// As much of a text as a preview shows.
const PREVIEW: usize = 1_000;

#[derive(Debug, Deserialize)]
pub(crate) struct Start {
    trace: StartedTrace,
}

#[derive(Debug, Deserialize)]
struct StartedTrace {
    trace_info: Map<String, Value>,
}

pub(crate) fn start(mlflow: Mlflow<'_>, ask: Start) -> Answer<Value> {
    let mut info = ask.trace.trace_info;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let trace_id = text(info.get("trace_id")).filter(|it| !it.is_empty());
    let trace_id = trace_id.ok_or_else(|| ApiError::invalid("a trace needs its trace_id"))?;
    let place = json!(info.get("trace_location"));
    let experiment_id = text(place.pointer("/mlflow_experiment/experiment_id"));
    let experiment_id =
        experiment_id.ok_or_else(|| ApiError::invalid("a trace needs its experiment_id"))?;
    let request_time = text(info.get("request_time")).unwrap_or_default();
    let time: jiff::Timestamp = request_time.parse().map_err(|_| {
        ApiError::invalid(format!("request_time '{request_time}' is no RFC 3339 time"))
    })?;
    let mut tags = tags_of(info.remove("tags"))?;
    if !tags.iter().any(|tag| tag.key == LOCATION_TAG) {
        tags.push(Entry {
            key: LOCATION_TAG.to_owned(),
            value: format!("mlflow-artifacts:/{experiment_id}/traces/{trace_id}/artifacts"),
        });
    }
    let assessments = info.remove("assessments");
    let record = Value::Object(info).to_string();
    let key = (trace_id.as_str(), time.as_millisecond());
    mlflow.trace_start(&experiment_id, key, &record, &tags)?;
    for assessment in assessments
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Value::Object(assessment) = assessment {
            assessment_keep(mlflow, &trace_id, assessment.clone())?;
        }
    }
    Ok(json!({"trace": {"trace_info": info_of(mlflow, &trace_id)?}}))
}

fn tags_of(tags: Option<Value>) -> Answer<Vec<Entry>> {
    let Some(Value::Object(tags)) = tags else {
        return Ok(Vec::new());
    };
    let entries = tags.into_iter().map(|(key, value)| match value {
        Value::String(value) => Ok(Entry { key, value }),
        _ => Err(ApiError::invalid(format!("the tag '{key}' is no text"))),
    });
    entries.collect()
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    trace_id: String,
}

pub(crate) fn get(mlflow: Mlflow<'_>, ask: ById) -> Answer<Value> {
    Ok(json!({"trace": {"trace_info": info_of(mlflow, &ask.trace_id)?}}))
}

/// A trace as it was logged, or as a run makes it.
fn info_of(mlflow: Mlflow<'_>, trace_id: &str) -> Answer<Value> {
    let kept = mlflow.trace_get(trace_id)?;
    match &kept.info {
        Some(info) => logged(info, &kept),
        None => of_run(mlflow, &kept),
    }
}

pub(super) fn logged(info: &str, kept: &Trace) -> Answer<Value> {
    let mut info: Value = read(info)?;
    add(&mut info, kept, Vec::new())?;
    Ok(info)
}

fn read(text: &str) -> Answer<Value> {
    serde_json::from_str(text).map_err(|error| ApiError::internal(error.to_string()))
}

fn add(info: &mut Value, kept: &Trace, mut assessments: Vec<Value>) -> Answer<()> {
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

fn of_run(mlflow: Mlflow<'_>, kept: &Trace) -> Answer<Value> {
    let missing = || {
        ApiError::new(
            axum::http::StatusCode::NOT_FOUND,
            "RESOURCE_DOES_NOT_EXIST",
            format!("Trace with ID '{}' not found", kept.trace_id),
        )
    };
    let run_id = kept.trace_id.strip_prefix("tr-").ok_or_else(missing)?;
    let run = mlflow.run_get(run_id).map_err(|_| missing())?.info;
    let candidates = mlflow.artifact_text(run_id, artifact::CANDIDATES)?;
    let candidates = candidates.ok_or_else(missing)?;
    let prompt = mlflow.artifact_text(run_id, artifact::PROMPT)?;
    let start = jiff::Timestamp::from_millisecond(run.start_time).unwrap_or_default();
    let lasted_ms = run.end_time.map_or(0, |end| end - run.start_time).max(0);
    let mut info = json!({
        "trace_id": kept.trace_id,
        "trace_location": {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": run.experiment_id},
        },
        "request_preview": preview(&prompt.unwrap_or_default()),
        "response_preview": preview(&candidates),
        "request_time": format!("{start:.3}"),
        "execution_duration": format!("{}.{:03}s", lasted_ms / 1000, lasted_ms % 1000),
        "state": if run.status.as_str() == "FINISHED" { "OK" } else { "ERROR" },
        "trace_metadata": {"mlflow.sourceRun": run_id},
        "tags": {"mlflow.traceName": run.run_name},
    });
    let files = mlflow.verdicts_get(run_id)?;
    let verdicts = files.iter().flat_map(|file| of_file(&kept.trace_id, file));
    add(&mut info, kept, verdicts.collect())?;
    Ok(info)
}

fn preview(text: &str) -> String {
    text.chars().take(PREVIEW).collect()
}

/// A verdict file as assessments.
fn of_file(trace_id: &str, file: &VerdictFile) -> Vec<Value> {
    let mut assessments = Vec::new();
    for verdict in &file.verdicts {
        for (name, value) in &verdict.scores {
            assessments.push(of_score(trace_id, file, verdict, (name, value.clone())));
        }
        let composite = ("composite", json!(verdict.composite));
        assessments.push(of_score(trace_id, file, verdict, composite));
    }
    assessments
}

fn of_score(
    trace_id: &str,
    file: &VerdictFile,
    verdict: &Verdict,
    (name, value): (&str, Value),
) -> Value {
    let is_person = file.tier == Tier::Expert && file.judge.kind == "human";
    let mut assessment = json!({
        "assessment_id": verdict_id(trace_id, file, verdict, name),
        "assessment_name": name,
        "trace_id": trace_id,
        "source": {
            "source_type": if is_person { "HUMAN" } else { "LLM_JUDGE" },
            "source_id": file.judge.name,
        },
        "create_time": file.judged_at,
        "last_update_time": file.judged_at,
        "feedback": {"value": value},
        "metadata": {
            "candidate": verdict.candidate.to_string(),
            "sitting": file.sitting,
            "tier": file.tier.as_str(),
            "judge_kind": file.judge.kind,
            "rubric": file.rubric.id,
            "rubric_sha256": file.rubric.sha256,
        },
        "valid": true,
    });
    if let Some(rationale) = &verdict.rationale {
        assessment["rationale"] = rationale.clone().into();
    }
    assessment
}

/// Says by itself which verdict it is.
fn verdict_id(trace_id: &str, file: &VerdictFile, verdict: &Verdict, name: &str) -> String {
    let run = trace_id.trim_start_matches("tr-");
    format!(
        "verdict-{run}-{}-{}-{name}",
        file.sitting, verdict.candidate
    )
}

#[derive(Debug, Deserialize)]
pub(crate) struct Assess {
    trace_id: String,
    assessment: Map<String, Value>,
}

pub(crate) fn assess(mlflow: Mlflow<'_>, ask: Assess) -> Answer<Value> {
    info_of(mlflow, &ask.trace_id)?;
    let kept = assessment_keep(mlflow, &ask.trace_id, ask.assessment)?;
    if let Some(old) = kept["overrides"].as_str()
        && let Ok(mut old) = assessment_find(mlflow, &ask.trace_id, old)
        && !is_verdict(&old)
    {
        old["valid"] = false.into();
        put(mlflow, &ask.trace_id, &old)?;
    }
    Ok(json!({"assessment": kept}))
}

fn put(mlflow: Mlflow<'_>, trace_id: &str, assessment: &Value) -> Answer<()> {
    let id = assessment["assessment_id"].as_str().unwrap_or_default();
    Ok(mlflow.assessment_put(trace_id, id, &assessment.to_string())?)
}

fn assessment_keep(
    mlflow: Mlflow<'_>,
    trace_id: &str,
    mut assessment: Map<String, Value>,
) -> Answer<Value> {
    let has = |field: &str| assessment.get(field).is_some_and(|it| !it.is_null());
    if !has("assessment_name") {
        return Err(ApiError::invalid("an assessment needs its assessment_name"));
    }
    if !(has("feedback") || has("expectation")) {
        return Err(ApiError::invalid(
            "an assessment needs feedback or an expectation; issues are not kept",
        ));
    }
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

/// A fresh id and the time in RFC 3339.
fn stamp(mlflow: Mlflow<'_>) -> Answer<(String, String)> {
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

fn assessment_find(mlflow: Mlflow<'_>, trace_id: &str, id: &str) -> Answer<Value> {
    let info = info_of(mlflow, trace_id)?;
    let known = info["assessments"].as_array().into_iter().flatten();
    let found = known.clone().find(|it| it["assessment_id"] == id).cloned();
    found.ok_or_else(|| {
        ApiError::new(
            axum::http::StatusCode::NOT_FOUND,
            "RESOURCE_DOES_NOT_EXIST",
            format!("Assessment with ID '{id}' not found for trace '{trace_id}'"),
        )
    })
}

fn is_verdict(assessment: &Value) -> bool {
    let id = assessment["assessment_id"].as_str();
    id.is_some_and(|id| id.starts_with("verdict-"))
}

fn no_verdict(assessment: &Value) -> Answer<()> {
    if is_verdict(assessment) {
        return Err(ApiError::invalid(
            "verdicts are never changed or deleted: judge again instead",
        ));
    }
    Ok(())
}

pub(crate) fn assessment_get(mlflow: Mlflow<'_>, ask: OneAssessment) -> Answer<Value> {
    let found = assessment_find(mlflow, &ask.trace_id, &ask.assessment_id)?;
    Ok(json!({"assessment": found}))
}

pub(crate) fn assessment_update(mlflow: Mlflow<'_>, ask: OneAssessment) -> Answer<Value> {
    let mut found = assessment_find(mlflow, &ask.trace_id, &ask.assessment_id)?;
    no_verdict(&found)?;
    for (field, value) in ask.assessment {
        match (field.as_str(), value) {
            ("metadata", Value::Object(more)) => {
                for (key, value) in more {
                    found["metadata"][key] = value;
                }
            }
            ("assessment_name" | "feedback" | "expectation" | "rationale" | "valid", value) => {
                found[field] = value;
            }
            _ => {}
        }
    }
    found["last_update_time"] = stamp(mlflow)?.1.into();
    put(mlflow, &ask.trace_id, &found)?;
    Ok(json!({"assessment": found}))
}

pub(crate) fn assessment_delete(mlflow: Mlflow<'_>, ask: OneAssessment) -> Answer<Value> {
    let found = assessment_find(mlflow, &ask.trace_id, &ask.assessment_id)?;
    no_verdict(&found)?;
    mlflow.assessment_delete(&ask.trace_id, &ask.assessment_id)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tag {
    trace_id: String,
    key: String,
    #[serde(default)]
    value: String,
}

pub(crate) fn tag_set(mlflow: Mlflow<'_>, ask: Tag) -> Answer<Value> {
    info_of(mlflow, &ask.trace_id)?;
    mlflow.trace_tag(&ask.trace_id, &ask.key, Some(&ask.value))?;
    Ok(json!({}))
}

pub(crate) fn tag_delete(mlflow: Mlflow<'_>, ask: Tag) -> Answer<Value> {
    mlflow.trace_tag(&ask.trace_id, &ask.key, None)?;
    Ok(json!({}))
}
