//! An automatic judge behind a real LiteLLM proxy with a mock upstream.
//!
//! Where the proxy cannot be had, this says so.

use assize_test_support::litellm::{KEY, Proxy, run};
use assize_test_support::{Scratch, script, write_small_task};
use serde_json::json;

const CONFIG: &str = r#"
model_list:
  - model_name: judge
    litellm_params:
      model: openai/gpt-4o-mini
      api_key: none
      mock_response: '{"reason": "plain", "worth": 2}'
  - model_name: chatty
    litellm_params:
      model: openai/gpt-4o-mini
      api_key: none
      mock_response: 'I would give it a two.'
  - model_name: limited
    litellm_params:
      model: openai/gpt-4o-mini
      api_key: none
      mock_response: 'litellm.RateLimitError'
"#;

#[test]
fn a_real_proxy_judges_reports_costs_and_fails_understandably() {
    let scratch = Scratch::new();
    let proxy = match Proxy::start(&scratch, CONFIG) {
        Ok(proxy) => proxy,
        Err(reason) => {
            eprintln!("SKIPPED: no LiteLLM proxy: {reason}");
            return;
        }
    };
    write_small_task(&scratch, 2);
    scratch.write("script.json", &script(&[("a", &["A tip.", "Another."])]));
    scratch.ok(
        "collect --task task --models scripted:a --script script.json --experiment e --n-tips 2",
    );
    let url = &proxy.url;
    let auto = |judge: &str, more: &str| {
        format!("judge auto --experiment e --json --judge openai:{judge} --base-url {url} {more}")
    };
    let keyless = run(&scratch, &auto("judge", ""), None);
    assert_eq!(keyless.code, 1, "{keyless}");
    assert!(keyless.stderr.contains("check the API key"), "{keyless}");

    let unknown = run(&scratch, &auto("nobody", ""), Some(KEY));
    assert_eq!(unknown.code, 1, "{unknown}");
    assert!(
        unknown.stderr.contains("it lists judge, chatty, limited"),
        "{unknown}"
    );

    let limited = run(&scratch, &auto("limited", "--retries 1"), Some(KEY));
    assert_eq!(limited.code, 4, "{limited}");
    assert!(limited.stderr.contains("HTTP 429"), "{limited}");

    let chatty = run(&scratch, &auto("chatty", ""), Some(KEY));
    assert_eq!(chatty.code, 4, "{chatty}");
    assert_eq!(chatty.json()["asked_again"], 8);
    assert!(chatty.stderr.contains("not a JSON object"), "{chatty}");

    let judged = run(&scratch, &auto("judge", "-j 4 --max-cost 1"), Some(KEY));
    assert_eq!(judged.code, 0, "{judged}");
    let summary = judged.json();
    assert_eq!(
        (&summary["judged"], &summary["verdicts"]),
        (&json!(4), &json!(8))
    );
    assert!(
        summary["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0),
        "{summary}"
    );
    assert!(
        summary["prompt_tokens"]
            .as_u64()
            .is_some_and(|tokens| tokens > 0),
        "{summary}"
    );
}
