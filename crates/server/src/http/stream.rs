//! Response bodies that are sent while a blocking thread generates them from the store.
//!
//! A body that fits into one part is sent as an ordinary response, and an error before the first
//! part is sent is an ordinary error response. A later error closes the connection, so that no
//! client takes a partial body for a complete one. A client that stops reading is disconnected,
//! because it would keep a snapshot of the store open.

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
use crate::error::ApiResult;

/// How many parts are buffered for a slow client.
const MAX_BUFFERED_PARTS: usize = 4;
/// The buffer size, in bytes, from which on a part is sent.
const PART_SIZE: usize = 64 << 10;
/// How long a client may take to accept a part.
const SEND_TIMEOUT: Duration = Duration::from_mins(1);

/// A body whose parts arrive through a channel.
struct ChannelBody(mpsc::Receiver<io::Result<Bytes>>);

impl http_body::Body for ChannelBody {
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

/// The sending half of a body, for a blocking thread.
pub(crate) struct PartSender {
    parts: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl PartSender {
    /// Sends a part; returns false if the client is gone or too slow.
    pub fn send(&self, part: io::Result<Bytes>) -> bool {
        let send = tokio::time::timeout(SEND_TIMEOUT, self.parts.send(part));
        matches!(self.runtime.block_on(send), Ok(Ok(())))
    }
}

/// A body with its sending half.
pub(crate) fn body() -> (PartSender, Body) {
    let (parts, receiver) = mpsc::channel(MAX_BUFFERED_PARTS);
    let sender = PartSender {
        parts,
        runtime: Handle::current(),
    };
    (sender, Body::new(ChannelBody(receiver)))
}

/// Writes a JSON body in parts.
pub(crate) struct JsonWriter {
    buffer: Vec<u8>,
    /// Taken when the response has started.
    response: Option<oneshot::Sender<ApiResult<Response>>>,
    sender: Option<PartSender>,
}

impl JsonWriter {
    /// The buffer to write to. Call [`JsonWriter::flush_if_full`] after every item.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Sends the buffer if it holds a full part; returns false if the client is gone or too slow.
    pub fn flush_if_full(&mut self) -> bool {
        if self.buffer.len() < PART_SIZE {
            return true;
        }
        if let Some(response) = self.response.take() {
            let (sender, body) = body();
            self.sender = Some(sender);
            if response.send(Ok(json(StatusCode::OK, body))).is_err() {
                return false;
            }
        }
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        self.sender
            .as_ref()
            .is_some_and(|sender| sender.send(Ok(part)))
    }

    fn finish(mut self, outcome: ApiResult<()>) {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match (self.response.take(), &self.sender, outcome) {
            // Sending fails only if the client is gone.
            (Some(response), _, outcome) => {
                let _ = response.send(outcome.map(|()| json(StatusCode::OK, rest)));
            }
            (None, Some(sender), Ok(())) => {
                sender.send(Ok(rest));
            }
            (None, Some(sender), Err(_)) => {
                sender.send(Err(io::Error::other(
                    "the store failed after the response had started",
                )));
            }
            (None, None, _) => {}
        }
    }
}

/// Responds with the JSON that `work` writes on a blocking thread.
pub(crate) async fn stream_json(
    app: App,
    work: impl FnOnce(Mlflow<'_>, &mut JsonWriter) -> ApiResult<()> + Send + 'static,
) -> ApiResult<Response> {
    let (sender, response) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut writer = JsonWriter {
            buffer: Vec::new(),
            response: Some(sender),
            sender: None,
        };
        let outcome = work(app.store.mlflow(), &mut writer);
        writer.finish(outcome);
    });
    response
        .await
        .unwrap_or_else(|_| Err(WorkerPanicked.into()))
}
