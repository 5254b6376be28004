//! A script that answers in a model's place.
//!
//! Tests, benchmarks and users replay models with it, exactly and without any weights: a
//! JSON file says what each model answers to which prompt and scenario. It is part of the
//! product, not a mock: everything above a provider behaves as with a real model.
//!
//! - The first response that matches a prompt and a scenario wins; `*`, and a key that is
//!   left out, match everything. The order is kept while lookups stay constant-time, so
//!   that a script of 100,000 responses costs no more per cell than one of ten.
//! - `texts` are raw outputs. They are used in candidate order and repeat from the start;
//!   neither `max_tokens` nor a JSON schema changes them.
//! - `latency_ms` is waited for each candidate, one after the other, and reported as the
//!   completion's latency, so that a replay reports the same numbers every time.
//! - `cost_usd` is reported as the cost of each candidate, where it is given.
//! - `error` fails each candidate of the cell. Nothing is retried, because a script would
//!   replay the same failure, and a `timeout` waits no longer than `latency_ms` says.
//! - Tokens are counted as words between white space: a stand-in that is stable and of the
//!   right order of magnitude, and not any model's own count.
//! - A model's digest covers its name and parameter count and deliberately not its
//!   responses: a script can be corrected and the collection resumed.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::digest::sha256_hex;
use crate::{Candidate, Completion, ModelInfo, Provider, ProviderError, Request, Resident, Result};

/// What stands for every prompt or every scenario in a script.
const ANY: &str = "*";

/// A provider that replays a script.
#[derive(Debug)]
pub struct ScriptedProvider {
    models: BTreeMap<String, Model>,
    /// What messages call the script: its path, where it has one.
    origin: String,
}

#[derive(Debug)]
struct Model {
    parameter_count: Option<u64>,
    responses: Vec<Response>,
    /// Prompt, then scenario, to the first response that names exactly these.
    first: HashMap<String, HashMap<String, usize>>,
}

#[derive(Debug)]
struct Response {
    texts: Vec<String>,
    latency_ms: u32,
    error: Option<ScriptedError>,
    cost_usd: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptedError {
    Timeout,
    #[serde(rename = "http_500")]
    Http500,
    Malformed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    models: BTreeMap<String, ModelEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    #[serde(default)]
    parameter_count: Option<u64>,
    responses: Vec<ResponseEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseEntry {
    #[serde(default = "any")]
    prompt: String,
    #[serde(default = "any")]
    scenario: String,
    #[serde(default)]
    texts: Vec<String>,
    #[serde(default)]
    latency_ms: u32,
    #[serde(default)]
    error: Option<ScriptedError>,
    #[serde(default)]
    cost_usd: Option<f64>,
}

fn any() -> String {
    ANY.to_owned()
}

impl ScriptedProvider {
    /// Reads the script at `path`.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| ProviderError::Script {
            reason: format!("cannot read {}: {error}", path.display()),
        })?;
        Self::parse(&text, path.display().to_string())
    }

    fn parse(text: &str, origin: String) -> Result<Self> {
        let wrong = |reason: String| ProviderError::Script {
            reason: format!("{origin} is not a script: {reason}"),
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let file: ScriptFile = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let place = error.path().to_string();
            wrong(format!("at {place}: {}", error.into_inner()))
        })?;
        json.end().map_err(|error| wrong(error.to_string()))?;
        let responses = file.models.values().flat_map(|model| &model.responses);
        let mut costs = responses.filter_map(|it| it.cost_usd);
        if let Some(cost) = costs.find(|cost| *cost < 0.0) {
            return Err(wrong(format!("cost_usd is {cost}: use dollars from 0")));
        }
        let models = file
            .models
            .into_iter()
            .map(|(name, entry)| (name, Model::from(entry)))
            .collect();
        Ok(Self { models, origin })
    }

    fn model(&self, name: &str) -> Result<&Model> {
        self.models.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.models.keys().map(String::as_str).collect();
            ProviderError::Script {
                reason: format!(
                    "{} does not have the model '{name}': it has {}",
                    self.origin,
                    known.join(", ")
                ),
            }
        })
    }

    fn response(&self, model: &str, request: &Request) -> Result<&Response> {
        let (prompt, scenario) = (&request.prompt, &request.scenario);
        let complaint = |what: &str| ProviderError::Script {
            reason: format!(
                "{} has {what} for model '{model}', prompt '{prompt}', scenario '{scenario}': add \
                 one",
                self.origin
            ),
        };
        let response = self
            .model(model)?
            .first_match(prompt, scenario)
            .ok_or_else(|| complaint("no response"))?;
        if response.texts.is_empty() && response.error.is_none() {
            return Err(complaint("a response without texts"));
        }
        Ok(response)
    }
}

impl FromStr for ScriptedProvider {
    type Err = ProviderError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, "the script".to_owned())
    }
}

impl From<ModelEntry> for Model {
    fn from(entry: ModelEntry) -> Self {
        let mut first: HashMap<String, HashMap<String, usize>> = HashMap::new();
        let mut responses = Vec::with_capacity(entry.responses.len());
        for (position, response) in entry.responses.into_iter().enumerate() {
            first
                .entry(response.prompt)
                .or_default()
                .entry(response.scenario)
                .or_insert(position);
            responses.push(Response {
                texts: response.texts,
                latency_ms: response.latency_ms,
                error: response.error,
                cost_usd: response.cost_usd,
            });
        }
        Self {
            parameter_count: entry.parameter_count,
            responses,
            first,
        }
    }
}

impl Model {
    fn first_match(&self, prompt: &str, scenario: &str) -> Option<&Response> {
        [prompt, ANY]
            .into_iter()
            .filter_map(|prompt| self.first.get(prompt))
            .flat_map(|scenarios| [scenarios.get(scenario), scenarios.get(ANY)])
            .flatten()
            .min()
            .and_then(|&position| self.responses.get(position))
    }
}

impl Response {
    fn replay(&self, model: &str, position: usize, candidate: &Candidate) -> Result<Completion> {
        if self.latency_ms > 0 {
            thread::sleep(Duration::from_millis(self.latency_ms.into()));
        }
        let host = || format!("scripted:{model}");
        let as_written = || "the script says so".to_owned();
        match self.error {
            Some(ScriptedError::Timeout) => Err(ProviderError::Timeout {
                host: host(),
                timeout_s: self.latency_ms.div_ceil(1000).into(),
            }),
            Some(ScriptedError::Http500) => Err(ProviderError::Refused {
                host: host(),
                status: 500,
                message: as_written(),
            }),
            Some(ScriptedError::Malformed) => Err(ProviderError::Malformed {
                host: host(),
                reason: as_written(),
            }),
            None => {
                let text = self.texts[position % self.texts.len()].clone();
                let messages = candidate.messages.iter();
                Ok(Completion {
                    prompt_tokens: messages.map(|message| count_words(&message.content)).sum(),
                    completion_tokens: count_words(&text),
                    latency_ms: self.latency_ms.into(),
                    text,
                    cost_usd: self.cost_usd,
                    ..Completion::default()
                })
            }
        }
    }
}

fn count_words(text: &str) -> u64 {
    text.split_ascii_whitespace().count() as u64
}

impl Provider for ScriptedProvider {
    fn host(&self) -> Option<String> {
        None
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.models.keys().cloned().collect())
    }

    fn describe(&self, model: &str) -> Result<ModelInfo> {
        let parameter_count = self.model(model)?.parameter_count;
        let counted = parameter_count.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        Ok(ModelInfo {
            parameter_count,
            digest: sha256_hex(&format!("scripted:{model}\n{counted}")),
            provenance: "scripted".to_owned(),
            size_bytes: None,
            context_length: None,
        })
    }

    fn resident(&self) -> Result<Vec<Resident>> {
        Ok(Vec::new())
    }

    fn load(&self, model: &str, _num_ctx: u32, _candidates: u32) -> Result<f64> {
        self.model(model).map(|_| 0.0)
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter().enumerate();
        match self.response(model, request) {
            Ok(response) => candidates
                .map(|(position, candidate)| response.replay(model, position, candidate))
                .collect(),
            Err(error) => candidates.map(|_| Err(error.clone())).collect(),
        }
    }

    fn unload(&self, _model: &str) -> Result<()> {
        Ok(())
    }
}
