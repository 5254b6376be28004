//! `GET /api/policies/events`: decisions, rewards, signals of shadows and changes of the active
//! policy as server-sent events, from now on. The log has what was before.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use assize_policy::PolicyKind;
use axum::Extension;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_core::Stream;
use tokio::sync::{broadcast, mpsc};

use super::Engine;
use crate::access::{Access, Caller, Right, recheck};

/// The interval of comments, which keep proxies from closing an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the subscriber's right is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How many events are kept for a slow subscriber; older ones are dropped.
const KEPT: usize = 1024;
/// How many events are on their way to one subscriber.
const QUEUE: usize = 32;

/// What watchers are told.
#[derive(Debug, Clone)]
struct PolicyEvent {
    name: &'static str,
    /// JSON.
    data: Arc<str>,
}

/// The sending side of all streams.
#[derive(Debug)]
pub(super) struct Events(broadcast::Sender<PolicyEvent>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }
}

impl Events {
    /// Whether anybody watches, so that events need to be written.
    pub fn are_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub fn send(&self, name: &'static str, data: impl Into<Arc<str>>) {
        // It fails if nobody watches.
        let _ = self.0.send(PolicyEvent {
            name,
            data: data.into(),
        });
    }

    /// Another policy is active now.
    pub fn active(&self, from: PolicyKind, to: PolicyKind) {
        let data = serde_json::json!({"from": from.name(), "to": to.name()});
        self.send("active", data.to_string());
    }
}

/// A stream of the events from a channel.
struct Received(mpsc::Receiver<Event>);

impl Stream for Received {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

pub(crate) async fn stream(
    State(engine): State<Arc<Engine>>,
    State(access): State<Arc<Access>>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let (sender, waiting) = mpsc::channel(QUEUE);
    let events = engine.events.0.subscribe();
    let mut stopping = engine.stopping.subscribe();
    tokio::spawn(async move {
        // The stream also ends if the client disconnects, loses its right, or the server stops.
        tokio::select! {
            () = forward(events, &sender) => {}
            () = right_lost(&access, &caller) => {}
            _ = stopping.wait_for(|it| *it) => {}
            () = sender.closed() => {}
        }
    });
    let events = Sse::new(Received(waiting)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    ([(CACHE_CONTROL, "no-store")], events).into_response()
}

async fn forward(mut events: broadcast::Receiver<PolicyEvent>, sender: &mpsc::Sender<Event>) {
    // A comment tells the client that the stream has started.
    let mut sent = sender.send(Event::default().comment("events follow")).await;
    while sent.is_ok() {
        sent = match events.recv().await {
            Ok(event) => {
                let event = Event::default().event(event.name).data(&*event.data);
                sender.send(event).await
            }
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                let data = serde_json::json!({"missed": missed}).to_string();
                sender
                    .send(Event::default().event("missed").data(data))
                    .await
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
    }
}

async fn right_lost(access: &Arc<Access>, caller: &Caller) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let (access, caller) = (Arc::clone(access), caller.clone());
        let check = move || recheck(&access, &caller, Right::ReadService);
        let checked = tokio::task::spawn_blocking(check).await;
        if !matches!(checked, Ok(Ok(()))) {
            return;
        }
    }
}
