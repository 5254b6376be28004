//! The API of the bench: experiments, runs, leaderboards, jobs, the judge's desk.
//!
//! [`table`] lists every operation once; the router and the OpenAPI document are both made
//! from it, so that neither can say something that the other does not. Handlers are plain
//! functions that may block, from the fields of a request to an answer.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{self, MethodRouter};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::App;
use crate::access::Caller;
use crate::error::{Answer, ApiError};
use crate::mlflow::request::read;

pub(crate) mod board;
pub(crate) mod desk;
pub(crate) mod experiments;
pub(crate) mod jobs;
pub(crate) mod openapi;
pub(crate) mod table;
pub(crate) mod tokens;

/// An answer with its status.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: StatusCode,
    pub body: Value,
}

impl From<Value> for Reply {
    fn from(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            body,
        }
    }
}

impl Reply {
    pub fn accepted(body: Value) -> Self {
        Self {
            status: StatusCode::ACCEPTED,
            body,
        }
    }
}

/// What a handler is.
pub(crate) type Work<T> = fn(&App, &Caller, &T) -> Answer<Reply>;

pub(crate) fn get<T: DeserializeOwned + Send + 'static>(work: Work<T>) -> MethodRouter<App> {
    routing::get(
        move |State(app): State<App>, Extension(caller): Extension<Caller>, request: Request| {
            answer(app, caller, request, work)
        },
    )
}

pub(crate) fn post<T: DeserializeOwned + Send + 'static>(work: Work<T>) -> MethodRouter<App> {
    routing::post(
        move |State(app): State<App>, Extension(caller): Extension<Caller>, request: Request| {
            answer(app, caller, request, work)
        },
    )
}

async fn answer<T: DeserializeOwned + Send + 'static>(
    app: App,
    caller: Caller,
    request: Request,
    work: Work<T>,
) -> Response {
    let outcome = async {
        let fields: T = read(request).await?;
        blocking(move || {
            let reply = work(&app, &caller, &fields)?;
            Ok((reply.status, reply.body.to_string()))
        })
        .await
    };
    match outcome.await {
        Ok((status, body)) => (status, [(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => error.into_response(),
    }
}

/// Runs what may block where that is no harm.
pub(crate) async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Answer<R> + Send + 'static,
) -> Answer<R> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ApiError::worker_panicked()))
}
