//! Responses for operations that do not exist or are not implemented.

use assize_domain::error_kind::ErrorKind;
use axum::extract::{OriginalUri, State};
use axum::http::Method;

use super::ApiError;
use crate::App;

/// The fallback for paths under MLflow's prefixes.
pub(crate) async fn not_implemented(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    ApiError::not_implemented(&format!("{method} {} is not supported", uri.path()))
}

/// The fallback for MLflow's API if runs are tracked on a team's server.
pub(crate) async fn on_the_team_s_server(State(app): State<App>) -> ApiError {
    let address = app.team.as_ref().map_or("", |team| team.address());
    ApiError::new(
        ErrorKind::EndpointNotFound,
        format!(
            "MLflow's API is not served here, because runs are tracked on {address}: set \
             MLFLOW_TRACKING_URI to that address"
        ),
    )
}

/// The endpoint for single spans. This exact message makes MLflow's client upload all spans of a
/// trace as one file, which is supported.
pub(crate) async fn spans() -> ApiError {
    ApiError::not_implemented("REST OTLP span logging is not supported")
}

pub(crate) fn not_found(method: &Method, path: &str) -> ApiError {
    ApiError::new(
        ErrorKind::EndpointNotFound,
        format!("there is no {method} {path}"),
    )
}

pub(crate) fn wrong_method(method: &Method, path: &str) -> ApiError {
    ApiError::new(
        ErrorKind::MethodNotAllowed,
        format!("{path} does not support {method}"),
    )
}
