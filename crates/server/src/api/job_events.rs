//! The output of a job as server-sent events.

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

use super::jobs::job_view;
use crate::App;
use crate::access::{Caller, Right, recheck};
use crate::error::ApiError;
use crate::http::blocking;
use crate::jobs::events::{JobUpdate, Tail};

/// The interval of comments, which keep proxies from closing an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the subscriber's rights and the state of a queued job are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How many events are buffered for a slow subscriber.
const QUEUE: usize = 32;

/// A stream of the events from a channel.
struct Events(mpsc::Receiver<Event>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// `GET /api/bench/jobs/{job_id}/events`: the job's past and future events. The id of an event is
/// its end offset in the job's file, so that a client that reconnects with `Last-Event-ID` misses
/// nothing.
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
        // The stream also ends if the client disconnects, loses its right, or the server stops.
        tokio::select! {
            _ = send(&app, &job_id, after, &sender) => {}
            () = right_lost(&app, &caller) => {}
            () = app.jobs.stopped() => {}
        }
        metrics.subscribers.decrement();
    });
    let events = Sse::new(Events(waiting)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    ([(CACHE_CONTROL, "no-store")], events).into_response()
}

/// Resolves when the caller may no longer read: the token was revoked, or a judge opened a sitting.
async fn right_lost(app: &App, caller: &Caller) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let asked = caller.clone();
        if blocking(app, move |app| recheck(&app.access, &asked, Right::Read))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// The client has disconnected, or the job cannot be read any more.
struct StreamEnded;

async fn send(
    app: &App,
    job_id: &str,
    mut after: u64,
    events: &mpsc::Sender<Event>,
) -> Result<(), StreamEnded> {
    status(app, job_id, events).await?;
    while app.jobs.is_queued(job_id).await {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    // Subscribing before the replay ensures that no event is missed.
    let mut updates = app.jobs.subscribe(job_id);
    status(app, job_id, events).await?;
    after = replay(app, job_id, after, events).await?;
    while let Some(receiver) = &mut updates {
        match receiver.recv().await {
            Ok(JobUpdate::Line { end, text }) if end > after => {
                after = end;
                put(events, event(end, &text)).await?;
            }
            Ok(JobUpdate::Line { .. }) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => {
                after = replay(app, job_id, after, events).await?;
            }
            Ok(JobUpdate::Ended) | Err(broadcast::error::RecvError::Closed) => updates = None,
        }
    }
    replay(app, job_id, after, events).await?;
    status(app, job_id, events).await
}

async fn put(events: &mpsc::Sender<Event>, event: Event) -> Result<(), StreamEnded> {
    events.send(event).await.map_err(|_| StreamEnded)
}

/// The event for one line of output, which ends at the offset `end`.
fn event(end: u64, line: &str) -> Event {
    let parsed = serde_json::from_str::<JobEvent>(line);
    let name = parsed.map_or("message", |event| event.sse_name());
    Event::default().id(end.to_string()).event(name).data(line)
}

/// Sends the job's current state.
async fn status(app: &App, job_id: &str, events: &mpsc::Sender<Event>) -> Result<(), StreamEnded> {
    let asked = job_id.to_owned();
    let job = blocking(app, move |app| {
        let job = app.jobs.get(&asked)?;
        let job = job_view(app, &job);
        serde_json::to_string(&job).map_err(|error| ApiError::internal(error.to_string()))
    });
    match job.await {
        Ok(job) => put(events, Event::default().event("status").data(job)).await,
        Err(_) => Err(StreamEnded),
    }
}

/// Sends the events after an offset from the job's file; returns the new offset.
async fn replay(
    app: &App,
    job_id: &str,
    after: u64,
    events: &mpsc::Sender<Event>,
) -> Result<u64, StreamEnded> {
    let folder = app.jobs.folder(job_id);
    let events = events.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut last = after;
        let mut is_disconnected = false;
        let read = Tail::from(&folder, after).read(|end, line| {
            is_disconnected = is_disconnected || events.blocking_send(event(end, line)).is_err();
            last = end;
        });
        if is_disconnected || read.is_err() {
            Err(StreamEnded)
        } else {
            Ok(last)
        }
    });
    read.await.unwrap_or(Err(StreamEnded))
}
