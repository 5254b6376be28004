//! Conditions that an index can answer, and how many runs each of them matches.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::conditions::key_number;
use super::indexes::Index;
use crate::embedded::write_session::{Stored, lookup};
use crate::mlflow::RUN_NAME_TAG;
use crate::mlflow::filter::{Compared, Condition, Field, Operator};
use crate::sqlite::Attempt;

/// A condition with the index that finds its runs; `d` is the alias of the indexed table.
pub(super) struct IndexedCondition {
    pub index: Index,
    /// The position of the condition in the filter.
    pub position: usize,
    /// Whether it is on a tag or param, so that the index has a run at most once.
    pub is_entry: bool,
    pub from: String,
    pub sql: String,
    pub values: Vec<Value>,
}

impl IndexedCondition {
    /// The number of runs that the index finds, counted up to a bound.
    pub fn count(&self, conn: &Connection, bound: i64) -> Attempt<i64> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM {} WHERE {} LIMIT ?)",
            self.from, self.sql
        );
        let values = self.values.iter().cloned().chain([Value::Integer(bound)]);
        let mut count = conn.prepare_cached(&sql)?;
        Ok(count.query_row(params_from_iter(values), |row| row.get(0))?)
    }
}

pub(super) fn indexed_conditions(
    conn: &Connection,
    conditions: &[Condition],
) -> Attempt<Vec<IndexedCondition>> {
    let mut found = Vec::new();
    for (position, condition) in conditions.iter().enumerate() {
        let indexed = match (&condition.field, &condition.test.with) {
            (Field::Metric(key), Compared::Number(number)) => {
                metric(conn, position, condition, (key, *number))?
            }
            (Field::Tag(key), Compared::Text(text)) if key != RUN_NAME_TAG => {
                entry(conn, position, condition, (key, text), Index::Tag)?
            }
            (Field::Param(key), Compared::Text(text)) => {
                entry(conn, position, condition, (key, text), Index::Param)?
            }
            _ => None,
        };
        found.extend(indexed);
    }
    Ok(found)
}

fn metric(
    conn: &Connection,
    position: usize,
    condition: &Condition,
    (key, number): (&str, f64),
) -> Attempt<Option<IndexedCondition>> {
    let key = key_number(conn, key)?;
    let operator = condition.test.operator;
    let Some(sign) = operator.sign().filter(|_| operator != Operator::NotEqual) else {
        return Ok(None);
    };
    Ok((key >= 0).then(|| {
        let index = Index::Metric(key);
        IndexedCondition {
            index,
            position,
            is_entry: false,
            from: format!("latest_metrics d INDEXED BY {}", index.name()),
            sql: format!("d.key = {key} AND d.is_nan = 0 AND d.value {sign} ?"),
            values: vec![Value::Real(number)],
        }
    }))
}

/// Texts in the table `texts` are compared by id.
fn entry(
    conn: &Connection,
    position: usize,
    condition: &Condition,
    (key, text): (&str, &str),
    index: fn(i64) -> Index,
) -> Attempt<Option<IndexedCondition>> {
    let key = key_number(conn, key)?;
    if key < 0 || condition.test.operator != Operator::Equal {
        return Ok(None);
    }
    let Some(Stored::Number(number)) = lookup(conn, key, text)? else {
        return Ok(None);
    };
    let index = index(key);
    let table = if matches!(index, Index::Tag(_)) {
        "tags"
    } else {
        "params"
    };
    Ok(Some(IndexedCondition {
        index,
        position,
        is_entry: true,
        from: format!("{table} d INDEXED BY {}", index.name()),
        sql: format!("d.key = {key} AND typeof(d.value) = 'integer' AND d.value = ?"),
        values: vec![Value::Integer(number)],
    }))
}
