//! The script's file: JSON with every key that a user may write.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ANY;
use super::condition::Texts;
use super::judge::{AdjustmentEntry, JudgeEntry, ScoreList};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptFile {
    pub models: BTreeMap<String, ModelEntry>,
}

/// A model: it generates by `responses`, or judges by `judge`, or both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    #[serde(default)]
    pub parameter_count: Option<u64>,
    pub responses: Option<Vec<ResponseEntry>>,
    #[serde(default)]
    pub judge: Option<JudgeEntry>,
    #[serde(default)]
    pub scores: ScoreList,
    #[serde(default)]
    pub adjustments: Vec<AdjustmentEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseEntry {
    #[serde(default = "any")]
    pub prompt: String,
    #[serde(default = "any")]
    pub scenario: String,
    #[serde(default)]
    pub prompt_contains: Texts,
    #[serde(default)]
    pub prompt_lacks: Texts,
    #[serde(default)]
    pub texts: Vec<String>,
    #[serde(default)]
    pub append: Vec<AppendEntry>,
    #[serde(default)]
    pub latency_ms: u32,
    #[serde(default)]
    pub error: Option<ScriptedError>,
    #[serde(default)]
    pub cost_usd: Option<f64>,
}

/// What is added to a response's texts for certain prompts and scenarios.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendEntry {
    #[serde(default = "any")]
    pub scenario: String,
    #[serde(default)]
    pub prompt_contains: Texts,
    #[serde(default)]
    pub prompt_lacks: Texts,
    pub text: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedError {
    Timeout,
    #[serde(rename = "http_500")]
    Http500,
    Malformed,
}

fn any() -> String {
    ANY.to_owned()
}
