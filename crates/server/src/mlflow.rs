//! MLflow's REST API over the embedded store.
//!
//! Handlers are plain functions from a request's fields to an answer; [`routes`] is the table of
//! them, each with the right that it needs. What is not served says so with a 501, and a permanent condition
//! is never a 5xx that the Python client would repeat for two minutes.

pub(crate) mod artifacts;
pub(crate) mod experiments;
pub(crate) mod fields;
pub(crate) mod logged_models;
mod messages;
pub(crate) mod missing;
pub(crate) mod registry;
mod request;
pub(crate) mod routes;
mod run_trace;
pub(crate) mod runs;
pub(crate) mod server;
mod trace_filter;
pub(crate) mod trace_search;
pub(crate) mod traces;

pub(crate) use crate::error::{ApiError, ApiResult};
