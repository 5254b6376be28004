//! The adapter from plain functions to handlers of MLflow's API.

use std::pin::Pin;

use assize_store::embedded::mlflow::Mlflow;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ApiError, ApiResult, mistakes};
use crate::App;
use crate::http::{in_place, json, read_fields};

/// A blocking handler function.
type Work<T, A> = fn(Mlflow<'_>, T) -> ApiResult<A>;

/// A [`Work`] as an axum handler.
pub(crate) struct Call<T, A>(Work<T, A>);

pub(crate) fn call<T, A>(work: Work<T, A>) -> Call<T, A> {
    Call(work)
}

impl<T, A> Clone for Call<T, A> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<T, A> Handler<(), App> for Call<T, A>
where
    T: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, app: App) -> Self::Future {
        Box::pin(respond(async move {
            let fields = parsed(request).await?;
            let body = in_place(|| {
                let response = (self.0)(app.store.mlflow(), fields)?;
                serde_json::to_vec(&response).map_err(|error| ApiError::internal(error.to_string()))
            })?;
            Ok(json(StatusCode::OK, body))
        }))
    }
}

/// Reads a request; a mistake is reported in MLflow's words.
pub(crate) async fn parsed<T: DeserializeOwned>(request: Request) -> ApiResult<T> {
    mistakes::parse(read_fields(request).await?)
}

/// The response, or an error in MLflow's format.
pub(crate) async fn respond(outcome: impl Future<Output = ApiResult<Response>>) -> Response {
    outcome.await.unwrap_or_else(ApiError::into_mlflow_response)
}
