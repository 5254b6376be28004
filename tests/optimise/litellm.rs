//! A whole loop whose reflector is a model behind a real LiteLLM proxy with a mock upstream.

use assize_test_support::Outcome;
use assize_test_support::litellm::{KEY, Proxy, run};
use serde_json::json;

use crate::fixture::{START, STEP, child_of, judge, scratch, step, with};

/// A proxy that answers every request with this text.
fn config(answer: &str) -> String {
    let answer = answer.replace('\'', "''");
    format!(
        "model_list:\n  - model_name: writer\n    litellm_params:\n      model: openai/gpt-4o-mini\n      \
         api_key: none\n      mock_response: '{answer}'\n"
    )
}

#[test]
fn a_model_behind_litellm_reflects_and_its_costs_count() {
    let scratch = scratch(&json!([]));
    let answer = json!({"children": [
        {"hypothesis": "Judges ask for brevity.", "kind": "edit", "system": null,
         "template": with(&["be brief", "be kind"])},
        {"hypothesis": "Other words.", "kind": "restart", "system": null, "template": with(&["think"])},
    ]});
    let proxy = match Proxy::start(&scratch, &config(&answer.to_string())) {
        Ok(proxy) => proxy,
        Err(reason) => {
            eprintln!("SKIPPED: no LiteLLM proxy: {reason}");
            return;
        }
    };
    let start = START
        .replace("script:children.json", "openai:writer")
        .replace("--rounds 2", "--rounds 1");
    let start = format!("{start} --base-url {}", proxy.url);
    let started = run(&scratch, &start, Some(KEY));
    assert_eq!(started.code, 0, "{started}");
    let keyless = run(&scratch, STEP, None);
    assert_ne!(keyless.code, 0, "{keyless}");
    let said = |outcome: &Outcome, words: &str| outcome.stderr.contains(words);
    assert!(said(&keyless, "check the API key"), "{keyless}");

    // The packet stays open, and the next step asks again.
    let stepped = run(&scratch, STEP, Some(KEY));
    assert_eq!(stepped.code, 0, "{stepped}");
    let found = stepped.json();
    assert_eq!(found["waiting_for"], "judge", "{found:#}");
    assert_eq!(found["nominee"], "r1c1");
    assert_eq!(
        child_of(&found, "r1c1")["hypothesis"],
        "Judges ask for brevity."
    );
    assert!(
        found["budget"]["cost_usd"].as_f64() > Some(0.0),
        "{found:#}"
    );
    drop(proxy);
    judge(&scratch, "selection.json");
    assert_eq!(step(&scratch)["waiting_for"], "confirmation");
    judge(&scratch, "confirmation.json");
    assert_eq!(step(&scratch)["state"], "promoted");
}
