//! What a job prints, as server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use assize_pipeline::events::JobEvent;
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, HeaderMap};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_core::Stream;
use tokio::sync::{broadcast, mpsc};

use super::jobs::shown;
use crate::App;
use crate::access::{Caller, recheck_read};
use crate::error::ApiError;
use crate::http::blocking;
use crate::jobs::events::{JobUpdate, Tail};

/// A comment so often keeps proxies from closing a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a watcher's rights and a waiting job are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Events that wait for a slow watcher.
const QUEUE: usize = 32;

/// The events that a channel hands over.
struct Events(mpsc::Receiver<Event>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// `GET /api/bench/jobs/{job_id}/events`: what the job printed and prints, as server-sent
/// events. The id of an event is the place in the job's file where it ends, so that a watcher
/// who comes back (`Last-Event-ID`) misses nothing.
pub(crate) async fn stream(
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
    let asked = job_id.clone();
    let job = blocking(&app, move |app| app.jobs.get(&asked)).await;
    if let Err(error) = job {
        return error.into_response();
    }
    let (sender, waiting) = mpsc::channel(QUEUE);
    app.metrics.subscribers.increment();
    tokio::spawn(async move {
        let metrics = std::sync::Arc::clone(&app.metrics);
        // A watcher who left ends the stream, and so does a server that stops.
        tokio::select! {
            _ = send(&app, &job_id, after, &sender) => {}
            () = not_allowed(&app, &caller) => {}
            () = app.jobs.stopped() => {}
        }
        metrics.subscribers.decrement();
    });
    let events = Sse::new(Events(waiting)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    ([(CACHE_CONTROL, "no-store")], events).into_response()
}

/// Comes when the watcher may not read any more: a revoked token, or a judge who sat down.
async fn not_allowed(app: &App, caller: &Caller) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let asked = caller.clone();
        if blocking(app, move |app| recheck_read(app, &asked))
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
    events: &mpsc::Sender<Event>,
) -> Result<(), Gone> {
    status(app, job_id, events).await?;
    while app.jobs.is_queued(job_id).await {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // First who listens and then what is there already: nothing falls between.
    let mut news = app.jobs.subscribe(job_id);
    status(app, job_id, events).await?;
    after = replay(app, job_id, after, events).await?;
    while let Some(receiver) = &mut news {
        match receiver.recv().await {
            Ok(JobUpdate::Line { end, text }) if end > after => {
                after = end;
                put(events, event(end, &text)).await?;
            }
            Ok(JobUpdate::Line { .. }) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => {
                after = replay(app, job_id, after, events).await?;
            }
            Ok(JobUpdate::Ended) | Err(broadcast::error::RecvError::Closed) => news = None,
        }
    }
    replay(app, job_id, after, events).await?;
    status(app, job_id, events).await
}

async fn put(events: &mpsc::Sender<Event>, event: Event) -> Result<(), Gone> {
    events.send(event).await.map_err(|_| Gone)
}

/// What a job printed on one line, which ends at this place of its file.
fn event(end: u64, line: &str) -> Event {
    let parsed = serde_json::from_str::<JobEvent>(line);
    let name = parsed.map_or("message", |event| event.sse_name());
    Event::default().id(end.to_string()).event(name).data(line)
}

/// The job as it stands.
async fn status(app: &App, job_id: &str, events: &mpsc::Sender<Event>) -> Result<(), Gone> {
    let asked = job_id.to_owned();
    let job = blocking(app, move |app| {
        let job = app.jobs.get(&asked)?;
        let job = shown(app, &job);
        serde_json::to_string(&job).map_err(|error| ApiError::internal(error.to_string()))
    });
    match job.await {
        Ok(job) => put(events, Event::default().event("status").data(job)).await,
        Err(_) => Err(Gone),
    }
}

/// What is in the job's file after a place; answers where it ends.
async fn replay(
    app: &App,
    job_id: &str,
    after: u64,
    events: &mpsc::Sender<Event>,
) -> Result<u64, Gone> {
    let folder = app.jobs.folder(job_id);
    let events = events.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut last = after;
        let mut is_gone = false;
        let read = Tail::from(&folder, after).read(|end, line| {
            is_gone = is_gone || events.blocking_send(event(end, line)).is_err();
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
