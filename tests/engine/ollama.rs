//! The grid against a real Ollama, where one is on the PATH; `make test-ollama` builds one.
//!
//! The test starts a host of its own on a free port, with an empty folder of models, and makes
//! two models there from the embedded weights: no model hub is asked and no other host is
//! touched. While the binary collects, another thread watches `/api/ps`.

#![allow(clippy::print_stderr, reason = "a test that skips or fails says why")]

mod server;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use assize_test_support::limits::whole_machine;
use assize_test_support::{Scratch, write_small_task};
use server::Server;

const FIRST: &str = "assize-first";
const SECOND: &str = "assize-second:135m";
const BOTH: &str = "assize-first,assize-second:135m";

/// How the host lists them: a name without a tag is its `latest`.
const FIRST_LISTED: &str = "assize-first:latest";

#[test]
fn a_grid_on_a_real_host() {
    let Some(weights) = weights() else {
        eprintln!(
            "SKIPPED: a_grid_on_a_real_host: the weights are missing (assize models pull smollm2-135m)"
        );
        return;
    };
    let _slot = whole_machine();
    let Some(server) = Server::start() else {
        eprintln!(
            "SKIPPED: a_grid_on_a_real_host: no ollama on the PATH (make test-ollama builds one)"
        );
        return;
    };
    make_models(&server, &weights);
    collects_with_one_load_each(&server);
    recognises_its_own_orphan(&server);
    stops_for_somebody_elses_model(&server);
}

/// The embedded weights and, where it was made, their other quantisation.
fn weights() -> Option<(PathBuf, Option<PathBuf>)> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let folder = variable("ASSIZE_MODELS_DIR").or_else(|| Some(cache?.join("assize/models")))?;
    let file = |name| Some(folder.join(name)).filter(|path: &PathBuf| path.is_file());
    Some((file("smollm2-135m.gguf")?, file("smollm2-135m-q4_0.gguf")))
}

/// With both files these are two quantisations (`Q4_1` and `Q4_0`). With one file they are two
/// models to the host, with digests of their own, that share one blob of weights.
///
/// One thread: two that wait for each other are many times slower on a busy machine.
fn make_models(server: &Server, (q4_1, q4_0): &(PathBuf, Option<PathBuf>)) {
    let modelfile =
        |weights: &PathBuf| format!("FROM {}\nPARAMETER num_thread 1\n", weights.display());
    server.create(FIRST, &modelfile(q4_1));
    let second = match q4_0 {
        Some(q4_0) => modelfile(q4_0),
        None => format!("{}PARAMETER repeat_penalty 1.1\n", modelfile(q4_1)),
    };
    server.create(SECOND, &second);
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 2);
    scratch
}

fn collect<'a>(url: &'a str, models: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![
        "collect",
        "--task",
        "./task",
        "--experiment",
        "real",
        "--json",
    ];
    args.extend([
        "--n-tips",
        "2",
        "--max-tokens",
        "24",
        "--ollama-url",
        url,
        "--models",
        models,
    ]);
    args.extend(more);
    args
}

fn counts(summary: &Value) -> [u64; 4] {
    ["cells", "collected", "skipped", "failed"].map(|key| summary[key].as_u64().expect("a count"))
}

/// 2 models × 2 prompts × 2 scenarios × 2 tips, and again for nothing.
fn collects_with_one_load_each(server: &Server) {
    let scratch = scratch();
    let (outcome, seen) = server.watch(|| scratch.ok(&collect(&server.url(), BOTH, &[])));
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [8, 8, 0, 0], "{outcome}");
    assert_eq!(summary["failed_candidates"], 0, "{outcome}");
    assert_eq!(summary["model_loads"], json!({FIRST: 1, SECOND: 1}));
    assert_eq!(seen.most_at_once(), 1, "{seen:?}");
    for listed in [FIRST_LISTED, SECOND] {
        assert_eq!(seen.arrivals(listed), 1, "{seen:?}");
    }
    assert_eq!(server.resident(), Vec::<String>::new());
    let exported = scratch.ok("runs export --experiment real").json_lines();
    assert_eq!(exported.len(), 16);
    for record in exported {
        let tokens = record["candidate"]["completion_tokens"].as_u64();
        assert!(
            tokens.is_some_and(|tokens| (1..=24).contains(&tokens)),
            "{record}"
        );
        assert!(record["candidate"]["text"].is_string(), "{record}");
    }

    let (again, seen) = server.watch(|| scratch.ok(&collect(&server.url(), BOTH, &[])));
    let summary = again.summary();
    assert_eq!(counts(&summary), [8, 0, 8, 0]);
    assert_eq!(summary["model_loads"], json!({}));
    assert_eq!(seen.most_at_once(), 0, "{seen:?}");
}

/// Killed while it generates, the model stays; the next collect takes it for its own.
fn recognises_its_own_orphan(server: &Server) {
    let scratch = scratch();
    let url = server.url();
    let mut command = scratch.command(&collect(&url, FIRST, &[]));
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut first_cell = String::new();
    let output = running.stdout.take().expect("a pipe");
    BufReader::new(output)
        .read_line(&mut first_cell)
        .expect("a cell");
    running.kill().expect("it was running");
    running.wait().expect("it ended");
    assert_eq!(server.resident(), [FIRST_LISTED]);
    let (outcome, seen) = server.watch(|| scratch.ok(&collect(&url, BOTH, &[])));
    let [cells, collected, skipped, failed] = counts(&outcome.summary());
    assert_eq!((cells, collected + skipped, failed), (8, 8, 0));
    assert_eq!(seen.most_at_once(), 1, "{seen:?}");
    assert_eq!(server.resident(), Vec::<String>::new());
}

fn stops_for_somebody_elses_model(server: &Server) {
    let scratch = scratch();
    let url = server.url();
    server.load_as_another_client(SECOND);
    assert_eq!(server.resident(), [SECOND]);
    let outcome = scratch.fails(1, &collect(&url, FIRST, &[]));
    for words in [SECOND, "--evict"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert_eq!(server.resident(), [SECOND]);
    let (outcome, seen) = server.watch(|| scratch.ok(&collect(&url, FIRST, &["--evict"])));
    assert_eq!(counts(&outcome.summary()), [4, 4, 0, 0]);
    assert_eq!(seen.most_at_once(), 1, "{seen:?}");
    assert_eq!(server.resident(), Vec::<String>::new());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !is_so() {
        assert!(Instant::now() < deadline, "still waiting until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
