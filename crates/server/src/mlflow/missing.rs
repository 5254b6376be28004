//! What is not served, said clearly.

use assize_domain::error_kind::ErrorKind;
use axum::extract::OriginalUri;
use axum::http::Method;

use super::ApiError;

/// Part of MLflow's API, or looks like it, and not served here.
pub(crate) async fn not_implemented(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    ApiError::not_implemented(&format!("{method} {} is not served", uri.path()))
}

/// Spans as they end. These words make MLflow's client keep the spans of a trace together and
/// upload them as one file, which is served.
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
        format!("{path} does not answer to {method}"),
    )
}
