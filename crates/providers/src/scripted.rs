//! A script that answers in a model's place.
//!
//! Tests, benchmarks and users replay models with it, exactly and without any weights: a
//! JSON file says what each model answers to which prompt and scenario. It is part of the
//! product, not a mock: everything above a provider behaves as with a real model.
//! docs/scripted.md describes the file.
//!
//! - The first response that matches a prompt and a scenario wins; `*`, and a key that is
//!   left out, match everything. The order is kept while lookups stay constant-time, so
//!   that a script of 100,000 responses costs no more per cell than one of ten.
//! - A response with `prompt_contains` or `prompt_lacks` matches by the content of the rendered
//!   prompt too, each candidate by its own. Only such responses are searched one by one.
//! - `texts` are raw outputs. They are used in candidate order and repeat from the start;
//!   neither `max_tokens` nor a JSON schema changes them. `append` adds to them what depends on
//!   the prompt's content.
//! - `latency_ms` is waited for each candidate, one after the other, and reported as the
//!   completion's latency, so that a replay reports the same numbers every time.
//! - `cost_usd` is reported as the cost of each candidate, where it is given.
//! - `error` fails each candidate of the cell. Nothing is retried, because a script would
//!   replay the same failure, and a `timeout` waits no longer than `latency_ms` says.
//! - A model with `judge` answers the requests of `judge auto` by rules ([`judge`]).
//! - Tokens are counted as words between white space: a stand-in that is stable and of the
//!   right order of magnitude, and not any model's own count.
//! - A model's digest covers its name and parameter count and deliberately not its
//!   responses: a script can be corrected and the collection resumed.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use assize_domain::sweep::split_label;

use crate::digest::sha256_hex;
use crate::{Candidate, Completion, ModelInfo, Provider, ProviderError, Request, Result};
use condition::Condition;
use judge::ScriptedJudge;
use script::{AppendEntry, ModelEntry, ResponseEntry, ScriptFile, ScriptedError};

mod condition;
mod judge;
mod script;

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
    /// The first response that names exactly this prompt and scenario, without conditions.
    first: Positions<usize>,
    /// Those with conditions on the prompt's content, in order.
    conditional: Positions<Vec<usize>>,
    judge: Option<ScriptedJudge>,
}

/// By prompt, then by scenario.
type Positions<T> = HashMap<String, HashMap<String, T>>;

#[derive(Debug)]
struct Response {
    condition: Condition,
    texts: Vec<String>,
    append: Vec<Append>,
    latency_ms: u32,
    error: Option<ScriptedError>,
    cost_usd: Option<f64>,
}

#[derive(Debug)]
struct Append {
    scenario: String,
    condition: Condition,
    text: String,
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
        let mut models = BTreeMap::new();
        for (name, entry) in file.models {
            let model = Model::new(entry);
            let model = model.map_err(|reason| wrong(format!("at models.{name}{reason}")))?;
            models.insert(name, model);
        }
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

    fn response(&self, model: &str, request: &Request, candidate: &Candidate) -> Result<&Response> {
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
            .first_match(prompt, scenario, candidate)
            .ok_or_else(|| complaint("no response"))?;
        if response.texts.is_empty() && response.error.is_none() {
            return Err(complaint("a response without texts"));
        }
        Ok(response)
    }

    /// The verdict, where the model is a judge and is asked for one.
    fn verdict(
        &self,
        model: &str,
        request: &Request,
        candidate: &Candidate,
    ) -> Option<Result<Completion>> {
        let judge = self.models.get(model)?.judge.as_ref()?;
        let schema = request.sampling.json_schema.as_ref();
        let verdict = judge.verdict(model, candidate, schema)?;
        Some(verdict.map_err(|reason| ProviderError::Script {
            reason: format!("{}, the judge '{model}': {reason}", self.origin),
        }))
    }
}

impl FromStr for ScriptedProvider {
    type Err = ProviderError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, "the script".to_owned())
    }
}

impl Model {
    /// The error begins with the place below the model.
    fn new(entry: ModelEntry) -> std::result::Result<Self, String> {
        let judge = match entry.judge {
            Some(judge) => {
                let judge = ScriptedJudge::new(judge, entry.scores, entry.adjustments);
                Some(judge.map_err(|reason| format!(": {reason}"))?)
            }
            None if entry.scores.is_empty() && entry.adjustments.is_empty() => None,
            None => {
                return Err(": scores and adjustments are a judge's: add \"judge\": {}".to_owned());
            }
        };
        let responses = match entry.responses {
            Some(responses) => responses,
            None if judge.is_some() => Vec::new(),
            None => return Err(": missing field `responses` (or `judge`)".to_owned()),
        };
        let mut model = Self {
            parameter_count: entry.parameter_count,
            responses: Vec::with_capacity(responses.len()),
            first: HashMap::new(),
            conditional: HashMap::new(),
            judge,
        };
        for (position, entry) in responses.into_iter().enumerate() {
            let added = model.add(position, entry);
            added.map_err(|reason| format!(".responses[{position}]: {reason}"))?;
        }
        Ok(model)
    }

    fn add(&mut self, position: usize, entry: ResponseEntry) -> std::result::Result<(), String> {
        if let Some(cost) = entry.cost_usd.filter(|cost| *cost < 0.0) {
            return Err(format!("cost_usd is {cost}: use dollars from 0"));
        }
        let condition = Condition::new(entry.prompt_contains, entry.prompt_lacks)?;
        if condition.is_empty() {
            let scenarios = self.first.entry(entry.prompt).or_default();
            scenarios.entry(entry.scenario).or_insert(position);
        } else {
            let scenarios = self.conditional.entry(entry.prompt).or_default();
            scenarios.entry(entry.scenario).or_default().push(position);
        }
        let append = entry.append.into_iter().map(Append::new);
        self.responses.push(Response {
            condition,
            texts: entry.texts,
            append: append.collect::<std::result::Result<_, _>>()?,
            latency_ms: entry.latency_ms,
            error: entry.error,
            cost_usd: entry.cost_usd,
        });
        Ok(())
    }

    fn first_match(
        &self,
        prompt: &str,
        scenario: &str,
        candidate: &Candidate,
    ) -> Option<&Response> {
        let plain = named(&self.first, prompt, scenario).copied().min();
        let before = |position: &usize| plain.is_none_or(|plain| *position < plain);
        let holds = |position: &usize| {
            let response = &self.responses[*position];
            response.condition.holds(|text| candidate.has(text))
        };
        let conditional = named(&self.conditional, prompt, scenario);
        let conditional = conditional.filter_map(|positions| {
            let earlier = positions.iter().copied().take_while(before);
            earlier.into_iter().find(holds)
        });
        let position = conditional.min().or(plain)?;
        self.responses.get(position)
    }
}

/// What is known for this prompt and scenario, by their names and by `*`.
fn named<'a, T>(
    positions: &'a Positions<T>,
    prompt: &'a str,
    scenario: &'a str,
) -> impl Iterator<Item = &'a T> {
    // `v1+temperature=0.2`, else `v1`, which stands for all settings.
    let (name, _) = split_label(prompt);
    let own = (name != prompt).then_some(prompt);
    own.into_iter()
        .chain([name, ANY])
        .filter_map(|prompt| positions.get(prompt))
        .flat_map(move |scenarios| [scenarios.get(scenario), scenarios.get(ANY)])
        .flatten()
}

impl Candidate {
    /// Whether a text occurs in the rendered prompt.
    fn has(&self, text: &str) -> bool {
        self.messages.iter().any(|it| it.content.contains(text))
    }
}

impl Append {
    fn new(entry: AppendEntry) -> std::result::Result<Self, String> {
        Ok(Self {
            condition: Condition::new(entry.prompt_contains, entry.prompt_lacks)?,
            scenario: entry.scenario,
            text: entry.text,
        })
    }

    fn applies(&self, scenario: &str, candidate: &Candidate) -> bool {
        let is_named = self.scenario == ANY || self.scenario == scenario;
        is_named && self.condition.holds(|text| candidate.has(text))
    }
}

impl Response {
    fn replay(
        &self,
        model: &str,
        scenario: &str,
        position: usize,
        candidate: &Candidate,
    ) -> Result<Completion> {
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
                let mut text = self.texts[position % self.texts.len()].clone();
                for append in &self.append {
                    if append.applies(scenario, candidate) {
                        text.push_str(&append.text);
                    }
                }
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

    fn load(&self, model: &str, _num_ctx: u32, _candidates: u32) -> Result<f64> {
        self.model(model).map(|_| 0.0)
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter().enumerate();
        let answers = candidates.map(|(position, candidate)| {
            if let Some(verdict) = self.verdict(model, request, candidate) {
                return verdict;
            }
            let response = self.response(model, request, candidate)?;
            response.replay(model, &request.scenario, position, candidate)
        });
        answers.collect()
    }
}
