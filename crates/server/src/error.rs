//! The one kind of error that this server answers with.

use assize_pipeline::PipelineError;
use assize_store::StoreError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::ServerError;
use crate::jobs::plan::FieldProblem;

/// Shorthand for what handlers answer.
pub(crate) type Answer<T> = Result<T, ApiError>;

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    /// What is wrong with which field of the request.
    pub fields: Vec<FieldProblem>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self {
            status,
            code,
            message,
            fields: Vec::new(),
        }
    }

    /// Something else is the case than the request supposes.
    pub fn conflict(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "RESOURCE_CONFLICT", message)
    }

    /// Every bad field of a request, by name.
    pub fn fields(problems: Vec<FieldProblem>) -> Self {
        let words: Vec<String> = problems
            .iter()
            .map(|it| format!("{} {}", it.field, it.message))
            .collect();
        Self {
            fields: problems,
            ..Self::invalid(words.join("; "))
        }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "RESOURCE_DOES_NOT_EXIST",
            message.into(),
        )
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

impl From<PipelineError> for ApiError {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Store(error) => error.into(),
            PipelineError::JudgeFile { problems, .. } => {
                let problems = problems.into_iter().map(|it| FieldProblem {
                    field: format!("/verdicts{}", it.pointer),
                    message: it.message,
                });
                Self::fields(problems.collect())
            }
            error if error.is_invalid_input() => Self::invalid(error.to_string()),
            error => Self::internal(error.to_string()),
        }
    }
}

impl From<ServerError> for ApiError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Store(error) => error.into(),
            ServerError::NameTaken(_) => Self::conflict(error.to_string()),
            error => Self::internal(error.to_string()),
        }
    }
}

impl From<std::io::Error> for ApiError {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // The first is the shape of this API's errors, the other two of MLflow's.
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.fields.is_empty() {
            error["fields"] = json!(self.fields);
        }
        let body = json!({
            "error": error,
            "error_code": self.code,
            "message": self.message,
        });
        let mut response = (self.status, body.to_string()).into_response();
        response.headers_mut().insert(
            axum::http::header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json"),
        );
        response
    }
}
