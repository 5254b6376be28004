//! Models on an Ollama host.
//!
//! The guarantees of the one-model guard rest on what this module tells the truth about:
//!
//! - **Loading** is an empty-prompt request with the `num_ctx` of the cells that follow,
//!   because Ollama reloads the weights when the context size changes.
//! - **`keep_alive` is finite and goes with every call**: should this process die, the host
//!   unloads the model by itself.
//! - **Unloading** is asked for and then watched in `/api/ps`. Ollama answers at once and
//!   frees later, and on some GPUs never, so the wait is bounded and ends in
//!   [`ProviderError::NotFreed`].
//!
//! Candidates are one request each, one after the other: Ollama has no batches over a shared
//! prompt, and its own prefix cache makes the second request cheap. Answers are not streamed,
//! because then a failure has its HTTP status; where a host streams all the same, or reports
//! an error under HTTP 200, that is understood too.
//!
//! Every option that a collection knows is sent, so that neither the server's defaults nor a
//! Modelfile decide: temperature, seed, lengths, `top_k` and `top_p`. What remains the
//! model's own are its template and its stop words. Seeds are not fully reproducible on
//! Ollama (a first and a cached run can differ), which the provenance says.

use std::time::Duration;

use assize_domain::tool::Tool;
use serde_json::{Value, json};

use crate::http::{HostClient, Reply};
use crate::tools::{ToolCall, call_text};
use crate::{
    Candidate, Completion, HttpConfig, ModelInfo, Provider, ProviderError, Request, Resident,
    Result, Sleep,
};
use wire::{ChatLine, ResidentList, ShownModel, TagList, TaggedModel, Version};

mod wire;

const TOP_K: u32 = 40;
const TOP_P: f64 = 0.9;
const FIRST_POLL: Duration = Duration::from_millis(50);
const MAX_POLL: Duration = Duration::from_millis(500);

/// How to treat an Ollama host.
#[derive(Debug, Clone)]
pub struct OllamaConfig {
    pub http: HttpConfig,
    /// How long the host keeps a model after our last call; whole seconds, at least one.
    pub keep_alive: Duration,
    /// How long to watch for a model to be gone after it was told to unload.
    pub unload_timeout: Duration,
}

impl Default for OllamaConfig {
    fn default() -> Self {
        Self {
            http: HttpConfig::default(),
            keep_alive: Duration::from_mins(2),
            unload_timeout: Duration::from_secs(30),
        }
    }
}

/// One Ollama host.
#[derive(Debug)]
pub struct OllamaProvider {
    client: HostClient,
    keep_alive_s: u64,
    unload_timeout: Duration,
    sleep: Sleep,
}

/// Whether two names mean the same model on a host.
///
/// Ollama reports `smollm2` as `smollm2:latest`, leaves its own registry out, and does not
/// distinguish case.
pub fn same_model(one: &str, other: &str) -> bool {
    fn parts(name: &str) -> (&str, &str) {
        let name = name.strip_prefix("registry.ollama.ai/").unwrap_or(name);
        let name = name.strip_prefix("library/").unwrap_or(name);
        let last_segment = name.rfind('/').map_or(0, |slash| slash + 1);
        match name[last_segment..].find(':') {
            Some(colon) => (
                &name[..last_segment + colon],
                &name[last_segment + colon + 1..],
            ),
            None => (name, "latest"),
        }
    }
    let (one, other) = (parts(one), parts(other));
    one.0.eq_ignore_ascii_case(other.0) && one.1.eq_ignore_ascii_case(other.1)
}

impl OllamaProvider {
    /// The host at `url` (`http://localhost:11434`); nothing is asked of it yet.
    pub fn new(url: &str, config: &OllamaConfig) -> Result<Self> {
        Ok(Self {
            client: HostClient::new(url, None, &config.http)?,
            keep_alive_s: config.keep_alive.as_secs().max(1),
            unload_timeout: config.unload_timeout,
            sleep: config.http.sleep.clone(),
        })
    }

    /// The host's version, which is also the quickest way to see that it answers.
    pub fn version(&self) -> Result<String> {
        let version: Version = self.client.get("/api/version")?.json()?;
        Ok(version.version)
    }

    fn tags(&self) -> Result<Vec<TaggedModel>> {
        let tags: TagList = self.client.get("/api/tags")?.json()?;
        Ok(tags.models)
    }

    /// A call about one model, with a missing model reported as such.
    fn post(&self, path: &str, model: &str, body: &Value) -> Result<Reply> {
        self.client.post(path, body).map_err(|error| match error {
            ProviderError::Refused {
                host,
                status: 404,
                message,
            } => ProviderError::ModelNotFound {
                host,
                model: model.to_owned(),
                remedy: format!("'ollama pull {model}' gets it (the host said: {message})"),
            },
            other => other,
        })
    }

    fn complete(
        &self,
        model: &str,
        request: &Request,
        candidate: &Candidate,
    ) -> Result<Completion> {
        let body = self.chat_body(model, request, candidate);
        let reply = self.post("/api/chat", model, &body)?;
        let answer = joined_answer(&reply)?;
        let mut completion = Completion {
            prompt_tokens: answer.last.prompt_eval_count,
            completion_tokens: answer.last.eval_count,
            latency_ms: reply.elapsed().as_secs_f64() * 1e3,
            load_ms: answer.last.load_duration as f64 / 1e6,
            truncated: answer.last.done_reason.as_deref() == Some("length"),
            ..Completion::default()
        };
        // Ollama cuts the thoughts off, and they belong to the raw output.
        let keeps_thoughts = request.sampling.json_schema.is_none();
        let text = call_text(&answer.calls).unwrap_or(answer.content);
        completion.set_text(text, &answer.thinking, keeps_thoughts);
        Ok(completion)
    }

    fn chat_body(&self, model: &str, request: &Request, candidate: &Candidate) -> Value {
        let sampling = &request.sampling;
        let mut messages: Vec<Value> = candidate
            .messages
            .iter()
            .map(|message| json!({"role": message.role.as_str(), "content": message.content}))
            .collect();
        if let Some(last) = messages.last_mut().filter(|_| !request.images.is_empty()) {
            let images = request.images.iter().map(|it| it.base64.as_str());
            last["images"] = images.collect();
        }
        let mut body = json!({
            "model": model,
            "messages": messages,
            "stream": false,
            "keep_alive": self.keep_alive_s,
            "options": {
                "temperature": sampling.temperature,
                "top_k": TOP_K,
                "top_p": TOP_P,
                "seed": candidate.seed,
                "num_predict": sampling.max_tokens,
                "num_ctx": sampling.num_ctx,
            },
        });
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(Tool::function).collect();
        }
        for (key, value) in &sampling.model_options {
            body["options"][key] = value.clone();
        }
        if let Some(schema) = &sampling.json_schema {
            body["format"] = schema.clone();
        }
        body
    }

    fn is_resident(&self, model: &str) -> Result<(bool, Duration)> {
        let reply = self.client.get("/api/ps")?;
        let list: ResidentList = reply.json()?;
        let found = list.models.iter().any(|held| same_model(&held.name, model));
        Ok((found, reply.elapsed()))
    }
}

impl Provider for OllamaProvider {
    fn host(&self) -> Option<String> {
        Some(self.client.host().to_owned())
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.tags()?.into_iter().map(|tag| tag.name).collect())
    }

    fn describe(&self, model: &str) -> Result<ModelInfo> {
        let shown: ShownModel = self
            .post("/api/show", model, &json!({"model": model}))?
            .json()?;
        let tags = self.tags()?;
        let tag = tags.into_iter().find(|tag| same_model(&tag.name, model));
        let tag = tag.ok_or_else(|| ProviderError::Malformed {
            host: self.client.host().to_owned(),
            reason: format!("/api/show knows '{model}', but /api/tags does not list it"),
        })?;
        let quantisation = shown.quantisation().unwrap_or("unknown quantisation");
        Ok(ModelInfo {
            parameter_count: shown.parameter_count(),
            digest: tag.digest,
            provenance: format!(
                "ollama {}, {quantisation}; seeds not fully reproducible",
                self.version()?
            ),
            size_bytes: tag.size,
            context_length: shown.context_length(),
        })
    }

    fn resident(&self) -> Result<Vec<Resident>> {
        let list: ResidentList = self.client.get("/api/ps")?.json()?;
        Ok(list.models.into_iter().map(Resident::from).collect())
    }

    /// Loads by an empty prompt. Ollama does not always report what that took, and then it
    /// is the time of the call.
    fn load(&self, model: &str, num_ctx: u32, _candidates: u32) -> Result<f64> {
        let body = json!({
            "model": model,
            "prompt": "",
            "stream": false,
            "keep_alive": self.keep_alive_s,
            "options": {"num_ctx": num_ctx},
        });
        let reply = self.post("/api/generate", model, &body)?;
        let load_ns = joined_answer(&reply)?.last.load_duration;
        if load_ns > 0 {
            Ok(load_ns as f64 / 1e6)
        } else {
            Ok(reply.elapsed().as_secs_f64() * 1e3)
        }
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter();
        candidates
            .map(|candidate| self.complete(model, request, candidate))
            .collect()
    }

    fn unload(&self, model: &str) -> Result<()> {
        let body = json!({"model": model, "messages": [], "stream": false, "keep_alive": 0});
        joined_answer(&self.post("/api/chat", model, &body)?)?;
        let mut waited = Duration::ZERO;
        let mut pause = FIRST_POLL;
        loop {
            let (held, asked_for) = self.is_resident(model)?;
            if !held {
                return Ok(());
            }
            waited += asked_for;
            if waited >= self.unload_timeout {
                return Err(ProviderError::NotFreed {
                    host: self.client.host().to_owned(),
                    model: model.to_owned(),
                    waited_s: waited.as_secs(),
                });
            }
            self.sleep.wait(pause);
            waited += pause;
            pause = (pause * 2).min(MAX_POLL);
        }
    }
}

/// What all lines of an answer say together.
struct Answer {
    content: String,
    thinking: String,
    calls: Vec<ToolCall>,
    /// Carries the reason for stopping and the timings.
    last: ChatLine,
}

fn joined_answer(reply: &Reply) -> Result<Answer> {
    let mut content = String::new();
    let mut thinking = String::new();
    let mut calls = Vec::new();
    for mut line in reply.json_values::<ChatLine>()? {
        if let Some(error) = line.error {
            return Err(reply.refused(&error));
        }
        content.push_str(&line.message.content);
        thinking.push_str(line.message.thinking.as_deref().unwrap_or_default());
        let called = std::mem::take(&mut line.message.tool_calls).unwrap_or_default();
        calls.extend(called.into_iter().map(|it| ToolCall {
            name: it.function.name,
            arguments: it.function.arguments,
        }));
        if line.done {
            return Ok(Answer {
                content,
                thinking,
                calls,
                last: line,
            });
        }
    }
    Err(reply.malformed("the answer ends before it is done"))
}

#[cfg(test)]
mod tests {
    use super::same_model;

    #[test]
    fn a_missing_tag_means_latest() {
        for (one, other) in [
            ("smollm2", "smollm2:latest"),
            ("smollm2:135m", "SmolLM2:135M"),
            ("registry.ollama.ai/library/gemma3:1b", "gemma3:1b"),
            (
                "localhost:5000/team/model",
                "localhost:5000/team/model:latest",
            ),
        ] {
            assert!(
                same_model(one, other) && same_model(other, one),
                "{one} {other}"
            );
        }
        for (one, other) in [
            ("smollm2", "smollm2:135m"),
            ("team/smollm2", "smollm2"),
            ("localhost:5000/model", "localhost:5001/model"),
        ] {
            assert!(!same_model(one, other), "{one} {other}");
        }
    }
}
