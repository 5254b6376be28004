//! The one type of error that this server answers with.

use assize_domain::error_kind::{ErrorKind, WORKER_PANICKED};
use assize_pipeline::PipelineError;
use assize_store::StoreError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ServerError;
use crate::jobs::plan::FieldProblem;

/// Shorthand for what handlers answer.
pub(crate) type Answer<T> = Result<T, ApiError>;

/// An answer that is not a success. Status and code follow from the kind alone.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub kind: ErrorKind,
    pub message: String,
    /// What is wrong with which field of the request.
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
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// What MLflow has and Assize does not.
    pub fn not_served(what: &str) -> Self {
        Self::new(
            ErrorKind::NotImplemented,
            format!("{what} by assize: docs/mlflow.md lists what is"),
        )
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    pub fn worker_panicked() -> Self {
        Self::internal(format!("internal error: {WORKER_PANICKED}"))
    }

    /// The response on MLflow's API, whose clients know 400 `BAD_REQUEST` for what conflicts with
    /// the state of a run or an experiment. Everything else is as in the table of kinds.
    pub fn into_mlflow_response(self) -> Response {
        match self.kind {
            ErrorKind::Conflict => self.respond(StatusCode::BAD_REQUEST, "BAD_REQUEST"),
            _ => self.into_response(),
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

/// The body of every error: `error` is the shape of this API, the other two of MLflow's.
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
    /// What is wrong with which field of the request.
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
