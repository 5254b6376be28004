//! The confirmation split wears out: different nominees are counted over all experiments.

use std::collections::BTreeMap;

use assize_domain::leaderboard::Pair;
use assize_domain::ledger::{AttemptOutcome, Entry, Kind, Via};
use assize_domain::scenario::Split;
use assize_store::Ledger as _;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_test_support::Scratch;
use serde_json::Value;

use crate::fixture::{SEED, START, fixing_rounds, scratch};

/// So many prompts were tried on the confirmation split of another experiment.
fn tried(nominees: usize) -> Scratch {
    tried_with("m", nominees)
}

/// The same with another name of the scripted model.
fn tried_with(model: &str, nominees: usize) -> Scratch {
    let scratch = scratch(&fixing_rounds());
    let mut script: Value = serde_json::from_str(&scratch.read("script.json")).expect("JSON");
    script["models"][model] = script["models"]["m"].clone();
    scratch.write("script.json", &script.to_string());
    for number in 0..nominees {
        let text = format!("Attempt {number}. {SEED}");
        scratch.write(&format!("task/prompts/n{number}.md"), &text);
    }
    let collect = format!(
        "collect --task task --models scripted:{model} --script script.json --experiment old --n-tips 2 \
         --split confirmation"
    );
    scratch.ok(collect.as_str());
    let path = scratch.file(".assize/assize.db");
    let store = EmbeddedStore::open(&path, || 0, random_run_id).expect("a store");
    for number in 0..nominees {
        let pair = |prompt: String| Pair {
            model: format!("scripted:{model}"),
            prompt,
        };
        let entry = Entry {
            id: format!("x{number}"),
            number: 0,
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            by: "ana".to_owned(),
            kind: Kind::Attempt,
            via: Via::Command,
            split: Some(Split::Confirmation),
            candidate: Some(pair(format!("n{number}"))),
            incumbent: Some(pair("p1".to_owned())),
            outcome: Some(AttemptOutcome::Failed),
            figures: BTreeMap::new(),
        };
        store.ledger_append("old", &entry).expect("appended");
    }
    scratch
}

#[test]
fn five_nominees_warn_and_ten_demand_new_scenarios() {
    let start = format!("{START} --prompt p1");
    let few = tried(4).ok(start.as_str());
    assert!(!few.stderr.contains("different nominees"), "{few}");
    let five = tried(5).ok(start.as_str());
    assert!(
        five.stderr.contains("5 different nominees have seen"),
        "{five}"
    );
    let other = tried_with("m@2", 5).ok(start.as_str());
    assert!(other.stderr.contains("5 different nominees"), "{other}");
    let worn = tried(10);
    let refused = worn.fails(3, start.as_str());
    assert!(
        refused.stderr.contains("10 different nominees"),
        "{refused}"
    );
    assert!(refused.stderr.contains("Replace them"), "{refused}");
    // With new scenarios the count starts again.
    let lines = worn
        .read("task/scenarios.jsonl")
        .replace("matter c", "fresh matter c");
    worn.write("task/scenarios.jsonl", &lines);
    let fresh = worn.ok(start.as_str());
    assert!(!fresh.stderr.contains("different nominees"), "{fresh}");
}

#[test]
fn a_loop_that_is_under_way_is_refused_too() {
    let scratch = tried(10);
    let lines = scratch.read("task/scenarios.jsonl");
    scratch.write(
        "task/scenarios.jsonl",
        &lines.replace("matter c", "fresh matter c"),
    );
    scratch.ok(format!("{START} --prompt p1").as_str());
    // Confirmation scenarios may change while a loop runs; these have been seen.
    scratch.write("task/scenarios.jsonl", &lines);
    let refused = scratch.fails(3, "optimise step --experiment e");
    assert!(
        refused.stderr.contains("10 different nominees"),
        "{refused}"
    );
}
