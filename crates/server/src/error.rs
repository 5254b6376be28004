//! The error type of all API handlers, and its response.

use assize_domain::error_kind::{ErrorKind, WORKER_PANICKED};
use assize_pipeline::PipelineError;
use assize_store::StoreError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ServerError;
use crate::jobs::plan::FieldProblem;

/// The result of API handlers.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// An error response. The kind determines status and code.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub kind: ErrorKind,
    pub message: String,
    /// Problems with single fields of the request.
    pub fields: Vec<FieldProblem>,
}

/// The HTTP status of a kind of error.
pub(crate) fn status_of(kind: ErrorKind) -> StatusCode {
    StatusCode::from_u16(kind.report().http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl ApiError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            fields: Vec::new(),
        }
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// An error that lists all invalid fields of a request.
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
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// A part of MLflow's API that Assize does not implement.
    pub fn not_implemented(what: &str) -> Self {
        Self::new(
            ErrorKind::NotImplemented,
            format!("{what} by assize; see docs/mlflow.md for what is supported"),
        )
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    pub fn worker_panicked() -> Self {
        Self::internal(format!("internal error: {WORKER_PANICKED}"))
    }

    /// The response on MLflow's API. MLflow's clients expect 400 `BAD_REQUEST` for a conflict with
    /// the state of a run or an experiment.
    pub fn into_mlflow_response(self) -> Response {
        if self.kind == ErrorKind::Conflict {
            self.respond(StatusCode::BAD_REQUEST, "BAD_REQUEST")
        } else {
            self.into_response()
        }
    }

    fn respond(self, status: StatusCode, code: &str) -> Response {
        let body = ErrorBody {
            error: ErrorDetail {
                code,
                message: &self.message,
                fields: &self.fields,
            },
            error_code: code,
            message: &self.message,
        };
        crate::http::json(status, serde_json::to_vec(&body).unwrap_or_default())
    }
}

/// The body of every error. Clients of this API read `error`; MLflow's clients read the rest.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody<'a> {
    error: ErrorDetail<'a>,
    error_code: &'a str,
    message: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ErrorDetail<'a> {
    code: &'a str,
    message: &'a str,
    /// Problems with single fields of the request.
    #[serde(skip_serializing_if = "<[FieldProblem]>::is_empty")]
    fields: &'a [FieldProblem],
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<PipelineError> for ApiError {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::JudgeFile { problems, .. } => {
                let problems = problems.into_iter().map(|it| FieldProblem {
                    field: format!("/verdicts{}", it.pointer),
                    message: it.message,
                });
                Self::fields(problems.collect())
            }
            error => Self::new(error.kind(), error.to_string()),
        }
    }
}

impl From<ServerError> for ApiError {
    fn from(error: ServerError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<std::io::Error> for ApiError {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = (status_of(self.kind), self.kind.report().code);
        self.respond(status, code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_status_and_only_conflicts_differ_on_mlflow_s_api() {
        for kind in ErrorKind::ALL {
            let expected = kind.report().http_status;
            let error = || ApiError::new(kind, "x");
            assert_eq!(error().into_response().status(), expected, "{kind:?}");
            let on_mlflow = error().into_mlflow_response().status().as_u16();
            let expected = if kind == ErrorKind::Conflict {
                400
            } else {
                expected
            };
            assert_eq!(on_mlflow, expected, "{kind:?}");
        }
    }
}
