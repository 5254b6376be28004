//! The OpenAI-compatible provider against a stand-in that records and answers from a list,
//! with headers and bodies as LiteLLM's proxy and llama.cpp's server send them.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use assize_providers::openai::OpenAiProvider;
use assize_providers::{
    Candidate, Completion, Message, Provider, ProviderError, Request, Result, Role, Sampling,
};
use serde_json::{Value, json};

use recorder::{Answer, Recorder};

#[path = "openai/recorder.rs"]
mod recorder;

/// The raw text of an answer with thoughts beside it.
const THOUGHT_AND_TIP: &str = "<think>thinking aloud</think>\na tip";
const MODEL: &str = "gpt-x";

fn json_answer(status: u16, body: &Value) -> Answer {
    (
        status,
        vec![("content-type", "application/json")],
        body.to_string(),
    )
}

fn completion(content: &Value, finish_reason: &str) -> Value {
    json!({"id": "c1", "object": "chat.completion", "model": MODEL,
           "choices": [{"index": 0, "finish_reason": finish_reason,
                        "message": {"role": "assistant", "content": content,
                                    "reasoning_content": "thinking aloud"}}],
           "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
}

fn fine() -> Answer {
    json_answer(200, &completion(&json!("a tip"), "stop"))
}

/// LiteLLM's error shape.
fn refusal(status: u16, message: &str) -> Answer {
    json_answer(
        status,
        &json!({"error": {"message": message, "type": "None", "param": "None",
                          "code": status.to_string()}}),
    )
}

fn request(candidates: u32) -> Request {
    let candidate = |seed| Candidate {
        messages: vec![Message {
            role: Role::User,
            content: "A tip, please.".to_owned(),
        }],
        seed,
    };
    Request {
        prompt: "v1".to_owned(),
        scenario: "s".to_owned(),
        candidates: (0..candidates).map(candidate).collect(),
        sampling: Sampling {
            temperature: 0.5,
            max_tokens: 64,
            num_ctx: 2048,
            json_schema: None,
            ..Sampling::default()
        },
        ..Request::default()
    }
}

fn one(provider: &OpenAiProvider) -> Result<Completion> {
    provider.generate(MODEL, &request(1)).remove(0)
}

#[test]
fn a_completion_carries_text_usage_and_cost() {
    let (status, mut headers, body) = fine();
    headers.push(("x-litellm-response-cost", "0.00025"));
    let recorder = Recorder::start(vec![(status, headers, body)]);
    let (provider, _) = recorder.provider(Some("sk-test\n"));
    let completion = one(&provider).unwrap();
    assert_eq!(completion.text, THOUGHT_AND_TIP);
    assert_eq!(
        (completion.prompt_tokens, completion.completion_tokens),
        (11, 7)
    );
    assert_eq!(completion.cost_usd, Some(0.00025));
    assert!(!completion.truncated && completion.latency_ms > 0.0);
    let calls = recorder.calls.lock().unwrap();
    assert_eq!(calls[0].line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(calls[0].authorization.as_deref(), Some("Bearer sk-test"));
    assert_eq!(
        calls[0].body,
        json!({"model": MODEL, "messages": [{"role": "user", "content": "A tip, please."}],
               "stream": false, "temperature": 0.5, "max_tokens": 64, "seed": 0})
    );
}

#[test]
fn without_a_key_no_header_is_sent_and_without_a_cost_none_is_made_up() {
    let recorder = Recorder::start(vec![fine()]);
    let (provider, _) = recorder.provider(None);
    assert_eq!(one(&provider).unwrap().cost_usd, None);
    assert_eq!(recorder.calls.lock().unwrap()[0].authorization, None);
}

#[test]
fn a_schema_is_asked_for_strictly_and_each_candidate_has_its_seed() {
    let recorder = Recorder::start(vec![fine()]);
    let (provider, _) = recorder.provider(None);
    let mut asked = request(2);
    asked.sampling.json_schema = Some(json!({"type": "object"}));
    assert_eq!(provider.generate(MODEL, &asked).len(), 2);
    let calls = recorder.calls.lock().unwrap();
    assert_eq!(
        calls[1].body["response_format"],
        json!({"type": "json_schema",
               "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"}}})
    );
    assert_eq!(
        (&calls[0].body["seed"], &calls[1].body["seed"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn no_content_is_an_empty_text_and_length_is_truncation() {
    let without_content = json!({"choices": [{"message": {"role": "assistant"}}]});
    let recorder = Recorder::start(vec![
        json_answer(200, &completion(&Value::Null, "length")),
        json_answer(200, &without_content),
    ]);
    let (provider, _) = recorder.provider(None);
    let first = one(&provider).unwrap();
    let only_thoughts = "<think>thinking aloud</think>\n";
    assert_eq!(
        (first.text.as_str(), first.truncated),
        (only_thoughts, true)
    );
    let second = one(&provider).unwrap();
    assert_eq!(
        (second.text.as_str(), second.prompt_tokens, second.truncated),
        ("", 0, false)
    );
}

#[test]
fn a_rate_limit_is_waited_out_as_the_upstream_asks() {
    let (status, mut headers, body) = refusal(429, "slow down");
    headers.push(("llm_provider-retry-after", "9"));
    let recorder = Recorder::start(vec![(status, headers, body), fine()]);
    let (provider, waits) = recorder.provider(None);
    assert_eq!(one(&provider).unwrap().text, THOUGHT_AND_TIP);
    assert_eq!(*waits.lock().unwrap(), [Duration::from_secs(9)]);
}

#[test]
fn a_rate_limit_longer_than_our_patience_is_reported_at_once() {
    let (status, mut headers, body) = refusal(429, "come back tomorrow");
    headers.push(("retry-after", "86400"));
    let recorder = Recorder::start(vec![(status, headers, body)]);
    let (provider, waits) = recorder.provider(None);
    let error = one(&provider).unwrap_err();
    assert!(
        matches!(
            error,
            ProviderError::Busy {
                status: 429,
                retry_after_ms: Some(86_400_000),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(waits.lock().unwrap().is_empty());
}

#[test]
fn an_upstreams_timeout_is_tried_once_more() {
    let recorder = Recorder::start(vec![refusal(408, "upstream timed out")]);
    let (provider, _) = recorder.provider(None);
    let error = one(&provider).unwrap_err();
    assert!(
        matches!(error, ProviderError::Busy { status: 408, .. }),
        "{error:?}"
    );
    assert_eq!(recorder.count(), 2);
}

#[test]
fn gateways_without_their_backend_are_asked_again() {
    for status in [502, 503, 504] {
        let recorder = Recorder::start(vec![(status, vec![], String::new()), fine()]);
        let (provider, _) = recorder.provider(None);
        assert_eq!(one(&provider).unwrap().text, THOUGHT_AND_TIP, "{status}");
        assert_eq!(recorder.count(), 2);
    }
}

#[test]
fn keys_and_bad_requests_are_refused_once_with_the_servers_words() {
    let plain_500 = (
        500,
        vec![("content-type", "text/plain")],
        "Internal Server Error".to_owned(),
    );
    let redirect = (
        301,
        vec![("location", "https://elsewhere.test/v1")],
        String::new(),
    );
    for (answer, status, words) in [
        (refusal(400, "Invalid proxy key"), 400, "Invalid proxy key"),
        (
            refusal(401, "no such key"),
            401,
            "no such key (check the API key)",
        ),
        (
            refusal(403, "not yours"),
            403,
            "not yours (check the API key)",
        ),
        (plain_500, 500, "Internal Server Error"),
        ((418, vec![], String::new()), 418, "I'm a teapot"),
        (
            redirect,
            301,
            "it redirects to https://elsewhere.test/v1, use that address",
        ),
    ] {
        let recorder = Recorder::start(vec![answer]);
        let (provider, _) = recorder.provider(Some("sk-wrong"));
        let error = one(&provider).unwrap_err();
        assert!(
            matches!(&error, ProviderError::Refused { status: s, message, .. }
                if *s == status && message == words),
            "{error:?}"
        );
        assert!(!format!("{error:?} {provider:?}").contains("sk-wrong"));
        assert_eq!(recorder.count(), 1);
    }
}

#[test]
fn a_404_means_the_model() {
    let recorder = Recorder::start(vec![refusal(404, "no gpt-x here")]);
    let (provider, _) = recorder.provider(None);
    let error = one(&provider).unwrap_err();
    assert!(matches!(&error, ProviderError::ModelNotFound { model, .. } if model == MODEL));
    assert!(error.to_string().contains("no gpt-x here"), "{error}");
    assert_eq!(recorder.count(), 1);
}

#[test]
fn answers_that_are_not_completions_are_malformed() {
    for body in ["<html>", "{\"choices\":[]}", "{\"id\":1}", ""] {
        let recorder = Recorder::start(vec![(200, vec![], body.to_owned())]);
        let (provider, _) = recorder.provider(None);
        let error = one(&provider).unwrap_err();
        assert!(
            matches!(error, ProviderError::Malformed { .. }),
            "{body}: {error:?}"
        );
        assert_eq!(recorder.count(), 1);
    }
}

fn listing(created: u64, n_params: Option<u64>) -> Answer {
    let mut model =
        json!({"id": MODEL, "object": "model", "created": created, "owned_by": "llamacpp"});
    if let Some(count) = n_params {
        model["meta"] = json!({"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192,
                               "n_embd": 576, "n_params": count, "size": 96_588_288});
    }
    json_answer(
        200,
        &json!({"object": "list", "data": [{"id": "other"}, model]}),
    )
}

#[test]
fn a_server_that_reports_its_weights_is_believed() {
    let recorder = Recorder::start(vec![listing(1, Some(134_515_008))]);
    let (provider, _) = recorder.provider(None);
    let info = provider.describe(MODEL).unwrap();
    assert_eq!(info.parameter_count, Some(134_515_008));
    assert_eq!(
        (info.context_length, info.size_bytes),
        (Some(8192), Some(96_588_288))
    );
    assert!(info.provenance.contains("llamacpp"), "{}", info.provenance);
    assert_eq!(provider.list().unwrap(), ["other", MODEL]);
    assert_eq!(
        recorder.calls.lock().unwrap()[0].line,
        "GET /v1/models HTTP/1.1"
    );
}

#[test]
fn the_digest_survives_restarts_and_follows_the_weights() {
    let digest = |answer: Answer| {
        let recorder = Recorder::start(vec![answer]);
        let (provider, _) = recorder.provider(None);
        provider.describe(MODEL).unwrap().digest
    };
    let first = digest(listing(1, Some(134_515_008)));
    assert_eq!(first, digest(listing(2, Some(134_515_008))));
    assert_ne!(first, digest(listing(1, Some(361_821_120))));
    assert_ne!(first, digest(listing(1, None)));
}

#[test]
fn models_are_looked_up_and_servers_without_a_list_believed() {
    let recorder = Recorder::start(vec![listing(1, None)]);
    let (provider, _) = recorder.provider(None);
    assert_eq!(provider.describe(MODEL).unwrap().parameter_count, None);
    let error = provider.describe("absent").unwrap_err();
    assert!(
        matches!(error, ProviderError::ModelNotFound { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("other, gpt-x"), "{error}");

    for status in [404, 405, 500, 501, 503] {
        let listless = Recorder::start(vec![(status, vec![], "<p>no such page</p>".to_owned())]);
        let (provider, _) = listless.provider(None);
        assert_eq!(provider.describe(MODEL).unwrap().parameter_count, None);
    }
}

#[test]
fn nothing_is_loaded_or_held_here() {
    let recorder = Recorder::start(vec![fine()]);
    let (provider, _) = recorder.provider(None);
    assert_eq!(provider.host(), None);
    assert_eq!(provider.resident().unwrap(), []);
    assert!(provider.load(MODEL, 2048, 5).unwrap().abs() < f64::EPSILON);
    provider.unload(MODEL).unwrap();
    assert_eq!(recorder.count(), 0);
}
