//! Runs of an experiment sorted by one of their metrics, a page at a time.
//!
//! This uses MLflow's search ([`super::search`]): it creates the index on the metric on first use,
//! and a page starts after the last run of the previous page. Runs with equal values are in the
//! order of that index, because scores are often equal and sorting thousands of runs for a page of
//! fifty would be slow. Runs without the metric come last in both directions.

use assize_domain::run::{RunStatus, param, tag};
use assize_domain::scenario::Split;

use super::orders::Ties;
use super::{Mlflow, search};
use crate::embedded::experiments::experiment_need;
use crate::embedded::rows::run_read;
use crate::mlflow::RunSearch;
use crate::sqlite::Attempt;
use crate::{Result, Run, RunPage, RunQuery, StoreError};

impl Mlflow<'_> {
    /// The runs of [`crate::Runs::run_list`], sorted by a metric. A page token is valid for the
    /// same query and order only.
    pub fn run_list_by(
        &self,
        experiment: &str,
        query: &RunQuery,
        (metric, descending): (&str, bool),
    ) -> Result<RunPage> {
        let direction = if descending { "DESC" } else { "ASC" };
        let number = self.store.read(|conn| experiment_need(conn, experiment))?;
        let mut wanted = RunSearch {
            experiment_ids: vec![number.to_string()],
            filter: filter(query)?,
            order_by: vec![format!("metrics.`{metric}` {direction}")],
            max_results: query.max_results,
            after: query.page_token.clone(),
            ..RunSearch::default()
        };
        self.make_indexes(&wanted)?;
        self.store.read(|conn| {
            let mut runs: Vec<Run> = Vec::new();
            loop {
                let page = search::runs(conn, &wanted, Ties::Number)?;
                let found = page.ids.iter().map(|id| run_read(conn, *id));
                let found: Vec<Run> = found.collect::<Attempt<_>>()?;
                runs.extend(found.into_iter().filter(|run| is_of(run, query.split)));
                let missing = query.max_results.saturating_sub(len(&runs));
                if missing == 0 || page.next.is_none() {
                    return Ok(RunPage {
                        runs,
                        next_page_token: page.next,
                    });
                }
                wanted.max_results = missing;
                wanted.after = page.next;
            }
        })
    }
}

/// Whether a run is in a split. The grammar cannot ask for runs that do not name theirs.
fn is_of(run: &Run, split: Option<Split>) -> bool {
    let named = run.params.iter().find(|(key, _)| key == param::SPLIT);
    let named = named.map_or(Split::Selection.as_str(), |(_, name)| name);
    split.is_none_or(|split| named == split.as_str())
}

fn len(runs: &[Run]) -> u32 {
    u32::try_from(runs.len()).unwrap_or(u32::MAX)
}

/// The conditions in MLflow's grammar.
fn filter(query: &RunQuery) -> Result<String> {
    let named = [
        (param::MODEL, &query.model),
        (param::PROMPT, &query.prompt),
        (param::SCENARIO, &query.scenario),
    ];
    let mut conditions = Vec::new();
    for (key, value) in named {
        if let Some(value) = value {
            conditions.push(format!("params.{key} = {}", quoted(value)?));
        }
    }
    if let Some(split) = query.split.filter(|it| *it != Split::Selection) {
        conditions.push(format!("params.{} = '{split}'", param::SPLIT));
    }
    if let Some(pending) = query.pending {
        conditions.push(format!("tags.{} = '{pending}'", tag::JUDGE_PENDING));
    }
    let status = query
        .status
        .or_else(|| query.pending.filter(|it| *it).map(|_| RunStatus::Finished));
    if let Some(status) = status {
        conditions.push(format!("attributes.status = '{}'", status.as_str()));
    }
    Ok(conditions.join(" AND "))
}

/// The grammar has no escapes, but two kinds of quotes.
fn quoted(value: &str) -> Result<String> {
    let quote = ['\'', '"'].into_iter().find(|it| !value.contains(*it));
    quote.map(|it| format!("{it}{value}{it}")).ok_or_else(|| {
        StoreError::Invalid(format!(
            "'{value}' contains both kinds of quotes, which a search does not support"
        ))
    })
}
