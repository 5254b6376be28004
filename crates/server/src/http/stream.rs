//! Bodies that leave while they are made, by a thread that reads the store.
//!
//! What fits into one part is answered whole, and an error before the first part is an ordinary
//! error. A failure behind it breaks the connection off, so that nobody takes half an answer
//! for all of it. A client that stops reading is disconnected, because it would hold a
//! snapshot of the store.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use assize_store::embedded::mlflow::Mlflow;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::{WorkerPanicked, json};
use crate::App;
use crate::error::Answer;

/// Parts that wait for a slow reader at most.
const AHEAD: usize = 4;
/// The size from which on a part leaves.
const PART: usize = 64 << 10;
/// How long a reader may take for a part.
const PATIENCE: Duration = Duration::from_mins(1);

/// A body whose parts come through a channel.
struct Parts(mpsc::Receiver<io::Result<Bytes>>);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0
            .poll_recv(context)
            .map(|part| part.map(|bytes| bytes.map(Frame::data)))
    }
}

/// Where a thread puts the parts of a body.
pub(crate) struct Feed {
    parts: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl Feed {
    /// Hands a part over, and says whether anybody wants more.
    pub fn send(&self, part: io::Result<Bytes>) -> bool {
        let send = tokio::time::timeout(PATIENCE, self.parts.send(part));
        matches!(self.runtime.block_on(send), Ok(Ok(())))
    }
}

/// A body, and what feeds it.
pub(crate) fn body() -> (Feed, Body) {
    let (parts, waiting) = mpsc::channel(AHEAD);
    let feed = Feed {
        parts,
        runtime: Handle::current(),
    };
    (feed, Body::new(Parts(waiting)))
}

/// A JSON text that is being written.
pub(crate) struct Text {
    buffer: Vec<u8>,
    started: Option<oneshot::Sender<Answer<Response>>>,
    feed: Option<Feed>,
}

impl Text {
    /// Where to write to; [`Text::pass`] afterwards.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Lets what was written leave once it is enough; says whether anybody wants more.
    pub fn pass(&mut self) -> bool {
        if self.buffer.len() < PART {
            return true;
        }
        if let Some(started) = self.started.take() {
            let (feed, body) = body();
            self.feed = Some(feed);
            if started.send(Ok(json(StatusCode::OK, body))).is_err() {
                return false;
            }
        }
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        self.feed.as_ref().is_some_and(|feed| feed.send(Ok(part)))
    }

    fn finish(mut self, outcome: Answer<()>) {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match (self.started.take(), &self.feed, outcome) {
            // A caller that is gone needs no answer.
            (Some(started), _, outcome) => {
                let _ = started.send(outcome.map(|()| json(StatusCode::OK, rest)));
            }
            (None, Some(feed), Ok(())) => {
                feed.send(Ok(rest));
            }
            (None, Some(feed), Err(_)) => {
                feed.send(Err(io::Error::other(
                    "the store failed after the answer had started",
                )));
            }
            (None, None, _) => {}
        }
    }
}

/// Answers with the JSON that `work` writes, on a thread that may block.
pub(crate) async fn text(
    app: App,
    work: impl FnOnce(Mlflow<'_>, &mut Text) -> Answer<()> + Send + 'static,
) -> Answer<Response> {
    let (started, start) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut text = Text {
            buffer: Vec::new(),
            started: Some(started),
            feed: None,
        };
        let outcome = work(app.store.mlflow(), &mut text);
        text.finish(outcome);
    });
    start.await.unwrap_or_else(|_| Err(WorkerPanicked.into()))
}
