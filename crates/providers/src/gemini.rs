//! Google's Gemini models, over `generateContent`.
//!
//! The API calls the assistant `model` and the system message `systemInstruction`, and reports the
//! tokens of thoughts apart. Nothing is loaded here, so there is no host to guard.

use assize_domain::hash::sha256_fields;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::http::{HostClient, Key, Reply};
use crate::tools::{ToolCall, call_text};
use crate::{
    CHECK_NAME, Candidate, Completion, HttpConfig, ModelInfo, Provider, Request, Result, Role,
    explain_key, explain_model,
};

/// Where the API is.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com";

/// The API of Gemini.
#[derive(Debug)]
pub struct GeminiProvider {
    client: HostClient,
}

#[derive(Debug, Deserialize)]
struct ModelList {
    #[serde(default)]
    models: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    candidates: Vec<Generated>,
    #[serde(default)]
    usage_metadata: Usage,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
}

#[derive(Debug, Deserialize)]
struct FunctionCall {
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    #[serde(rename = "promptTokenCount")]
    prompt: u64,
    #[serde(rename = "candidatesTokenCount")]
    answer: u64,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: u64,
}

impl GeminiProvider {
    pub fn new(base_url: &str, key: &str, config: &HttpConfig) -> Result<Self> {
        let key = Key::Headers(vec![("x-goog-api-key", key.trim().to_owned())]);
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
        let path = format!("/v1beta/models/{model}:generateContent");
        let reply = self
            .client
            .post(&path, &body(request, candidate))
            .map_err(|error| explain_model(explain_key(error), model, CHECK_NAME))?;
        read(&reply, request)
    }
}

fn read(reply: &Reply, request: &Request) -> Result<Completion> {
    let answer: Answer = reply.json()?;
    let generated = answer.candidates.into_iter().next();
    let generated = generated.ok_or_else(|| reply.malformed("there are no candidates"))?;
    let parts = generated.content.map(|it| it.parts).unwrap_or_default();
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for part in parts {
        let said = part.text.unwrap_or_default();
        if part.thought {
            thinking.push_str(&said);
        } else {
            text.push_str(&said);
        }
        calls.extend(part.function_call.map(|it| ToolCall {
            name: it.name,
            arguments: it.args,
        }));
    }
    let usage = answer.usage_metadata;
    let mut completion = Completion {
        prompt_tokens: usage.prompt,
        completion_tokens: usage.answer + usage.thoughts,
        latency_ms: reply.elapsed().as_secs_f64() * 1e3,
        truncated: generated.finish_reason.as_deref() == Some("MAX_TOKENS"),
        ..Completion::default()
    };
    let is_structured = request.sampling.json_schema.is_some();
    completion.set_text(call_text(&calls).unwrap_or(text), &thinking, !is_structured);
    if usage.thoughts > 0 {
        completion.thinking_tokens = usage.thoughts;
    }
    Ok(completion)
}

fn body(request: &Request, candidate: &Candidate) -> Value {
    let sampling = &request.sampling;
    let said = candidate
        .messages
        .iter()
        .filter(|it| it.role != Role::System);
    let mut contents: Vec<Value> = said
        .map(|it| {
            let role = if it.role == Role::Assistant {
                "model"
            } else {
                "user"
            };
            json!({"role": role, "parts": [{"text": it.content}]})
        })
        .collect();
    let images = request.images.iter();
    let images =
        images.map(|it| json!({"inlineData": {"mimeType": it.media_type, "data": it.base64}}));
    if let Some(parts) = contents
        .last_mut()
        .and_then(|it| it["parts"].as_array_mut())
    {
        parts.extend(images);
    }
    let mut config = Map::new();
    config.insert("temperature".to_owned(), json!(sampling.temperature));
    config.insert("maxOutputTokens".to_owned(), json!(sampling.max_tokens));
    config.insert("seed".to_owned(), json!(candidate.seed));
    if let Some(schema) = &sampling.json_schema {
        config.insert("responseMimeType".to_owned(), json!("application/json"));
        config.insert("responseJsonSchema".to_owned(), schema.clone());
    }
    // `top_k` is `topK` on this wire.
    let options = sampling.model_options.iter();
    config.extend(options.map(|(key, value)| (camel(key), value.clone())));
    let mut body = json!({"contents": contents, "generationConfig": config});
    let system = candidate
        .messages
        .iter()
        .filter(|it| it.role == Role::System);
    let system: Vec<Value> = system.map(|it| json!({"text": it.content})).collect();
    if !system.is_empty() {
        body["systemInstruction"] = json!({"parts": system});
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter();
        let tools = tools.map(|it| {
            json!({"name": it.name, "description": it.description, "parametersJsonSchema": it.parameters})
        });
        let declarations: Vec<Value> = tools.collect();
        body["tools"] = json!([{"functionDeclarations": declarations}]);
    }
    body
}

fn camel(key: &str) -> String {
    let mut parts = key.split('_');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(usize::from(!part.is_empty()));
        text.push_str(&first.to_ascii_uppercase());
        text.push_str(rest);
    }
    text
}

impl Provider for GeminiProvider {
    fn is_hosted(&self) -> bool {
        true
    }

    fn credentials(&self) -> &'static str {
        "in the environment variable GEMINI_API_KEY"
    }

    fn host(&self) -> Option<String> {
        None
    }

    fn list(&self) -> Result<Vec<String>> {
        let reply = self
            .client
            .get("/v1beta/models?pageSize=1000")
            .map_err(explain_key)?;
        let list: ModelList = reply.json()?;
        let names = list.models.into_iter();
        Ok(names
            .map(|it| it.name.trim_start_matches("models/").to_owned())
            .collect())
    }

    /// Nothing is asked: whether the key and the name are right is seen at the first request.
    fn describe(&self, model: &str) -> Result<ModelInfo> {
        Ok(ModelInfo {
            parameter_count: None,
            digest: sha256_fields(&[("gemini", model)]),
            provenance: "Gemini's API".to_owned(),
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
