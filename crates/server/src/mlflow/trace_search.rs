//! `traces/search`: the traces that clients logged, latest first.
//!
//! Filters and other orders are refused: half an answer would look like all of it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
)]

use assize_store::embedded::mlflow::Mlflow;
use serde::Deserialize;
use serde_json::Value;

use super::fields::{OneOrMore, Paging, page};
use super::traces::logged;
use super::{Answer, ApiError};

#[derive(Debug, Deserialize)]
pub(crate) struct SearchAsk {
    #[serde(default)]
    locations: Vec<Value>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    order_by: OneOrMore,
    #[serde(flatten)]
    paging: Paging,
}

/// The order that traces come in, as clients may ask for it.
const LATEST_FIRST: [&str; 3] = ["timestamp_ms desc", "timestamp desc", "request_time desc"];

/// The traces that clients logged, latest first.
pub(crate) fn search(mlflow: Mlflow<'_>, ask: SearchAsk) -> Answer<Value> {
    if !ask.filter.is_empty() {
        return Err(ApiError::not_served("filters on traces are not served"));
    }
    let is_latest_first = |clause: &String| {
        let clause = clause.to_ascii_lowercase();
        let field = clause.trim().trim_start_matches("attributes.");
        LATEST_FIRST.contains(&field)
    };
    if !ask.order_by.0.iter().all(is_latest_first) {
        return Err(ApiError::not_served(
            "orders of traces but by `timestamp_ms DESC` are not served",
        ));
    }
    let place = |it: &Value| it.pointer("/mlflow_experiment/experiment_id").cloned();
    let ids = ask.locations.iter().filter_map(place);
    let ids: Vec<String> = ids
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    if ids.len() < ask.locations.len() {
        return Err(ApiError::not_served(
            "traces elsewhere than in experiments are not served",
        ));
    }
    let found = mlflow.trace_search(&ids, ask.paging.slice(100, 500)?)?;
    let infos = found
        .items
        .iter()
        .map(|kept| logged(kept.info.as_deref().unwrap_or("{}"), kept));
    page(
        "traces",
        assize_store::mlflow::Page {
            items: infos.collect::<Answer<_>>()?,
            next_offset: found.next_offset,
        },
    )
}
