//! Searching runs.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::conditions::{Sql, run_condition};
use super::experiments::{limits_of, number, page};
use super::orders::Orders;
use super::read;
use crate::mlflow::filter::{Subject, parse};
use crate::mlflow::{LoggedRun, Page, Search, View};
use crate::sqlite::Attempt;

/// The runs of these experiments that a filter lets pass.
pub(super) fn runs(
    conn: &Connection,
    experiment_ids: &[String],
    search: &Search,
) -> Attempt<Page<LoggedRun>> {
    let experiments = experiment_ids
        .iter()
        .map(|id| number(id))
        .collect::<Attempt<Vec<i64>>>()?;
    let mut sql = Sql::new(match search.view {
        View::Active => "r.lifecycle_stage = 'active'",
        View::Deleted => "r.lifecycle_stage <> 'active'",
        View::All => "1",
    });
    let holes = vec!["?"; experiments.len()].join(", ");
    sql.push(
        format!("r.experiment IN ({holes})"),
        experiments.into_iter().map(Value::Integer),
    );
    for comparison in parse(&search.filter)? {
        let condition = Subject::Runs.condition(comparison)?;
        run_condition(conn, &mut sql, &condition)?;
    }
    let orders = Orders::read(conn, &search.order_by)?;
    let text = format!(
        "SELECT r.id FROM runs r{} WHERE {} ORDER BY {} LIMIT ? OFFSET ?",
        orders.joins,
        sql.conditions(),
        orders.terms()
    );
    let values = orders
        .join_values
        .into_iter()
        .chain(sql.values)
        .chain(limits_of(search));
    let mut list = conn.prepare_cached(&text)?;
    let ids = list.query_map(params_from_iter(values), |row| row.get::<_, i64>(0))?;
    let ids = page(ids.collect::<rusqlite::Result<Vec<_>>>()?, search.slice);
    Ok(Page {
        items: read::runs(conn, &ids.items)?,
        next_offset: ids.next_offset,
    })
}
