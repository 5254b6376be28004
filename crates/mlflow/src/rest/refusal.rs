//! Error responses of an MLflow server.

use assize_http::quote;
use serde::Deserialize;

/// An error response: the server received the request and rejected it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
}

/// The result of a request that reached the server.
pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// Parses the body of an error response, which need not be in MLflow's format.
    pub(super) fn read(status: u16, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct ErrorBody {
            #[serde(default)]
            error_code: String,
            #[serde(default)]
            message: String,
        }
        let (code, message) = match serde_json::from_slice::<ErrorBody>(body) {
            Ok(error) => (error.error_code, error.message),
            Err(_) => (String::new(), String::from_utf8_lossy(body).into_owned()),
        };
        Self {
            status,
            code,
            message: quote(&message),
        }
    }

    pub fn is_missing(&self) -> bool {
        self.status == 404 || self.code == "RESOURCE_DOES_NOT_EXIST"
    }

    pub fn is_there_already(&self) -> bool {
        self.code == "RESOURCE_ALREADY_EXISTS"
    }
}
