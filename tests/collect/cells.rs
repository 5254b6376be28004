//! `assize collect` with scripted models: events, resuming, failed cells, rejected models, splits.

use std::collections::BTreeSet;
use std::process::Stdio;

use assize_test_support::running::Running;
use assize_test_support::{Outcome, Scratch, cells, collect, script, write_small_task};
use serde_json::{Value, json};

fn count(summary: &Value, key: &str) -> u64 {
    summary[key].as_u64().expect(key)
}

#[test]
fn events_have_the_contract_s_shape() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    let outcome = scratch.ok(&collect("scripted:a", "--prompts v1 --n-scenarios 2"));
    let cells = cells(&outcome);
    assert_eq!(cells.len(), 2);
    for cell in &cells {
        assert_eq!(
            (&cell["model"], &cell["prompt"], &cell["status"]),
            (&json!("scripted:a"), &json!("v1"), &json!("collected"))
        );
        assert_eq!(cell["run_id"].as_str().expect("id").len(), 32);
        assert!(cell.get("error").is_none());
    }
    let summary = outcome.summary();
    for key in [
        "cells",
        "collected",
        "skipped",
        "failed",
        "rejected_models",
        "model_loads",
        "seconds",
    ] {
        assert!(summary.get(key).is_some(), "{key}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
fn a_run_carries_params_tags_metrics_and_artifacts() {
    let scratch = Scratch::new();
    scratch.write(
        "script.json",
        &script(&[("a", &["<think>hm</think>Walk now.", "**Bold**"])]),
    );
    let outcome = scratch.ok(&collect(
        "scripted:a",
        "--prompts v1 --n-scenarios 1 --n-tips 2 --diversity",
    ));
    let id = cells(&outcome)[0]["run_id"]
        .as_str()
        .expect("id")
        .to_owned();
    let run = scratch.ok(&["runs", "show", &id, "--json"]).json();
    assert_eq!(run["name"], "scripted:a × v1 × nurse-early");
    for key in [
        "task",
        "model",
        "prompt",
        "scenario",
        "persona",
        "slot",
        "n_tips",
        "temperature",
        "seed",
        "split",
        "diversity",
        "max_tokens",
        "num_ctx",
        "experiment",
        "ollama_url",
        "max_model_b",
    ] {
        assert!(
            run["params"].get(key).is_some(),
            "param {key} in {}",
            run["params"]
        );
    }
    for (key, value) in [
        ("judge_pending", "true"),
        ("auto_pending", "true"),
        ("judge_kind", "claude-code"),
        ("rubric", "tip-v1"),
    ] {
        assert_eq!(run["tags"][key], value);
    }
    for key in [
        "rubric_sha256",
        "prompt_sha256",
        "scenario_sha256",
        "model_digest",
        "cell_key",
    ] {
        assert_eq!(
            run["tags"][key].as_str().map(str::len),
            Some(64),
            "tag {key}"
        );
    }
    for key in [
        "n_candidates",
        "n_failed",
        "latency_ms",
        "load_ms",
        "prompt_tokens",
        "completion_tokens",
        "diversity",
    ] {
        assert!(
            run["metrics"].get(key).is_some(),
            "metric {key} in {}",
            run["metrics"]
        );
    }
    let artifacts: BTreeSet<&str> = run["artifacts"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        artifacts,
        [
            "candidates.json",
            "context.json",
            "prompt.txt",
            "raw.txt",
            "rubric.md"
        ]
        .into()
    );
    let candidates = &run["candidates"];
    assert_eq!(candidates[0]["text"], "Walk now.");
    assert_eq!(
        candidates[0]["flags"],
        json!({"format_ok": true, "overlong": false})
    );
    assert_eq!(candidates[1]["flags"]["format_ok"], false);
    assert_ne!(candidates[0]["angle"], candidates[1]["angle"]);
    assert_ne!(candidates[0]["seed"], candidates[1]["seed"]);
}

#[test]
fn failed_cells_are_reported_and_only_they_are_tried_again() {
    let scratch = Scratch::new();
    let broken = json!({"models": {"a": {"parameter_count": 1, "responses": [
        {"prompt": "v1", "scenario": "nurse-early", "texts": [], "error": "timeout"},
        {"prompt": "v1", "scenario": "nurse-late", "texts": [], "error": "http_500"},
        {"prompt": "v1", "scenario": "student-early", "texts": [], "error": "malformed"},
        {"prompt": "*", "scenario": "*", "texts": ["Walk."]},
    ]}}});
    scratch.write("script.json", &broken.to_string());
    let first = scratch.fails(4, &collect("scripted:a", ""));
    let summary = first.summary();
    assert_eq!(
        (count(&summary, "collected"), count(&summary, "failed")),
        (21, 3)
    );
    let failed: Vec<Value> = cells(&first)
        .into_iter()
        .filter(|cell| cell["status"] == "failed")
        .collect();
    assert!(failed.iter().all(|cell| {
        cell["error"]
            .as_str()
            .is_some_and(|error| !error.is_empty())
    }));
    assert!(first.stderr.contains("3 of 24 cells failed"), "{first}");

    // What failed waits for the next collect, not for a judge.
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(
        (&status["expert"]["pending"], &status["failed"]),
        (&json!(21), &json!(3))
    );

    scratch.write(
        "script.json",
        &script(&[("a", &["Walk."])]).replace("500000000", "1"),
    );
    let summary = scratch.ok(&collect("scripted:a", "")).summary();
    assert_eq!(
        (count(&summary, "collected"), count(&summary, "skipped")),
        (3, 21)
    );
    let listed = scratch.ok("experiments list --json").json();
    assert_eq!(
        listed["experiments"][0]["runs"], 24,
        "a cell that failed first is still one run"
    );
}

#[test]
fn the_size_gate_rejects_and_the_rest_goes_on() {
    let scratch = Scratch::new();
    let sized = |n: u64| json!({"parameter_count": n, "responses": [{"prompt": "*", "scenario": "*", "texts": ["x"]}]});
    let script = json!({"models": {"small": sized(4_000_000_000), "big": sized(4_000_000_001),
        "silent": {"responses": [{"prompt": "*", "scenario": "*", "texts": ["x"]}]}}});
    scratch.write("script.json", &script.to_string());
    let outcome = scratch.ok(&collect("scripted:big,scripted:small", "--n-scenarios 1"));
    let summary = outcome.summary();
    assert_eq!(summary["rejected_models"], json!(["scripted:big"]));
    assert_eq!(summary["model_loads"], json!({"scripted:small": 1}));
    assert!(
        outcome.stderr.contains("rejected: larger than 4.0B"),
        "{outcome}"
    );

    let none = scratch.fails(2, &collect("scripted:big", ""));
    assert!(none.stderr.contains("no model remains"), "{none}");
    let unknown = scratch.fails(2, &collect("scripted:silent", ""));
    assert!(
        unknown.stderr.contains("--assume-size scripted:silent=B"),
        "{unknown}"
    );
    scratch.ok(&collect(
        "scripted:silent",
        "--assume-size scripted:silent=1.5 --n-scenarios 1",
    ));
}

#[test]
fn what_changes_the_output_makes_another_cell_and_nothing_else_does() {
    let scratch = Scratch::new();
    scratch.write(
        "script.json",
        &script(&[("a", &["Walk."]), ("b", &["Rest."])]),
    );
    let run = |more: &str| {
        let args = collect(
            "scripted:a",
            &format!("--prompts v1 --n-scenarios 1 {more}"),
        );
        count(&scratch.ok(&args).summary(), "collected")
    };
    assert_eq!(run(""), 1);
    for same in [
        "-j 4",
        "--timeout 5",
        "--ollama-url http://other:1",
        "--judge-kind human",
    ] {
        assert_eq!(run(same), 0, "{same:?}");
    }
    for other in [
        "--n-tips 2",
        "--temperature 0",
        "--seed 7",
        "--max-tokens 9",
        "--num-ctx 999",
        "--diversity",
        "--split feedback",
    ] {
        assert_eq!(run(other), 1, "{other:?}");
    }
    // The other cells of the grid do not matter.
    let grown = scratch.ok("collect --models scripted:b,scripted:a --script script.json --experiment e --prompts v1 --n-scenarios 1 --json");
    assert_eq!(
        (
            count(&grown.summary(), "collected"),
            count(&grown.summary(), "skipped")
        ),
        (1, 1)
    );
}

#[test]
fn an_edited_rubric_generates_nothing_and_an_edited_prompt_is_a_new_version() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 5);
    scratch.write("script.json", &script(&[("a", &["good"])]));
    let args = collect("scripted:a", "--task task --prompts p1 --n-tips 1");
    scratch.ok(&args);
    scratch.write(
        "task/rubric.md",
        &scratch
            .read("task/rubric.md")
            .replace("Judge it.", "Judge it well."),
    );
    assert_eq!(count(&scratch.ok(&args).summary(), "collected"), 0);
    scratch.write("task/prompts/p1.md", "Say one thing about {{ topic }}.\n");
    assert_eq!(count(&scratch.ok(&args).summary(), "collected"), 5);
}

#[test]
fn two_collectors_at_once_do_not_duplicate_cells() {
    let scratch = Scratch::new();
    let slow = script(&[("a", &["x"]), ("b", &["y"])])
        .replace("\"prompt\"", "\"latency_ms\":2,\"prompt\"");
    scratch.write("script.json", &slow);
    let args = collect("scripted:a,scripted:b", "--n-tips 2");
    let children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = scratch.command(&args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("the binary runs")
        })
        .collect();
    let mut collected = 0;
    for child in children {
        let outcome = Outcome::of(&child.wait_with_output().expect("it ends"));
        assert_eq!(outcome.code, 0, "{outcome}");
        collected += count(&outcome.summary(), "collected");
    }
    assert_eq!(collected, 48);
    let listed = scratch.ok("experiments list --json").json();
    assert_eq!(listed["experiments"][0]["runs"], 48);
}

#[test]
fn a_store_deleted_during_a_collect_is_an_error() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 6);
    let slow = script(&[("a", &["fine"])]).replace("\"prompt\"", "\"latency_ms\":40,\"prompt\"");
    scratch.write("script.json", &slow);
    let args = collect("scripted:a", "--task task");
    let mut running = Running::start(&scratch, "collect", &args);
    running.wait_for_stdout(|out| out.contains("\"collected\""));
    std::fs::remove_file(scratch.file(".assize/assize.db")).expect("the store is there");
    let outcome = running.finish();
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(
        outcome.stderr.contains("has been deleted or replaced"),
        "{outcome}"
    );
}

#[test]
fn a_closed_stdout_does_not_stop_the_collection() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 6);
    scratch.write(
        "script.json",
        &script(&[("a", &["fine"]), ("b", &["good"])]),
    );
    let args = collect("scripted:a,scripted:b", "--task task");
    let mut child = scratch
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    child.wait().expect("it ends");
    let listed = scratch.ok("experiments list --json").json();
    assert_eq!(listed["experiments"][0]["runs"], 24);
}

#[test]
fn one_cell_is_not_cells() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    let line = "collect --models scripted:a --script script.json --prompts v1 --n-scenarios 1 --n-tips 1 \
                --experiment e";
    let dry = scratch.ok(format!("{line} --dry-run").as_str());
    assert!(dry.stdout.contains("= 1 output, "), "{dry}");
    assert!(dry.stdout.contains("1 of 1 cell to generate"), "{dry}");
    let outcome = scratch.ok(line);
    assert!(outcome.stderr.contains("e: 1 cell, "), "{outcome}");
    assert!(!outcome.stderr.contains("1 cells"), "{outcome}");
    let id = scratch.ok("runs list --experiment e --json").json()["runs"][0]["run_id"].clone();
    let deleted = scratch.ok(&format!("runs delete {}", id.as_str().expect("an id")));
    assert!(deleted.stderr.contains("1 run deleted"), "{deleted}");
}
