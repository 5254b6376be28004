//! Settings: documented defaults, then the task's, then the file, the environment and flags.
//!
//! Raw values become valid ones in two phases: the layers are merged key by key, each key
//! remembering where its value came from, and then everything is checked at once, so that a
//! message can name the key and its origin.

use std::collections::BTreeMap;

use assize_domain::model::ModelId;
use assize_domain::scenario::Split;
use assize_pipeline::promote::Thresholds;
use serde::Deserialize;

use crate::webhook::WebhookSettings;

mod layers;

pub use layers::Layers;

/// The defaults, with their explanations; `assize config` shows them.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// The file that is read where it is present and no other is named.
pub const DEFAULT_FILE: &str = "assize.toml";

/// Everything that can be set, by the key that sets it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub models: Vec<String>,
    pub prompts: Vec<String>,
    pub n_tips: u32,
    pub n_scenarios: u32,
    pub temperature: f64,
    pub experiment: String,
    pub max_model_b: f64,
    pub diversity: bool,
    pub ollama_url: Vec<String>,
    pub seed: u64,
    pub split: Split,
    pub max_tokens: u32,
    pub num_ctx: u32,
    pub jobs: u32,
    pub timeout: u64,
    pub retries: u32,
    pub judge_kind: String,
    pub base_url: String,
    pub script: String,
    pub assume_size: Vec<String>,
    pub threads: usize,
    pub fast: bool,
    pub max_cost: f64,
    pub price_per_mtok: String,
    pub serve_open_loopback: bool,
    pub serve_allow: Vec<String>,
    pub serve_log: String,
    /// What `assize promote` asks for.
    pub gate: Thresholds,
    pub webhook: WebhookSettings,
}

/// What is wrong with the settings, all at once.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n       "))]
pub struct BadSettings(pub Vec<String>);

impl BadSettings {
    fn one(message: String) -> Self {
        Self(vec![message])
    }
}

impl Settings {
    fn problems(&self) -> Vec<(String, String)> {
        let own = self
            .number_problems()
            .into_iter()
            .chain(self.name_problems());
        let own = own.map(|(key, message)| (key.to_owned(), message));
        let gate = self.gate.problems().into_iter();
        let gate = gate.map(|(key, message)| (format!("gate.{key}"), message));
        own.chain(gate).collect()
    }

    fn number_problems(&self) -> Vec<(&'static str, String)> {
        let (n_tips, jobs, retries) = (self.n_tips, self.jobs, self.retries);
        let (temperature, max_model_b) = (self.temperature, self.max_model_b);
        let (num_ctx, max_tokens) = (self.num_ctx, self.max_tokens);
        let checks = [
            (
                "n_tips",
                (1..=1000).contains(&n_tips),
                format!("is {n_tips}: use 1 to 1000"),
            ),
            (
                "temperature",
                (0.0..=10.0).contains(&temperature),
                format!("is {temperature}: use 0 to 10"),
            ),
            (
                "max_model_b",
                max_model_b > 0.0 && max_model_b < 1e6,
                format!("is {max_model_b}: use billions of parameters above 0"),
            ),
            (
                "max_tokens",
                max_tokens > 0,
                "is 0: use at least 1".to_owned(),
            ),
            (
                "num_ctx",
                num_ctx > max_tokens,
                format!("is {num_ctx}: it must hold the prompt and max_tokens ({max_tokens})"),
            ),
            (
                "jobs",
                (1..=1024).contains(&jobs),
                format!("is {jobs}: use 1 to 1024"),
            ),
            (
                "timeout",
                self.timeout > 0,
                "is 0: use at least 1 second".to_owned(),
            ),
            (
                "retries",
                retries <= 100,
                format!("is {retries}: use at most 100"),
            ),
            (
                "max_cost",
                self.max_cost >= 0.0 && self.max_cost.is_finite(),
                format!(
                    "is {}: use US dollars from 0, which means no cap",
                    self.max_cost
                ),
            ),
            (
                "price_per_mtok",
                self.price_per_mtok.is_empty() || self.prices().is_some(),
                format!(
                    "is '{}': write IN,OUT, for example 0.25,1.25",
                    self.price_per_mtok
                ),
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, ok, _)| !ok);
        wrong.map(|(key, _, message)| (key, message)).collect()
    }

    fn name_problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let name = self.experiment.trim();
        if matches!(name, "" | "." | ".." | "assize-sittings")
            || name.chars().count() > 500
            || name.chars().any(char::is_control)
        {
            problems.push((
                "experiment",
                "must be a name of 1 to 500 characters on one line, and none that Assize uses itself"
                    .to_owned(),
            ));
        }
        if !assize_domain::judge::is_kind(&self.judge_kind) {
            let message = format!(
                "is '{}': use a kind such as human or claude-code",
                self.judge_kind
            );
            problems.push(("judge_kind", message));
        }
        if self.ollama_url.is_empty() {
            problems.push(("ollama_url", "is empty: name at least one host".to_owned()));
        }
        let bad_url = |url: &String| format!("is '{url}': use http://HOST:PORT");
        let hosts = self.ollama_url.iter().filter(|url| !is_http_url(url));
        problems.extend(hosts.map(|url| ("ollama_url", bad_url(url))));
        if !self.base_url.is_empty() && !is_http_url(&self.base_url) {
            problems.push(("base_url", bad_url(&self.base_url)));
        }
        if self.serve_log.parse::<tracing::Level>().is_err() {
            let message = format!("is '{}': use error, warn, info or debug", self.serve_log);
            problems.push(("serve_log", message));
        }
        problems.extend(self.webhook.problem());
        let ids = self
            .models
            .iter()
            .filter_map(|model| model.parse::<ModelId>().err());
        problems.extend(ids.map(|error| ("models", format!("has a mistake: {error}"))));
        let sizes = self
            .assume_size
            .iter()
            .filter(|text| parse_size(text).is_none());
        problems.extend(
            sizes.map(|text| ("assume_size", format!("has '{text}': write MODEL=BILLIONS"))),
        );
        problems
    }

    /// What a million tokens in and out cost, in US dollars, where the user says so.
    pub fn prices(&self) -> Option<(f64, f64)> {
        let (input, output) = self.price_per_mtok.split_once(',')?;
        let read = |text: &str| text.trim().parse().ok();
        let sound = |price: &f64| price.is_finite() && *price >= 0.0;
        Some((read(input).filter(sound)?, read(output).filter(sound)?))
    }

    /// Sizes that the user vouches for, by model id.
    pub fn assumed_sizes(&self) -> BTreeMap<String, f64> {
        self.assume_size
            .iter()
            .filter_map(|text| parse_size(text))
            .collect()
    }
}

fn parse_size(text: &str) -> Option<(String, f64)> {
    let (model, billions) = text.rsplit_once('=')?;
    let billions: f64 = billions.trim().trim_end_matches(['b', 'B']).parse().ok()?;
    let model: ModelId = model.parse().ok()?;
    (billions > 0.0 && billions < 1e6).then(|| (model.to_string(), billions))
}

fn is_http_url(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace)
    })
}

#[cfg(test)]
mod tests;
