//! Each way in which an Ollama host is known to fail, and what becomes of it.

use std::net::TcpListener;
use std::time::Duration;

use assize_providers::ollama::{OllamaConfig, OllamaProvider};
use assize_providers::{Completion, HttpConfig, Provider, ProviderError, Result, Sleep};

use super::{SMALL, host, one, provider, request};
use assize_test_support::ollama_stand_in::Fault;

/// The outcome of one chat that meets `fault` `times` times, and how many calls it took.
fn chat_with(fault: Fault, times: usize) -> (Result<Completion>, usize) {
    let host = host();
    host.fail("/api/chat", times, fault);
    let (provider, _) = provider(&host.url());
    let outcome = one(&provider);
    (outcome, host.calls_to("/api/chat").len())
}

#[test]
fn a_missing_model_is_named_and_not_asked_for_twice() {
    let host = host();
    let (provider, _) = provider(&host.url());
    let errors = [
        provider.describe("absent:1b").unwrap_err(),
        provider.load("absent:1b", 2048, 1).unwrap_err(),
        provider
            .generate("absent:1b", &request(1))
            .remove(0)
            .unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, ProviderError::ModelNotFound { model, .. } if model == "absent:1b")
        );
        assert!(
            error.to_string().contains("ollama pull absent:1b"),
            "{error}"
        );
    }
    assert_eq!(host.calls().len(), 3);
}

#[test]
fn what_will_not_pass_by_itself_is_sent_once() {
    for status in [400, 401, 403, 499, 500] {
        let (outcome, calls) = chat_with(Fault::Status(status, "no such luck"), 9);
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, ProviderError::Refused { status: s, message, .. }
                if *s == status && message == "no such luck"),
            "{error:?}"
        );
        assert_eq!(calls, 1, "{status}");
    }
}

#[test]
fn a_full_queue_is_asked_again_and_gives_way() {
    let host = host();
    host.fail("/api/chat", 2, Fault::Status(503, "server busy"));
    let (provider, waits) = provider(&host.url());
    assert_eq!(one(&provider).unwrap().text, "first tip");
    assert_eq!(host.calls_to("/api/chat").len(), 3);
    let waits = waits.lock().unwrap();
    assert!(waits.len() == 2 && waits[1] > waits[0], "{waits:?}");
}

#[test]
fn a_queue_that_stays_full_is_given_up_after_the_retries() {
    let (outcome, calls) = chat_with(Fault::Status(503, "server busy"), 99);
    let error = outcome.unwrap_err();
    assert!(matches!(error, ProviderError::Busy { status: 503, .. }) && error.is_retryable());
    assert_eq!(calls, 4);
}

#[test]
fn an_error_line_under_success_is_an_error() {
    let (outcome, calls) = chat_with(Fault::ErrorLine("llama runner crashed"), 1);
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, ProviderError::Refused { message, .. } if message == "llama runner crashed"),
        "{error:?}"
    );
    assert_eq!(calls, 1);
}

#[test]
fn bodies_that_are_not_json_are_quoted() {
    let (outcome, calls) = chat_with(Fault::PlainText(200, "<html>Welcome</html>"), 1);
    let error = outcome.unwrap_err();
    assert!(
        matches!(error, ProviderError::Malformed { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("<html>Welcome"), "{error}");
    assert_eq!(calls, 1);
    let (outcome, _) = chat_with(Fault::PlainText(500, "boom\nat line 3"), 1);
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, ProviderError::Refused { status: 500, message, .. } if message == "boom at line 3"),
        "{error:?}"
    );
}

#[test]
fn an_answer_that_never_gets_done_is_malformed() {
    let (outcome, _) = chat_with(
        Fault::PlainText(200, r#"{"message":{"content":"half"}}"#),
        1,
    );
    assert!(
        matches!(outcome, Err(ProviderError::Malformed { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let (outcome, calls) = chat_with(Fault::CutMidBody, 1);
    assert_eq!(outcome.unwrap().text, "first tip");
    assert_eq!(calls, 2);
    let (outcome, calls) = chat_with(Fault::CutMidBody, 99);
    assert!(
        matches!(outcome, Err(ProviderError::Unreachable { .. })),
        "{outcome:?}"
    );
    assert_eq!(calls, 4);
}

#[test]
fn a_timeout_is_tried_once_more_only() {
    let host = host();
    host.fail("/api/chat", 99, Fault::Slow(Duration::from_secs(5)));
    let config = OllamaConfig {
        http: HttpConfig {
            timeout: Duration::from_millis(200),
            sleep: Sleep::new(|_| ()),
            ..HttpConfig::default()
        },
        ..OllamaConfig::default()
    };
    let provider = OllamaProvider::new(&host.url(), &config).unwrap();
    let error = one(&provider).unwrap_err();
    assert!(
        matches!(error, ProviderError::Timeout { timeout_s: 1, .. }),
        "{error:?}"
    );
    assert_eq!(host.calls_to("/api/chat").len(), 2);
}

#[test]
fn a_host_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (provider, waits) = provider(&url);
    let error = provider.version().unwrap_err();
    assert!(
        matches!(error, ProviderError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(
        error.is_host_down() && error.to_string().contains(&url),
        "{error}"
    );
    assert_eq!(waits.lock().unwrap().len(), 3);
}

#[test]
fn a_failed_candidate_does_not_stop_the_others() {
    let host = host();
    host.fail("/api/chat", 1, Fault::Status(500, "crashed on this one"));
    let (provider, _) = provider(&host.url());
    let results = provider.generate(SMALL, &request(3));
    assert!(matches!(
        results[0],
        Err(ProviderError::Refused { status: 500, .. })
    ));
    assert!(results[1].is_ok() && results[2].is_ok());
}
