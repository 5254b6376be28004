//! Mistakes in requests, in the words that MLflow uses: scripts match on these texts.
//!
//! Requests are read into types, and the error of a failed reading does not say which parameter it
//! is about. [`parse`] finds out by experiment: the parameter whose change changes the error.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use super::{ApiError, ApiResult};

/// Requests with more parameters than this get a message that names none.
const MAX_FIELDS: usize = 64;
const SEE: &str = "See the API docs for more information about request parameters.";

/// Reads the fields of a request.
pub(crate) fn parse<T: DeserializeOwned>(fields: Map<String, Value>) -> ApiResult<T> {
    let fields = Value::Object(fields);
    match T::deserialize(&fields) {
        Ok(request) => Ok(request),
        Err(error) => {
            let problem = |value: &Value| T::deserialize(value).err().map(|it| it.to_string());
            Err(locate("", &fields, &error.to_string(), &problem))
        }
    }
}

/// The error of a required parameter that a request lacks.
pub(crate) fn missing(parameter: &str) -> ApiError {
    ApiError::invalid(format!(
        "Missing value for required parameter '{parameter}'. {SEE}"
    ))
}

fn invalid(path: &str, value: &Value) -> ApiError {
    let kind = match value {
        Value::String(text) if text.is_empty() => return missing(path),
        Value::String(_) => "str",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::Bool(_) => "bool",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
        Value::Null => "NoneType",
    };
    let shown: String = value.to_string().chars().take(1_000).collect();
    ApiError::invalid(format!(
        "Invalid value {shown} for parameter '{path}' supplied:  Hint: Value was of type \
         '{kind}'. {SEE}"
    ))
}

/// The error that a request would have with another value in some place.
type Problem<'a> = &'a dyn Fn(&Value) -> Option<String>;

fn locate(path: &str, value: &Value, error: &str, problem: Problem<'_>) -> ApiError {
    match value {
        Value::Object(fields) if fields.len() <= MAX_FIELDS => {
            locate_field(path, fields, error, problem)
        }
        Value::Array(items) => locate_item(path, items, error, problem),
        _ if path.is_empty() => ApiError::invalid(format!("the request cannot be read: {error}")),
        _ => invalid(path, value),
    }
}

fn locate_field(
    path: &str,
    fields: &Map<String, Value>,
    error: &str,
    problem: Problem<'_>,
) -> ApiError {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let with = |name: &str, value: Option<Value>| {
        let mut changed = fields.clone();
        match value {
            Some(value) => changed.insert(name.to_owned(), value),
            None => changed.shift_remove(name),
        };
        problem(&Value::Object(changed))
    };
    let changes = |outcome: Option<String>| outcome.as_deref() != Some(error);
    let lacked = error
        .strip_prefix("missing field `")
        .and_then(|it| it.split('`').next());
    if let Some(name) = lacked
        && changes(with(name, Some("x".into())))
    {
        return missing(&below(name));
    }
    for (name, value) in fields {
        if let Some(other) = other_than(value)
            && changes(with(name, Some(other)))
        {
            return invalid(&below(name), value);
        }
    }
    let lists = || {
        fields
            .iter()
            .filter(|(_, value)| value.is_array() || value.is_object())
    };
    for (name, value) in lists() {
        let empty = if value.is_array() {
            Value::Array(Vec::new())
        } else {
            Value::Object(Map::new())
        };
        if changes(with(name, Some(empty))) {
            return locate(&below(name), value, error, &|it| {
                with(name, Some(it.clone()))
            });
        }
    }
    for (name, value) in lists() {
        if changes(with(name, None)) {
            return invalid(&below(name), value);
        }
    }
    if path.is_empty() {
        return ApiError::invalid(format!("the request cannot be read: {error}"));
    }
    invalid(path, &Value::Object(fields.clone()))
}

/// The first invalid item ends the shortest beginning of the list that cannot be read.
fn locate_item(path: &str, items: &[Value], error: &str, problem: Problem<'_>) -> ApiError {
    let is_fine = |count: usize| problem(&Value::Array(items[..count].to_vec())).is_none();
    if !is_fine(0) {
        return invalid(path, &Value::Array(items.to_vec()));
    }
    let (mut fine, mut bad) = (0, items.len());
    while bad - fine > 1 {
        let middle = usize::midpoint(fine, bad);
        if is_fine(middle) {
            fine = middle;
        } else {
            bad = middle;
        }
    }
    let Some(item) = items.get(fine) else {
        return invalid(path, &Value::Array(items.to_vec()));
    };
    // The error names the item's own value, which may differ from that of a later one.
    let of_item = |it: &Value| problem(&Value::Array(vec![it.clone()]));
    let error = of_item(item).unwrap_or_else(|| error.to_owned());
    locate(&format!("{path}[{fine}]"), item, &error, &of_item)
}

/// Another value of the same type, which is as valid as this one.
fn other_than(value: &Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => match text.as_str() {
            "NaN" => "Infinity".into(),
            "Infinity" | "-Infinity" => "NaN".into(),
            text if text.parse::<f64>().is_ok() => format!("{text}0").into(),
            text => format!("{text}x").into(),
        },
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.wrapping_add(1).into(),
            None => Value::Number(Number::from_f64(number.as_f64()? / 2.0)?),
        },
        Value::Bool(flag) => (!flag).into(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::super::fields::{Double, Id, Int, Required, RunRef};
    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Point {
        key: Required,
        value: Double,
        timestamp: Int,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Request {
        #[serde(flatten)]
        run: RunRef,
        name: Required,
        #[serde(default)]
        ids: Vec<Id>,
        #[serde(default)]
        points: Vec<Point>,
        #[serde(default)]
        text: String,
        #[serde(default)]
        count: Option<Int>,
    }

    #[test]
    fn mistakes_name_the_parameter_and_its_value() {
        let point = json!({"key": "k", "value": "NaN", "timestamp": 1});
        for (request, expected) in [
            (json!({}), "Missing value for required parameter 'name'."),
            (
                json!({"name": ""}),
                "Missing value for required parameter 'name'.",
            ),
            (
                json!({"name": 5}),
                "Invalid value 5 for parameter 'name' supplied:  Hint: Value was of type 'int'.",
            ),
            (
                json!({"name": ["a"]}),
                "Invalid value [\"a\"] for parameter 'name' supplied:  Hint: Value was of type 'list'.",
            ),
            (
                json!({"name": "n", "text": 5, "run_id": 5}),
                "Invalid value 5 for parameter",
            ),
            (
                json!({"name": "n", "run_id": 1.5}),
                "Invalid value 1.5 for parameter 'run_id' supplied:  Hint: Value was of type 'float'.",
            ),
            (
                json!({"name": "n", "ids": "x"}),
                "Invalid value \"x\" for parameter 'ids' supplied:  Hint: Value was of type 'str'.",
            ),
            (
                json!({"name": "n", "ids": {"a": 1}}),
                "Invalid value {\"a\":1} for parameter 'ids' supplied:  Hint: Value was of type 'dict'.",
            ),
            (
                json!({"name": "n", "ids": ["1", true]}),
                "Invalid value true for parameter 'ids[1]' supplied",
            ),
            (
                json!({"name": "n", "count": "many"}),
                "Invalid value \"many\" for parameter 'count' supplied:  Hint: Value was of type 'str'.",
            ),
            (
                json!({"name": "n", "points": [point, {"key": "k", "value": 1}]}),
                "Missing value for required parameter 'points[1].timestamp'.",
            ),
            (
                json!({"name": "n", "points": [point, {"key": "k", "value": "x", "timestamp": 1}]}),
                "Invalid value \"x\" for parameter 'points[1].value' supplied",
            ),
            (
                json!({"name": "n", "points": [5]}),
                "Invalid value 5 for parameter 'points[0]' supplied",
            ),
        ] {
            let Value::Object(fields) = request.clone() else {
                unreachable!("an object");
            };
            let error = parse::<Request>(fields).unwrap_err();
            assert!(
                error.message.starts_with(expected),
                "{request}: {}",
                error.message
            );
        }
    }
}
