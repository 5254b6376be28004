//! Validation of filters: which entities, keys, operators and values each kind of search supports.

use super::{Comparison, Identifier, Literal, Operator, Order, bad, parse_order};
use crate::Result;

/// The kind of object that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Runs,
    Experiments,
    RegisteredModels,
    ModelVersions,
    LoggedModels,
}

/// The left side of a comparison, or the key of a sort order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    Metric(String),
    Param(String),
    Tag(String),
    /// `name`, `digest` or `context`.
    Dataset(&'static str),
    Text(&'static str),
    Number(&'static str),
}

/// The value that a field is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Compared {
    Number(f64),
    Text(String),
    List(Vec<String>),
    Nothing,
}

/// An operator with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    pub operator: Operator,
    pub with: Compared,
}

/// A validated comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub field: Field,
    pub test: Test,
}

impl Subject {
    const fn texts(self) -> &'static [&'static str] {
        match self {
            Self::Runs => &["run_id", "run_name", "status", "user_id", "artifact_uri"],
            Self::Experiments | Self::RegisteredModels => &["name"],
            Self::ModelVersions => &["name", "run_id", "source_path"],
            Self::LoggedModels => &["name", "model_id", "model_type", "status", "source_run_id"],
        }
    }

    const fn numbers(self) -> &'static [&'static str] {
        match self {
            Self::Runs => &["start_time", "end_time"],
            Self::Experiments => &["creation_time", "last_update_time"],
            Self::RegisteredModels => &[],
            Self::ModelVersions => &["version_number"],
            Self::LoggedModels => &["creation_timestamp", "last_updated_timestamp"],
        }
    }

    /// Keys that can be sorted by but not searched.
    const fn order_only(self) -> &'static [&'static str] {
        match self {
            Self::Runs | Self::LoggedModels => &[],
            Self::Experiments => &["experiment_id"],
            Self::RegisteredModels => &["timestamp", "last_updated_timestamp"],
            Self::ModelVersions => &["timestamp", "last_updated_timestamp", "creation_timestamp"],
        }
    }

    fn attribute(self, key: &str, to_order: bool) -> Result<Field> {
        let known = match (self, key) {
            (Self::Runs, "run name" | "Run name" | "Run Name") => "run_name",
            (Self::Runs, "Created" | "created") => "start_time",
            (Self::LoggedModels, "creation_time" | "creation_timestamp_ms") => "creation_timestamp",
            (Self::LoggedModels, "last_updated_timestamp_ms") => "last_updated_timestamp",
            _ => key,
        };
        let find = |keys: &'static [&'static str]| keys.iter().find(|it| **it == known);
        if let Some(text) = find(self.texts()) {
            return Ok(Field::Text(text));
        }
        if let Some(number) = find(self.numbers()) {
            return Ok(Field::Number(number));
        }
        if let Some(number) = find(self.order_only()).filter(|_| to_order) {
            return Ok(Field::Number(number));
        }
        let valid = [self.texts(), self.numbers()].concat().join(", ");
        bad(format!(
            "'{key}' is not a valid attribute: use one of {valid}"
        ))
    }

    fn field(self, identifier: &Identifier, to_order: bool) -> Result<Field> {
        let key = identifier.key.clone();
        let Some(entity) = identifier.entity.as_deref() else {
            return self.attribute(&key, to_order);
        };
        match (self, entity) {
            (Self::Runs | Self::LoggedModels, "metric" | "metrics") => Ok(Field::Metric(key)),
            (Self::Runs | Self::LoggedModels, "param" | "params" | "parameter" | "parameters") => {
                Ok(Field::Param(key))
            }
            (_, "tag" | "tags") => Ok(Field::Tag(key)),
            (_, "attribute" | "attributes" | "attr" | "run") => self.attribute(&key, to_order),
            (Self::Runs, "dataset" | "datasets") if !to_order => {
                let keys = ["name", "digest", "context"];
                match keys.into_iter().find(|it| *it == key) {
                    Some(key) => Ok(Field::Dataset(key)),
                    None => bad(format!(
                        "'{key}' is not a valid dataset attribute: use one of {}",
                        keys.join(", ")
                    )),
                }
            }
            _ => bad(format!("'{entity}' is not a valid entity in this search")),
        }
    }

    /// Whether the field supports IN.
    fn takes_lists(self, field: &Field) -> bool {
        self == Self::LoggedModels || matches!(field, Field::Text("run_id") | Field::Dataset(_))
    }

    /// The field of a sort order.
    pub fn order(self, order: &Order) -> Result<Field> {
        self.field(&order.by, true)
    }

    /// The attributes of an `order_by`, and whether each is descending. A mistake is an error.
    pub fn orders(self, clauses: &[String]) -> Result<Vec<(Field, bool)>> {
        let mut orders: Vec<(Field, bool)> = Vec::new();
        for clause in clauses {
            let order = parse_order(clause)?;
            let field = self.order(&order)?;
            if !matches!(field, Field::Text(_) | Field::Number(_)) {
                return bad(format!(
                    "Invalid order by key '{clause}' specified: only attributes have an order here"
                ));
            }
            if orders.iter().any(|(known, _)| *known == field) {
                return bad(format!(
                    "`order_by` contains duplicate fields: '{}'",
                    order.by.key
                ));
            }
            orders.push((field, order.descending));
        }
        Ok(orders)
    }

    /// Validates a comparison for this kind of search.
    pub fn condition(self, comparison: Comparison) -> Result<Condition> {
        let field = self.field(&comparison.left, false)?;
        let operator = comparison.operator;
        let with = match (&field, comparison.right) {
            (Field::Tag(_) | Field::Param(_), Literal::Nothing) => Compared::Nothing,
            (_, Literal::Nothing) => {
                return bad("IS NULL and IS NOT NULL are for tags and params only".to_owned());
            }
            (Field::Metric(_) | Field::Number(_), Literal::Number(number))
                if operator.sign().is_some() =>
            {
                Compared::Number(number)
            }
            (Field::Metric(_) | Field::Number(_), _) => {
                return bad(format!(
                    "'{}' is a number: compare it by = != < <= > >= with a number without quotes",
                    comparison.left.key
                ));
            }
            (field, Literal::List(list))
                if matches!(operator, Operator::In | Operator::NotIn)
                    && self.takes_lists(field) =>
            {
                Compared::List(list)
            }
            (_, Literal::Text(text)) if is_for_texts(operator) => Compared::Text(text),
            _ => {
                return bad(format!(
                    "'{}' is a string: compare it by = != LIKE ILIKE with a quoted string{}",
                    comparison.left.key, " (only run_id and datasets can be IN a list)"
                ));
            }
        };
        Ok(Condition {
            field,
            test: Test { operator, with },
        })
    }
}

fn is_for_texts(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Equal | Operator::NotEqual | Operator::Like | Operator::Ilike
    )
}
