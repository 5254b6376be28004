//! Fields of requests, as lenient as MLflow's protocol and no more: whole numbers may come as
//! texts, ids as numbers, NaN and infinities as texts. What cannot be read is refused, where
//! MLflow would take a zero.

use assize_store::mlflow::{Page, Slice, View};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Value, json};

use super::{ApiError, ApiResult};

/// A request without fields.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

/// A whole number, also as a text.
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

/// A number; NaN and infinities come as texts.
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

/// An id, also as a number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Id(pub String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(D::Error::custom(format!("{other} is not a valid id"))),
        }
    }
}

/// A list that a query with one entry does not show as one.
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

/// The run that a request names; older clients say `run_uuid`, newer ones say both.
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
            .ok_or_else(|| ApiError::invalid("Missing value for required parameter 'run_id'"))
    }
}

/// Which part of a long answer, as requests say it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Paging {
    #[serde(default)]
    max_results: Option<Int>,
    #[serde(default)]
    page_token: Option<String>,
}

impl Paging {
    /// How many at most, and the place that the page before ended at.
    pub fn after(&self, default: u32, most: u32) -> ApiResult<(u32, Option<String>)> {
        let token = self.page_token.as_deref().filter(|it| !it.is_empty());
        let place = token.map(|token| {
            let decoded = STANDARD.decode(token).ok();
            let text = decoded.and_then(|it| String::from_utf8(it).ok());
            text.ok_or_else(|| bad_token(token))
        });
        Ok((self.limit(default, most)?, place.transpose()?))
    }

    fn limit(&self, default: u32, most: u32) -> ApiResult<u32> {
        let wanted = self.max_results.map_or(i64::from(default), |it| it.0);
        let limit = u32::try_from(wanted).ok();
        limit.filter(|it| (1..=most).contains(it)).ok_or_else(|| {
            ApiError::invalid(format!(
                "Invalid value {wanted} for parameter 'max_results': use 1 to {most}"
            ))
        })
    }

    pub fn slice(&self, default: u32, most: u32) -> ApiResult<Slice> {
        let max_results = self.limit(default, most)?;
        let token = self.page_token.as_deref().filter(|it| !it.is_empty());
        Ok(Slice {
            max_results,
            offset: token.map_or(Ok(0), offset)?,
        })
    }

    pub fn is_limited(&self) -> bool {
        self.max_results.is_some()
    }
}

/// Where a page starts: base64 of `{"offset": N}`.
fn offset(token: &str) -> ApiResult<u64> {
    let decoded = STANDARD.decode(token).ok();
    let parsed: Option<Value> = decoded.and_then(|it| serde_json::from_slice(&it).ok());
    let offset = parsed.as_ref().and_then(|it| it["offset"].as_u64());
    offset.filter(|it| *it > 0).ok_or_else(|| bad_token(token))
}

fn bad_token(token: &str) -> ApiError {
    ApiError::invalid(format!(
        "Invalid page token '{token}': take it from the page before, or leave it out"
    ))
}

/// A place as a token, for the page behind it.
pub(crate) fn token(place: &str) -> String {
    STANDARD.encode(place)
}

/// A page as MLflow writes it: no empty lists.
pub(crate) fn page<T: serde::Serialize>(name: &str, page: Page<T>) -> ApiResult<Value> {
    let mut answer = json!({});
    if !page.items.is_empty() {
        answer[name] = serde_json::to_value(page.items)
            .map_err(|error| ApiError::internal(error.to_string()))?;
    }
    if let Some(offset) = page.next_offset {
        answer["next_page_token"] = STANDARD.encode(format!("{{\"offset\": {offset}}}")).into();
    }
    Ok(answer)
}

/// Which of the living and the deleted, as requests say it.
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
