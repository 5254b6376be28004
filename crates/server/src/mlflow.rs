//! MLflow's REST API over the embedded store.
//!
//! Handlers are plain functions from a request's fields to an answer; [`request`] reads the
//! one and writes the other. What is not served says so with a 501, and a permanent condition
//! is never a 5xx that the Python client would repeat for two minutes.

use assize_store::StoreError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

pub(crate) mod artifacts;
pub(crate) mod experiments;
pub(crate) mod fields;
pub(crate) mod logged_models;
pub(crate) mod missing;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod traces;

/// Shorthand for what handlers answer.
pub(crate) type Answer<T> = Result<T, ApiError>;

/// An answer that is no success, as MLflow writes it.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self {
            status,
            code,
            message,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "INVALID_PARAMETER_VALUE",
            message.into(),
        )
    }

    /// What MLflow has and Assize does not.
    pub fn not_served(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NOT_IMPLEMENTED",
            format!("{what} by assize: docs/mlflow.md lists what is"),
        )
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL_ERROR",
            message.into(),
        )
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let (status, code) = match error {
            StoreError::NotFound(_)
            | StoreError::NoRun { .. }
            | StoreError::NoExperiment { .. } => (StatusCode::NOT_FOUND, "RESOURCE_DOES_NOT_EXIST"),
            StoreError::AlreadyExists(_) => (StatusCode::BAD_REQUEST, "RESOURCE_ALREADY_EXISTS"),
            StoreError::Invalid(_) => (StatusCode::BAD_REQUEST, "INVALID_PARAMETER_VALUE"),
            StoreError::Conflict(_) => (StatusCode::BAD_REQUEST, "BAD_REQUEST"),
            // Damage does not go away by asking again.
            StoreError::Corrupt { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "DATA_LOSS"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
        };
        Self::new(status, code, message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error_code": self.code, "message": self.message});
        let mut response = (self.status, body.to_string()).into_response();
        response.headers_mut().insert(
            axum::http::header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json"),
        );
        response
    }
}
