//! Page tokens of a search: the sort values of the last run of a page.
//!
//! A token is opaque to clients. Values from a token are only used as bound parameters of a
//! comparison.

use assize_domain::hash::hex;
use rusqlite::types::Value;
use serde_json::{Value as Json, json};

use super::runs::id_bytes;
use crate::StoreError;
use crate::sqlite::Attempt;

pub(super) fn write(values: &[Value]) -> String {
    let values: Vec<Json> = values
        .iter()
        .map(|value| match value {
            Value::Null => Json::Null,
            Value::Integer(number) => json!(number),
            // As bits, because the next page must start at exactly this number.
            Value::Real(number) => json!({"real": number.to_bits()}),
            Value::Text(text) => json!(text),
            // Ids are the only byte strings that runs are sorted by.
            Value::Blob(id) => json!({"bytes": hex(id)}),
        })
        .collect();
    json!({"after": values}).to_string()
}

/// The start of a page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PageStart {
    /// After the run with these values.
    After(Vec<Value>),
    /// An offset, as in MLflow's own tokens.
    Offset(i64),
}

pub(super) fn read(text: &str) -> Attempt<PageStart> {
    let parsed: Option<Json> = serde_json::from_str(text).ok();
    let values = parsed.as_ref().and_then(|it| it["after"].as_array());
    let values = values.and_then(|it| it.iter().map(value).collect::<Option<Vec<_>>>());
    let offset = parsed.as_ref().and_then(|it| it["offset"].as_i64());
    let offset = offset.filter(|it| *it > 0).map(PageStart::Offset);
    values.map(PageStart::After).or(offset).ok_or_else(|| {
        StoreError::Invalid(
            "Invalid page token: use the token of the previous page, or omit it".to_owned(),
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
            (None, Some(id)) => id_bytes(id.as_str()?).map(|it| Value::Blob(it.to_vec())),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let values = vec![
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.1 + 0.2),
            Value::Real(f64::NEG_INFINITY),
            Value::Text("é'".to_owned()),
            Value::Blob((0..16).map(|it| it * 17).collect()),
        ];
        assert_eq!(read(&write(&values)).unwrap(), PageStart::After(values));
        assert_eq!(read(r#"{"offset": 2}"#).unwrap(), PageStart::Offset(2));
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
