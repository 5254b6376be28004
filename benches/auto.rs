//! Measures the throughput of `judge auto` from outside: does it keep its requests in flight?
//!
//! | figure | target | baseline in the same run |
//! |---|---|---|
//! | verdicts/s with `-j 32` and 50 ms a request, from the first request to the last | ≥ 90 % of 640 | 32 threads that send the same requests and do nothing else |
//!
//! Run with `cargo bench --no-default-features --bench auto`, or with all others by `make bench`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use assize_test_support::openai_stand_in::{Manner, OpenAiStandIn};
use serde_json::{Value, json};

const JOBS: usize = 32;
const DELAY: Duration = Duration::from_millis(50);
const CASES: usize = 6_400;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_task(here, CASES / 5);
    run(
        here,
        "collect --task task --models scripted:m --script script.json --experiment e --n-tips 5 -j 2",
    );
    let gateway = OpenAiStandIn::start(Manner {
        verdict: json!({"reason": "It names the task and the hour.", "worth": 2}).to_string(),
        delay: DELAY,
        cost_usd: Some(0.0001),
    });
    let url = &gateway.url;
    let summary = run(
        here,
        &format!(
            "judge auto --experiment e --json -j {JOBS} --judge openai:judge --base-url {url}"
        ),
    );
    let verdicts = summary["verdicts"].as_f64().unwrap();
    let rate = verdicts / summary["seconds"].as_f64().unwrap();
    let ideal = JOBS as f64 / DELAY.as_secs_f64();
    let most = gateway.seen.lock().unwrap().most_in_flight;
    let base = baseline(url);
    println!(
        "judge auto: {verdicts:.0} verdicts at {rate:.0}/s with -j {JOBS} and {} ms a request, {:.1} % of {ideal:.0}/s \
         (target ≥ 90 %), {most} in flight; threads that only send reach {base:.0}/s, ratio {:.2}",
        DELAY.as_millis(),
        100.0 * rate / ideal,
        rate / base,
    );
}

/// The same number of threads, sending the same number of requests without reading anything.
fn baseline(url: &str) -> f64 {
    use std::io::{Read as _, Write as _};
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let each = CASES / JOBS / 4;
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let request = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
                let mut answer = [0; 4096];
                for _ in 0..each {
                    stream.write_all(request).unwrap();
                    assert!(stream.read(&mut answer).unwrap() > 0);
                }
            });
        }
    });
    (each * JOBS) as f64 / started.elapsed().as_secs_f64()
}

fn run(here: &Path, line: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_assize"))
        .args(line.split_whitespace())
        .current_dir(here)
        .env("ASSIZE_CACHE_DIR", here.join("cache"))
        .env_remove("MLFLOW_TRACKING_URI")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "assize {line}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap_or("null")).unwrap_or(Value::Null)
}

fn write_task(here: &Path, scenarios: usize) {
    let write = |name: &str, text: &str| {
        let path = here.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "task/task.toml",
        "name = \"bench\"\nscenarios = \"scenarios.jsonl\"\n[[checks]]\nflag = \"ok\"\nmax_words = 40\n",
    );
    write(
        "task/rubric.md",
        &format!(
            "+++\nid = \"bench-v1\"\ncomposite = \"worth + ok\"\n[[criteria]]\nname = \"worth\"\nmin = 1\nmax = 3\n\
             [criteria.anchors]\n1 = \"no\"\n2 = \"so so\"\n3 = \"yes\"\n[[flags]]\nname = \"ok\"\n+++\n{}\n",
            "A level of the scale, explained with an example as a real rubric does. ".repeat(60),
        ),
    );
    write("task/prompts/p1.md", "{{ topic }}\n");
    let lines: Vec<String> = (0..scenarios)
        .map(|n| json!({"id": format!("s{n}"), "topic": format!("topic {n}")}).to_string())
        .collect();
    write("task/scenarios.jsonl", &lines.join("\n"));
    let texts: Vec<String> = (0..5)
        .map(|n| format!("Call the ward before seven to swap shift {n}."))
        .collect();
    let responses = json!([{"prompt": "*", "scenario": "*", "texts": texts}]);
    let models = json!({"m": {"parameter_count": 1_000_000, "responses": responses}});
    write("script.json", &json!({ "models": models }).to_string());
}
