//! Request parsing, blocking work and JSON responses, shared by the bench API, MLflow's API and
//! the panel.
//!
//! [`route`] declares a route with the right that it requires; [`stream`] sends a body while it
//! is being generated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use assize_domain::error_kind::ErrorKind;
use assize_pipeline::PipelineError;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::App;
use crate::error::{ApiError, ApiResult};
use crate::panel::page::PageError;

pub(crate) mod route;
pub(crate) mod stream;

/// The size limit of JSON bodies. MLflow's largest batches have less than two million characters.
const MAX_BODY: usize = 16 << 20;
/// How long a JSON body may take to arrive.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a small body may take to arrive.
const SMALL_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest small body, in bytes.
const SMALL_BODY: u64 = 64 << 10;

/// The thread that handled a request has panicked.
#[derive(Debug)]
pub(crate) struct WorkerPanicked;

impl From<WorkerPanicked> for ApiError {
    fn from(_: WorkerPanicked) -> Self {
        Self::worker_panicked()
    }
}

impl From<WorkerPanicked> for PageError {
    fn from(_: WorkerPanicked) -> Self {
        ApiError::worker_panicked().into()
    }
}

impl From<WorkerPanicked> for PipelineError {
    fn from(_: WorkerPanicked) -> Self {
        Self::worker_panicked()
    }
}

/// Runs `work` on a blocking thread.
pub(crate) async fn run_blocking<R, E>(
    app: &App,
    work: impl FnOnce(&App) -> Result<R, E> + Send + 'static,
) -> Result<R, E>
where
    R: Send + 'static,
    E: From<WorkerPanicked> + Send + 'static,
{
    let app = app.clone();
    tokio::task::spawn_blocking(move || work(&app))
        .await
        .unwrap_or_else(|_| Err(WorkerPanicked.into()))
}

/// [`run_blocking`] for API handlers.
pub(crate) async fn blocking<R: Send + 'static>(
    app: &App,
    work: impl FnOnce(&App) -> ApiResult<R> + Send + 'static,
) -> ApiResult<R> {
    run_blocking(app, work).await
}

/// Runs blocking `work` on the current thread, while the runtime moves its other tasks to another
/// one. Logging clients wait for every response, and a switch to another thread and back would
/// take as long as the work itself.
pub(crate) fn in_place<R>(work: impl FnOnce() -> ApiResult<R>) -> ApiResult<R> {
    tokio::task::block_in_place(|| catch_unwind(AssertUnwindSafe(work)))
        .unwrap_or_else(|_| Err(WorkerPanicked.into()))
}

/// A response with a JSON body.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// Reads a request's fields into one type: the query of a GET, otherwise the JSON body, and the
/// parameters of the path.
pub(crate) async fn read<T: DeserializeOwned>(request: Request) -> ApiResult<T> {
    let fields = read_fields(request).await?;
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| ApiError::invalid(format!("the request cannot be read: {error}")))
}

/// Reads a request's fields; those that are null count as absent.
pub(crate) async fn read_fields(request: Request) -> ApiResult<Map<String, Value>> {
    let (mut parts, body) = request.into_parts();
    let mut fields = if parts.method == Method::GET {
        query(parts.uri.query().unwrap_or_default())
    } else {
        body_fields(&parts.headers, body).await?
    };
    if let Ok(path) = RawPathParams::from_request_parts(&mut parts, &()).await {
        for (name, value) in &path {
            fields.insert(name.to_owned(), value.into());
        }
    }
    fields.retain(|_, value| !value.is_null());
    Ok(fields)
}

/// Parses a query string. A repeated key becomes a list.
fn query(text: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    for (key, value) in form_urlencoded::parse(text.as_bytes()) {
        let value = Value::from(value.into_owned());
        match fields.get_mut(key.as_ref()) {
            None => {
                fields.insert(key.into_owned(), value);
            }
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    fields
}

async fn body_fields(headers: &HeaderMap, body: Body) -> ApiResult<Map<String, Value>> {
    let bytes = read_body(body, MAX_BODY, BODY_TIMEOUT).await?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    // Browsers let pages of other sites send forms and plain text without a preflight request,
    // but not JSON.
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if !kind.is_some_and(|it| it.starts_with("application/json")) {
        return Err(ApiError::invalid(
            "Bad Request. Content-Type must be application/json",
        ));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::invalid(format!("the body is not a JSON object: {error}")))
}

/// Reads a whole body, with a limit on its size and a timeout.
pub(crate) async fn read_body(body: Body, max_size: usize, timeout: Duration) -> ApiResult<Bytes> {
    let timed_out = |_| {
        let message = format!(
            "the request took longer than {} s to arrive",
            timeout.as_secs()
        );
        ApiError::new(ErrorKind::RequestTimeout, message)
    };
    let read = tokio::time::timeout(timeout, to_bytes(body, max_size)).await;
    read.map_err(timed_out)?.map_err(|_| {
        let message =
            format!("the request is larger than {max_size} bytes, or the connection was lost");
        ApiError::new(ErrorKind::TooLarge, message)
    })
}

/// Middleware that reads a small body before the request is handled. A response that leaves the
/// body unread would close the connection, which the client may reuse.
pub(crate) async fn read_small_body(request: Request, next: Next) -> Response {
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    if !length.is_some_and(|it| (1..=SMALL_BODY).contains(&it)) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(SMALL_BODY_TIMEOUT, to_bytes(body, usize::MAX)).await;
    let Ok(Ok(body)) = read else {
        let message = "timeout while reading the request's body";
        return ApiError::new(ErrorKind::RequestTimeout, message).into_response();
    };
    next.run(Request::from_parts(head, Body::from(body))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_of_a_handler_is_an_internal_error() {
        let error = in_place(|| -> ApiResult<()> { unreachable!("a bug") }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
        let response = error.into_response();
        assert_eq!(response.status(), 500);
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("internal error: worker panicked"), "{text}");
    }

    #[test]
    fn a_repeated_key_is_a_list() {
        let fields = Value::Object(query("a=1&b=2&a=3"));
        assert_eq!(fields, serde_json::json!({"a": ["1", "3"], "b": "2"}));
    }
}
