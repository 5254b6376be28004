//! The place of a run in an order, as the text inside a page token.
//!
//! It is opaque to clients, and whatever comes back is only ever a parameter of a comparison.

use assize_domain::hash::hex;
use rusqlite::types::Value;
use serde_json::{Value as Json, json};

use crate::StoreError;
use crate::sqlite::Attempt;

pub(super) fn write(values: &[Value]) -> String {
    let values: Vec<Json> = values
        .iter()
        .map(|value| match value {
            Value::Null => Json::Null,
            Value::Integer(number) => json!(number),
            // By their bits: the next page must start at this very number.
            Value::Real(number) => json!({"real": number.to_bits()}),
            Value::Text(text) => json!(text),
            Value::Blob(bytes) => json!({"bytes": hex(bytes)}),
        })
        .collect();
    json!({"after": values}).to_string()
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    Behind(Vec<Value>),
    /// MLflow's own tokens count from the start.
    Offset(i64),
}

pub(super) fn read(text: &str) -> Attempt<Place> {
    let parsed: Option<Json> = serde_json::from_str(text).ok();
    let values = parsed.as_ref().and_then(|it| it["after"].as_array());
    let values = values.and_then(|it| it.iter().map(value).collect::<Option<Vec<_>>>());
    let offset = parsed.as_ref().and_then(|it| it["offset"].as_i64());
    let offset = offset.filter(|it| *it > 0).map(Place::Offset);
    values.map(Place::Behind).or(offset).ok_or_else(|| {
        StoreError::Invalid(
            "Invalid page token: take it from the page before, or leave it out".to_owned(),
        )
        .into()
    })
}

fn value(json: &Json) -> Option<Value> {
    match json {
        Json::Null => Some(Value::Null),
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => number.as_i64().map(Value::Integer),
        Json::Object(fields) => match (fields.get("real"), fields.get("bytes")) {
            (Some(bits), _) => bits.as_u64().map(|it| Value::Real(f64::from_bits(it))),
            (None, Some(bytes)) => unhex(bytes.as_str()?).map(Value::Blob),
            _ => None,
        },
        _ => None,
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() % 2 == 1 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits
        .chunks(2)
        .map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let values = vec![
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.1 + 0.2),
            Value::Real(f64::NEG_INFINITY),
            Value::Text("é'".to_owned()),
            Value::Blob(vec![0, 255]),
        ];
        assert_eq!(read(&write(&values)).unwrap(), Place::Behind(values));
        assert_eq!(read(r#"{"offset": 2}"#).unwrap(), Place::Offset(2));
        for bad in [
            "",
            "{}",
            "[1]",
            r#"{"after":[{"bytes":"é"}]}"#,
            r#"{"after":[true]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
