//! `traces/search`: traces in the order of time, those of collected runs among the logged.
//!
//! [`trace_filter`](super::trace_filter) knows which filters are served. Other orders than by
//! time are refused: half an answer would look like all of it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a handler owns what it was asked"
)]

use assize_store::embedded::mlflow::Mlflow;
use assize_store::mlflow::filter::parse_order;
use assize_store::mlflow::{Page, Slice, TraceList};
use serde::Deserialize;
use serde_json::Value;

use super::fields::{OneOrMore, Paging, page};
use super::trace_filter::Filter;
use super::traces::info_find;
use super::{ApiError, ApiResult};

/// As many traces as a filter looks at. They are read one by one.
const MOST: u32 = 50_000;

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

pub(crate) fn search(mlflow: Mlflow<'_>, ask: SearchAsk) -> ApiResult<Value> {
    let place = |it: &Value| it.pointer("/mlflow_experiment/experiment_id").cloned();
    let ids = ask.locations.iter().filter_map(place);
    let experiment_ids: Vec<String> = ids
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    if ask.locations.is_empty() {
        return Err(ApiError::invalid(
            "name the experiments: locations is empty",
        ));
    }
    if experiment_ids.len() < ask.locations.len() {
        return Err(ApiError::not_implemented(
            "traces elsewhere than in experiments are not served",
        ));
    }
    let filter = Filter::parse(&ask.filter)?;
    let slice = ask.paging.slice(100, 500)?;
    let list = TraceList {
        experiment_ids: &experiment_ids,
        run_id: filter.run_id(),
        is_latest_first: is_latest_first(&ask.order_by.0)?,
        most: if filter.is_empty() {
            let offset = u32::try_from(slice.offset).unwrap_or(u32::MAX);
            offset.saturating_add(slice.max_results).saturating_add(1)
        } else {
            MOST + 1
        },
    };
    page("traces", matching(mlflow, &list, &filter, slice)?)
}

/// Which end of the time comes first; the latest where nothing is said.
fn is_latest_first(clauses: &[String]) -> ApiResult<bool> {
    let [clause] = clauses else {
        return if clauses.is_empty() {
            Ok(true)
        } else {
            Err(ApiError::not_implemented(
                "orders of traces by more than one field are not served",
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
        "orders of traces but by `timestamp_ms` are not served",
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
    for (looked_at, (_, trace_id)) in (0_u32..).zip(&listed) {
        if filter.is_empty() && to_skip > 0 {
            to_skip -= 1;
            continue;
        }
        if items.len() == wanted {
            // One more would be there, or may be: the next page finds out.
            return Ok(Page {
                items,
                next_offset: Some(slice.offset + u64::from(slice.max_results)),
            });
        }
        if !filter.is_empty() && looked_at == MOST {
            return Err(ApiError::invalid(format!(
                "the filter has to look at more than {MOST} traces: name a run_id, or search \
                 fewer experiments"
            )));
        }
        let Some(info) = info_find(mlflow, trace_id)?.filter(|it| filter.holds(it)) else {
            continue;
        };
        if to_skip > 0 {
            to_skip -= 1;
        } else {
            items.push(info);
        }
    }
    Ok(Page {
        items,
        next_offset: None,
    })
}
