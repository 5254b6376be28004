//! Endpoints of `openai:` models: credentials that are refused, sizes that are unknown.

use std::time::Duration;

use assize_test_support::openai_stand_in::{Fault, Manner, OpenAiStandIn};
use assize_test_support::{Outcome, Scratch, write_small_task};

fn stand_in() -> OpenAiStandIn {
    OpenAiStandIn::start(Manner {
        verdict: "Walk.".to_owned(),
        delay: Duration::ZERO,
        cost_usd: None,
    })
}

fn collect(scratch: &Scratch, url: &str, more: &str) -> Outcome {
    scratch.run(&format!(
        "collect --task task --experiment e --models openai:judge --n-tips 1 --json --retries 0 \
         --base-url {url} {more}"
    ))
}

#[test]
fn refused_credentials_stop_the_collection_after_a_few_cells() {
    for status in [401, 403] {
        let (endpoint, scratch) = (stand_in(), Scratch::new());
        write_small_task(&scratch, 20);
        let refusal = Fault::Status(
            status,
            "",
            r#"{"error":{"message":"no such key"}}"#.to_owned(),
        );
        endpoint.fail_with(vec![refusal; 200]);
        let outcome = collect(&scratch, &endpoint.url, "--assume-size openai:judge=1");
        assert_eq!(outcome.code, 1, "{outcome}");
        for words in [
            "OPENAI_API_KEY",
            "credentials",
            &status.to_string(),
            "no such key",
        ] {
            assert!(outcome.stderr.contains(words), "{words}: {outcome}");
        }
        let asked = endpoint.asked().len();
        assert!((3..=5).contains(&asked), "{asked} of 40 cells were tried");
        assert_eq!(outcome.summary()["failed"], asked, "{outcome}");
    }
}

#[test]
fn single_refusals_between_answers_stop_nothing() {
    let (endpoint, scratch) = (stand_in(), Scratch::new());
    write_small_task(&scratch, 4);
    let refusal = Fault::Status(403, "", "moderated".to_owned());
    let answer = Fault::Says("Walk.".to_owned());
    let faults = (0..8).map(|n| {
        if n % 2 == 0 {
            refusal.clone()
        } else {
            answer.clone()
        }
    });
    endpoint.fail_with(faults);
    let outcome = collect(&scratch, &endpoint.url, "--assume-size openai:judge=1");
    assert_eq!(outcome.code, 4, "{outcome}");
    assert_eq!(outcome.summary()["failed"], 4, "{outcome}");
    assert_eq!(outcome.summary()["collected"], 4, "{outcome}");
}

/// A server on this machine holds its weights in this machine's memory.
#[test]
fn a_model_of_unknown_size_on_this_machine_is_asked_for_its_size() {
    let (endpoint, scratch) = (stand_in(), Scratch::new());
    write_small_task(&scratch, 1);
    let outcome = collect(&scratch, &endpoint.url, "");
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(
        outcome.stderr.contains("--assume-size openai:judge=B"),
        "{outcome}"
    );
}
