//! Starting, watching and stopping jobs.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use assize_domain::job::JobKind;
use assize_pipeline::estimate::seconds_left;
use assize_pipeline::events::JobEvent;
use assize_store::state::jobs::{JobRecord, JobStatus};
use assize_store::{RunQuery, Runs as _};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, mpsc};

use super::{Reply, blocking};
use crate::App;
use crate::access::{Caller, still_reads};
use crate::error::{Answer, ApiError};
use crate::jobs::events::{News, Tail};
use crate::jobs::plan::{FieldProblem, Plan};
use crate::mlflow::fields::Nothing;

/// How many jobs a list shows.
const LISTED: u32 = 200;
/// A comment so often keeps proxies from closing a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a watcher's rights and a waiting job are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Lines that wait for a slow watcher.
const QUEUE: usize = 32;

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
    let now_ms = (app.config.clock)().ms;
    let jobs = app.jobs.list(LISTED)?;
    let jobs: Vec<Value> = jobs.iter().map(|job| shown(job, now_ms)).collect();
    Ok(json!({"jobs": jobs}).into())
}

pub(crate) fn get(app: &App, _: &Caller, ask: &ById) -> Answer<Reply> {
    let job = app.jobs.get(&ask.job_id)?;
    let mut body = shown(&job, (app.config.clock)().ms);
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

/// Seconds until a job is done, at its pace so far.
pub(crate) fn eta_seconds(job: &JobRecord, now_ms: i64) -> Option<i64> {
    let started = job
        .started_ms
        .filter(|_| job.status == JobStatus::Running)?;
    let left = job.total.checked_sub(job.done)?;
    let elapsed_s = (now_ms - started) as f64 / 1000.0;
    let seconds = seconds_left(job.done.into(), left.into(), elapsed_s)?;
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    Some(seconds as i64)
}

/// A job as programs see it.
pub(crate) fn shown(job: &JobRecord, now_ms: i64) -> Value {
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
        "eta_seconds": eta_seconds(job, now_ms),
        "created_at": time(Some(job.created_ms)),
        "started_at": time(job.started_ms),
        "finished_at": time(job.finished_ms),
        "error": job.error,
    })
}

/// `GET /api/bench/jobs/{job_id}/events`: what the job printed and prints, as server-sent
/// events. The id of an event is the place in the job's file where it ends, so that a watcher
/// who comes back (`Last-Event-ID`) misses nothing.
pub(crate) async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(job_id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let after = headers
        .get("last-event-id")
        .and_then(|it| it.to_str().ok())
        .and_then(|it| it.parse().ok())
        .unwrap_or(0);
    let asked = (app.clone(), job_id.clone());
    let job = blocking(move || asked.0.jobs.get(&asked.1)).await;
    if let Err(error) = job {
        return error.into_response();
    }
    let (lines, stream) = mpsc::channel(QUEUE);
    app.metrics.watchers.enter();
    tokio::spawn(async move {
        let metrics = std::sync::Arc::clone(&app.metrics);
        // A watcher who left ends the stream, and so does a server that stops.
        tokio::select! {
            _ = send(&app, &job_id, after, &lines) => {}
            () = not_allowed(&app, &caller) => {}
            () = app.jobs.stopped() => {}
        }
        metrics.watchers.leave();
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::OK, headers, Body::new(Lines(stream))).into_response()
}

/// Comes when the watcher may not read any more: a revoked token, or a judge who sat down.
async fn not_allowed(app: &App, caller: &Caller) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let asked = (app.clone(), caller.clone());
        if blocking(move || still_reads(&asked.0, &asked.1))
            .await
            .is_err()
        {
            return;
        }
    }
}

struct Gone;

async fn send(
    app: &App,
    job_id: &str,
    mut after: u64,
    lines: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    status(app, job_id, lines).await?;
    while app.jobs.is_queued(job_id).await {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // First who listens and then what is there already: nothing falls between.
    let mut news = app.jobs.subscribe(job_id);
    status(app, job_id, lines).await?;
    after = replay(app, job_id, after, lines).await?;
    while let Some(receiver) = &mut news {
        match tokio::time::timeout(HEARTBEAT, receiver.recv()).await {
            Err(_) => put(lines, ":\n\n".to_owned()).await?,
            Ok(Ok(News::Line { end, text })) if end > after => {
                after = end;
                put(lines, event(end, &text)).await?;
            }
            Ok(Ok(News::Line { .. })) => {}
            Ok(Err(broadcast::error::RecvError::Lagged(_))) => {
                after = replay(app, job_id, after, lines).await?;
            }
            Ok(Ok(News::Over) | Err(broadcast::error::RecvError::Closed)) => news = None,
        }
    }
    replay(app, job_id, after, lines).await?;
    status(app, job_id, lines).await
}

async fn put(lines: &mpsc::Sender<Bytes>, text: String) -> Result<(), Gone> {
    lines.send(text.into()).await.map_err(|_| Gone)
}

fn event(end: u64, line: &str) -> String {
    let parsed = serde_json::from_str::<JobEvent>(line);
    let name = parsed.map_or("message", |event| event.sse_name());
    format!("id: {end}\nevent: {name}\ndata: {line}\n\n")
}

/// The job as it stands.
async fn status(app: &App, job_id: &str, lines: &mpsc::Sender<Bytes>) -> Result<(), Gone> {
    let asked = (app.clone(), job_id.to_owned());
    let job = blocking(move || {
        let job = asked.0.jobs.get(&asked.1)?;
        Ok(shown(&job, (asked.0.config.clock)().ms))
    });
    match job.await {
        Ok(job) => put(lines, format!("event: status\ndata: {job}\n\n")).await,
        Err(_) => Err(Gone),
    }
}

/// What is in the job's file after a place; answers where it ends.
async fn replay(
    app: &App,
    job_id: &str,
    after: u64,
    lines: &mpsc::Sender<Bytes>,
) -> Result<u64, Gone> {
    let folder = app.jobs.folder(job_id);
    let lines = lines.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut last = after;
        let mut is_gone = false;
        let read = Tail::from(&folder, after).read(|end, line| {
            is_gone = is_gone || lines.blocking_send(event(end, line).into()).is_err();
            last = end;
        });
        if is_gone || read.is_err() {
            Err(Gone)
        } else {
            Ok(last)
        }
    });
    read.await.unwrap_or(Err(Gone))
}

/// A body that is what a channel hands over.
struct Lines(mpsc::Receiver<Bytes>);

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
