//! The parts of Ollama's JSON that we read.
//!
//! Ollama leaves out what is zero, so absent numbers are zero here; everything that older or
//! newer versions may lack has a default. What we do not read is not listed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::Resident;

#[derive(Debug, Deserialize)]
pub(super) struct Version {
    pub version: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct TagList {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub models: Vec<TaggedModel>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TaggedModel {
    pub name: String,
    pub digest: String,
    pub size: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResidentList {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub models: Vec<ResidentModel>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResidentModel {
    pub name: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    size: u64,
    expires_at: Option<String>,
}

impl From<ResidentModel> for Resident {
    fn from(held: ResidentModel) -> Self {
        let expires_at = held.expires_at.and_then(|at| at.parse::<Timestamp>().ok());
        Self {
            model: held.name,
            digest: held.digest,
            size_bytes: held.size,
            expires_at_ms: expires_at.map(Timestamp::as_millisecond),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ShownModel {
    #[serde(default)]
    details: Details,
    #[serde(default)]
    model_info: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    parameter_size: String,
    #[serde(default)]
    quantization_level: String,
}

impl ShownModel {
    /// Counted from the tensors where the host did that, else its rounded label.
    pub fn parameter_count(&self) -> Option<u64> {
        self.info_u64("general.parameter_count")
            .or_else(|| count_from_label(&self.details.parameter_size))
    }

    pub fn context_length(&self) -> Option<u64> {
        let architecture = self.model_info.get("general.architecture")?.as_str()?;
        self.info_u64(&format!("{architecture}.context_length"))
    }

    pub fn quantisation(&self) -> Option<&str> {
        Some(self.details.quantization_level.as_str()).filter(|level| !level.is_empty())
    }

    fn info_u64(&self, key: &str) -> Option<u64> {
        let number = self.model_info.get(key)?;
        let number = number.as_u64().or_else(|| whole(number.as_f64()?));
        number.filter(|&number| number > 0)
    }
}

/// Reads `3.2B` or `134.52M`; anything else says nothing.
fn count_from_label(label: &str) -> Option<u64> {
    let label = label.trim();
    let unit = label.chars().next_back()?;
    let scale = match unit.to_ascii_uppercase() {
        'K' => 1e3,
        'M' => 1e6,
        'B' => 1e9,
        'T' => 1e12,
        _ => return None,
    };
    let number: f64 = label[..label.len() - unit.len_utf8()].trim().parse().ok()?;
    whole((number * scale).round()).filter(|&count| count > 0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number that fits exactly"
)]
fn whole(number: f64) -> Option<u64> {
    let exact = (0.0..=9e15).contains(&number) && number.fract() == 0.0;
    exact.then_some(number as u64)
}

/// One line of an answer, or all of it; or an error in its place.
#[derive(Debug, Deserialize)]
pub(super) struct ChatLine {
    pub error: Option<String>,
    #[serde(default)]
    pub message: ChatMessage,
    #[serde(default)]
    pub done: bool,
    pub done_reason: Option<String>,
    #[serde(default)]
    pub load_duration: u64,
    #[serde(default)]
    pub prompt_eval_count: u64,
    #[serde(default)]
    pub eval_count: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatMessage {
    #[serde(default)]
    pub content: String,
    pub thinking: Option<String>,
    pub tool_calls: Option<Vec<CalledTool>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CalledTool {
    pub function: CalledFunction,
}

#[derive(Debug, Deserialize)]
pub(super) struct CalledFunction {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
}

/// Go writes an empty list as `null`.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> ShownModel {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_tensors_count_goes_before_the_label() {
        let both = shown(
            r#"{"details":{"parameter_size":"1.5B"},
                "model_info":{"general.parameter_count":1777088000}}"#,
        );
        assert_eq!(both.parameter_count(), Some(1_777_088_000));
        let label = shown(r#"{"details":{"parameter_size":"1.5B"},"model_info":{}}"#);
        assert_eq!(label.parameter_count(), Some(1_500_000_000));
        assert_eq!(shown("{}").parameter_count(), None);
    }

    #[test]
    fn labels_are_read_or_say_nothing() {
        for (label, count) in [
            ("3.2B", Some(3_200_000_000)),
            ("134.52M", Some(134_520_000)),
            ("500k", Some(500_000)),
            ("8x7B", None),
            ("", None),
            ("-1B", None),
            ("0B", None),
            ("big", None),
            ("7", None),
        ] {
            assert_eq!(count_from_label(label), count, "{label}");
        }
    }

    #[test]
    fn the_context_length_is_under_the_architectures_name() {
        let shown =
            shown(r#"{"model_info":{"general.architecture":"llama","llama.context_length":8192}}"#);
        assert_eq!(shown.context_length(), Some(8192));
    }

    #[test]
    fn expiry_is_read_with_its_offset_and_lists_may_be_null() {
        let list: ResidentList = serde_json::from_str(
            r#"{"models":[{"name":"m:latest","digest":"d","size":7,
                "expires_at":"2026-06-04T14:38:31.83753-07:00"}]}"#,
        )
        .unwrap();
        let held = Resident::from(list.models.into_iter().next().unwrap());
        assert_eq!(held.expires_at_ms, Some(1_780_609_111_837));
        let none: ResidentList = serde_json::from_str(r#"{"models":null}"#).unwrap();
        assert!(none.models.is_empty());
    }
}
