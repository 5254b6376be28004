//! What the stand-in holds in memory, and what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

use super::pace::Times;
use super::wire::rfc3339;
use super::{Call, Fault, StandInModel};

/// What a resident model reports as its load time, and what a real load reports.
pub const RESIDENT_LOAD_NS: u64 = 3_000_000;
pub const REAL_LOAD_NS: u64 = 250_000_000;

pub(super) const DEFAULT_KEEP_ALIVE: Duration = Duration::from_mins(5);
const FOR_EVER: Duration = Duration::from_hours(100_000);
/// A change of any of these reloads the weights.
const RUNNER_OPTIONS: [&str; 6] = [
    "num_ctx",
    "num_batch",
    "num_thread",
    "num_gpu",
    "main_gpu",
    "use_mmap",
];

#[derive(Debug, Clone)]
pub(super) struct Held {
    runner_options: String,
    expires_at: Instant,
    /// Told to unload: how many more looks at `/api/ps` still see it.
    looks_left: Option<u32>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) models: Vec<StandInModel>,
    pub(super) held: BTreeMap<String, Held>,
    pub(super) looks_until_freed: u32,
    pub(super) calls: Vec<Call>,
    pub(super) loads: Vec<String>,
    pub(super) held_together: Vec<BTreeSet<String>>,
    pub(super) faults: Vec<(String, usize, Fault)>,
    /// How many more completions may go on; `None` is all of them.
    pub(super) admit: Option<usize>,
    pub(super) in_flight: usize,
    pub(super) most_in_flight: usize,
    pub(super) times: Times,
}

impl State {
    pub(super) fn new(models: Vec<StandInModel>) -> Self {
        Self {
            models,
            held: BTreeMap::new(),
            looks_until_freed: 2,
            calls: Vec::new(),
            loads: Vec::new(),
            held_together: Vec::new(),
            faults: Vec::new(),
            admit: None,
            in_flight: 0,
            most_in_flight: 0,
            times: Times::default(),
        }
    }

    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        self.held.retain(|_, held| held.expires_at > now);
    }

    /// Takes a model into memory and returns whether its weights had to be loaded.
    pub(super) fn hold(&mut self, name: &str, runner_options: &str, keep_alive: Duration) -> bool {
        let resident = self
            .held
            .get(name)
            .is_some_and(|held| held.runner_options == runner_options && held.looks_left.is_none());
        let held = Held {
            runner_options: runner_options.to_owned(),
            expires_at: Instant::now() + keep_alive,
            looks_left: None,
        };
        self.held.insert(name.to_owned(), held);
        if !resident {
            self.loads.push(name.to_owned());
            self.held_together.push(self.held.keys().cloned().collect());
        }
        !resident
    }

    /// Whether one more completion may go on now.
    pub(super) fn admit_one(&mut self) -> bool {
        match &mut self.admit {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    pub(super) fn renew(&mut self, name: &str, keep_alive: Duration) {
        self.held.get_mut(name).unwrap().expires_at = Instant::now() + keep_alive;
    }

    /// Lists what is in memory; each look brings what is being freed closer to its end.
    fn look(&mut self) -> Value {
        self.held.retain(|_, held| held.looks_left != Some(0));
        for held in self.held.values_mut() {
            if let Some(left) = held.looks_left.as_mut().filter(|left| **left < u32::MAX) {
                *left -= 1;
            }
        }
        let models: Vec<Value> = self
            .held
            .iter()
            .map(|(name, held)| {
                let left = held.expires_at.saturating_duration_since(Instant::now());
                json!({"name": name, "model": name, "size": 123_456_789, "size_vram": 0,
                       "digest": format!("digest-of-{name}"),
                       "expires_at": rfc3339(SystemTime::now() + left)})
            })
            .collect();
        json!({"models": models})
    }

    /// `name` as the host knows it, with the tag that a tagless name means.
    fn find(&self, name: &str) -> Option<&StandInModel> {
        let tagged = format!("{name}:latest");
        let mut models = self.models.iter();
        models.find(|model| model.name == name || model.name == tagged)
    }

    pub(super) fn answer(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.expire();
        match path {
            "/api/version" => return (200, json!({"version": "0.0.0-stand-in"})),
            "/api/ps" => return (200, self.look()),
            "/api/tags" => {
                let models: Vec<Value> = self.models.iter().map(tag).collect();
                return (200, json!({"models": models}));
            }
            "/api/show" | "/api/chat" | "/api/generate" => {}
            _ => return (404, json!({"error": "path not found"})),
        }
        let Some(name) = body["model"].as_str() else {
            return (400, json!({"error": "model is required"}));
        };
        let Some(model) = self.find(name).cloned() else {
            let held_by_another = self.held.keys().find(|held| *held == name).cloned();
            return match held_by_another {
                Some(held) if path != "/api/show" => (200, self.run(&held, path, body, None)),
                _ => (404, json!({"error": format!("model '{name}' not found")})),
            };
        };
        match path {
            "/api/show" => (200, show(&model)),
            _ => (200, self.run(&model.name, path, body, Some(&model))),
        }
    }

    /// Loads, unloads or answers, as the request's emptiness and `keep_alive` say.
    fn run(&mut self, name: &str, path: &str, body: &Value, model: Option<&StandInModel>) -> Value {
        let empty = match path {
            "/api/chat" => body["messages"].as_array().is_none_or(Vec::is_empty),
            _ => body["prompt"].as_str().unwrap_or_default().is_empty(),
        };
        let keep_alive = keep_alive(&body["keep_alive"]);
        if empty && keep_alive.is_zero() {
            let looks = self.looks_until_freed;
            if let Some(held) = self.held.get_mut(name) {
                held.looks_left = Some(looks);
                held.expires_at = Instant::now() + FOR_EVER;
            }
            return json!({"model": name, "done": true, "done_reason": "unload"});
        }
        let runner_options = RUNNER_OPTIONS.map(|key| body["options"][key].to_string());
        let loaded = self.hold(name, &runner_options.join(" "), keep_alive);
        match model {
            Some(model) if !empty => complete(model, body, loaded),
            _ => json!({"model": name, "done": true, "done_reason": "load"}),
        }
    }
}

fn tag(model: &StandInModel) -> Value {
    json!({"name": model.name, "model": model.name, "size": 98_362_432, "digest": model.digest()})
}

fn show(model: &StandInModel) -> Value {
    let mut info = Map::new();
    info.insert("general.architecture".to_owned(), json!("llama"));
    info.insert("llama.context_length".to_owned(), json!(8192));
    if let Some(count) = model.parameter_count {
        info.insert("general.parameter_count".to_owned(), json!(count));
    }
    json!({"details": {"parameter_size": model.parameter_size, "quantization_level": "Q4_1"},
           "model_info": info})
}

/// The canned text for the request's seed, cut at `num_predict` words.
fn complete(model: &StandInModel, body: &Value, loaded: bool) -> Value {
    let seed = usize::try_from(body["options"]["seed"].as_u64().unwrap_or(0)).unwrap();
    let text = model
        .texts
        .get(seed % model.texts.len().max(1))
        .cloned()
        .unwrap_or_default();
    let limit = body["options"]["num_predict"].as_u64().unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let words: Vec<&str> = text.split_whitespace().collect();
    let truncated = words.len() > limit;
    let text = if truncated {
        words[..limit].join(" ")
    } else {
        text.clone()
    };
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(thinking) = &model.thinking {
        message["thinking"] = json!(thinking);
    }
    let load_ns = if loaded {
        REAL_LOAD_NS
    } else {
        RESIDENT_LOAD_NS
    };
    let mut answer = json!({"model": model.name, "message": message, "done": true,
        "done_reason": if truncated { "length" } else { "stop" }, "load_duration": load_ns});
    let prompt_words: usize = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["content"].as_str())
        .map(|content| content.split_whitespace().count())
        .sum();
    // Zero is left out, as by Ollama.
    for (key, count) in [
        ("prompt_eval_count", prompt_words),
        ("eval_count", words.len().min(limit)),
    ] {
        if count > 0 {
            answer[key] = json!(count);
        }
    }
    answer
}

/// Seconds, or a Go duration of one unit; negative is for ever.
fn keep_alive(value: &Value) -> Duration {
    let seconds = match value {
        Value::Null => return DEFAULT_KEEP_ALIVE,
        Value::String(text) => {
            let digits = text
                .find(|c: char| c.is_ascii_alphabetic())
                .unwrap_or(text.len());
            let scale = match &text[digits..] {
                "ms" => 0.001,
                "m" => 60.0,
                "h" => 3600.0,
                _ => 1.0,
            };
            text[..digits].parse::<f64>().unwrap() * scale
        }
        number => number.as_f64().unwrap(),
    };
    Duration::try_from_secs_f64(seconds).unwrap_or(FOR_EVER)
}
