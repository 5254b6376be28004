//! Responses for operations that do not exist or are not implemented.

use assize_domain::error_kind::ErrorKind;
use axum::extract::OriginalUri;
use axum::http::Method;

use super::ApiError;

/// The fallback for paths under MLflow's prefixes.
pub(crate) async fn not_implemented(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    ApiError::not_implemented(&format!("{method} {} is not supported", uri.path()))
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
