//! `assize collect` and `assize judge auto` against a stand-in Ollama host, end to end.
//!
//! The binary is the real one and so are its store, locks and signals; the host is a stand-in
//! that records every call and what was ever in its memory together. `tests/engine/ollama.rs` does the
//! same with a real host, where there is one.

mod concurrency;
mod failures;
mod interrupted;
mod judging;
mod residency;

use std::collections::BTreeSet;

use serde_json::Value;

use assize_test_support::ollama_stand_in::{OllamaStandIn, StandInModel};
use assize_test_support::{Scratch, write_small_task};

const ALPHA: &str = "alpha:0.5b";
const BETA: &str = "beta:1b";
const GAMMA: &str = "gamma:3b";
const HUGE: &str = "huge:8b";

/// Cells of one model: two prompts × three scenarios, with two candidates each.
const CELLS: usize = 6;
const TIPS: usize = 2;

/// A host with three models that the size gate admits and one that it does not.
fn host() -> OllamaStandIn {
    let texts = ["Take a walk.", "Drink some water.", "Call your mother."];
    OllamaStandIn::start(vec![
        StandInModel::new(ALPHA, 494_032_768, &texts),
        StandInModel::new(BETA, 999_885_952, &texts),
        StandInModel::new(GAMMA, 3_212_749_888, &texts),
        StandInModel::new(HUGE, 8_030_261_312, &texts),
    ])
}

/// A scratch folder with a task of its own.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, CELLS / 2);
    scratch
}

/// The arguments of a collection of these models.
fn collect<'a>(url: &'a str, models: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["collect", "--task", "./task", "--experiment", "e", "--json"];
    args.extend(["--n-tips", "2", "--ollama-url", url, "--models", models]);
    args.extend(more);
    args
}

fn counts(summary: &Value) -> [u64; 4] {
    ["cells", "collected", "skipped", "failed"].map(|key| summary[key].as_u64().expect("a count"))
}

/// Every tracked cell of the experiment as (model, prompt, scenario); panics on one twice.
fn tracked_cells(scratch: &Scratch) -> BTreeSet<[String; 3]> {
    let exported = scratch.ok("runs export --experiment e");
    let mut cells = BTreeSet::new();
    for record in exported.json_lines() {
        let param = |key: &str| record["params"][key].as_str().expect("a param").to_owned();
        if record["candidate"]["index"] == 0 {
            let cell = ["model", "prompt", "scenario"].map(param);
            assert!(cells.insert(cell), "tracked twice: {record}");
        }
    }
    cells
}
