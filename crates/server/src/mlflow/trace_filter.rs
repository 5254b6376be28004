//! Filters of the search for traces.
//!
//! ```text
//! [attribute.|trace.] status name run_id request_id client_request_id
//!                     timestamp_ms execution_time_ms end_time_ms
//! tag.KEY   metadata.KEY   feedback.NAME   expectation.NAME
//! ```
//!
//! Filters on spans are not supported, because spans are stored as files that only clients parse.

use std::borrow::Cow;

use assize_store::mlflow::filter::{Comparison, Literal, Operator, parse};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ApiError, ApiResult};

/// A conjunction of clauses.
pub(super) struct Filter(Vec<Clause>);

struct Clause {
    field: Field,
    operator: Operator,
    value: Literal,
}

enum Field {
    /// A string field of the trace's info.
    Text(&'static str),
    Tag(String),
    Metadata(String),
    Time(Time),
    /// The kind of assessment, and its name.
    Assessment(&'static str, String),
}

#[derive(Clone, Copy)]
enum Time {
    Start,
    Duration,
    End,
}

impl Filter {
    pub fn parse(text: &str) -> ApiResult<Self> {
        let clauses = parse(text)?.into_iter().map(Clause::of);
        clauses.collect::<ApiResult<_>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The run to which the filter restricts the traces.
    pub fn run_id(&self) -> Option<&str> {
        self.0.iter().find_map(|clause| match clause {
            Clause {
                field: Field::Metadata(key),
                operator: Operator::Equal,
                value: Literal::Text(run_id),
            } if key == SOURCE_RUN => Some(run_id.as_str()),
            _ => None,
        })
    }

    pub fn holds(&self, info: &Value) -> bool {
        self.0.iter().all(|clause| clause.holds(info))
    }
}

const SOURCE_RUN: &str = "mlflow.sourceRun";

impl Clause {
    fn of(comparison: Comparison) -> ApiResult<Self> {
        let Comparison {
            left,
            operator,
            right,
        } = comparison;
        let field = match (left.entity.as_deref(), left.key) {
            (Some("tag" | "tags"), key) => Field::Tag(key),
            (Some("metadata" | "request_metadata"), key) => Field::Metadata(key),
            (Some("feedback"), name) => Field::Assessment("feedback", name),
            (Some("expectation"), name) => Field::Assessment("expectation", name),
            (None | Some("attribute" | "attributes" | "trace"), key) => attribute(&key)?,
            (Some(entity), key) => {
                return Err(ApiError::not_implemented(&format!(
                    "filters on traces by {entity}.{key} are not supported"
                )));
            }
        };
        let is_number = matches!(right, Literal::Number(_));
        let is_valid = match field {
            Field::Time(_) => is_number && operator.sign().is_some(),
            Field::Assessment(..) => !matches!(operator, Operator::In | Operator::NotIn),
            _ => {
                let is_order = matches!(operator, Operator::Equal | Operator::NotEqual)
                    || operator.sign().is_none();
                !is_number && is_order
            }
        };
        if !is_valid {
            return Err(ApiError::invalid(
                "the filter's operator or value does not fit its field: compare times with \
                 numbers, feedback and expectations with strings or numbers, and all other \
                 fields with strings by =, !=, LIKE, ILIKE, IN or IS NULL",
            ));
        }
        Ok(Self {
            field,
            operator,
            value: right,
        })
    }

    fn holds(&self, info: &Value) -> bool {
        if let Field::Assessment(kind, name) = &self.field {
            let all = info["assessments"].as_array().into_iter().flatten();
            let mut named = all
                .filter(|it| it["assessment_name"] == **name && !it[*kind].is_null())
                .filter(|it| it["valid"] != false)
                .map(|it| &it[*kind]["value"]);
            return match self.operator {
                Operator::IsNull => named.next().is_none(),
                Operator::IsNotNull => named.next().is_some(),
                _ => named.any(|value| self.compare(value)),
            };
        }
        if let Field::Time(time) = self.field {
            return millis(info, time).is_some_and(|it| self.compare(&it.into()));
        }
        let value = match &self.field {
            Field::Text(name) => &info[*name],
            Field::Tag(key) => &info["tags"][key],
            Field::Metadata(key) => &info["trace_metadata"][key],
            Field::Time(_) | Field::Assessment(..) => &Value::Null,
        };
        match self.operator {
            Operator::IsNull => value.is_null(),
            Operator::IsNotNull => !value.is_null(),
            _ => !value.is_null() && self.compare(value),
        }
    }

    fn compare(&self, value: &Value) -> bool {
        match &self.value {
            Literal::Number(wanted) => value
                .as_f64()
                .and_then(|it| it.partial_cmp(wanted))
                .is_some_and(|order| self.fits(order)),
            Literal::Text(wanted) => {
                let text = shown(value);
                match self.operator {
                    Operator::Like => like(&text, wanted),
                    Operator::Ilike => like(&text.to_lowercase(), &wanted.to_lowercase()),
                    _ => self.fits(text.as_ref().cmp(wanted.as_str())),
                }
            }
            Literal::List(wanted) => {
                let is_in = wanted.iter().any(|it| *it == shown(value));
                is_in == (self.operator == Operator::In)
            }
            Literal::Nothing => false,
        }
    }

    fn fits(&self, order: std::cmp::Ordering) -> bool {
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            _ => false,
        }
    }
}

fn attribute(key: &str) -> ApiResult<Field> {
    Ok(match key {
        "status" | "state" => Field::Text("state"),
        "request_id" | "trace_id" => Field::Text("trace_id"),
        "client_request_id" => Field::Text("client_request_id"),
        "name" => Field::Tag("mlflow.traceName".to_owned()),
        "run_id" => Field::Metadata(SOURCE_RUN.to_owned()),
        "timestamp" | "timestamp_ms" => Field::Time(Time::Start),
        "execution_time" | "execution_time_ms" => Field::Time(Time::Duration),
        "end_time" | "end_time_ms" => Field::Time(Time::End),
        _ => {
            return Err(ApiError::not_implemented(&format!(
                "filters on traces by '{key}' are not supported"
            )));
        }
    })
}

fn millis(info: &Value, time: Time) -> Option<i64> {
    let start = || {
        let start: Timestamp = info["request_time"].as_str()?.parse().ok()?;
        Some(start.as_millisecond())
    };
    let lasted = || {
        let text = info["execution_duration"].as_str()?;
        let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
        let lasted = SignedDuration::try_from_secs_f64(seconds).ok()?;
        i64::try_from(lasted.as_millis()).ok()
    };
    match time {
        Time::Start => start(),
        Time::Duration => lasted(),
        Time::End => start()?.checked_add(lasted()?),
    }
}

/// A string's content; other values as JSON.
fn shown(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// SQL's LIKE: `%` matches any text, `_` any character.
fn like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut at, mut here) = (0, 0);
    // The position of the last `%`, and the end of the text that it matches so far.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(here) {
            Some('%') => {
                retry = Some((here, at));
                here += 1;
            }
            Some(&sign) if sign == '_' || sign == text[at] => {
                at += 1;
                here += 1;
            }
            _ => match retry {
                Some((percent, matched)) => {
                    at = matched + 1;
                    here = percent + 1;
                    retry = Some((percent, at));
                }
                None => return false,
            },
        }
    }
    pattern[here..].iter().all(|sign| *sign == '%')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn traces_are_filtered_by_their_fields() {
        let info = json!({
            "trace_id": "tr-1", "state": "OK", "request_time": "1970-01-01T00:00:01.500Z",
            "execution_duration": "0.250s", "trace_metadata": {"mlflow.sourceRun": "abc"},
            "tags": {"mlflow.traceName": "Größe", "a b": ""},
            "assessments": [
                {"assessment_name": "relevance", "feedback": {"value": 4}, "valid": true},
                {"assessment_name": "relevance", "feedback": {"value": 2}, "valid": false},
                {"assessment_name": "good", "feedback": {"value": true}},
                {"assessment_name": "answer", "expectation": {"value": "yes"}},
            ],
        });
        for (filter, expected) in [
            ("status = 'OK'", true),
            ("trace.status != 'OK'", false),
            ("attribute.run_id = 'abc'", true),
            ("name LIKE 'Gr%e'", true),
            ("name LIKE 'gr%e'", false),
            ("name ILIKE 'gr_SSE'", false),
            ("name ILIKE 'grö_e'", true),
            ("tags.`a b` = ''", true),
            ("tags.missing != 'x'", false),
            ("tags.missing IS NULL", true),
            ("metadata.`mlflow.sourceRun` IS NOT NULL", true),
            ("timestamp_ms >= 1500", true),
            ("timestamp_ms > 1500", false),
            ("execution_time_ms = 250", true),
            ("end_time_ms = 1750", true),
            ("feedback.relevance > 3", true),
            ("feedback.relevance < 3", false),
            ("feedback.good = 'true'", true),
            ("feedback.answer IS NULL", true),
            ("expectation.answer = 'yes'", true),
            ("request_id IN ('tr-0', 'tr-1')", true),
            ("request_id NOT IN ('tr-0', 'tr-1')", false),
            ("status = 'OK' AND name = 'other'", false),
        ] {
            let parsed = Filter::parse(filter).expect(filter);
            assert_eq!(parsed.holds(&info), expected, "{filter}");
        }
        for invalid in [
            "span.name = 'x'",
            "prompt = 'x'",
            "status > 'OK'",
            "timestamp_ms = 'x'",
        ] {
            assert!(Filter::parse(invalid).is_err(), "{invalid}");
        }
    }
}
