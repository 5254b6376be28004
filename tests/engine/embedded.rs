//! The embedded engine through the real binary, with a real model.
//!
//! Needs the weights (`make weights`); without them it says so and tests nothing.

#![allow(clippy::print_stderr, reason = "a test that skips or fails says why")]

use std::path::PathBuf;
use std::process::Command;

use assize_test_support::limits::heavyweight;
use assize_test_support::{Outcome, Scratch};

/// Where the weights are, or `None` with a loud word.
fn models_dir() -> Option<PathBuf> {
    let named = std::env::var_os("ASSIZE_MODELS_DIR").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let folder = named.or_else(|| cache.map(|cache| cache.join("assize/models")))?;
    if folder.join("smollm2-135m.gguf").exists() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: the embedded model is not in {} (make weights fetches it)",
        folder.display()
    );
    None
}

fn run(scratch: &Scratch, models: &PathBuf, args: &[&str]) -> Outcome {
    let mut command: Command = scratch.command(args);
    Outcome::of(
        &command
            .env("ASSIZE_MODELS_DIR", models)
            .output()
            .expect("the binary runs"),
    )
}

#[test]
fn the_demo_does_the_whole_job_and_a_second_one_skips() {
    let Some(models) = models_dir() else { return };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let demo = run(&scratch, &models, &["demo", "--n-tips", "1"]);
    assert_eq!(demo.code, 0, "{demo}");
    assert!(
        demo.stderr.contains("24 cells collected, 0 there already"),
        "{demo}"
    );
    assert!(demo.stderr.contains("24 runs judged now"), "{demo}");
    assert!(demo.stdout.contains("embedded:smollm2-135m × v1"), "{demo}");
    assert!(demo.stderr.contains("its scores are noise"), "{demo}");
    let again = run(&scratch, &models, &["demo", "--n-tips", "1"]);
    assert_eq!(again.code, 0, "{again}");
    assert!(
        again.stderr.contains("0 cells collected, 24 there already"),
        "{again}"
    );
}

#[test]
fn the_same_seed_gives_the_same_candidates_in_another_experiment() {
    let Some(models) = models_dir() else { return };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let collect = |experiment: &str, more: &[&str]| {
        let base = [
            "collect",
            "--models",
            "embedded:smollm2-135m",
            "--prompts",
            "v1",
            "--max-tokens",
            "24",
            "--experiment",
            experiment,
        ];
        let outcome = run(&scratch, &models, &[&base[..], more].concat());
        assert_eq!(outcome.code, 0, "{outcome}");
        let lines = run(
            &scratch,
            &models,
            &["runs", "export", "--experiment", experiment],
        )
        .json_lines();
        let mut texts: Vec<String> = lines
            .iter()
            .map(|it| format!("{} {}", it["params"]["scenario"], it["candidate"]["text"]))
            .collect();
        texts.sort();
        texts
    };
    let one = collect("one", &["--n-tips", "2", "--n-scenarios", "2"]);
    // The same cells, reached through another grid and so another cached prefix.
    let other = collect("other", &["--n-tips", "2", "--n-scenarios", "3"]);
    assert_eq!(one.len(), 4);
    assert!(
        one.iter().all(|text| other.contains(text)),
        "{one:#?}\n{other:#?}"
    );
}

#[test]
fn a_missing_model_names_the_remedy_and_a_corrupt_one_does_not_crash() {
    let Some(_) = models_dir() else { return };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    scratch.write("models/broken.gguf", "GGUF but not really");
    let models = scratch.file("models");
    let missing = run(
        &scratch,
        &models,
        &["collect", "--models", "embedded:smollm2-135m"],
    );
    assert!(
        missing.code == 1 && missing.stderr.contains("assize models pull smollm2-135m"),
        "{missing}"
    );
    let broken = run(
        &scratch,
        &models,
        &["collect", "--models", "embedded:broken"],
    );
    assert!(
        broken.code == 1 && broken.stderr.contains("broken"),
        "{broken}"
    );
}
