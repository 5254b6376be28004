//! Anthropic's models, over the Messages API.
//!
//! The API has its own shape: the system message stands apart, the first message is the user's,
//! and no seed is taken, which the provenance says. Nothing is loaded here, so there is no host to
//! guard. Structured output is asked for with a tool that the model must use.

use assize_domain::hash::sha256_fields;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{HostClient, Key, Reply};
use crate::tools::{ToolCall, call_text};
use crate::{
    CHECK_NAME, Candidate, Completion, HttpConfig, ModelInfo, Provider, Request, Result, Role,
    explain_key, explain_model,
};

/// Where the API is.
pub const BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
/// The tool whose input is the structured answer.
const ANSWER: &str = "answer";

/// The API of Anthropic.
#[derive(Debug)]
pub struct AnthropicProvider {
    client: HostClient,
}

#[derive(Debug, Deserialize)]
struct ModelList {
    data: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    id: String,
}

#[derive(Debug, Deserialize)]
struct Answer {
    content: Vec<Block>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Usage,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        name: String,
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

impl AnthropicProvider {
    pub fn new(base_url: &str, key: &str, config: &HttpConfig) -> Result<Self> {
        let key = Key::Headers(vec![
            ("x-api-key", key.trim().to_owned()),
            ("anthropic-version", VERSION.to_owned()),
        ]);
        Ok(Self {
            client: HostClient::with_key(base_url, key, config)?,
        })
    }

    fn complete(
        &self,
        model: &str,
        request: &Request,
        candidate: &Candidate,
    ) -> Result<Completion> {
        let body = body(model, request, candidate);
        let reply = self
            .client
            .post("/v1/messages", &body)
            .map_err(|error| explain_model(explain_key(error), model, CHECK_NAME))?;
        read(&reply, request)
    }
}

fn read(reply: &Reply, request: &Request) -> Result<Completion> {
    let answer: Answer = reply.json()?;
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for block in answer.content {
        match block {
            Block::Text { text: more } => text.push_str(&more),
            Block::Thinking { thinking: more } => thinking.push_str(&more),
            Block::ToolUse { name, input } => calls.push(ToolCall {
                name,
                arguments: input,
            }),
            Block::Other => {}
        }
    }
    let is_structured = request.sampling.json_schema.is_some();
    if let (true, [call]) = (is_structured, &calls[..]) {
        text = call.arguments.to_string();
    } else if let Some(call) = call_text(&calls) {
        text = call;
    }
    let mut completion = Completion {
        prompt_tokens: answer.usage.input_tokens,
        completion_tokens: answer.usage.output_tokens,
        latency_ms: reply.elapsed().as_secs_f64() * 1e3,
        truncated: answer.stop_reason.as_deref() == Some("max_tokens"),
        ..Completion::default()
    };
    completion.set_text(text, &thinking, !is_structured);
    Ok(completion)
}

fn body(model: &str, request: &Request, candidate: &Candidate) -> Value {
    let sampling = &request.sampling;
    let said = candidate
        .messages
        .iter()
        .filter(|it| it.role != Role::System);
    let mut messages: Vec<Value> = said
        .map(|it| json!({"role": it.role.as_str(), "content": it.content}))
        .collect();
    if let Some(last) = messages.last_mut().filter(|_| !request.images.is_empty()) {
        let images = request.images.iter().map(|it| {
            json!({"type": "image", "source": {"type": "base64", "media_type": it.media_type, "data": it.base64}})
        });
        let text = json!({"type": "text", "text": last["content"]});
        last["content"] = images.chain([text]).collect();
    }
    let system = candidate
        .messages
        .iter()
        .filter(|it| it.role == Role::System);
    let system: Vec<&str> = system.map(|it| it.content.as_str()).collect();
    let mut body = json!({
        "model": model,
        "messages": messages,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
    });
    if !system.is_empty() {
        body["system"] = json!(system.join("\n\n"));
    }
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|it| json!({"name": it.name, "description": it.description, "input_schema": it.parameters}))
        .collect();
    if let Some(schema) = &sampling.json_schema {
        tools.push(json!({"name": ANSWER, "description": "The answer.", "input_schema": schema}));
        body["tool_choice"] = json!({"type": "tool", "name": ANSWER});
    }
    if !tools.is_empty() {
        body["tools"] = json!(tools);
    }
    for (key, value) in &sampling.model_options {
        body[key] = value.clone();
    }
    body
}

impl Provider for AnthropicProvider {
    fn is_hosted(&self) -> bool {
        true
    }

    fn credentials(&self) -> &'static str {
        "in the environment variable ANTHROPIC_API_KEY"
    }

    fn host(&self) -> Option<String> {
        None
    }

    fn list(&self) -> Result<Vec<String>> {
        let reply = self
            .client
            .get("/v1/models?limit=1000")
            .map_err(explain_key)?;
        let list: ModelList = reply.json()?;
        Ok(list.data.into_iter().map(|it| it.id).collect())
    }

    /// Nothing is asked: whether the key and the name are right is seen at the first request.
    fn describe(&self, model: &str) -> Result<ModelInfo> {
        Ok(ModelInfo {
            parameter_count: None,
            digest: sha256_fields(&[("anthropic", model)]),
            provenance: "Anthropic's API; no seeds".to_owned(),
            size_bytes: None,
            context_length: None,
        })
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter();
        candidates
            .map(|candidate| self.complete(model, request, candidate))
            .collect()
    }
}
