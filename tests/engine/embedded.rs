//! The embedded engine through the real binary, with a real model.
//!
//! Needs the weights (`make weights`); without them it says so and tests nothing.

#![allow(clippy::print_stderr, reason = "a test that skips or fails says why")]

use std::path::PathBuf;
use std::process::Command;

use assize_test_support::limits::heavyweight;
use assize_test_support::{Outcome, Scratch, write_small_task};
use serde_json::json;

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

/// A small loop whose outputs the embedded model writes; the judge and the reflector are scripted.
fn loop_with_the_embedded_model(models: &PathBuf) -> String {
    let scratch = Scratch::new();
    write_small_task(&scratch, 0);
    let splits = [("feedback", 2), ("selection", 5), ("confirmation", 5)];
    let lines = splits.iter().flat_map(|(split, count)| {
        (0..*count).map(move |n| {
            let id = format!("{split}-{n}");
            json!({"id": id, "split": split, "topic": format!("Matter {id}")}).to_string()
        })
    });
    scratch.write(
        "task/scenarios.jsonl",
        &lines.collect::<Vec<_>>().join("\n"),
    );
    scratch.write("assize.toml", "[gate]\nrequire = [\"expert\"]\n");
    let judge = json!({"noise": 1.0, "seed": 3});
    let script =
        json!({"models": {"j": {"parameter_count": 1, "judge": judge, "scores": {"*": 2}}}});
    scratch.write("script.json", &script.to_string());
    let child = json!({"hypothesis": "a question helps", "prompt": "What would help with {{ topic }}? Answer."});
    scratch.write("children.json", &json!({"rounds": [[child]]}).to_string());
    let words = "optimise start --experiment e --task task --models embedded:smollm2-135m --judge scripted:j \
                 --script script.json --reflector script:children.json --rounds 1 --children 1 --n-tips 1 \
                 --max-tokens 8 --seed 7";
    let step = "optimise step --experiment e --json";
    for line in [words, step] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = run(&scratch, models, &words);
        assert_eq!(outcome.code, 0, "{outcome}");
    }
    let runs = scratch
        .ok("runs list --experiment e.search --limit 0 --json")
        .json();
    let runs = runs["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 4, "the seed and its child on two scenarios");
    scratch.ok("optimise show --experiment e --json").stdout
}

#[test]
fn a_prompt_loop_with_the_embedded_model_has_the_same_lineage_every_time() {
    let Some(models) = models_dir() else { return };
    let _slot = heavyweight();
    let lineage = loop_with_the_embedded_model(&models);
    assert!(lineage.contains("a question helps"), "{lineage}");
    assert_eq!(loop_with_the_embedded_model(&models), lineage);
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

#[test]
fn the_classify_example_is_judged_as_the_embedded_model_answers() {
    let Some(models) = models_dir() else { return };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let task = assize_test_support::root().join("examples/classify");
    let task = task.to_str().expect("UTF-8");
    let collected = run(
        &scratch,
        &models,
        &[
            "collect",
            "--task",
            task,
            "--models",
            "embedded:smollm2-135m",
            "--experiment",
            "e",
            "--json",
        ],
    );
    assert_eq!(collected.code, 0, "{collected}");
    // Twelve tickets and two prompts.
    assert_eq!(collected.summary()["collected"], 24, "{collected}");
    let board = scratch.board("e");
    assert_eq!(board["coverage"]["judged"], 24, "{board}");
    for row in board["rows"].as_array().expect("rows") {
        for name in ["correct", "known"] {
            let score = row["criteria"][name].as_f64().expect("a score");
            assert!((0.0..=1.0).contains(&score), "{row}");
        }
    }
}
