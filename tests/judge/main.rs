//! Judging: the judge file, the queue, and every kind of judge that uses them.

mod agent_command;
mod agent_install;
mod auto;
mod computed;
mod computed_commands;
mod corrections;
mod drift;
mod edge_cases;
mod judge_file;
mod litellm;
mod mcp;
mod messages;
mod own_task;
mod queue;
mod recompute;
mod scripted_judge;
mod side_by_side;
#[path = "../support/sittings.rs"]
mod sittings;
mod terminal_desk;

use assize_test_support::Scratch;
use serde_json::Value;

/// `judge status` of the experiment `e`.
fn status(scratch: &Scratch) -> Value {
    scratch.ok("judge status --experiment e --json").json()
}

/// How many runs of the experiment `e` wait for a tier.
fn pending(scratch: &Scratch, tier: &str) -> u64 {
    status(scratch)[tier]["pending"].as_u64().expect("a count")
}

/// The id of the first run of the experiment `e`.
fn first_run_id(scratch: &Scratch) -> String {
    let runs = scratch.ok("runs list --experiment e --json").json();
    let run_id = runs["runs"][0]["run_id"].as_str();
    run_id.expect("an id").to_owned()
}

/// The first run of the experiment `e`, as `runs show` has it.
fn first_run(scratch: &Scratch) -> Value {
    let run_id = first_run_id(scratch);
    scratch.ok(&["runs", "show", &run_id, "--json"]).json()
}
