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
//! - Thoughts that a server reports beside the content are kept in the raw text as a `<think>`
//!   block, and their tokens are counted apart.
//! - Where the model calls a tool, the call is the answer.

use assize_domain::tool::Tool;
use assize_http::{LocalMachine, THIS_MACHINE};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::digest::sha256_hex;
use crate::http::HostClient;
use crate::tools::{ToolCall, call_text};
use crate::{
    Candidate, Completion, HttpConfig, ModelInfo, Provider, ProviderError, Request, Result,
    explain_key, explain_model,
};

const COST_HEADER: &str = "x-litellm-response-cost";
/// What to do about a model that the server does not know.
const CHECK_NAME: &str = "check its name, and that the base URL is the one that ends in /v1";
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
    /// Thoughts: `reasoning_content` at most servers, `reasoning` at some.
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CalledTool>>,
}

#[derive(Debug, Deserialize)]
struct CalledTool {
    function: CalledFunction,
}

#[derive(Debug, Deserialize)]
struct CalledFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Debug, Default, Deserialize)]
struct TokenDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    completion_tokens_details: Option<TokenDetails>,
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
        request: &Request,
        candidate: &Candidate,
    ) -> Result<Completion> {
        let body = chat_body(model, request, candidate);
        let reply = self
            .client
            .post("/chat/completions", &body)
            .map_err(|error| explain_model(explain_key(error), model, CHECK_NAME))?;
        let answer: ChatAnswer = reply.json()?;
        let usage = answer.usage.unwrap_or_default();
        let choice = answer.choices.into_iter().next();
        let choice = choice.ok_or_else(|| reply.malformed("there are no choices"))?;
        let calls = choice.message.tool_calls.unwrap_or_default().into_iter();
        let calls: Vec<ToolCall> = calls
            .map(|it| ToolCall::with_text(it.function.name, &it.function.arguments))
            .collect();
        let details = usage.completion_tokens_details.unwrap_or_default();
        let mut completion = Completion {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            thinking_tokens: details.reasoning_tokens.unwrap_or(0),
            latency_ms: reply.elapsed().as_secs_f64() * 1e3,
            truncated: choice.finish_reason.as_deref() == Some("length"),
            cost_usd: reply
                .header(COST_HEADER)
                .and_then(|cost| cost.parse().ok())
                .filter(|cost: &f64| cost.is_finite() && *cost >= 0.0),
            ..Completion::default()
        };
        let answer = call_text(&calls).or(choice.message.content);
        let thinking = choice.message.reasoning_content.unwrap_or_default();
        let is_structured = request.sampling.json_schema.is_some();
        completion.set_text(answer.unwrap_or_default(), &thinking, !is_structured);
        Ok(completion)
    }
}

fn chat_body(model: &str, request: &Request, candidate: &Candidate) -> Value {
    let sampling = &request.sampling;
    let mut messages: Vec<Value> = candidate
        .messages
        .iter()
        .map(|message| json!({"role": message.role.as_str(), "content": message.content}))
        .collect();
    if let Some(last) = messages.last_mut().filter(|_| !request.images.is_empty()) {
        let images = request.images.iter().map(|it| {
            let url = format!("data:{};base64,{}", it.media_type, it.base64);
            json!({"type": "image_url", "image_url": {"url": url}})
        });
        let text = json!({"type": "text", "text": last["content"]});
        last["content"] = [text].into_iter().chain(images).collect();
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": false,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": candidate.seed,
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(Tool::function).collect();
    }
    for (key, value) in &sampling.model_options {
        body[key] = value.clone();
    }
    if let Some(schema) = &sampling.json_schema {
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": true, "schema": schema},
        });
    }
    body
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

    fn address(&self) -> Option<String> {
        Some(self.client.host().to_owned())
    }

    /// A server on this machine, such as llama-server, holds its weights here.
    fn is_hosted(&self) -> bool {
        LocalMachine::system().memory_of(self.client.host()) != THIS_MACHINE
    }

    fn credentials(&self) -> &'static str {
        "in the environment variable OPENAI_API_KEY"
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

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter();
        candidates
            .map(|candidate| self.complete(model, request, candidate))
            .collect()
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
    use assize_http::HttpConfig;

    use super::{OpenAiProvider, lists, some_of};
    use crate::Provider as _;

    #[test]
    fn a_listed_star_stands_for_its_prefix() {
        assert!(lists("gpt-x", "gpt-x"));
        assert!(!lists("gpt-x", "gpt-xl"));
        assert!(lists("openai/*", "openai/gpt-x"));
        assert!(!lists("openai/*", "other/gpt-x"));
    }

    #[test]
    fn an_endpoint_on_this_machine_is_not_hosted() {
        let provider = |url: &str| OpenAiProvider::new(url, None, &HttpConfig::default());
        for (url, is_hosted) in [
            ("http://127.0.0.1:8080/v1", false),
            ("http://localhost:8080/v1", false),
            ("https://203.0.113.1/v1", true),
        ] {
            assert_eq!(provider(url).expect(url).is_hosted(), is_hosted, "{url}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
        assert!(some_of(&names).ends_with("m9 and 2 more"));
        assert_eq!(some_of(&names[..2]), "m0, m1");
        assert_eq!(some_of(&[]), "no models");
    }
}
