//! Searching runs: filters, sorting and pagination.
//!
//! SQLite cannot plan these queries well: its planner knows neither how many runs have a tag's
//! value nor that sorting by a metric with NaN and missing values can use an index in three parts.
//! So a search of many runs chooses its [`Access`] here. It either follows an index in the
//! requested order and tests each run until the page is full, or takes the few runs that an index
//! finds for one of the conditions, and sorts them. With `n` runs in total and `m` runs in the
//! index for the condition, a page of `l` costs about `l·n/m` steps the first way and `m` the
//! second, so the second is chosen if `m² < l·n`. Counting stops at that bound.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::conditions::{Sql, run_condition};
use super::experiments::number;
use super::indexed_conditions::{IndexedCondition, indexed_conditions};
use super::indexes::{ExistingIndexes, Index, MANY_RUNS};
use super::orders::{Orders, Ties};
use super::page_token::{self, PageStart};
use crate::mlflow::filter::{Compared, Condition, Field, Operator, Subject, parse};
use crate::mlflow::{RunSearch, View};
use crate::sqlite::Attempt;

/// The ids of the runs on a page, and the token of the next page.
pub(super) struct SearchPage {
    pub ids: Vec<i64>,
    pub next: Option<String>,
}

/// A parsed search.
struct ParsedSearch {
    experiments: Vec<i64>,
    view: View,
    conditions: Vec<Condition>,
    orders: Orders,
    after: Option<Vec<Value>>,
    /// The number of runs to skip, and the number to find including them.
    offset: i64,
    limit: i64,
}

fn read(conn: &Connection, search: &RunSearch, ties: Ties) -> Attempt<ParsedSearch> {
    let mut experiments = search
        .experiment_ids
        .iter()
        .map(|id| number(id))
        .collect::<Attempt<Vec<i64>>>()?;
    experiments.sort_unstable();
    experiments.dedup();
    let mut conditions = Vec::new();
    for comparison in parse(&search.filter)? {
        conditions.push(Subject::Runs.condition(comparison)?);
    }
    let (after, offset) = match search.after.as_deref().map(page_token::read).transpose()? {
        Some(PageStart::After(values)) => (Some(values), 0),
        Some(PageStart::Offset(offset)) => (None, offset),
        None => (None, 0),
    };
    Ok(ParsedSearch {
        experiments,
        view: search.view,
        conditions,
        orders: Orders::read(conn, &search.order_by, ties)?,
        after,
        offset,
        limit: offset.saturating_add(i64::from(search.max_results) + 1),
    })
}

/// The approximate number of runs.
fn runs_in_all(conn: &Connection) -> Attempt<i64> {
    let mut find = conn.prepare_cached("SELECT max(id) FROM runs")?;
    let highest: Option<Option<i64>> = find.query_row([], |row| row.get(0)).optional()?;
    Ok(highest.flatten().unwrap_or(0))
}

/// The indexes that this search would use and that do not exist yet.
pub(super) fn missing(conn: &Connection, search: &RunSearch) -> Attempt<Vec<Index>> {
    if runs_in_all(conn)? < MANY_RUNS {
        return Ok(Vec::new());
    }
    let asked = read(conn, search, Ties::Later)?;
    let indexes = ExistingIndexes::read(conn)?;
    let mut wanted = indexed_conditions(conn, &asked.conditions)?
        .into_iter()
        .map(|it| it.index)
        .collect::<Vec<_>>();
    if let Some((key, _)) = asked.orders.first_metric {
        wanted.push(Index::Metric(key));
    }
    if asked.orders.is_by_start() || asked.orders.first_metric.is_some() {
        wanted.push(Index::Start);
    }
    wanted.retain(|it| !indexes.has(*it));
    wanted.dedup();
    if !indexes.has_room() {
        wanted.clear();
    }
    Ok(wanted)
}

/// The maximum number of bytes of the file that a search maps into memory.
const MAPPED: i64 = 1 << 30;

/// The runs of these experiments that match a filter.
pub(super) fn runs(conn: &Connection, search: &RunSearch, ties: Ties) -> Attempt<SearchPage> {
    // A search reads pages all over the file, and a memory map saves a system call and a copy for
    // each. Other readers read the file once, and a map would only increase their reported memory
    // use.
    conn.pragma_update(None, "mmap_size", MAPPED)?;
    let asked = read(conn, search, ties)?;
    let mut ids = asked.find(conn)?;
    let skipped = usize::try_from(asked.offset).unwrap_or(usize::MAX);
    ids.drain(..skipped.min(ids.len()));
    let limit = usize::try_from(search.max_results).unwrap_or(usize::MAX);
    let is_cut = ids.len() > limit;
    ids.truncate(limit);
    let next = match ids.last() {
        Some(last) if is_cut => Some(page_token::write(&asked.orders.position(conn, *last)?)),
        _ => None,
    };
    Ok(SearchPage { ids, next })
}

/// How the runs of a page are found.
enum Access {
    /// Reads the runs of the experiments and sorts them.
    Scan,
    /// Takes the runs that satisfy one condition, by its index, and sorts them.
    Condition(IndexedCondition),
    /// Follows the index on start times.
    Start,
    /// Follows the index on a metric. A condition on a tag or param is tested with its own index
    /// before the run is read, because that index is small.
    Metric {
        key: i64,
        descending: bool,
        condition: Option<IndexedCondition>,
    },
}

impl ParsedSearch {
    fn find(&self, conn: &Connection) -> Attempt<Vec<i64>> {
        let runs = runs_in_all(conn)?;
        if runs < MANY_RUNS {
            return self.sorted(conn, None, "");
        }
        let indexes = ExistingIndexes::read(conn)?;
        match self.access(conn, runs, &indexes)? {
            Access::Scan => self.sorted(conn, None, ""),
            Access::Condition(condition) => self.sorted(conn, Some(&condition), ""),
            Access::Start => self.sorted(conn, None, " INDEXED BY search_start"),
            Access::Metric {
                key,
                descending,
                condition,
            } => self.by_metric(conn, (key, descending), condition.as_ref(), &indexes),
        }
    }

    fn access(&self, conn: &Connection, runs: i64, indexes: &ExistingIndexes) -> Attempt<Access> {
        let metric = self.orders.first_metric;
        let metric = metric.filter(|(key, _)| indexes.has(Index::Metric(*key)));
        let by_start = self.orders.is_by_start() && self.can_start(indexes);
        let mut conditions = indexed_conditions(conn, &self.conditions)?;
        conditions.retain(|it| indexes.has(it.index));
        // If no index has the order, sorting a part is faster than sorting everything.
        let mut bound = if metric.is_some() || by_start {
            (self.limit.saturating_mul(runs)).isqrt()
        } else {
            runs / 2
        };
        let mut fewest = None;
        for (position, condition) in conditions.iter().enumerate() {
            let count = condition.count(conn, bound)?;
            if count < bound {
                bound = count;
                fewest = Some(position);
            }
        }
        if self.experiment_runs(conn, bound)? < bound {
            return Ok(Access::Scan);
        }
        Ok(match (fewest, metric) {
            (Some(position), _) => Access::Condition(conditions.swap_remove(position)),
            (None, Some((key, descending))) => Access::Metric {
                key,
                descending,
                condition: conditions.into_iter().find(|it| it.is_entry),
            },
            (None, None) if by_start => Access::Start,
            (None, None) => Access::Scan,
        })
    }

    /// Whether the index on start times has these runs in order.
    fn can_start(&self, indexes: &ExistingIndexes) -> bool {
        self.experiments.len() == 1 && indexes.has(Index::Start)
    }

    fn experiment_runs(&self, conn: &Connection, bound: i64) -> Attempt<i64> {
        let mut sql = self.scope();
        sql.values.push(Value::Integer(bound));
        let text = format!(
            "SELECT count(*) FROM (SELECT 1 FROM runs r WHERE {} LIMIT ?)",
            sql.conditions()
        );
        let mut count = conn.prepare_cached(&text)?;
        Ok(count.query_row(params_from_iter(sql.values), |row| row.get(0))?)
    }

    /// The condition on experiments and lifecycle stage.
    fn scope(&self) -> Sql {
        let mut sql = Sql::new(match self.view {
            View::Active => "r.lifecycle_stage = 'active'",
            View::Deleted => "r.lifecycle_stage <> 'active'",
            View::All => "1",
        });
        match self.experiments.as_slice() {
            [one] => sql.push("r.experiment = ?".to_owned(), [Value::Integer(*one)]),
            many => {
                let list: Vec<String> = many.iter().map(i64::to_string).collect();
                let list = format!("[{}]", list.join(","));
                let test = "r.experiment IN (SELECT value FROM json_each(?))";
                sql.push(test.to_owned(), [Value::Text(list)]);
            }
        }
        sql
    }

    /// The scope and all conditions except the one that is tested separately.
    fn conditions(&self, conn: &Connection, but: Option<usize>) -> Attempt<Sql> {
        let mut sql = self.scope();
        for (position, condition) in self.conditions.iter().enumerate() {
            if but != Some(position) {
                run_condition(conn, &mut sql, condition)?;
            }
        }
        Ok(sql)
    }

    /// Takes runs from an index and sorts them, unless the index has them in order.
    fn sorted(
        &self,
        conn: &Connection,
        condition: Option<&IndexedCondition>,
        indexed_by: &str,
    ) -> Attempt<Vec<i64>> {
        let mut sql = Sql::new("1");
        let mut from = format!("runs r{indexed_by}");
        if let Some(condition) = condition {
            from = format!("{} CROSS JOIN runs r", condition.from);
            sql.push(condition.sql.clone(), condition.values.clone());
            sql.push("r.id = d.run".to_owned(), []);
        }
        sql.append(self.conditions(conn, condition.map(|it| it.position))?);
        if let Some(position) = &self.after {
            let (condition, values) = self.orders.after(position, 0)?;
            sql.push(condition, values);
        }
        let joins = self.orders.joins(0);
        select(
            conn,
            (&from, &joins),
            sql,
            &self.orders.terms(0),
            self.limit,
        )
    }

    /// Follows the index on a metric: numbers, NaN, and then the runs without the metric.
    fn by_metric(
        &self,
        conn: &Connection,
        (key, descending): (i64, bool),
        condition: Option<&IndexedCondition>,
        indexes: &ExistingIndexes,
    ) -> Attempt<Vec<i64>> {
        let rank = match self.after.as_deref() {
            Some([Value::Integer(rank), ..]) => *rank,
            _ => 0,
        };
        let mut ids = Vec::new();
        let between = condition.map_or_else(String::new, |it| format!("{} CROSS JOIN ", it.from));
        let from =
            format!("latest_metrics o0 INDEXED BY search_metric_{key} CROSS JOIN {between}runs r");
        let joins = self.orders.joins(1);
        for (phase, is_nan) in [(0, 0), (1, 1)] {
            let left = self.limit - i64::try_from(ids.len()).unwrap_or(0);
            if rank > phase || left <= 0 || (phase == 1 && self.needs_number(conn, key)?) {
                continue;
            }
            let mut sql = Sql::new(&format!("o0.key = {key} AND o0.is_nan = {is_nan}"));
            sql.push("r.id = o0.run".to_owned(), []);
            if let Some(condition) = condition {
                sql.push("d.run = o0.run".to_owned(), []);
                sql.push(condition.sql.clone(), condition.values.clone());
            }
            if phase == 0 {
                self.bound_metric(conn, &mut sql, key)?;
            }
            sql.append(self.conditions(conn, condition.map(|it| it.position))?);
            if let Some(position) = self.after.as_ref().filter(|_| rank == phase) {
                let (condition, values) =
                    self.orders.after(position, 1 + usize::from(phase == 1))?;
                sql.push(condition, values);
            }
            let order = self.orders.terms_along(descending);
            ids.extend(select(conn, (&from, &joins), sql, &order, left)?);
        }
        let left = self.limit - i64::try_from(ids.len()).unwrap_or(0);
        if left > 0 && !self.needs_number(conn, key)? {
            let mut sql = Sql::new(&format!(
                "NOT EXISTS (SELECT 1 FROM latest_metrics x WHERE x.run = r.id AND x.key = {key})"
            ));
            sql.append(self.conditions(conn, None)?);
            if let Some(position) = self.after.as_ref().filter(|_| rank == 2) {
                let (condition, values) = self.orders.after(position, 2)?;
                sql.push(condition, values);
            }
            let by_start = self.can_start(indexes) && self.orders.terms(2).starts_with("r.start");
            let from = if by_start {
                "runs r INDEXED BY search_start"
            } else {
                "runs r"
            };
            let order = self.orders.terms(2);
            ids.extend(select(conn, (from, &joins), sql, &order, left)?);
        }
        Ok(ids)
    }

    /// Comparisons of this metric, which limit the range of the index.
    fn bounds(&self, conn: &Connection, key: i64) -> Attempt<Vec<(&'static str, f64)>> {
        let mut bounds = Vec::new();
        for condition in &self.conditions {
            if let (Field::Metric(name), Compared::Number(number), Some(sign)) = (
                &condition.field,
                &condition.test.with,
                condition.test.operator.sign(),
            ) && condition.test.operator != Operator::NotEqual
                && super::conditions::key_number(conn, name)? == key
            {
                bounds.push((sign, *number));
            }
        }
        Ok(bounds)
    }

    /// Whether a condition excludes runs without a number anyway.
    fn needs_number(&self, conn: &Connection, key: i64) -> Attempt<bool> {
        Ok(!self.bounds(conn, key)?.is_empty())
    }

    fn bound_metric(&self, conn: &Connection, sql: &mut Sql, key: i64) -> Attempt<()> {
        for (sign, number) in self.bounds(conn, key)? {
            sql.push(format!("o0.value {sign} ?"), [Value::Real(number)]);
        }
        Ok(())
    }
}

fn select(
    conn: &Connection,
    (from, joins): (&str, &str),
    sql: Sql,
    order: &str,
    limit: i64,
) -> Attempt<Vec<i64>> {
    let text = format!(
        "SELECT r.id FROM {from}{joins} WHERE {} ORDER BY {order} LIMIT ?",
        sql.conditions()
    );
    let values = sql.values.into_iter().chain([Value::Integer(limit)]);
    let mut list = conn.prepare_cached(&text)?;
    let ids = list.query_map(params_from_iter(values), |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}
