//! `traces/search`: logged traces and those of collected runs, ordered by time.
//!
//! [`trace_filter`](super::trace_filter) parses the filters. Traces can only be ordered by time;
//! other orders are rejected.

#![expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::filter::parse_order;
use assize_store::mlflow::{Page, Slice, TraceList};
use serde::Deserialize;
use serde_json::Value;

use super::fields::{OneOrMore, Paging, page};
use super::trace_filter::Filter;
use super::traces::find;
use super::{ApiError, ApiResult};

/// The largest number of traces that a filter examines; they are read one by one.
const MAX_EXAMINED: u32 = 50_000;

#[derive(Debug, Deserialize)]
pub(crate) struct SearchRequest {
    #[serde(default)]
    locations: Vec<Value>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    order_by: OneOrMore,
    #[serde(flatten)]
    paging: Paging,
}

pub(crate) fn search(mlflow: Mlflow<'_>, request: SearchRequest) -> ApiResult<Value> {
    let place = |it: &Value| it.pointer("/mlflow_experiment/experiment_id").cloned();
    let ids = request.locations.iter().filter_map(place);
    let experiment_ids: Vec<String> = ids
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    if experiment_ids.len() < request.locations.len() {
        return Err(ApiError::not_implemented(
            "searching for traces outside experiments is not supported",
        ));
    }
    let filter = Filter::parse(&request.filter)?;
    let slice = request.paging.slice(100, 500)?;
    let list = TraceList {
        experiment_ids: &experiment_ids,
        run_id: filter.run_id(),
        is_latest_first: is_latest_first(&request.order_by.0)?,
        most: if filter.is_empty() {
            let offset = u32::try_from(slice.offset).unwrap_or(u32::MAX);
            offset.saturating_add(slice.max_results).saturating_add(1)
        } else {
            MAX_EXAMINED + 1
        },
    };
    page("traces", matching(mlflow, &list, &filter, slice)?)
}

/// Whether the latest traces come first, which is the default.
fn is_latest_first(clauses: &[String]) -> ApiResult<bool> {
    let [clause] = clauses else {
        return if clauses.is_empty() {
            Ok(true)
        } else {
            Err(ApiError::not_implemented(
                "ordering traces by more than one field is not supported",
            ))
        };
    };
    let order = parse_order(clause)?;
    let entity = order.by.entity.as_deref();
    let is_attribute = matches!(entity, None | Some("attribute" | "attributes" | "trace"));
    let is_time = ["timestamp_ms", "timestamp", "request_time"].contains(&order.by.key.as_str());
    if is_attribute && is_time {
        return Ok(order.descending);
    }
    Err(ApiError::not_implemented(
        "ordering traces by a field other than `timestamp_ms` is not supported",
    ))
}

fn matching(
    mlflow: Mlflow<'_>,
    list: &TraceList<'_>,
    filter: &Filter,
    slice: Slice,
) -> ApiResult<Page<Value>> {
    let listed = mlflow.trace_list(list)?;
    let wanted = usize::try_from(slice.max_results).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let mut to_skip = slice.offset;
    for (examined, (_, trace_id)) in (0_u32..).zip(&listed) {
        if filter.is_empty() && to_skip > 0 {
            to_skip -= 1;
            continue;
        }
        if items.len() == wanted {
            // There may be another match, so there is another page.
            return Ok(Page {
                items,
                next_offset: Some(slice.offset + u64::from(slice.max_results)),
            });
        }
        if !filter.is_empty() && examined == MAX_EXAMINED {
            return Err(ApiError::invalid(format!(
                "the filter would have to examine more than {MAX_EXAMINED} traces: filter by \
                 run_id, or search fewer experiments"
            )));
        }
        let Some(found) = find(mlflow, trace_id)?.filter(|it| filter.holds(it)) else {
            continue;
        };
        if to_skip > 0 {
            to_skip -= 1;
        } else {
            items.push(found.info);
        }
    }
    Ok(Page {
        items,
        next_offset: None,
    })
}
