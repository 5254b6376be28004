//! What is in the host's memory: one model at a time, one load each, and which client loaded it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::{ALPHA, BETA, CELLS, GAMMA, HUGE, TIPS, collect, counts, host, scratch, tracked_cells};
use assize_test_support::ollama_stand_in::{Call, OllamaStandIn, StandInModel};

const THREE: &str = "alpha:0.5b,beta:1b,gamma:3b";

#[test]
fn each_model_is_loaded_once_and_never_beside_another() {
    let (host, scratch) = (host(), scratch());
    let summary = scratch.ok(&collect(&host.url(), THREE, &[])).summary();
    assert_eq!(counts(&summary), [18, 18, 0, 0]);
    assert_eq!(summary["model_loads"], json!({ALPHA: 1, BETA: 1, GAMMA: 1}));
    assert_eq!(host.loads(), [ALPHA, BETA, GAMMA]);
    assert_eq!(host.most_held_at_once(), 1);
    assert_eq!(host.held_now(), Vec::<String>::new());
    assert_eq!(host.completions().len(), 3 * CELLS * TIPS);
    assert_eq!(tracked_cells(&scratch).len(), 3 * CELLS);

    let calls = host.calls().len();
    let again = scratch.ok(&collect(&host.url(), THREE, &[])).summary();
    assert_eq!(counts(&again), [18, 0, 18, 0]);
    assert_eq!(again["model_loads"], json!({}));
    let mut later = host.calls().into_iter().skip(calls);
    let quiet = ["/api/show", "/api/tags", "/api/version"];
    assert!(
        later.all(|call| quiet.contains(&call.path.as_str())),
        "nothing is loaded"
    );
}

#[test]
fn a_model_counts_as_gone_only_when_the_host_no_longer_lists_it() {
    const LOOKS: u32 = 4;
    let (host, scratch) = (host(), scratch());
    host.free_after_looks(LOOKS);
    scratch.ok(&collect(&host.url(), THREE, &[]));
    assert_eq!(host.most_held_at_once(), 1);
    assert_eq!(host.held_now(), Vec::<String>::new());
    let calls = host.calls();
    let unloads: Vec<usize> = (0..calls.len())
        .filter(|&at| is_unload(&calls[at]))
        .collect();
    assert_eq!(unloads.len(), 3);
    for at in unloads {
        let looks = calls[at + 1..]
            .iter()
            .take_while(|call| call.path == "/api/ps")
            .count();
        assert!(looks > LOOKS as usize, "only {looks} looks after an unload");
    }
}

#[test]
fn a_model_that_is_never_freed_stops_everything_before_the_next_one() {
    let (host, scratch) = (host(), scratch());
    host.never_free();
    let outcome = scratch.fails(1, &collect(&host.url(), THREE, &[]));
    for words in ["still holds 'alpha:0.5b'", "restart that host"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert_eq!(host.loads(), [ALPHA]);
    assert_eq!(counts(&outcome.summary()), [6, 6, 0, 0]);
    assert_eq!(tracked_cells(&scratch).len(), CELLS);
}

#[test]
fn a_model_above_the_limit_is_never_loaded_and_the_rest_goes_on() {
    let (host, scratch) = (host(), scratch());
    let models = "huge:8b,alpha:0.5b";
    let outcome = scratch.ok(&collect(&host.url(), models, &[]));
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [6, 6, 0, 0]);
    assert_eq!(summary["rejected_models"], json!([HUGE]));
    assert_eq!(summary["model_loads"], json!({ALPHA: 1}));
    assert!(
        outcome.stderr.contains("huge:8b  8.0B  rejected"),
        "{outcome}"
    );
    assert_eq!(host.loads(), [ALPHA]);
    let asked: Vec<String> = host
        .calls()
        .into_iter()
        .filter(|call| call.body["model"] == HUGE)
        .map(|call| call.path)
        .collect();
    assert_eq!(asked, ["/api/show"]);

    let admitted = scratch
        .ok(&collect(&host.url(), models, &["--max-model-b", "8.5"]))
        .summary();
    assert_eq!(counts(&admitted), [12, 6, 6, 0]);
}

#[test]
fn where_every_model_is_too_large_nothing_happens() {
    let (host, scratch) = (host(), scratch());
    let outcome = scratch.fails(2, &collect(&host.url(), THREE, &["--max-model-b", "0.1"]));
    assert!(outcome.stderr.contains("no model remains"), "{outcome}");
    assert_eq!(host.loads(), Vec::<String>::new());
    assert!(host.calls_to("/api/chat").is_empty() && host.calls_to("/api/generate").is_empty());
}

#[test]
fn a_model_without_a_size_needs_an_override() {
    let nameless = StandInModel {
        parameter_count: None,
        parameter_size: String::new(),
        ..StandInModel::new("tiny-4b:latest", 1, &["Take a walk."])
    };
    let (host, scratch) = (OllamaStandIn::start(vec![nameless]), scratch());
    let outcome = scratch.fails(2, &collect(&host.url(), "tiny-4b", &[]));
    assert!(
        outcome.stderr.contains("--assume-size tiny-4b="),
        "{outcome}"
    );
    assert_eq!(host.loads(), Vec::<String>::new());

    let too_large = ["--assume-size", "tiny-4b=7"];
    scratch.fails(2, &collect(&host.url(), "tiny-4b", &too_large));
    assert_eq!(host.loads(), Vec::<String>::new());

    let vouched = ["--assume-size", "tiny-4b=0.6"];
    let summary = scratch
        .ok(&collect(&host.url(), "tiny-4b", &vouched))
        .summary();
    assert_eq!(counts(&summary), [6, 6, 0, 0]);
    assert_eq!(host.held_now(), Vec::<String>::new());
}

#[test]
fn a_model_of_another_client_stops_us_unless_evict_is_given() {
    let (host, scratch) = (host(), scratch());
    host.preload("theirs:7b");
    let outcome = scratch.fails(1, &collect(&host.url(), ALPHA, &[]));
    for words in ["'theirs:7b'", "--evict"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert_eq!(host.held_now(), ["theirs:7b"]);
    assert!(host.calls_to("/api/chat").is_empty() && host.calls_to("/api/generate").is_empty());

    let summary = scratch
        .ok(&collect(&host.url(), ALPHA, &["--evict"]))
        .summary();
    assert_eq!(counts(&summary), [6, 6, 0, 0]);
    assert_eq!(host.loads(), ["theirs:7b", ALPHA]);
    assert_eq!(host.most_held_at_once(), 1);
    assert_eq!(host.held_now(), Vec::<String>::new());
}

#[test]
fn the_wanted_model_may_already_be_loaded_by_another_client() {
    let (host, scratch) = (host(), scratch());
    host.preload(ALPHA);
    let outcome = scratch.fails(1, &collect(&host.url(), ALPHA, &[]));
    assert!(outcome.stderr.contains("'alpha:0.5b'"), "{outcome}");
    assert_eq!(host.held_now(), [ALPHA]);
    scratch.ok(&collect(&host.url(), ALPHA, &["--evict"]));
    assert_eq!(host.most_held_at_once(), 1);
}

#[test]
fn every_call_lets_the_model_expire_and_none_reloads_it() {
    let (host, scratch) = (host(), scratch());
    scratch.ok(&collect(&host.url(), THREE, &["--num-ctx", "1024"]));
    let mut unloads = BTreeMap::new();
    for call in host.calls() {
        if !matches!(call.path.as_str(), "/api/chat" | "/api/generate") {
            continue;
        }
        let keep_alive = call.body["keep_alive"].as_u64().expect("whole seconds");
        if is_unload(&call) {
            *unloads.entry(call.body["model"].to_string()).or_insert(0) += 1;
            continue;
        }
        let limit = Duration::from_mins(10).as_secs();
        assert!((1..=limit).contains(&keep_alive), "{call:?}");
        assert_eq!(call.body["options"]["num_ctx"], 1024, "{call:?}");
    }
    assert_eq!(unloads.into_values().collect::<Vec<_>>(), [1, 1, 1]);
}

fn is_unload(call: &Call) -> bool {
    call.path == "/api/chat" && !call.is_completion() && call.body["keep_alive"] == 0
}
