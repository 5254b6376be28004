//! What the server says of itself.

#![expect(clippy::unnecessary_wraps, reason = "handlers look alike")]

use assize_store::embedded::mlflow::Mlflow;
use serde_json::{Value, json};

use super::ApiResult;
use super::fields::Nothing;

/// Our own: newer clients send spans as OTLP to servers that say 3.4 or later, and as an artifact to
/// others.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn info(_: Mlflow<'_>, _: Nothing) -> ApiResult<Value> {
    Ok(json!({
        "store_type": "SqlStore",
        "workspaces_enabled": false,
        "artifact_serving_enabled": true,
        "server": "assize",
    }))
}
