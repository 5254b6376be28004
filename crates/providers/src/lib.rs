//! Providers generate text: one small interface, and its implementations.
//!
//! A [`Provider`] reports a model, loads it, generates the candidates of a cell, and unloads
//! it *verifiably*. It knows nothing of tasks, grids or tracking, and it never decides what
//! may be loaded: the size gate and the one-model guard live above it, and use
//! [`Provider::describe`], [`Provider::resident`] and [`Provider::unload`] to keep their word.
//!
//! Everything here blocks. For several requests in flight, call from several
//! threads; that keeps cancellation, timeouts and back-pressure visible in plain code.

use std::fmt::Debug;
use std::sync::Arc;

use assize_domain::image::Image;
use assize_domain::tool::Tool;

pub mod anthropic;
pub mod cache;
pub mod command;
mod digest;
mod error;
pub mod gemini;
mod http;
pub mod ollama;
pub mod openai;
pub mod scripted;
mod tools;

pub use assize_http::{HttpConfig, Sleep};
pub use error::ProviderError;

/// Shorthand for what a provider answers.
pub type Result<T> = std::result::Result<T, ProviderError>;

/// What a model says of itself, before anything is loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Counted from the model's own tensors or metadata; `None` where it does not say.
    pub parameter_count: Option<u64>,
    /// Identifies the weights; part of every cell's identity.
    pub digest: String,
    /// Engine and build, for the run's `provenance` tag.
    pub provenance: String,
    /// Bytes of weights on disk, where known.
    pub size_bytes: Option<u64>,
    /// The longest context the model was trained for, where known.
    pub context_length: Option<u64>,
}

/// A model whose weights are in a host's memory now.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    pub model: String,
    pub digest: String,
    pub size_bytes: u64,
    /// When the host will unload it by itself (Unix milliseconds), where it says.
    pub expires_at_ms: Option<i64>,
}

/// The speaker of a chat message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    /// The role's name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One chat message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

/// What one candidate is generated from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Mostly the same for all candidates of a cell; not with `--diversity`.
    pub messages: Vec<Message>,
    pub seed: u32,
}

/// All candidates of one cell.
///
/// They travel together so that an engine can decode what they share once and the rest
/// as one batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// Which prompt version (with swept settings, as a label) and scenario this is; only the
    /// scripted provider looks.
    pub prompt: String,
    pub scenario: String,
    pub candidates: Vec<Candidate>,
    pub sampling: Sampling,
    /// They go with the last message of every candidate.
    pub images: Vec<Arc<Image>>,
    /// What the model may call instead of answering.
    pub tools: Vec<Tool>,
}

/// What changes the output, besides the messages and the seed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    pub temperature: f64,
    pub max_tokens: u32,
    /// Context per candidate in tokens, prompt included. Constant while a model is loaded:
    /// on Ollama a change reloads the weights.
    pub num_ctx: u32,
    /// Constrain the output to this JSON schema.
    pub json_schema: Option<serde_json::Value>,
    /// Options that are sent as they are, by name; a provider that cannot send them refuses them.
    pub model_options: Vec<(String, serde_json::Value)>,
}

/// One generated output and what it cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Completion {
    /// Raw, as the model wrote it.
    pub text: String,
    pub prompt_tokens: u64,
    /// All tokens that were generated, thoughts included.
    pub completion_tokens: u64,
    /// Those of them that are thoughts. Estimated by the share of characters where only the thoughts
    /// themselves are reported.
    pub thinking_tokens: u64,
    /// Wall time from when work on this candidate began until it was complete, with whatever else
    /// was in its batch.
    pub latency_ms: f64,
    /// How many candidates the engine worked on at the same time, on average; 0 where the provider
    /// does not say.
    pub batch: f64,
    /// Time the host spent loading weights for this request; 0 while the model is resident.
    pub load_ms: f64,
    /// Whether the model stopped at `max_tokens` instead of by itself.
    pub truncated: bool,
    /// What the provider says this request cost.
    pub cost_usd: Option<f64>,
    /// Whether it was generated earlier and kept ([`cache`]).
    pub from_cache: bool,
}

impl Completion {
    /// The time that was spent on this candidate alone: its share of the batch. Over all candidates
    /// these add up to the time that the engine worked.
    pub fn share_ms(&self) -> f64 {
        self.latency_ms / self.batch.max(1.0)
    }

    /// Sets the raw text: the answer, and before it the thoughts that came beside it. Where JSON was
    /// asked for only the answer answers the question, so `keeps_thoughts` is false there.
    pub fn set_text(&mut self, answer: String, thinking: &str, keeps_thoughts: bool) {
        if thinking.is_empty() {
            self.text = answer;
            return;
        }
        let (thoughts, all) = (thinking.chars().count(), answer.chars().count());
        let share = thoughts as f64 / (thoughts + all) as f64;
        if self.thinking_tokens == 0 {
            self.thinking_tokens = share_of(self.completion_tokens, share);
        }
        self.text = if keeps_thoughts {
            format!("<think>{thinking}</think>\n{answer}")
        } else {
            answer
        };
    }
}

/// What an engine has done since its model was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Activity {
    /// Tokens of prompts that were decoded; what was found in the cache is not counted.
    pub prompt_tokens: u64,
    /// Tokens that were generated, those of candidates that are not complete included.
    pub completion_tokens: u64,
    /// Seconds of the steps that generated them, without prompts.
    pub step_s: f64,
    /// Candidates that are being decoded now.
    pub in_batch: u32,
    /// Candidates that its cache holds at most.
    pub sequences: u32,
}

/// A share of a number of tokens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of tokens is one"
)]
pub fn share_of(tokens: u64, share: f64) -> u64 {
    (tokens as f64 * share.clamp(0.0, 1.0)).round() as u64
}

/// Adds what to do about a refused key.
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

/// What to do about a model that a vendor does not know.
const CHECK_NAME: &str = "check its name";

/// A missing model, reported as such, with what to do about it.
fn explain_model(error: ProviderError, model: &str, remedy: &str) -> ProviderError {
    match error {
        ProviderError::Refused {
            host,
            status: 404,
            message,
        } => ProviderError::ModelNotFound {
            host,
            model: model.to_owned(),
            remedy: format!("{remedy} (the server said: {message})"),
        },
        other => other,
    }
}

/// One source of completions.
pub trait Provider: Send + Sync + Debug {
    /// The host whose memory holds the weights (`http://localhost:11434`, `embedded`);
    /// `None` where we load nothing (a remote API, a script).
    fn host(&self) -> Option<String>;

    /// Where requests go, as runs and messages name it, without credentials; `None` where they go
    /// nowhere.
    fn address(&self) -> Option<String> {
        self.host()
    }

    /// The models that could be evaluated here, by name.
    fn list(&self) -> Result<Vec<String>>;

    /// What `model` says of itself, without loading it.
    fn describe(&self, model: &str) -> Result<ModelInfo>;

    /// What is in the host's memory now. Providers without a [`host`](Provider::host) hold nothing
    /// there, load nothing and unload nothing.
    fn resident(&self) -> Result<Vec<Resident>> {
        Ok(Vec::new())
    }

    /// Loads `model` for this context size and candidate count; returns the milliseconds
    /// it took.
    fn load(&self, _model: &str, _num_ctx: u32, _candidates: u32) -> Result<f64> {
        Ok(0.0)
    }

    /// Generates every candidate of the request, in order. A failure belongs to its
    /// candidate and does not stop the others.
    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>>;

    /// Unloads `model` and returns only when it is seen to be gone.
    fn unload(&self, _model: &str) -> Result<()> {
        Ok(())
    }

    /// How many requests of so many candidates keep it busy; one more would only wait.
    fn requests_wanted(&self, _candidates: u32) -> u32 {
        1
    }

    /// What the loaded model has done so far, where the provider knows while it works.
    fn activity(&self) -> Option<Activity> {
        None
    }

    /// Whether the weights are on somebody else's machine, so that their size does not matter here.
    fn is_hosted(&self) -> bool {
        false
    }

    /// Where a user finds the credentials that requests are sent with, in words.
    fn credentials(&self) -> &'static str {
        "in the URL of the host"
    }
}
