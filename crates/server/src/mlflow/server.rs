//! The server's version and capabilities.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all handlers have the same signature"
)]

use assize_store::embedded::mlflow::Mlflow;
use serde_json::{Value, json};

use super::ApiResult;
use super::fields::NoFields;

/// Assize's own version. Clients send spans by OTLP to servers that report 3.4 or later, and as an
/// artifact to others.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn info(_: Mlflow<'_>, _: NoFields) -> ApiResult<Value> {
    Ok(json!({
        "store_type": "SqlStore",
        "workspaces_enabled": false,
        "artifact_serving_enabled": true,
        "server": "assize",
    }))
}
