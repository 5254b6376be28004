//! The Ollama provider against a stand-in host that records calls and fails on demand.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assize_providers::ollama::{OllamaConfig, OllamaProvider};
use assize_providers::{
    Candidate, Completion, HttpConfig, Message, Provider, ProviderError, Request, Result, Role,
    Sampling, Sleep,
};
use assize_test_support::ollama_stand_in::{
    OllamaStandIn, REAL_LOAD_NS, RESIDENT_LOAD_NS, StandInModel,
};
use serde_json::json;

#[path = "ollama/errors.rs"]
mod errors;

const SMALL: &str = "smollm2:135m";
const OTHER: &str = "gemma3:1b";

fn host() -> OllamaStandIn {
    OllamaStandIn::start(vec![
        StandInModel::new(SMALL, 134_515_008, &["first tip", "a second tip"]),
        StandInModel::new(OTHER, 999_885_952, &["other"]),
        StandInModel::new("tagless:latest", 1_000_000, &["tagless"]),
    ])
}

/// Fast: waits are recorded and not waited.
fn provider(url: &str) -> (OllamaProvider, Arc<Mutex<Vec<Duration>>>) {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&waits);
    let config = OllamaConfig {
        http: HttpConfig {
            timeout: Duration::from_secs(20),
            sleep: Sleep::new(move |wait| record.lock().unwrap().push(wait)),
            ..HttpConfig::default()
        },
        ..OllamaConfig::default()
    };
    (OllamaProvider::new(url, &config).unwrap(), waits)
}

fn request(candidates: u32) -> Request {
    let candidate = |seed| Candidate {
        messages: vec![
            Message {
                role: Role::System,
                content: "Be brief.".to_owned(),
            },
            Message {
                role: Role::User,
                content: "A tip, please.".to_owned(),
            },
        ],
        seed,
    };
    Request {
        prompt: "v1".to_owned(),
        scenario: "s".to_owned(),
        candidates: (0..candidates).map(candidate).collect(),
        sampling: Sampling {
            temperature: 0.7,
            max_tokens: 128,
            num_ctx: 2048,
            json_schema: None,
            ..Sampling::default()
        },
        ..Request::default()
    }
}

fn one(provider: &OllamaProvider) -> Result<Completion> {
    provider.generate(SMALL, &request(1)).remove(0)
}

#[test]
fn a_model_describes_itself_without_being_loaded() {
    let host = host();
    let (provider, _) = provider(&host.url());
    let info = provider.describe(SMALL).unwrap();
    assert_eq!(info.parameter_count, Some(134_515_008));
    assert_eq!(info.digest, format!("digest-of-{SMALL}"));
    assert_eq!(info.size_bytes, Some(98_362_432));
    assert_eq!(info.context_length, Some(8192));
    assert_eq!(
        info.provenance,
        "ollama 0.0.0-stand-in, Q4_1; seeds not fully reproducible"
    );
    assert_eq!(provider.list().unwrap(), [SMALL, OTHER, "tagless:latest"]);
    assert_eq!(provider.host(), Some(host.url()));
    assert!(host.loads().is_empty());
}

#[test]
fn the_label_counts_only_where_the_tensors_were_not_counted() {
    let model = StandInModel {
        parameter_count: None,
        ..StandInModel::new("m:1b", 3_200_000_000, &[])
    };
    let host = OllamaStandIn::start(vec![model]);
    let (provider, _) = provider(&host.url());
    let info = provider.describe("m:1b").unwrap();
    assert_eq!(info.parameter_count, Some(3_200_000_000));
}

#[test]
fn a_tagless_name_is_its_latest_everywhere() {
    let host = host();
    let (provider, _) = provider(&host.url());
    assert_eq!(
        provider.describe("tagless").unwrap().digest,
        "digest-of-tagless:latest"
    );
    provider.load("tagless", 2048, 1).unwrap();
    assert_eq!(provider.resident().unwrap()[0].model, "tagless:latest");
    provider.unload("tagless").unwrap();
    assert!(host.held_now().is_empty());
}

#[test]
fn every_option_is_explicit_and_each_call_renews_keep_alive() {
    let host = host();
    let (provider, _) = provider(&host.url());
    provider.load(SMALL, 2048, 2).unwrap();
    let mut asked = request(2);
    asked.sampling.json_schema = Some(json!({"type": "object"}));
    provider.generate(SMALL, &asked);
    let load = &host.calls_to("/api/generate")[0].body;
    assert_eq!(
        load,
        &json!({"model": SMALL, "prompt": "", "stream": false, "keep_alive": 120,
                "options": {"num_ctx": 2048}})
    );
    let chats = host.calls_to("/api/chat");
    assert_eq!(chats.len(), 2);
    assert_eq!(
        chats[1].body,
        json!({"model": SMALL, "stream": false, "keep_alive": 120,
               "messages": [{"role": "system", "content": "Be brief."},
                            {"role": "user", "content": "A tip, please."}],
               "format": {"type": "object"},
               "options": {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "seed": 1,
                           "num_predict": 128, "num_ctx": 2048}})
    );
}

#[test]
fn candidates_come_back_in_order_with_their_counts() {
    let host = host();
    let (provider, _) = provider(&host.url());
    provider.load(SMALL, 2048, 3).unwrap();
    let completions: Result<Vec<_>> = provider.generate(SMALL, &request(3)).into_iter().collect();
    let completions = completions.unwrap();
    let texts: Vec<_> = completions.iter().map(|c| c.text.as_str()).collect();
    assert_eq!(texts, ["first tip", "a second tip", "first tip"]);
    assert_eq!(completions[1].prompt_tokens, 5);
    assert_eq!(completions[1].completion_tokens, 3);
    assert!(
        completions
            .iter()
            .all(|c| c.latency_ms > 0.0 && !c.truncated)
    );
    assert_eq!(host.connections(), 1, "connections are reused");
}

#[test]
fn timings_that_are_left_out_are_zero() {
    let host = OllamaStandIn::start(vec![StandInModel::new(SMALL, 1, &[""])]);
    let (provider, _) = provider(&host.url());
    let completion = one(&provider).unwrap();
    assert_eq!(
        (completion.text.as_str(), completion.completion_tokens),
        ("", 0)
    );
}

#[test]
fn stopping_at_the_limit_is_truncation() {
    let host = host();
    let (provider, _) = provider(&host.url());
    let mut asked = request(2);
    asked.sampling.max_tokens = 2;
    let completions: Result<Vec<_>> = provider.generate(SMALL, &asked).into_iter().collect();
    let completions = completions.unwrap();
    assert!(!completions[0].truncated);
    assert!(completions[1].truncated);
    assert_eq!(completions[1].text, "a second");
}

#[test]
fn thoughts_stay_in_the_raw_text() {
    let model = StandInModel {
        thinking: Some("let me see".to_owned()),
        ..StandInModel::new(SMALL, 1, &["tip"])
    };
    let host = OllamaStandIn::start(vec![model]);
    let (provider, _) = provider(&host.url());
    assert_eq!(
        one(&provider).unwrap().text,
        "<think>let me see</think>\ntip"
    );
}

#[test]
fn one_load_serves_all_cells_and_a_reload_shows() {
    let host = host();
    let (provider, _) = provider(&host.url());
    assert!(provider.load(SMALL, 2048, 1).unwrap() > 0.0);
    let resident_ms = RESIDENT_LOAD_NS as f64 / 1e6;
    for _ in 0..3 {
        assert!((one(&provider).unwrap().load_ms - resident_ms).abs() < 1e-9);
    }
    assert_eq!(host.loads(), [SMALL]);
    let mut wider = request(1);
    wider.sampling.num_ctx = 4096;
    let reloaded = provider.generate(SMALL, &wider).remove(0).unwrap();
    assert!((reloaded.load_ms - REAL_LOAD_NS as f64 / 1e6).abs() < 1e-9);
    assert_eq!(host.loads(), [SMALL, SMALL]);
}

#[test]
fn unloading_waits_until_the_model_is_gone() {
    let host = host();
    host.free_after_looks(4);
    let (provider, waits) = provider(&host.url());
    provider.load(SMALL, 2048, 1).unwrap();
    provider.unload(SMALL).unwrap();
    assert_eq!(
        host.calls_to("/api/chat")[0].body,
        json!({"model": SMALL, "messages": [], "stream": false, "keep_alive": 0})
    );
    assert_eq!(host.calls_to("/api/ps").len(), 5);
    assert_eq!(waits.lock().unwrap().len(), 4);
    assert!(host.held_now().is_empty());
    provider.load(OTHER, 2048, 1).unwrap();
    assert_eq!(host.most_held_at_once(), 1);
}

#[test]
fn a_model_that_is_never_freed_is_an_error_after_the_bound() {
    let host = host();
    host.never_free();
    let (provider, waits) = provider(&host.url());
    provider.load(SMALL, 2048, 1).unwrap();
    let error = provider.unload(SMALL).unwrap_err();
    assert!(
        matches!(&error, ProviderError::NotFreed { model, waited_s: 29..=31, .. } if model == SMALL),
        "{error:?}"
    );
    let waited: Duration = waits.lock().unwrap().iter().sum();
    assert!(waited <= Duration::from_secs(31), "{waited:?}");
}

#[test]
fn unloading_what_is_not_loaded_is_fine() {
    let host = host();
    let (provider, waits) = provider(&host.url());
    provider.unload(SMALL).unwrap();
    assert!(waits.lock().unwrap().is_empty() && host.loads().is_empty());
}

#[test]
fn another_clients_model_is_seen_and_can_be_evicted() {
    let host = host();
    host.preload("somebody:7b");
    let (provider, _) = provider(&host.url());
    let resident = provider.resident().unwrap();
    assert_eq!(resident.len(), 1);
    assert_eq!(resident[0].model, "somebody:7b");
    assert_eq!(resident[0].size_bytes, 123_456_789);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let left_ms = resident[0].expires_at_ms.unwrap() - i64::try_from(now.as_millis()).unwrap();
    assert!((200_000..=300_000).contains(&left_ms), "{left_ms}");
    provider.unload("somebody:7b").unwrap();
    assert!(provider.resident().unwrap().is_empty());
}

#[test]
fn an_orphan_goes_by_itself_when_keep_alive_ends() {
    let host = host();
    let config = OllamaConfig {
        keep_alive: Duration::from_secs(1),
        ..OllamaConfig::default()
    };
    let provider = OllamaProvider::new(&host.url(), &config).unwrap();
    provider.load(SMALL, 2048, 1).unwrap();
    drop(provider);
    assert_eq!(host.held_now(), [SMALL]);
    for _ in 0..200 {
        if host.held_now().is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("still held: {:?}", host.held_now());
}
