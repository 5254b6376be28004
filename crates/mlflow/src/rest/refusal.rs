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

    /// Whether the server's database refused a row that another request inserted at the same
    /// moment. MLflow looks for existing rows before it inserts, but not in one step. The names
    /// are those of the exceptions of Python's database drivers.
    pub fn is_insert_race(&self) -> bool {
        let names = ["IntegrityError", "UniqueViolation"];
        !self.is_there_already() && names.iter().any(|name| self.message.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_race_is_told_from_other_refusals() {
        let refusal = |message: &str| {
            let body = serde_json::json!({"error_code": "BAD_REQUEST", "message": message});
            Refusal::read(400, body.to_string().as_bytes())
        };
        for message in [
            "(raised as a result of Query-invoked autoflush; consider using a \
             session.no_autoflush block if this flush is occurring prematurely) \
             (sqlite3.IntegrityError) UNIQUE constraint failed: metrics.key, metrics.timestamp",
            "(psycopg2.errors.UniqueViolation) duplicate key value violates unique constraint \
             \"latest_metric_pk\"",
        ] {
            assert!(refusal(message).is_insert_race(), "{message}");
        }
        let created = Refusal {
            code: "RESOURCE_ALREADY_EXISTS".to_owned(),
            ..refusal("Registered Model (name=a) already exists. Error: (sqlite3.IntegrityError)")
        };
        assert!(!created.is_insert_race());
        let changed = "Changing param values is not allowed. Param with key='a' was already logged";
        assert!(!refusal(changed).is_insert_race());
    }
}
