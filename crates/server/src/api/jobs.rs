//! Starting, listing and stopping jobs.

use assize_domain::job::JobKind;
use assize_store::state::jobs::JobRecord;
use assize_store::{RunQuery, Runs as _};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Reply;
use crate::App;
use crate::access::Caller;
use crate::error::{Answer, ApiError};
use crate::jobs::plan::{FieldProblem, Plan};
use crate::mlflow::fields::Nothing;

/// How many jobs a list shows.
const LISTED: u32 = 200;

/// `POST /api/bench/run`.
pub(crate) fn run(app: &App, caller: &Caller, ask: &Map<String, Value>) -> Answer<Reply> {
    submit(app, caller, JobKind::Collect, ask)
}

/// `POST /api/bench/judge`.
pub(crate) fn judge(app: &App, caller: &Caller, ask: &Map<String, Value>) -> Answer<Reply> {
    submit(app, caller, JobKind::Judge, ask)
}

/// Checks and queues a job.
pub(crate) fn submit(
    app: &App,
    caller: &Caller,
    kind: JobKind,
    ask: &Map<String, Value>,
) -> Answer<Reply> {
    let plan = plan(app, kind, ask).map_err(ApiError::fields)?;
    let request = Value::Object(ask.clone()).to_string();
    let job = app.jobs.submit(plan, request, &caller.name)?;
    Ok(Reply::accepted(
        json!({"job_id": job.id, "status": job.status, "experiment": job.experiment}),
    ))
}

/// What a request comes to, or every bad field of it. Only a collection makes its experiment.
pub(crate) fn plan(
    app: &App,
    kind: JobKind,
    ask: &Map<String, Value>,
) -> Result<Plan, Vec<FieldProblem>> {
    let named = ask.get("experiment").and_then(Value::as_str);
    let missing = named
        .filter(|_| kind == JobKind::Judge)
        .and_then(|name| no_runs(app, name));
    match (app.config.plan.plan(kind, ask), missing) {
        (Ok(plan), None) => Ok(plan),
        (planned, missing) => {
            let mut problems = planned.err().unwrap_or_default();
            problems.extend(missing.map(|message| FieldProblem {
                field: "experiment".to_owned(),
                message,
            }));
            Err(problems)
        }
    }
}

/// Why an experiment cannot be judged, if so.
fn no_runs(app: &App, experiment: &str) -> Option<String> {
    let one = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    match app.store.run_list(experiment, &one) {
        Ok(page) if page.runs.is_empty() => Some(format!("has '{experiment}', which has no runs")),
        Ok(_) => None,
        Err(error) => Some(format!("cannot be judged: {error}")),
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    job_id: String,
}

pub(crate) fn list(app: &App, _: &Caller, _: &Nothing) -> Answer<Reply> {
    let jobs = app.jobs.list(LISTED)?;
    let jobs: Vec<Value> = jobs.iter().map(|job| shown(app, job)).collect();
    Ok(json!({"jobs": jobs}).into())
}

pub(crate) fn get(app: &App, _: &Caller, ask: &ById) -> Answer<Reply> {
    let job = app.jobs.get(&ask.job_id)?;
    let mut body = shown(app, &job);
    body["log"] = app.jobs.log_tail(&job.id).into();
    Ok(body.into())
}

pub(crate) fn cancel(app: &App, caller: &Caller, ask: &ById) -> Answer<Reply> {
    let job = app.jobs.cancel(&ask.job_id)?;
    tracing::info!(job = job.id, by = caller.name, "job cancelled");
    Ok(Reply::accepted(
        json!({"job_id": job.id, "status": job.status}),
    ))
}

pub(crate) fn resume(app: &App, caller: &Caller, ask: &ById) -> Answer<Reply> {
    let job = app.jobs.resume(&ask.job_id, &caller.name)?;
    Ok(Reply::accepted(
        json!({"job_id": job.id, "status": job.status}),
    ))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn whole_seconds(seconds: f64) -> i64 {
    seconds as i64
}

/// A job as programs see it.
pub(crate) fn shown(app: &App, job: &JobRecord) -> Value {
    let now_ms = (app.config.clock)().ms;
    let eta_s = app.jobs.eta_seconds(job, now_ms);
    let time = |ms: Option<i64>| {
        let time = ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.map(|it| format!("{it:.3}"))
    };
    let request: Value = serde_json::from_str(&job.request).unwrap_or_default();
    json!({
        "job_id": job.id,
        "kind": job.kind,
        "status": job.status,
        "experiment": job.experiment,
        "by": job.by,
        "request": request,
        "cells": {"done": job.done, "failed": job.failed, "total": job.total},
        "eta_seconds": eta_s.map(whole_seconds),
        "created_at": time(Some(job.created_ms)),
        "started_at": time(job.started_ms),
        "finished_at": time(job.finished_ms),
        "error": job.error,
    })
}
