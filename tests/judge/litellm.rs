//! An automatic judge behind a real LiteLLM proxy with a mock upstream.
//!
//! `scripts/litellm.sh` finds or installs the proxy; where it cannot be had, this says so.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assize_test_support::limits::{Slot, free_port, heavyweight};
use assize_test_support::{Scratch, script, write_small_task};
use serde_json::json;

const KEY: &str = "sk-ci-1234";
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

/// A proxy of our own, which ends with the test.
struct Proxy {
    child: Child,
    url: String,
    _slot: Slot,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// `Err` says why there is none.
    fn start(scratch: &Scratch) -> Result<Self, String> {
        let script = assize_test_support::root().join("scripts/litellm.sh");
        let found = Command::new(script)
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        if !found.status.success() {
            return Err(said);
        }
        let slot = heavyweight();
        scratch.write("litellm.yaml", CONFIG);
        let port = free_port();
        let log = std::fs::File::create(scratch.file("litellm.log")).expect("a log");
        let child = Command::new(said)
            .args(["--config", "litellm.yaml", "--host", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .current_dir(scratch.path())
            .env("LITELLM_MASTER_KEY", KEY)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut proxy = Self {
            child,
            url: format!("http://127.0.0.1:{port}/v1"),
            _slot: slot,
        };
        let deadline = Instant::now() + Duration::from_mins(3);
        while !is_live(port) {
            let ended = proxy.child.try_wait().ok().flatten().is_some();
            if ended || Instant::now() > deadline {
                return Err(format!(
                    "it does not start:\n{}",
                    scratch.read("litellm.log")
                ));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(proxy)
    }
}

fn is_live(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /health/liveliness HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(" 200 "))
    };
    ask().unwrap_or(false)
}

#[test]
fn a_real_proxy_judges_reports_costs_and_fails_understandably() {
    let scratch = Scratch::new();
    let proxy = match Proxy::start(&scratch) {
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
    let run = |line: &str, key: Option<&str>| {
        let mut command = scratch.command(line);
        if let Some(key) = key {
            command.env("OPENAI_API_KEY", key);
        }
        assize_test_support::Outcome::of(&command.output().expect("the binary runs"))
    };

    let keyless = run(&auto("judge", ""), None);
    assert_eq!(keyless.code, 1, "{keyless}");
    assert!(keyless.stderr.contains("check the API key"), "{keyless}");

    let unknown = run(&auto("nobody", ""), Some(KEY));
    assert_eq!(unknown.code, 1, "{unknown}");
    assert!(
        unknown.stderr.contains("it lists judge, chatty, limited"),
        "{unknown}"
    );

    let limited = run(&auto("limited", "--retries 1"), Some(KEY));
    assert_eq!(limited.code, 4, "{limited}");
    assert!(limited.stderr.contains("HTTP 429"), "{limited}");

    let chatty = run(&auto("chatty", ""), Some(KEY));
    assert_eq!(chatty.code, 4, "{chatty}");
    assert_eq!(chatty.json()["asked_again"], 8);
    assert!(chatty.stderr.contains("not a JSON object"), "{chatty}");

    let judged = run(&auto("judge", "-j 4 --max-cost 1"), Some(KEY));
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
