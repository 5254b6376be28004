//! MLflow's search grammar: comparisons joined by AND, and sort orders.
//!
//! ```text
//! filter     = comparison { ["AND"] comparison } ["AND"]
//! comparison = identifier operator value | identifier "IS" ["NOT"] "NULL"
//! identifier = [entity "."] key          key: bare (dots included), `…`, "…" or '…'
//! operator   = "=" "!=" "<" "<=" ">" ">=" "LIKE" "ILIKE" "RLIKE" ["NOT"] "IN"
//! value      = number | '…' | "…" | "(" text {"," text} ")"
//! order      = identifier ["ASC" | "DESC"]
//! ```
//!
//! Entities are case-sensitive, keywords are not. A doubled quote inside a string stays two quotes:
//! MLflow has no escapes. This module implements only the grammar; [`subject`] defines which
//! entities, keys, operators and values are valid together.

use crate::{Result, StoreError};

mod cursor;
mod subject;

use cursor::Cursor;
pub use subject::{Compared, Condition, Field, Subject, Test};

/// Longer filters are rejected, because the database would reject their patterns.
const LONGEST: usize = 32_768;

/// The maximum number of comparisons in a filter, because the database limits nesting.
const MOST: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    Ilike,
    /// A regular expression; only for traces.
    Rlike,
    In,
    NotIn,
    IsNull,
    IsNotNull,
}

impl Operator {
    /// The symbol that SQL and MLflow share; `None` for keyword operators.
    pub const fn sign(self) -> Option<&'static str> {
        Some(match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            _ => return None,
        })
    }
}

/// The left side of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identifier {
    pub entity: Option<String>,
    pub key: String,
}

/// The right side of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Number(f64),
    Text(String),
    List(Vec<String>),
    Nothing,
}

/// One parsed comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub left: Identifier,
    pub operator: Operator,
    pub right: Literal,
}

/// One parsed sort order.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub by: Identifier,
    pub descending: bool,
}

fn bad<T>(message: String) -> Result<T> {
    Err(StoreError::Invalid(message))
}

/// Parses a filter; an empty one has no comparisons.
pub fn parse(filter: &str) -> Result<Vec<Comparison>> {
    if filter.is_empty() {
        return Ok(Vec::new());
    }
    if filter.len() > LONGEST {
        return bad(format!(
            "the filter has {} bytes, and the limit is {LONGEST}",
            filter.len()
        ));
    }
    let mut cursor = Cursor::new(filter);
    let mut comparisons = Vec::new();
    loop {
        comparisons.push(comparison(&mut cursor)?);
        if comparisons.len() > MOST {
            return bad(format!("the filter has more than {MOST} comparisons"));
        }
        cursor.keyword("AND");
        if cursor.is_at_end() {
            return Ok(comparisons);
        }
    }
}

/// Parses one `order_by` clause.
pub fn parse_order(clause: &str) -> Result<Order> {
    let mut cursor = Cursor::new(clause);
    let by = identifier(&mut cursor)?;
    let descending = cursor.keyword("DESC");
    if !descending {
        cursor.keyword("ASC");
    }
    if !cursor.is_at_end() {
        return bad(format!(
            "the order '{clause}' is not valid at '{}': write KEY, KEY ASC or KEY DESC",
            cursor.rest()
        ));
    }
    Ok(Order { by, descending })
}

fn comparison(cursor: &mut Cursor<'_>) -> Result<Comparison> {
    let left = identifier(cursor)?;
    let operator = operator(cursor)?;
    let right = match operator {
        Operator::IsNull | Operator::IsNotNull => Literal::Nothing,
        _ => value(cursor)?,
    };
    Ok(Comparison {
        left,
        operator,
        right,
    })
}

fn identifier(cursor: &mut Cursor<'_>) -> Result<Identifier> {
    let first = cursor
        .quoted(&['`', '"'])
        .or_else(|| cursor.word(false))
        .ok_or_else(|| expected("a name such as metrics.acc", cursor))?;
    if !cursor.take('.') {
        return Ok(Identifier {
            entity: None,
            key: first.to_owned(),
        });
    }
    let key = cursor
        .quoted_here(&['`', '"', '\''])
        .or_else(|| cursor.word_here(true))
        .ok_or_else(|| expected("a key after the dot", cursor))?;
    Ok(Identifier {
        entity: Some(first.to_owned()),
        key: key.to_owned(),
    })
}

fn operator(cursor: &mut Cursor<'_>) -> Result<Operator> {
    let signs = cursor.signs();
    let by_sign = match signs {
        "=" => Some(Operator::Equal),
        "!=" => Some(Operator::NotEqual),
        "<" => Some(Operator::Less),
        "<=" => Some(Operator::LessOrEqual),
        ">" => Some(Operator::Greater),
        ">=" => Some(Operator::GreaterOrEqual),
        _ => None,
    };
    if let Some(operator) = by_sign {
        return Ok(operator);
    }
    if !signs.is_empty() {
        return bad(format!(
            "'{signs}' is not a valid operator: use = != < <= > >= LIKE ILIKE IN or IS NULL"
        ));
    }
    if cursor.keyword("LIKE") {
        return Ok(Operator::Like);
    }
    if cursor.keyword("ILIKE") {
        return Ok(Operator::Ilike);
    }
    if cursor.keyword("RLIKE") {
        return Ok(Operator::Rlike);
    }
    if cursor.keyword("IN") {
        return Ok(Operator::In);
    }
    if cursor.keyword("NOT") && cursor.keyword("IN") {
        return Ok(Operator::NotIn);
    }
    if cursor.keyword("IS") {
        let not = cursor.keyword("NOT");
        if cursor.keyword("NULL") {
            return Ok(if not {
                Operator::IsNotNull
            } else {
                Operator::IsNull
            });
        }
    }
    Err(expected("an operator", cursor))
}

fn value(cursor: &mut Cursor<'_>) -> Result<Literal> {
    if let Some(text) = cursor.quoted(&['\'', '"']) {
        return Ok(Literal::Text(text.to_owned()));
    }
    if cursor.take_after_space('(') {
        return list(cursor);
    }
    let token = cursor.number();
    let is_number = token.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && token
            .chars()
            .all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    match token.parse() {
        Ok(number) if is_number && cursor.is_at_gap() => Ok(Literal::Number(number)),
        _ => bad(format!(
            "'{token}{}' is not a valid value: write a number, or a quoted string",
            cursor.rest()
        )),
    }
}

fn list(cursor: &mut Cursor<'_>) -> Result<Literal> {
    let mut items = Vec::new();
    loop {
        match cursor.quoted(&['\'', '"']) {
            Some(item) => items.push(item.to_owned()),
            None => return Err(expected("a quoted string in the list", cursor)),
        }
        if cursor.take_after_space(')') {
            return Ok(Literal::List(items));
        }
        if !cursor.take_after_space(',') {
            return Err(expected("a comma or the end of the list", cursor));
        }
    }
}

fn expected(what: &str, cursor: &Cursor<'_>) -> StoreError {
    let found = match cursor.rest() {
        "" => "the end".to_owned(),
        rest => format!("'{}'", super::limits::shown(rest)),
    };
    StoreError::Invalid(format!(
        "the filter is not valid: expected {what}, found {found}"
    ))
}

#[cfg(test)]
mod tests;
