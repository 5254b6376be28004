//! Conversations, images, tools and the wires of Anthropic and Gemini against a real LiteLLM proxy with
//! mock answers.
//!
//! Where the proxy cannot be had, this says so.

use assize_test_support::litellm::{KEY, Proxy};
use assize_test_support::{Outcome, Scratch, cells};
use serde_json::Value;

use crate::hosted::{CALL, task};

const CONFIG: &str = r#"
model_list:
  - model_name: seer
    litellm_params:
      model: openai/gpt-4o-mini
      api_key: none
      mock_response: 'A cat.'
  - model_name: caller
    litellm_params:
      model: openai/gpt-4o-mini
      api_key: none
      mock_response: ''
      mock_tool_calls:
        - id: call-1
          type: function
          function: {name: tag, arguments: '{"animal": "cat"}'}
  - model_name: claude-x
    litellm_params:
      model: anthropic/claude-3-5-haiku-20241022
      api_key: none
      mock_response: 'A cat, says the mock.'
  - model_name: gemini-x
    litellm_params:
      model: gemini/gemini-2.0-flash
      api_key: none
      mock_response: 'A cat, says the mock.'
"#;

fn collect(scratch: &Scratch, model: &str, proxy: &str) -> Outcome {
    let line = format!(
        "collect --task task --models {model} --experiment e --n-tips 1 --json --retries 0 --base-url {proxy} \
         --assume-size openai:seer=1 --assume-size openai:caller=1"
    );
    let bare = proxy.trim_end_matches("/v1");
    let mut command = scratch.command(line.as_str());
    command
        .env("OPENAI_API_KEY", KEY)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", bare)
        .env("GEMINI_API_KEY", KEY)
        .env("GEMINI_BASE_URL", bare);
    Outcome::of(&command.output().expect("the binary runs"))
}

fn run_of(scratch: &Scratch, outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{outcome}");
    let id = cells(outcome)[0]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    scratch.ok(&format!("runs show {id} --json")).json()
}

#[test]
fn a_real_proxy_takes_conversations_images_and_tools() {
    let scratch = task();
    let proxy = match Proxy::start(&scratch, CONFIG) {
        Ok(proxy) => proxy,
        Err(reason) => {
            eprintln!("SKIPPED: no LiteLLM proxy: {reason}");
            return;
        }
    };
    let seen = run_of(&scratch, &collect(&scratch, "openai:seer", &proxy.url));
    assert_eq!(seen["candidates"][0]["text"], "A cat.", "{seen:#}");
    assert!(
        seen["candidates"][0]["prompt_tokens"]
            .as_u64()
            .is_some_and(|it| it > 0)
    );
    let called = run_of(&scratch, &collect(&scratch, "openai:caller", &proxy.url));
    assert_eq!(called["candidates"][0]["text"], CALL, "{called:#}");
    let claude = run_of(
        &scratch,
        &collect(&scratch, "anthropic:claude-x", &proxy.url),
    );
    assert_eq!(
        claude["candidates"][0]["text"], "A cat, says the mock.",
        "{claude:#}"
    );
    let gemini = run_of(&scratch, &collect(&scratch, "gemini:gemini-x", &proxy.url));
    assert_eq!(
        gemini["candidates"][0]["text"], "A cat, says the mock.",
        "{gemini:#}"
    );
}
