//! Sort orders as SQL: numbers, then NaN, then runs without the key, in both directions.
//!
//! The values of all terms for a run are its position, so that a page can start after it
//! ([`Orders::after`]) instead of counting from the first run again.

use std::collections::HashSet;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::conditions::{ARTIFACT_URI, RUN_ID, STATUS, VALUE_TEXT, key_number};
use crate::StoreError;
use crate::mlflow::filter::{Field, Subject, parse_order};
use crate::mlflow::{RUN_NAME_TAG, limits};
use crate::sqlite::Attempt;

/// The order of runs that are equal by all requested keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ties {
    /// The later one first, and then by id, as in MLflow.
    Later,
    /// By id, in the direction of the first key. This is the order of an index on a metric, so
    /// nothing has to be sorted, however many runs are equal.
    Number,
}

/// The sort keys of runs.
pub(super) struct Orders {
    /// The joins that the keys need.
    joins: Vec<String>,
    terms: Vec<Term>,
    /// The metric that comes first, and whether it descends.
    pub first_metric: Option<(i64, bool)>,
    ties: Ties,
}

struct Term {
    sql: String,
    descending: bool,
}

impl Orders {
    pub fn read(conn: &Connection, clauses: &[String], ties: Ties) -> Attempt<Self> {
        // Each key may need a join, and SQLite joins at most 64 tables.
        limits::list("order_by", clauses.len(), limits::ORDERS)?;
        let mut orders = Self {
            joins: Vec::new(),
            terms: Vec::new(),
            first_metric: None,
            ties,
        };
        let mut seen = HashSet::new();
        for (position, clause) in clauses.iter().enumerate() {
            let order = parse_order(clause)?;
            let field = Subject::Runs.order(&order)?;
            let is_known = match &field {
                Field::Metric(key) | Field::Tag(key) | Field::Param(key) => {
                    key == RUN_NAME_TAG || key_number(conn, key)? >= 0
                }
                _ => true,
            };
            // A key that no run has does not affect the order.
            if is_known {
                if let (0, Field::Metric(key)) = (position, &field) {
                    orders.first_metric = Some((key_number(conn, key)?, order.descending));
                }
                orders.push(conn, &field, order.descending)?;
            }
            if !seen.insert(field) {
                return Err(StoreError::Invalid(format!(
                    "order_by contains '{clause}' twice: use each key once"
                ))
                .into());
            }
        }
        if ties == Ties::Number {
            let descending = orders.first_metric.is_none_or(|(_, it)| it);
            orders.term("r.id", descending);
            return Ok(orders);
        }
        if !seen.contains(&Field::Number("start_time")) {
            orders.term("r.start_time", true);
        }
        orders.term("r.run_id", false);
        Ok(orders)
    }

    fn term(&mut self, sql: impl Into<String>, descending: bool) {
        self.terms.push(Term {
            sql: sql.into(),
            descending,
        });
    }

    fn push(&mut self, conn: &Connection, field: &Field, descending: bool) -> Attempt<()> {
        let name = format!("o{}", self.joins.len());
        match field {
            Field::Metric(key) => {
                self.join(conn, "latest_metrics", &name, key)?;
                self.term(
                    format!(
                        "CASE WHEN {name}.run IS NULL THEN 2 WHEN {name}.is_nan THEN 1 ELSE 0 END"
                    ),
                    false,
                );
                self.term(format!("{name}.value"), descending);
            }
            Field::Tag(key) if key == RUN_NAME_TAG => self.term("r.name", descending),
            Field::Tag(key) | Field::Param(key) => {
                let is_tag = matches!(field, Field::Tag(_));
                let table = if is_tag { "tags" } else { "params" };
                self.join(conn, table, &name, key)?;
                self.term(format!("({name}.run IS NULL)"), false);
                self.term(VALUE_TEXT.replace("x.", &format!("{name}.")), descending);
            }
            Field::Number("start_time") => self.term("r.start_time", descending),
            Field::Number(column) => {
                self.term(format!("(r.{column} IS NULL)"), false);
                self.term(format!("r.{column}"), descending);
            }
            Field::Text("run_id") => self.term(RUN_ID, descending),
            Field::Text("status") => self.term(STATUS, descending),
            Field::Text("artifact_uri") => self.term(ARTIFACT_URI, descending),
            Field::Text("run_name") => self.term("r.name", descending),
            Field::Text(_) | Field::Dataset(_) => self.term("r.user_id", descending),
        }
        Ok(())
    }

    fn join(&mut self, conn: &Connection, table: &str, name: &str, key: &str) -> Attempt<()> {
        let key = key_number(conn, key)?;
        self.joins.push(format!(
            " LEFT JOIN {table} {name} ON {name}.run = r.id AND {name}.key = {key}"
        ));
        Ok(())
    }

    /// The joins from this position on.
    pub fn joins(&self, from: usize) -> String {
        self.joins.iter().skip(from).map(String::as_str).collect()
    }

    /// The ORDER BY terms from this position on.
    pub fn terms(&self, from: usize) -> String {
        let terms = self.terms.iter().skip(from);
        let terms = terms.map(|it| {
            let direction = if it.descending { " DESC" } else { "" };
            format!("{}{direction}", it.sql)
        });
        terms.collect::<Vec<_>>().join(", ")
    }

    /// The ORDER BY terms if the index on the first metric, `o0`, is followed.
    pub fn terms_along(&self, descending: bool) -> String {
        let direction = if descending { " DESC" } else { "" };
        match self.ties {
            Ties::Later => format!("o0.value{direction}, {}", self.terms(2)),
            Ties::Number => format!("o0.value{direction}, o0.run{direction}"),
        }
    }

    /// Whether this is the order of an experiment's runs by start time.
    pub fn is_by_start(&self) -> bool {
        self.terms.len() == 2 && self.terms[0].sql == "r.start_time"
    }

    /// The values of all terms for a run.
    pub fn position(&self, conn: &Connection, run: i64) -> Attempt<Vec<Value>> {
        let expressions: Vec<&str> = self.terms.iter().map(|it| it.sql.as_str()).collect();
        let sql = format!(
            "SELECT {} FROM runs r{} WHERE r.id = ?",
            expressions.join(", "),
            self.joins(0)
        );
        let mut find = conn.prepare_cached(&sql)?;
        let values = find.query_row([run], |row| {
            (0..self.terms.len()).map(|at| row.get(at)).collect()
        })?;
        Ok(values)
    }

    /// The condition that a run comes after a position, by the terms from this one on.
    pub fn after(&self, position: &[Value], from: usize) -> Attempt<(String, Vec<Value>)> {
        if position.len() != self.terms.len() {
            return Err(StoreError::Invalid(
                "the page token belongs to another search: omit it to start from the first page"
                    .to_owned(),
            )
            .into());
        }
        let terms = &self.terms[from..];
        let position = &position[from..];
        let mut values = Vec::new();
        let mut alternatives = Vec::new();
        for (number, term) in terms.iter().enumerate() {
            let mut alternative = String::new();
            for (same, value) in terms.iter().zip(position).take(number) {
                alternative.push_str(&format!("{} IS ? AND ", same.sql));
                values.push(value.clone());
            }
            let sign = if term.descending { "<" } else { ">" };
            alternative.push_str(&format!("{} {sign} ?", term.sql));
            values.push(position[number].clone());
            alternatives.push(format!("({alternative})"));
        }
        let mut condition = format!("({})", alternatives.join(" OR "));
        // Limits the range of an index on the first term.
        if let (Some(first), Some(value)) = (terms.first(), position.first())
            && !matches!(value, Value::Null)
        {
            let sign = if first.descending { "<=" } else { ">=" };
            condition = format!("{} {sign} ? AND {condition}", first.sql);
            values.insert(0, value.clone());
        }
        Ok((condition, values))
    }
}
