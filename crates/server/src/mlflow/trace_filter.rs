//! Filters of the search for traces.
//!
//! ```text
//! [attribute.|trace.] status name run_id request_id client_request_id
//!                     timestamp_ms execution_time_ms end_time_ms
//! tag.KEY   metadata.KEY   feedback.NAME   expectation.NAME   prompt
//! ```
//!
//! Filters on spans are not supported, because spans are stored as files that only clients parse.

use std::borrow::Cow;

use assize_store::mlflow::filter::{Comparison, Literal, Operator, parse};
use jiff::{SignedDuration, Timestamp};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::traces::FoundTrace;
use super::{ApiError, ApiResult};

/// A conjunction of clauses.
pub(super) struct Filter(Vec<Clause>);

struct Clause {
    field: Field,
    operator: Operator,
    value: Literal,
    /// The compiled value of RLIKE.
    pattern: Option<Regex>,
}

enum Field {
    /// A string field of the trace's info.
    Text(&'static str),
    Tag(String),
    Metadata(String),
    Time(Time),
    /// The run in which the trace was logged, and those it was linked to.
    Run,
    /// The linked prompt versions.
    Prompt,
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
                field: Field::Run,
                operator: Operator::Equal,
                value: Literal::Text(run_id),
                ..
            } => Some(run_id.as_str()),
            _ => None,
        })
    }

    pub fn holds(&self, trace: &FoundTrace) -> bool {
        self.0.iter().all(|clause| clause.holds(trace))
    }
}

const SOURCE_RUN: &str = "mlflow.sourceRun";
/// The largest size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

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
            (None, key) if key == "prompt" => Field::Prompt,
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
            Field::Prompt => !is_number && operator == Operator::Equal,
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
                 fields with strings by =, !=, LIKE, ILIKE, RLIKE, IN or IS NULL",
            ));
        }
        if let (Field::Prompt, Literal::Text(prompt)) = (&field, &right)
            && !prompt
                .rsplit_once('/')
                .is_some_and(|(name, version)| !name.is_empty() && version.parse::<u32>().is_ok())
        {
            return Err(ApiError::invalid(format!(
                "Invalid prompts filter value '{prompt}'. Expected format: prompt = \"name/version\""
            )));
        }
        let pattern = match (operator, &right) {
            (Operator::Rlike, Literal::Text(pattern)) => {
                let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
                Some(compiled.map_err(|error| {
                    ApiError::invalid(format!("'{pattern}' is not a valid pattern: {error}"))
                })?)
            }
            _ => None,
        };
        Ok(Self {
            field,
            operator,
            value: right,
            pattern,
        })
    }

    fn holds(&self, trace: &FoundTrace) -> bool {
        let info = &trace.info;
        match self.field {
            Field::Prompt => return self.any_of(trace.prompts.iter().map(String::as_str)),
            Field::Run => {
                let logged_in = info["trace_metadata"][SOURCE_RUN].as_str();
                return self.any_of(
                    logged_in
                        .into_iter()
                        .chain(trace.runs.iter().map(String::as_str)),
                );
            }
            _ => {}
        }
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
            Field::Time(_) | Field::Assessment(..) | Field::Run | Field::Prompt => &Value::Null,
        };
        match self.operator {
            Operator::IsNull => value.is_null(),
            Operator::IsNotNull => !value.is_null(),
            _ => !value.is_null() && self.compare(value),
        }
    }

    /// Whether one of several values fits; of the negative operators, all of them must.
    fn any_of<'a>(&self, mut values: impl Iterator<Item = &'a str>) -> bool {
        match self.operator {
            Operator::IsNull => values.next().is_none(),
            Operator::IsNotNull => values.next().is_some(),
            Operator::NotEqual | Operator::NotIn => {
                let mut values = values.peekable();
                values.peek().is_some() && values.all(|it| self.compare(&it.into()))
            }
            _ => values.any(|it| self.compare(&it.into())),
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
                    Operator::Rlike => self.pattern.as_ref().is_some_and(|it| it.is_match(&text)),
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
        "run_id" => Field::Run,
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
        let trace = FoundTrace {
            info,
            runs: vec!["linked".to_owned()],
            prompts: vec!["greet/2".to_owned()],
        };
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
            ("name RLIKE '^Gr.+e$'", true),
            ("name rlike '^x'", false),
            ("run_id = 'linked'", true),
            ("run_id != 'linked'", false),
            ("run_id IN ('abc')", true),
            ("run_id = 'other'", false),
            ("prompt = 'greet/2'", true),
            ("prompt = 'greet/3'", false),
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
            assert_eq!(parsed.holds(&trace), expected, "{filter}");
        }
        for invalid in [
            "span.name = 'x'",
            "prompt = 'x'",
            "prompt LIKE 'x/1'",
            "name RLIKE '['",
            "timestamp_ms RLIKE '1'",
            "status > 'OK'",
            "timestamp_ms = 'x'",
        ] {
            assert!(Filter::parse(invalid).is_err(), "{invalid}");
        }
    }
}
