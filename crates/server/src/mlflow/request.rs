//! From HTTP to fields and back: the query of a GET, the JSON body of everything else, and the
//! parts of the path, as one object.

use std::panic::{AssertUnwindSafe, catch_unwind};

use assize_domain::error_kind::ErrorKind;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use assize_store::embedded::mlflow::Mlflow;

use super::{Answer, ApiError};
use crate::App;

/// Larger requests are refused. A full batch of MLflow's has less than two million characters.
const LARGEST_BODY: usize = 16 << 20;

/// How long a body may take to arrive.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// What a handler is: a function that may block.
pub(crate) type Work<T, A> = fn(Mlflow<'_>, T) -> Answer<A>;

pub(crate) fn get<T, A>(work: Work<T, A>) -> MethodRouter<App>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    routing::get(move |State(app): State<App>, request: Request| answer(app, request, work))
}

pub(crate) fn post<T, A>(work: Work<T, A>) -> MethodRouter<App>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    routing::post(move |State(app): State<App>, request: Request| answer(app, request, work))
}

pub(crate) fn patch<T, A>(work: Work<T, A>) -> MethodRouter<App>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    routing::patch(move |State(app): State<App>, request: Request| answer(app, request, work))
}

pub(crate) fn delete<T, A>(work: Work<T, A>) -> MethodRouter<App>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    routing::delete(move |State(app): State<App>, request: Request| answer(app, request, work))
}

pub(crate) fn get_or_post<T, A>(work: Work<T, A>) -> MethodRouter<App>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    get(work).merge(post(work))
}

async fn answer<T, A>(app: App, request: Request, work: Work<T, A>) -> Response
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    let outcome = async {
        let fields = read(request).await?;
        in_place(&app, |mlflow| {
            let answer = work(mlflow, fields)?;
            serde_json::to_vec(&answer).map_err(|error| ApiError::internal(error.to_string()))
        })
    };
    match outcome.await {
        Ok(body) => json(body),
        Err(error) => error.into_mlflow_response(),
    }
}

fn json(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Runs store verbs where the request is; other requests move to another thread meanwhile. A
/// client that logs waits for every answer, and the way to another thread and back takes as long
/// as the work itself.
fn in_place<R>(app: &App, work: impl FnOnce(Mlflow<'_>) -> Answer<R>) -> Answer<R> {
    let work = AssertUnwindSafe(|| work(app.store.mlflow()));
    tokio::task::block_in_place(|| catch_unwind(work))
        .unwrap_or_else(|_| Err(ApiError::worker_panicked()))
}

/// Runs store verbs on a thread that may block.
pub(crate) async fn blocking<R: Send + 'static>(
    app: App,
    work: impl FnOnce(Mlflow<'_>) -> Answer<R> + Send + 'static,
) -> Answer<R> {
    tokio::task::spawn_blocking(move || work(app.store.mlflow()))
        .await
        .unwrap_or_else(|_| Err(ApiError::worker_panicked()))
}

pub(crate) async fn read<T: DeserializeOwned>(request: Request) -> Answer<T> {
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
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| ApiError::invalid(format!("the request cannot be read: {error}")))
}

/// A key that comes again becomes a list.
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

async fn body_fields(headers: &HeaderMap, body: Body) -> Answer<Map<String, Value>> {
    let bytes = tokio::time::timeout(PATIENCE, to_bytes(body, LARGEST_BODY))
        .await
        .map_err(|_| {
            ApiError::new(
                ErrorKind::RequestTimeout,
                format!(
                    "the request took longer than {} s to arrive",
                    PATIENCE.as_secs()
                ),
            )
        })?;
    let bytes = bytes.map_err(|_| {
        ApiError::new(
            ErrorKind::TooLarge,
            format!("the request is larger than {LARGEST_BODY} bytes, or broke off"),
        )
    })?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    // Pages of other sites can send forms and plain text without asking, but no JSON.
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if !kind.is_some_and(|it| it.starts_with("application/json")) {
        return Err(ApiError::invalid(
            "Bad Request. Content-Type must be application/json",
        ));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::invalid(format!("the body is no JSON object: {error}")))
}
