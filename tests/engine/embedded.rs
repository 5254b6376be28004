//! The embedded engine through the real binary, with a real model.
//!
//! Needs the weights (`make weights`); without them it says so and tests nothing.

#![allow(clippy::print_stderr, reason = "a test that skips or fails says why")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

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
    assert!(
        demo.stderr.contains("computed of every candidate"),
        "{demo}"
    );
    assert!(demo.stderr.contains("overlong"), "{demo}");
    assert!(demo.stderr.contains("Wrote demo.html"), "{demo}");
    let report = scratch.read("demo.html");
    assert!(report.contains("<html") && report.contains("v2-mentor"));
    assert!(
        demo.stderr.contains("assize serve --open-loopback"),
        "{demo}"
    );
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

/// Every text of an experiment, with its place.
fn texts(scratch: &Scratch, models: &PathBuf, experiment: &str) -> Vec<String> {
    let export = ["runs", "export", "--experiment", experiment];
    let lines = run(scratch, models, &export).json_lines();
    let place = |it: &serde_json::Value| {
        let params = &it["params"];
        let candidate = &it["candidate"];
        format!(
            "{} {} {} {}",
            params["prompt"], params["scenario"], candidate["index"], candidate["text"]
        )
    };
    let mut texts: Vec<String> = lines.iter().map(place).collect();
    texts.sort();
    texts
}

#[test]
fn a_killed_collection_goes_on_with_the_same_texts() {
    let Some(models) = models_dir() else { return };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let words = |experiment| {
        let line = format!(
            "collect --models embedded:smollm2-135m --prompts v1,v2-mentor --n-tips 3 --max-tokens 24 \
             --experiment {experiment} --json"
        );
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let whole = words("whole");
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    let outcome = run(&scratch, &models, &whole);
    assert_eq!(outcome.code, 0, "{outcome}");

    let parts = words("parts");
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let mut child = scratch
        .command(&parts)
        .env("ASSIZE_MODELS_DIR", &models)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for _ in 0..3 {
        lines.next().expect("a cell").expect("readable");
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let resumed = run(&scratch, &models, &parts);
    assert_eq!(resumed.code, 0, "{resumed}");
    let skipped = resumed.summary()["skipped"].as_u64().expect("a number");
    assert!((3..16).contains(&skipped), "{resumed}");
    let expected = texts(&scratch, &models, "whole");
    assert_eq!(expected.len(), 48);
    assert_eq!(texts(&scratch, &models, "parts"), expected);
}

#[test]
fn the_demo_opens_the_panel_on_its_data() {
    let Some(models) = models_dir() else { return };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let mut child = scratch
        .command(&["demo", "--n-tips", "1", "--no-judge", "--panel"])
        .env("ASSIZE_MODELS_DIR", &models)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let url = lines.map_while(Result::ok).find_map(|line| {
        let url = line.strip_prefix("The panel is at ")?;
        Some(url.to_owned())
    });
    let url = url.expect("an address");
    let page = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        ureq::get(&url)
            .call()
            .ok()?
            .body_mut()
            .read_to_string()
            .ok()
    });
    child.kill().expect("ended");
    child.wait().expect("ended");
    let page = page.expect("the page");
    assert!(
        page.contains("demo") && page.contains("24 cells are collected"),
        "{page}"
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
