//! A judge that holds weights obeys the same gate and the same guard as a generating model.

use serde_json::json;

use super::{ALPHA, BETA, CELLS, HUGE, TIPS, collect, scratch};
use assize_test_support::Scratch;
use assize_test_support::ollama_stand_in::{OllamaStandIn, StandInModel};
use assize_test_support::running::Running;

/// A host on which one model writes tips and others judge, and a collected experiment.
fn collected() -> (OllamaStandIn, Scratch) {
    let verdict = json!({"reason": "Plain and useful.", "worth": 2}).to_string();
    let host = OllamaStandIn::start(vec![
        StandInModel::new(ALPHA, 494_032_768, &["Take a walk."]),
        StandInModel::new(BETA, 999_885_952, &[&verdict]),
        StandInModel::new(HUGE, 8_030_261_312, &[&verdict]),
    ]);
    let scratch = scratch();
    scratch.ok(&collect(&host.url(), ALPHA, &[]));
    (host, scratch)
}

fn judge<'a>(url: &'a str, model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["judge", "auto", "--experiment", "e", "--json"];
    args.extend(["--judge", model, "--ollama-url", url]);
    args.extend(more);
    args
}

#[test]
fn a_judge_is_loaded_once_and_unloaded() {
    let (host, scratch) = collected();
    let summary = scratch.ok(&judge(&host.url(), BETA, &["-j", "2"])).json();
    assert_eq!(
        (&summary["judged"], &summary["left_pending"]),
        (&json!(CELLS), &json!(0))
    );
    assert_eq!(summary["verdicts"], json!(CELLS * TIPS));
    assert_eq!(host.loads(), [ALPHA, BETA]);
    assert_eq!(host.most_held_at_once(), 1);
    assert_eq!(host.held_now(), Vec::<String>::new());
    let asked = host
        .completions()
        .into_iter()
        .filter(|call| call.body["model"] == BETA);
    let contexts: Vec<u64> = asked
        .map(|call| call.body["options"]["num_ctx"].as_u64().expect("num_ctx"))
        .collect();
    assert_eq!(contexts.len(), CELLS * TIPS);
    assert!(
        contexts.iter().all(|num_ctx| *num_ctx == contexts[0]),
        "{contexts:?}"
    );
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["auto"], json!({"pending": 0, "judged": CELLS}));

    scratch.ok(&judge(&host.url(), BETA, &[]));
    assert_eq!(
        host.loads(),
        [ALPHA, BETA],
        "nothing is pending, so nothing is loaded"
    );
}

#[test]
fn a_judge_above_the_limit_is_never_loaded() {
    let (host, scratch) = collected();
    let outcome = scratch.fails(2, &judge(&host.url(), HUGE, &[]));
    for words in ["huge:8b", "size gate"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert_eq!(host.loads(), [ALPHA]);
}

#[test]
fn a_judge_does_not_load_beside_somebody_elses_model() {
    let (host, scratch) = collected();
    host.preload("theirs:7b");
    let outcome = scratch.fails(1, &judge(&host.url(), BETA, &[]));
    for words in ["'theirs:7b'", "--evict"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert_eq!(host.held_now(), ["theirs:7b"]);
    scratch.ok(&judge(&host.url(), BETA, &["--evict"]));
    assert_eq!(host.most_held_at_once(), 1);
    assert_eq!(host.held_now(), Vec::<String>::new());
}

#[test]
fn a_killed_judge_is_recognised_by_a_collect() {
    let (host, scratch) = collected();
    let before = host.completions().len();
    host.pause_after(TIPS);
    let running = Running::start(&scratch, "judge", &judge(&host.url(), BETA, &[]));
    host.wait_for_completions(before + TIPS + 1);
    running.kill();
    host.resume();
    assert_eq!(host.held_now(), [BETA]);
    scratch.ok(&collect(&host.url(), ALPHA, &["--seed", "7"]));
    assert_eq!(host.most_held_at_once(), 1);
    let summary = scratch.ok(&judge(&host.url(), BETA, &[])).json();
    assert_eq!(summary["left_pending"], 0);
    assert_eq!(host.held_now(), Vec::<String>::new());
    // What the killed judge held waits no longer than it lived.
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["auto"], json!({"pending": 0, "judged": 2 * CELLS}));
}

#[test]
fn only_what_the_automatic_tier_has_not_seen_is_judged() {
    let (host, scratch) = collected();
    scratch.ok(&judge(&host.url(), BETA, &[]));
    scratch.ok(&collect(&host.url(), ALPHA, &["--seed", "7"]));
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["auto"], json!({"pending": CELLS, "judged": CELLS}));
    let summary = scratch.ok(&judge(&host.url(), BETA, &[])).json();
    assert_eq!(summary["judged"], json!(CELLS));
    assert_eq!(host.loads(), [ALPHA, BETA, ALPHA, BETA]);
    assert_eq!(host.most_held_at_once(), 1);
}

#[test]
fn ctrl_c_ends_judging_and_unloads_the_judge() {
    let (host, scratch) = collected();
    let before = host.completions().len();
    host.pause_after(TIPS);
    let running = Running::start(&scratch, "judge", &judge(&host.url(), BETA, &[]));
    host.wait_for_completions(before + TIPS + 1);
    running.interrupt();
    host.resume();
    let outcome = running.finish();
    assert_eq!(outcome.code, 130, "{outcome}");
    assert_eq!(host.held_now(), Vec::<String>::new());
    let judged = outcome.json()["judged"].as_u64().expect("a count");
    let again = scratch.ok(&judge(&host.url(), BETA, &[])).json();
    assert_eq!(
        again["judged"].as_u64().map(|rest| rest + judged),
        Some(CELLS as u64)
    );
}
