//! Search conditions as SQL with parameters.

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::embedded::write_session::{Stored, lookup, text_find};
use crate::mlflow::RUN_NAME_TAG;
use crate::mlflow::filter::{Compared, Condition, Field, Operator, Test};
use crate::sqlite::Attempt;

/// The text of a `value` column of `params` or `tags`.
pub(super) const VALUE_TEXT: &str = "CASE typeof(x.value) WHEN 'integer' \
     THEN (SELECT text FROM texts WHERE id = x.value) ELSE x.value END";
pub(super) const RUN_ID: &str = "lower(hex(r.run_id))";
pub(super) const STATUS: &str = "CASE r.status WHEN 1 THEN 'RUNNING' WHEN 2 THEN 'SCHEDULED' \
     WHEN 3 THEN 'FINISHED' WHEN 4 THEN 'FAILED' ELSE 'KILLED' END";
pub(super) const ARTIFACT_URI: &str = "(SELECT coalesce(e.artifact_location, \
     'mlflow-artifacts:/' || e.experiment_id) FROM experiments e \
     WHERE e.experiment_id = r.experiment) || '/' || lower(hex(r.run_id)) || '/artifacts'";

/// Conditions joined by AND, and the values of their parameters in order.
pub(super) struct Sql {
    conditions: Vec<String>,
    pub values: Vec<Value>,
}

impl Sql {
    pub fn new(first: &str) -> Self {
        Self {
            conditions: vec![first.to_owned()],
            values: Vec::new(),
        }
    }

    pub fn conditions(&self) -> String {
        self.conditions.join(" AND ")
    }

    pub fn push(&mut self, condition: String, values: impl IntoIterator<Item = Value>) {
        self.conditions.push(condition);
        self.values.extend(values);
    }

    /// Appends the other's conditions.
    pub fn append(&mut self, other: Self) {
        self.conditions.extend(other.conditions);
        self.values.extend(other.values);
    }

    pub fn number_test(&mut self, expression: &str, test: &Test) {
        if let (Some(sign), Compared::Number(number)) = (test.operator.sign(), &test.with) {
            self.push(format!("{expression} {sign} ?"), [Value::Real(*number)]);
        }
    }

    /// Adds a condition on a tag in a table with plain texts; `x` is its alias in `join`.
    pub fn entry_test(&mut self, table: &str, join: &str, key: &str, test: &Test) {
        let exists = format!("EXISTS (SELECT 1 FROM {table} x WHERE {join} AND x.key = ?");
        let key = Value::Text(key.to_owned());
        match test.operator {
            Operator::IsNull => self.push(format!("NOT {exists})"), [key]),
            Operator::IsNotNull => self.push(format!("{exists})"), [key]),
            _ => {
                let (condition, values) = text_condition("x.value", test);
                self.push(
                    format!("{exists} AND {condition})"),
                    [key].into_iter().chain(values),
                );
            }
        }
    }
}

/// Adds a comparison of a text.
pub(super) fn text_test(sql: &mut Sql, expression: &str, test: &Test) {
    let (condition, values) = text_condition(expression, test);
    sql.push(condition, values);
}

pub(super) fn text_condition(expression: &str, test: &Test) -> (String, Vec<Value>) {
    let one = |value: &str| vec![Value::Text(value.to_owned())];
    match (&test.with, test.operator) {
        (Compared::Text(value), Operator::Like) => {
            (format!("{expression} GLOB ?"), one(&glob(value)))
        }
        (Compared::Text(value), Operator::Ilike) => (format!("{expression} LIKE ?"), one(value)),
        (Compared::Text(value), operator) => {
            let sign = operator.sign().unwrap_or("=");
            (format!("{expression} {sign} ?"), one(value))
        }
        (Compared::List(list), operator) => {
            let not = if operator == Operator::NotIn {
                "NOT "
            } else {
                ""
            };
            let holes = vec!["?"; list.len()].join(", ");
            let values = list.iter().cloned().map(Value::Text).collect();
            (format!("{expression} {not}IN ({holes})"), values)
        }
        _ => ("0".to_owned(), Vec::new()),
    }
}

/// SQLite's LIKE is case-insensitive; its GLOB is case-sensitive and has other wildcards.
fn glob(like: &str) -> String {
    let mut pattern = String::with_capacity(like.len());
    for c in like.chars() {
        match c {
            '%' => pattern.push('*'),
            '_' => pattern.push('?'),
            '*' | '?' | '[' => {
                pattern.push('[');
                pattern.push(c);
                pattern.push(']');
            }
            other => pattern.push(other),
        }
    }
    pattern
}

/// Adds a condition on runs, whose table alias is `r`.
pub(super) fn run_condition(
    conn: &Connection,
    sql: &mut Sql,
    condition: &Condition,
) -> Attempt<()> {
    let test = &condition.test;
    match &condition.field {
        Field::Metric(key) => metric(conn, sql, key, test)?,
        Field::Tag(key) if key == RUN_NAME_TAG => match test.operator {
            Operator::IsNull => sql.push("0".to_owned(), []),
            Operator::IsNotNull => {}
            _ => text_test(sql, "r.name", test),
        },
        Field::Tag(key) => entry(conn, sql, "tags", key, test)?,
        Field::Param(key) => entry(conn, sql, "params", key, test)?,
        Field::Dataset(column) => {
            let (compared, values) = text_condition(&format!("i.{column}"), test);
            let exists =
                format!("EXISTS (SELECT 1 FROM inputs i WHERE i.run = r.id AND {compared})");
            sql.push(exists, values);
        }
        Field::Number(column) => sql.number_test(&format!("r.{column}"), test),
        Field::Text("run_id") => run_id(sql, test),
        Field::Text("run_name") => text_test(sql, "r.name", test),
        Field::Text("status") => text_test(sql, STATUS, test),
        Field::Text("artifact_uri") => text_test(sql, ARTIFACT_URI, test),
        Field::Text(_) => text_test(sql, "r.user_id", test),
    }
    Ok(())
}

fn metric(conn: &Connection, sql: &mut Sql, key: &str, test: &Test) -> Attempt<()> {
    let (Some(sign), Compared::Number(number)) = (test.operator.sign(), &test.with) else {
        return Ok(());
    };
    let compared = if test.operator == Operator::NotEqual {
        format!("(m.is_nan OR m.value {sign} ?)")
    } else {
        format!("NOT m.is_nan AND m.value {sign} ?")
    };
    sql.push(
        format!(
            "EXISTS (SELECT 1 FROM latest_metrics m WHERE m.run = r.id AND m.key = ? AND {compared})"
        ),
        [
            Value::Integer(key_number(conn, key)?),
            Value::Real(*number),
        ],
    );
    Ok(())
}

/// The id of a key; if it is unknown, an id that no run has.
pub(super) fn key_number(conn: &Connection, key: &str) -> Attempt<i64> {
    Ok(text_find(conn, key)?.unwrap_or(-1))
}

fn entry(conn: &Connection, sql: &mut Sql, table: &str, key: &str, test: &Test) -> Attempt<()> {
    let key = key_number(conn, key)?;
    let number = Value::Integer(key);
    let exists = format!("EXISTS (SELECT 1 FROM {table} x WHERE x.run = r.id AND x.key = ?");
    match (test.operator, &test.with) {
        (Operator::IsNull, _) => sql.push(format!("NOT {exists})"), [number]),
        (Operator::IsNotNull, _) => sql.push(format!("{exists})"), [number]),
        (Operator::Equal | Operator::NotEqual, Compared::Text(wanted)) => {
            let known = lookup(conn, key, wanted)?;
            // An unknown text is equal to nothing.
            let value = match known {
                Some(Stored::Number(number)) => Value::Integer(number),
                Some(Stored::Text(kept)) => Value::Text(kept.to_owned()),
                None => Value::Integer(-1),
            };
            let sign = test.operator.sign().unwrap_or("=");
            sql.push(format!("{exists} AND x.value {sign} ?)"), [number, value]);
        }
        _ => {
            let (compared, values) = text_condition(VALUE_TEXT, test);
            sql.push(
                format!("{exists} AND {compared})"),
                [number].into_iter().chain(values),
            );
        }
    }
    Ok(())
}

/// Ids are stored as bytes, so that the index is used.
fn run_id(sql: &mut Sql, test: &Test) {
    let wanted: Vec<&String> = match &test.with {
        Compared::Text(id) if test.operator == Operator::Equal => vec![id],
        Compared::List(list) if test.operator == Operator::In => list.iter().collect(),
        _ => return text_test(sql, RUN_ID, test),
    };
    let ids = wanted
        .into_iter()
        .filter_map(|it| super::runs::id_bytes(it));
    let ids: Vec<Value> = ids.map(|id| Value::Blob(id.to_vec())).collect();
    let holes = vec!["?"; ids.len()].join(", ");
    sql.push(format!("r.run_id IN ({holes})"), ids);
}
