//! Validation of the MLflow messages that clients send to be stored.
//!
//! A client parses a page of traces as one message, so a single stored value of the wrong type
//! would make the page unreadable for all clients. Such values are rejected.

use serde_json::{Map, Value};

use super::{ApiError, ApiResult};

/// The type of a field.
pub(super) enum Kind {
    Text,
    Flag,
    /// RFC 3339.
    Time,
    /// Such as `1.5s`.
    Duration,
    /// An object whose values are strings.
    Texts,
    OneOf(&'static [&'static str]),
    Message(&'static [Field]),
    Anything,
}

pub(super) type Field = (&'static str, Kind);

const ERROR: &[Field] = &[
    ("error_code", Kind::Text),
    ("error_message", Kind::Text),
    ("stack_trace", Kind::Text),
];
const SOURCE: &[Field] = &[
    (
        "source_type",
        Kind::OneOf(&["SOURCE_TYPE_UNSPECIFIED", "HUMAN", "LLM_JUDGE", "CODE"]),
    ),
    ("source_id", Kind::Text),
];
const FEEDBACK: &[Field] = &[("value", Kind::Anything), ("error", Kind::Message(ERROR))];
const EXPECTATION: &[Field] = &[
    ("value", Kind::Anything),
    (
        "serialized_value",
        Kind::Message(&[("serialization_format", Kind::Text), ("value", Kind::Text)]),
    ),
];
pub(super) const ASSESSMENT: &[Field] = &[
    ("assessment_name", Kind::Text),
    ("span_id", Kind::Text),
    ("source", Kind::Message(SOURCE)),
    ("create_time", Kind::Time),
    ("last_update_time", Kind::Time),
    ("feedback", Kind::Message(FEEDBACK)),
    ("expectation", Kind::Message(EXPECTATION)),
    ("rationale", Kind::Text),
    ("error", Kind::Message(ERROR)),
    ("metadata", Kind::Texts),
    ("overrides", Kind::Text),
    ("valid", Kind::Flag),
];
const LOCATION: &[Field] = &[
    (
        "type",
        Kind::OneOf(&["TRACE_LOCATION_TYPE_UNSPECIFIED", "MLFLOW_EXPERIMENT"]),
    ),
    (
        "mlflow_experiment",
        Kind::Message(&[("experiment_id", Kind::Text)]),
    ),
];
pub(super) const TRACE: &[Field] = &[
    ("client_request_id", Kind::Text),
    ("trace_location", Kind::Message(LOCATION)),
    ("request", Kind::Text),
    ("response", Kind::Text),
    ("request_preview", Kind::Text),
    ("response_preview", Kind::Text),
    ("request_time", Kind::Time),
    ("execution_duration", Kind::Duration),
    (
        "state",
        Kind::OneOf(&["STATE_UNSPECIFIED", "OK", "ERROR", "IN_PROGRESS"]),
    ),
    ("trace_metadata", Kind::Texts),
];

/// Checks the known fields of a message. Clients ignore unknown fields.
pub(super) fn check(name: &str, message: &Map<String, Value>, fields: &[Field]) -> ApiResult<()> {
    for (field, kind) in fields {
        if let Some(value) = message.get(*field).filter(|it| !it.is_null()) {
            check_field(&format!("{name}.{field}"), value, kind)?;
        }
    }
    Ok(())
}

fn check_field(name: &str, value: &Value, kind: &Kind) -> ApiResult<()> {
    let text = value.as_str();
    let expected = match kind {
        Kind::Message(fields) => match value {
            Value::Object(message) => return check(name, message, fields),
            _ => "an object".to_owned(),
        },
        Kind::Texts => match value {
            Value::Object(texts) if texts.values().all(Value::is_string) => return Ok(()),
            _ => "an object with string values".to_owned(),
        },
        Kind::Anything => return Ok(()),
        Kind::Text if text.is_some() => return Ok(()),
        Kind::Text => "a string".to_owned(),
        Kind::Flag if value.is_boolean() => return Ok(()),
        Kind::Flag => "true or false".to_owned(),
        Kind::Time if text.is_some_and(is_time) => return Ok(()),
        Kind::Time => "an RFC 3339 time".to_owned(),
        Kind::Duration if text.is_some_and(is_duration) => return Ok(()),
        Kind::Duration => "seconds such as \"1.5s\"".to_owned(),
        Kind::OneOf(names) if text.is_some_and(|it| names.contains(&it)) => return Ok(()),
        Kind::OneOf(names) => format!("one of {}", names.join(", ")),
    };
    Err(ApiError::invalid(format!(
        "{name} is {value}, but must be {expected}"
    )))
}

fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

fn is_duration(text: &str) -> bool {
    let Some(seconds) = text.strip_suffix('s') else {
        return false;
    };
    let seconds = seconds.strip_prefix('-').unwrap_or(seconds);
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    is_number(whole) && whole.len() <= 11 && is_number(part) && part.len() <= 9
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_rejected(message: &Value, fields: &[Field]) -> bool {
        check("it", message.as_object().unwrap(), fields).is_err()
    }

    #[test]
    fn valid_messages_are_accepted() {
        let assessment = json!({
            "assessment_name": "a", "source": {"source_type": "HUMAN", "source_id": "ann"},
            "create_time": "2026-04-27T10:00:00.123Z", "feedback": {"value": {"any": [1, null]}},
            "rationale": "r", "metadata": {"k": "v"}, "valid": true, "overrides": null,
        });
        assert!(!is_rejected(&assessment, ASSESSMENT));
        let trace = json!({
            "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "1"}},
            "execution_duration": "0.000123s", "state": "OK", "trace_metadata": {"k": "v"},
        });
        assert!(!is_rejected(&trace, TRACE));
    }

    #[test]
    fn invalid_messages_are_rejected() {
        for bad in [
            json!({"metadata": {"a": 1}}),
            json!({"create_time": "garbage"}),
            json!({"rationale": 5}),
            json!({"valid": "no"}),
            json!({"source": {"source_type": "ROBOT"}}),
            json!({"feedback": {"error": {"error_code": 1}}}),
            json!({"expectation": 1}),
        ] {
            assert!(is_rejected(&bad, ASSESSMENT), "{bad}");
        }
        for bad in [
            json!({"execution_duration": "abc"}),
            json!({"execution_duration": 3}),
            json!({"execution_duration": ".5s"}),
            json!({"state": 7}),
            json!({"request_preview": 5}),
            json!({"client_request_id": [1]}),
            json!({"trace_location": {"type": "INFERENCE_TABLE"}}),
        ] {
            assert!(is_rejected(&bad, TRACE), "{bad}");
        }
    }
}
