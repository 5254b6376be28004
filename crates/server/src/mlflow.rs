//! MLflow's REST API over the embedded store.
//!
//! Handlers are plain functions that convert the fields of a request to a response; [`routes`]
//! lists them with the right that each requires. Operations that are not implemented respond with
//! 501. A permanent error is never another 5xx, because the Python client would retry it for two
//! minutes.

pub(crate) mod artifacts;
pub(crate) mod experiments;
pub(crate) mod fields;
pub(crate) mod logged_models;
mod messages;
pub(crate) mod metrics;
mod mime;
pub(crate) mod missing;
mod mistakes;
mod page_queries;
pub(crate) mod pages;
pub(crate) mod registry;
mod request;
pub(crate) mod routes;
mod run_trace;
pub(crate) mod runs;
pub(crate) mod server;
mod trace_filter;
mod trace_links;
pub(crate) mod trace_search;
pub(crate) mod traces;

pub(crate) use crate::error::{ApiError, ApiResult};
