//! Answers kept on disk, for authors who try a prompt again and again.
//!
//! The key is the whole request: the model with its digest, messages, seed, sampling, images and
//! tools. An answer is a file of its own, complete or not there. Nothing measures with it unless asked:
//! an answer from the cache has the latency of the first time and was not generated again, which
//! [`Completion::from_cache`] says.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_domain::hash::{canonical_json, sha256_hex};
use serde_json::{Value, json};

use crate::{Activity, Candidate, Completion, ModelInfo, Provider, Request, Resident, Result};

/// A provider whose answers are kept.
#[derive(Debug)]
pub struct CachedProvider {
    inner: Arc<dyn Provider>,
    folder: PathBuf,
    /// By model.
    digests: BTreeMap<String, String>,
}

impl CachedProvider {
    pub fn new(inner: Arc<dyn Provider>, folder: &Path, digests: BTreeMap<String, String>) -> Self {
        Self {
            inner,
            folder: folder.to_owned(),
            digests,
        }
    }

    fn path(&self, model: &str, request: &Request, candidate: &Candidate) -> PathBuf {
        let messages: Vec<Value> = candidate
            .messages
            .iter()
            .map(|it| json!([it.role.as_str(), it.content]))
            .collect();
        let images: Vec<&str> = request.images.iter().map(|it| it.sha256.as_str()).collect();
        let sampling = &request.sampling;
        let whole = json!({
            "model": model,
            "digest": self.digests.get(model),
            "messages": messages,
            "seed": candidate.seed,
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "num_ctx": sampling.num_ctx,
            "schema": sampling.json_schema,
            "options": sampling.model_options,
            "images": images,
            "tools": request.tools,
        });
        let key = sha256_hex(canonical_json(&whole).as_bytes());
        self.folder.join(&key[..2]).join(format!("{key}.json"))
    }
}

fn read(path: &Path) -> Option<Completion> {
    let kept: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let number = |key: &str| kept[key].as_u64().unwrap_or(0);
    Some(Completion {
        text: kept["text"].as_str()?.to_owned(),
        prompt_tokens: number("prompt_tokens"),
        completion_tokens: number("completion_tokens"),
        thinking_tokens: number("thinking_tokens"),
        latency_ms: kept["latency_ms"].as_f64().unwrap_or(0.0),
        batch: kept["batch"].as_f64().unwrap_or(0.0),
        truncated: kept["truncated"].as_bool().unwrap_or(false),
        from_cache: true,
        ..Completion::default()
    })
}

/// A cache that cannot be written costs time and nothing else.
fn write(path: &Path, completion: &Completion) -> Option<()> {
    let kept = json!({
        "text": completion.text,
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "thinking_tokens": completion.thinking_tokens,
        "latency_ms": completion.latency_ms,
        "batch": completion.batch,
        "truncated": completion.truncated,
    });
    fs::create_dir_all(path.parent()?).ok()?;
    let thread = format!("{:?}", std::thread::current().id());
    let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
    let part = path.with_extension(format!("{}-{thread}.part", std::process::id()));
    let mut file = fs::File::create(&part).ok()?;
    file.write_all(kept.to_string().as_bytes()).ok()?;
    fs::rename(part, path).ok()
}

impl Provider for CachedProvider {
    fn is_hosted(&self) -> bool {
        self.inner.is_hosted()
    }

    fn credentials(&self) -> &'static str {
        self.inner.credentials()
    }

    fn address(&self) -> Option<String> {
        self.inner.address()
    }

    fn host(&self) -> Option<String> {
        self.inner.host()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn describe(&self, model: &str) -> Result<ModelInfo> {
        self.inner.describe(model)
    }

    fn resident(&self) -> Result<Vec<Resident>> {
        self.inner.resident()
    }

    fn load(&self, model: &str, num_ctx: u32, candidates: u32) -> Result<f64> {
        self.inner.load(model, num_ctx, candidates)
    }

    /// Asks only for the candidates that are not kept.
    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter();
        let paths: Vec<PathBuf> = candidates
            .map(|candidate| self.path(model, request, candidate))
            .collect();
        let known: Vec<Option<Completion>> = paths.iter().map(|path| read(path)).collect();
        let missing = request.candidates.iter().zip(&known);
        let missing = missing.filter(|(_, known)| known.is_none());
        let asked = Request {
            candidates: missing.map(|(candidate, _)| candidate.clone()).collect(),
            ..request.clone()
        };
        let made = if asked.candidates.is_empty() {
            Vec::new()
        } else {
            self.inner.generate(model, &asked)
        };
        let mut made = made.into_iter();
        let both = known.into_iter().zip(&paths);
        both.map_while(|(known, path)| match known {
            Some(completion) => Some(Ok(completion)),
            None => made.next().inspect(|answer| {
                if let Ok(completion) = answer {
                    let _ = write(path, completion);
                }
            }),
        })
        .collect()
    }

    fn unload(&self, model: &str) -> Result<()> {
        self.inner.unload(model)
    }

    fn requests_wanted(&self, candidates: u32) -> u32 {
        self.inner.requests_wanted(candidates)
    }

    fn activity(&self) -> Option<Activity> {
        self.inner.activity()
    }
}
