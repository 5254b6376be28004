//! The engine's effects on its process: it frees memory on unload and prints nothing.
//!
//! These tests are a binary of their own, because they measure the whole process.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::PathBuf;
use std::process::Command;

use assize_llama::{EmbeddedConfig, EmbeddedProvider, default_models_dir};
use assize_providers::{Candidate, Message, Provider, Request, Role, Sampling};

const MODEL: &str = "smollm2-135m";
const MB: u64 = 1024 * 1024;

fn provider() -> Option<EmbeddedProvider> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let directory = variable("ASSIZE_MODELS_DIR").or_else(|| {
        default_models_dir(
            variable("XDG_CACHE_HOME").as_deref(),
            variable("HOME").as_deref(),
        )
    })?;
    let provider = EmbeddedProvider::new(EmbeddedConfig::new(&directory));
    if provider.list().unwrap().iter().any(|name| name == MODEL) {
        return Some(provider);
    }
    eprintln!(
        "SKIPPED: no {MODEL}.gguf in {}: run `assize models pull {MODEL}`",
        directory.display()
    );
    None
}

fn generate(provider: &EmbeddedProvider) -> String {
    let request = Request {
        prompt: "v1".to_owned(),
        scenario: "s1".to_owned(),
        candidates: vec![Candidate {
            messages: vec![Message {
                role: Role::User,
                content: "Name three colours.".to_owned(),
            }],
            seed: 1,
        }],
        sampling: Sampling {
            temperature: 0.5,
            max_tokens: 16,
            num_ctx: 2048,
            json_schema: None,
            ..Sampling::default()
        },
        ..Request::default()
    };
    let mut outcomes = provider.generate(MODEL, &request);
    outcomes.remove(0).unwrap().text
}

/// The resident memory of this process, where the platform says.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[test]
#[ignore = "a child: `cargo test -p assize-llama --test process` starts it by the tests below"]
fn child_loads_and_unloads() {
    let Some(provider) = provider() else { return };
    // The first round leaves behind what is allocated once for the process.
    for _ in 0..2 {
        let before = resident_bytes();
        provider.load(MODEL, 2048, 5).unwrap();
        assert!(!generate(&provider).is_empty());
        let during = resident_bytes();
        provider.unload(MODEL).unwrap();
        assert_eq!(provider.resident().unwrap(), []);
        if let (Some(before), Some(during), Some(after)) = (before, during, resident_bytes()) {
            assert!(
                during > before + 90 * MB,
                "{before} {during}: weights not seen"
            );
            assert!(
                after < before + 45 * MB,
                "{before} {during} {after}: not freed"
            );
        }
    }
}

fn run_child() -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_loads_and_unloads"])
        .args(["--nocapture", "--quiet"])
        .output()
        .unwrap()
}

#[test]
fn unloading_frees_the_weights_and_llama_cpp_says_nothing() {
    if provider().is_none() {
        return;
    }
    let child = run_child();
    let (out, err) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(child.status.success(), "{out}{err}");
    assert_eq!(err, "", "something was written to stderr");
    for word in ["llama", "ggml", "load"] {
        assert!(
            !out.contains(word),
            "something was written to stdout: {out}"
        );
    }
}
