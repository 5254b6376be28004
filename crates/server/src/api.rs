//! The bench API: experiments, runs, leaderboards, jobs, and the judge's desk.
//!
//! [`table`] lists every operation once. The router and the OpenAPI document are generated from
//! it, so that they always agree. Handlers are plain blocking functions that convert the fields
//! of a request to a response.

use std::pin::Pin;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::App;
use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::http::{blocking, json, read};

pub(crate) mod board;
pub(crate) mod champion;
pub(crate) mod desk;
pub(crate) mod experiments;
pub(crate) mod job_events;
pub(crate) mod jobs;
pub(crate) mod ledger;
pub(crate) mod openapi;
pub(crate) mod plan;
pub(crate) mod table;
pub(crate) mod tokens;

/// A blocking handler function.
pub(crate) type Work<T, A> = fn(&App, &Caller, &T) -> ApiResult<A>;

/// A [`Work`] as an axum handler, with the status of a successful response.
pub(crate) struct Call<T, A>(StatusCode, Work<T, A>);

pub(crate) fn call<T, A>(status: StatusCode, work: Work<T, A>) -> Call<T, A> {
    Call(status, work)
}

impl<T, A> Clone for Call<T, A> {
    fn clone(&self) -> Self {
        Self(self.0, self.1)
    }
}

impl<T, A> Handler<(), App> for Call<T, A>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, app: App) -> Self::Future {
        Box::pin(async move {
            let response = respond(&app, request, self).await;
            response.unwrap_or_else(ApiError::into_response)
        })
    }
}

async fn respond<T, A>(app: &App, request: Request, call: Call<T, A>) -> ApiResult<Response>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
{
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| ApiError::internal("the route declares no right"))?;
    let fields: T = read(request).await?;
    blocking(app, move |app| {
        let Call(status, work) = call;
        let body = serde_json::to_vec(&work(app, &caller, &fields)?);
        let body = body.map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(json(status, body))
    })
    .await
}
