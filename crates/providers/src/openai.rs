//! Models behind any OpenAI-compatible endpoint: LiteLLM, llama.cpp's server, vLLM, OpenAI.
//!
//! We load nothing there, so there is no host to guard: loading and unloading do nothing and
//! nothing is resident. Each candidate is one chat completion.
//!
//! - Errors are classified by their HTTP status alone. Gateways report a wrong key as 400 or
//!   401 and a missing one as 500 in plain text; what they say is quoted, never interpreted.
//! - **The digest** is made of what identifies the weights and stays the same over restarts
//!   and addresses: the model's id and, where the server reports them in `meta` (llama.cpp
//!   does), the counts of parameters, vocabulary, trained context and bytes. `created` and
//!   `owned_by` are left out, because servers put their start time and their own name there.
//!   A vendor that changes the model behind an id goes unnoticed.
//! - The parameter count is known only from that `meta`; elsewhere the size gate has to be
//!   told.
//! - Costs come from LiteLLM's header `x-litellm-response-cost`.
//! - Reasoning that a server reports beside the content is not part of the text: it is not
//!   the answer, and servers disagree on where it goes.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::digest::sha256_hex;
use crate::http::HostClient;
use crate::{
    Candidate, Completion, HttpConfig, ModelInfo, Provider, ProviderError, Request, Resident,
    Result, Sampling,
};

const COST_HEADER: &str = "x-litellm-response-cost";
/// How many of a server's models a message names.
const MAX_NAMED: usize = 10;

/// One OpenAI-compatible endpoint.
#[derive(Debug)]
pub struct OpenAiProvider {
    client: HostClient,
}

#[derive(Debug, Deserialize)]
struct ModelList {
    data: Vec<ListedModel>,
}

#[derive(Debug, Default, Deserialize)]
struct ListedModel {
    id: String,
    owned_by: Option<String>,
    meta: Option<Meta>,
}

/// What llama.cpp's server says of the weights.
#[derive(Debug, Default, Deserialize)]
struct Meta {
    n_params: Option<u64>,
    n_vocab: Option<u64>,
    n_ctx_train: Option<u64>,
    size: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct ChatAnswer {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    message: ChatMessage,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    content: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl OpenAiProvider {
    /// The endpoint at `base_url` (`…/v1`), with a key where it requires one; nothing is asked
    /// of it yet.
    pub fn new(base_url: &str, key: Option<&str>, config: &HttpConfig) -> Result<Self> {
        Ok(Self {
            client: HostClient::new(base_url, key, config)?,
        })
    }

    fn models(&self) -> Result<Vec<ListedModel>> {
        let reply = self.client.get("/models").map_err(explain_key)?;
        let list: ModelList = reply.json()?;
        Ok(list.data)
    }

    fn complete(
        &self,
        model: &str,
        candidate: &Candidate,
        sampling: &Sampling,
    ) -> Result<Completion> {
        let body = chat_body(model, candidate, sampling);
        let reply = self
            .client
            .post("/chat/completions", &body)
            .map_err(|error| explain_model(explain_key(error), model))?;
        let answer: ChatAnswer = reply.json()?;
        let usage = answer.usage.unwrap_or_default();
        let choice = answer.choices.into_iter().next();
        let choice = choice.ok_or_else(|| reply.malformed("there are no choices"))?;
        Ok(Completion {
            text: choice.message.content.unwrap_or_default(),
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            latency_ms: reply.elapsed().as_secs_f64() * 1e3,
            load_ms: 0.0,
            truncated: choice.finish_reason.as_deref() == Some("length"),
            cost_usd: reply
                .header(COST_HEADER)
                .and_then(|cost| cost.parse().ok())
                .filter(|cost: &f64| cost.is_finite() && *cost >= 0.0),
        })
    }
}

fn chat_body(model: &str, candidate: &Candidate, sampling: &Sampling) -> Value {
    let messages: Vec<Value> = candidate
        .messages
        .iter()
        .map(|message| json!({"role": message.role.as_str(), "content": message.content}))
        .collect();
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": false,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": candidate.seed,
    });
    if let Some(schema) = &sampling.json_schema {
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": true, "schema": schema},
        });
    }
    body
}

fn explain_key(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Refused {
            host,
            status: status @ (401 | 403),
            message,
        } => ProviderError::Refused {
            host,
            status,
            message: format!("{message} (check the API key)"),
        },
        other => other,
    }
}

fn explain_model(error: ProviderError, model: &str) -> ProviderError {
    match error {
        ProviderError::Refused {
            host,
            status: 404,
            message,
        } => ProviderError::ModelNotFound {
            host,
            model: model.to_owned(),
            remedy: format!(
                "check its name, and that the base URL is the one that ends in /v1 (the server \
                 said: {message})"
            ),
        },
        other => other,
    }
}

/// Whether a listed id stands for `model`; a gateway may list `openai/*`.
fn lists(listed: &str, model: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(prefix) => model.starts_with(prefix),
        None => listed == model,
    }
}

fn digest(model: &str, meta: &Meta) -> String {
    let part = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
    sha256_hex(&format!(
        "openai:{model}\n{}\n{}\n{}\n{}",
        part(meta.n_params),
        part(meta.n_vocab),
        part(meta.n_ctx_train),
        part(meta.size)
    ))
}

impl Provider for OpenAiProvider {
    fn host(&self) -> Option<String> {
        None
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.models()?.into_iter().map(|model| model.id).collect())
    }

    /// Asks the server's list. One that has none, or cannot give it, is taken at the caller's
    /// word; one that requires a key is not.
    fn describe(&self, model: &str) -> Result<ModelInfo> {
        let listed = match self.models() {
            Ok(models) => {
                let names: Vec<String> = models.iter().map(|model| model.id.clone()).collect();
                let found = models.into_iter().find(|listed| lists(&listed.id, model));
                found.ok_or_else(|| ProviderError::ModelNotFound {
                    host: self.client.host().to_owned(),
                    model: model.to_owned(),
                    remedy: format!("it lists {}", some_of(&names)),
                })?
            }
            Err(error) => match error {
                ProviderError::Refused { status, .. } if !matches!(status, 401 | 403) => {
                    ListedModel::default()
                }
                ProviderError::Busy { .. } | ProviderError::Malformed { .. } => {
                    ListedModel::default()
                }
                error => return Err(error),
            },
        };
        let meta = listed.meta.unwrap_or_default();
        let owner = listed.owned_by.as_deref().unwrap_or("an unnamed owner");
        Ok(ModelInfo {
            parameter_count: meta.n_params,
            digest: digest(model, &meta),
            provenance: format!("openai-compatible endpoint, owned by {owner}"),
            size_bytes: meta.size,
            context_length: meta.n_ctx_train,
        })
    }

    fn resident(&self) -> Result<Vec<Resident>> {
        Ok(Vec::new())
    }

    fn load(&self, _model: &str, _num_ctx: u32, _candidates: u32) -> Result<f64> {
        Ok(0.0)
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter();
        candidates
            .map(|candidate| self.complete(model, candidate, &request.sampling))
            .collect()
    }

    fn unload(&self, _model: &str) -> Result<()> {
        Ok(())
    }
}

fn some_of(names: &[String]) -> String {
    match names {
        [] => "no models".to_owned(),
        names if names.len() <= MAX_NAMED => names.join(", "),
        names => format!(
            "{} and {} more",
            names[..MAX_NAMED].join(", "),
            names.len() - MAX_NAMED
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{lists, some_of};

    #[test]
    fn a_listed_star_stands_for_its_prefix() {
        assert!(lists("gpt-x", "gpt-x"));
        assert!(!lists("gpt-x", "gpt-xl"));
        assert!(lists("openai/*", "openai/gpt-x"));
        assert!(!lists("openai/*", "other/gpt-x"));
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
        assert!(some_of(&names).ends_with("m9 and 2 more"));
        assert_eq!(some_of(&names[..2]), "m0, m1");
        assert_eq!(some_of(&[]), "no models");
    }
}
