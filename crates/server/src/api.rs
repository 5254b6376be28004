//! The API of the bench: experiments, runs, leaderboards, jobs, the judge's desk.
//!
//! [`table`] lists every operation once; the router and the OpenAPI document are both made
//! from it, so that neither can say something that the other does not. Handlers are plain
//! functions that may block, from the fields of a request to an answer.

use std::pin::Pin;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::App;
use crate::access::Caller;
use crate::error::{Answer, ApiError};
use crate::http::{blocking, json, read};

pub(crate) mod board;
pub(crate) mod desk;
pub(crate) mod experiments;
pub(crate) mod job_events;
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

/// A [`Work`] as an axum handler.
pub(crate) struct Call<T>(Work<T>);

pub(crate) fn call<T>(work: Work<T>) -> Call<T> {
    Call(work)
}

impl<T> Clone for Call<T> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<T: DeserializeOwned + Send + 'static> Handler<(), App> for Call<T> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, app: App) -> Self::Future {
        Box::pin(async move {
            let answer = answer(&app, request, self.0).await;
            answer.unwrap_or_else(ApiError::into_response)
        })
    }
}

async fn answer<T>(app: &App, request: Request, work: Work<T>) -> Answer<Response>
where
    T: DeserializeOwned + Send + 'static,
{
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| ApiError::internal("a route without a right"))?;
    let fields: T = read(request).await?;
    blocking(app, move |app| {
        let reply = work(app, &caller, &fields)?;
        Ok(json(reply.status, reply.body.to_string()))
    })
    .await
}
