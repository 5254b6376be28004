//! Types of request fields, as lenient as MLflow's protocol: integers may be strings, ids may be
//! numbers, and NaN and infinities are strings. Invalid values are rejected; MLflow would read
//! them as zero.

use assize_store::mlflow::{Entry, Page, Slice, View};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Value, json};

use super::mistakes::missing;
use super::{ApiError, ApiResult};

/// A request without fields.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(crate) struct NoFields {}

/// An integer, possibly as a string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Int(pub i64);

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = match &value {
            Value::Number(number) => number.as_i64().or_else(|| integral(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("{value} is not a whole number")))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be a whole number in range"
)]
fn integral(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// A number; NaN and infinities are strings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Double(pub f64);

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = match &value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => match text.as_str() {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                other => other.parse().ok().filter(|it: &f64| it.is_finite()),
            },
            _ => None,
        };
        number.map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{value} is not a number: use a number, \"NaN\", \"Infinity\" or \"-Infinity\""
            ))
        })
    }
}

/// An id, possibly as a number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Id(pub String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text.is_empty() => Err(D::Error::custom(NO_VALUE)),
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(D::Error::custom(format!("{other} is not a valid id"))),
        }
    }
}

/// The error of a required string that is empty, which counts as missing.
const NO_VALUE: &str = "a value is required";

/// A string that is not empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Required(pub String);

impl<'de> Deserialize<'de> for Required {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Err(D::Error::custom(NO_VALUE));
        }
        Ok(Self(text))
    }
}

/// A key that is not empty, and its value.
#[derive(Debug, Deserialize)]
pub(crate) struct NamedEntry {
    key: Required,
    #[serde(default)]
    value: String,
}

impl From<NamedEntry> for Entry {
    fn from(entry: NamedEntry) -> Self {
        Self {
            key: entry.key.0,
            value: entry.value,
        }
    }
}

/// A list, or a single string: a query parameter that occurs once.
#[derive(Debug, Clone, Default)]
pub(crate) struct OneOrMore(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(vec![text])),
            other => serde_json::from_value(other)
                .map(Self)
                .map_err(D::Error::custom),
        }
    }
}

/// The run of a request. Older clients send `run_uuid`, newer ones both fields.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RunRef {
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    run_uuid: Option<String>,
}

impl RunRef {
    pub fn id(&self) -> ApiResult<&str> {
        let id = self.run_id.as_deref().filter(|it| !it.is_empty());
        id.or(self.run_uuid.as_deref())
            .filter(|it| !it.is_empty())
            .ok_or_else(|| missing("run_id"))
    }
}

/// The pagination fields of a request.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Paging {
    #[serde(default)]
    max_results: Option<Int>,
    #[serde(default)]
    page_token: Option<String>,
}

impl Paging {
    /// The page size, and the position at which the previous page ended.
    pub fn after(&self, default: u32, max: u32) -> ApiResult<(u32, Option<String>)> {
        let token = self.page_token.as_deref().filter(|it| !it.is_empty());
        let position = token.map(|token| {
            let decoded = STANDARD.decode(token).ok();
            let text = decoded.and_then(|it| String::from_utf8(it).ok());
            text.ok_or_else(bad_token)
        });
        Ok((self.limit(default, max)?, position.transpose()?))
    }

    fn limit(&self, default: u32, max: u32) -> ApiResult<u32> {
        let given = self.max_results.map_or(i64::from(default), |it| it.0);
        let expected = if given < 1 {
            "a positive integer".to_owned()
        } else {
            format!("at most {max}")
        };
        let limit = u32::try_from(given).ok();
        limit.filter(|it| (1..=max).contains(it)).ok_or_else(|| {
            ApiError::invalid(format!(
                "Invalid value {given} for parameter 'max_results' supplied. It must be {expected}"
            ))
        })
    }

    pub fn slice(&self, default: u32, max: u32) -> ApiResult<Slice> {
        let max_results = self.limit(default, max)?;
        let token = self.page_token.as_deref().filter(|it| !it.is_empty());
        Ok(Slice {
            max_results,
            offset: token.map_or(Ok(0), offset)?,
        })
    }
}

/// Decodes a page token: base64 of `{"offset": N}`.
fn offset(token: &str) -> ApiResult<u64> {
    let decoded = STANDARD.decode(token).ok();
    let parsed: Option<Value> = decoded.and_then(|it| serde_json::from_slice(&it).ok());
    let offset = parsed.as_ref().and_then(|it| it["offset"].as_u64());
    offset.filter(|it| *it > 0).ok_or_else(bad_token)
}

fn bad_token() -> ApiError {
    ApiError::invalid("Invalid page token, could not base64-decode")
}

/// The page token for the position at which a page ended.
pub(crate) fn token(position: &str) -> String {
    STANDARD.encode(position)
}

/// A page in MLflow's format, which omits empty lists.
pub(crate) fn page<T: serde::Serialize>(name: &str, page: Page<T>) -> ApiResult<Value> {
    let mut response = json!({});
    if !page.items.is_empty() {
        response[name] = serde_json::to_value(page.items)
            .map_err(|error| ApiError::internal(error.to_string()))?;
    }
    if let Some(offset) = page.next_offset {
        response["next_page_token"] = STANDARD.encode(format!("{{\"offset\": {offset}}}")).into();
    }
    Ok(response)
}

/// Parses a view type: active items, deleted ones, or all.
pub(crate) fn view(name: Option<&str>) -> ApiResult<View> {
    match name {
        None | Some("" | "ACTIVE_ONLY") => Ok(View::Active),
        Some("DELETED_ONLY") => Ok(View::Deleted),
        Some("ALL") => Ok(View::All),
        Some(other) => Err(ApiError::invalid(format!(
            "'{other}' is not a valid view: use ACTIVE_ONLY, DELETED_ONLY or ALL"
        ))),
    }
}
