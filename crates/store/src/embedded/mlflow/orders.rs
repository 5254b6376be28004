//! Orders of a search as SQL: numbers, then NaN, then runs without the key, in both directions.

use std::collections::HashSet;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::conditions::{ARTIFACT_URI, RUN_ID, STATUS, VALUE_TEXT, key_number};
use crate::StoreError;
use crate::mlflow::RUN_NAME_TAG;
use crate::mlflow::filter::{Field, Subject, parse_order};
use crate::sqlite::Attempt;

/// What goes behind FROM and behind ORDER BY.
#[derive(Default)]
pub(super) struct Orders {
    pub joins: String,
    pub join_values: Vec<Value>,
    terms: Vec<String>,
}

impl Orders {
    pub fn terms(&self) -> String {
        self.terms.join(", ")
    }

    /// Reads the clauses; ties go to the later run, and then by id.
    pub fn read(conn: &Connection, clauses: &[String]) -> Attempt<Self> {
        let mut orders = Self::default();
        let mut seen = HashSet::new();
        for clause in clauses {
            let order = parse_order(clause)?;
            let field = Subject::Runs.order(&order)?;
            orders.push(conn, &field, order.descending)?;
            if !seen.insert(field) {
                return Err(StoreError::Invalid(format!(
                    "order_by names '{clause}' twice: name each key once"
                ))
                .into());
            }
        }
        if !seen.contains(&Field::Number("start_time")) {
            orders.terms.push("r.start_time DESC".to_owned());
        }
        orders.terms.push("r.run_id".to_owned());
        Ok(orders)
    }

    fn push(&mut self, conn: &Connection, field: &Field, descending: bool) -> Attempt<()> {
        let direction = if descending { " DESC" } else { "" };
        let name = format!("o{}", self.join_values.len());
        match field {
            Field::Metric(key) => {
                self.join(conn, "latest_metrics", &name, key)?;
                self.terms.push(format!(
                    "CASE WHEN {name}.run IS NULL THEN 2 WHEN {name}.is_nan THEN 1 ELSE 0 END, \
                     {name}.value{direction}"
                ));
            }
            Field::Tag(key) if key == RUN_NAME_TAG => {
                self.terms.push(format!("r.name{direction}"));
            }
            Field::Tag(key) | Field::Param(key) => {
                let is_tag = matches!(field, Field::Tag(_));
                let table = if is_tag { "tags" } else { "params" };
                self.join(conn, table, &name, key)?;
                let text = VALUE_TEXT.replace("x.", &format!("{name}."));
                self.terms
                    .push(format!("{name}.run IS NULL, {text}{direction}"));
            }
            Field::Number(column) => self
                .terms
                .push(format!("r.{column} IS NULL, r.{column}{direction}")),
            Field::Text("run_id") => self.terms.push(format!("{RUN_ID}{direction}")),
            Field::Text("status") => self.terms.push(format!("{STATUS}{direction}")),
            Field::Text("artifact_uri") => self.terms.push(format!("{ARTIFACT_URI}{direction}")),
            Field::Text("run_name") => self.terms.push(format!("r.name{direction}")),
            Field::Text(_) | Field::Dataset(_) => {
                self.terms.push(format!("r.user_id{direction}"));
            }
        }
        Ok(())
    }

    fn join(&mut self, conn: &Connection, table: &str, name: &str, key: &str) -> Attempt<()> {
        self.joins.push_str(&format!(
            " LEFT JOIN {table} {name} ON {name}.run = r.id AND {name}.key = ?"
        ));
        self.join_values.push(key_number(conn, key)?);
        Ok(())
    }
}
