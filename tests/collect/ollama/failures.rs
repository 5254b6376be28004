//! Errors of a host, and the state of the cell after each of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ALPHA, BETA, CELLS, TIPS, collect, counts, host, scratch, tracked_cells};
use assize_test_support::ollama_stand_in::Fault;

const CHAT: &str = "/api/chat";

#[test]
fn a_missing_model_stops_before_anything_is_generated() {
    let (host, scratch) = (host(), scratch());
    let outcome = scratch.fails(1, &collect(&host.url(), "alpha:0.5b,absent:1b", &[]));
    assert!(
        outcome.stderr.contains("ollama pull absent:1b"),
        "{outcome}"
    );
    assert_eq!(host.loads(), Vec::<String>::new());
}

#[test]
fn a_host_that_never_answered_is_named() {
    let (gone, scratch) = (host().url(), scratch());
    let outcome = scratch.fails(1, &collect(&gone, ALPHA, &["--retries", "0"]));
    for words in [&gone, "is it running?"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
}

#[test]
fn a_full_queue_is_asked_again() {
    let (host, scratch) = (host(), scratch());
    host.fail(CHAT, 2, Fault::Status(503, "server busy, please try again"));
    let summary = scratch.ok(&collect(&host.url(), ALPHA, &[])).summary();
    assert_eq!(counts(&summary), [6, 6, 0, 0]);
    assert_eq!(summary["failed_candidates"], 0);
    assert_eq!(host.completions().len(), CELLS * TIPS + 2);
}

#[test]
fn a_permanent_error_fails_its_cell_and_the_next_collect_retries_it() {
    for (status, message) in [
        (400, "bad request"),
        (404, "no such thing"),
        (500, "runner crashed"),
    ] {
        let (host, scratch) = (host(), scratch());
        host.fail(CHAT, TIPS, Fault::Status(status, message));
        let outcome = scratch.fails(4, &collect(&host.url(), ALPHA, &[]));
        assert_eq!(counts(&outcome.summary()), [6, 5, 0, 1], "{outcome}");
        assert_eq!(
            host.completions().len(),
            CELLS * TIPS,
            "nothing is asked twice"
        );
        assert_eq!(host.held_now(), Vec::<String>::new());
        let failed: Vec<Value> = outcome
            .json_lines()
            .into_iter()
            .filter(|line| line["status"] == "failed")
            .collect();
        assert_eq!(failed.len(), 1);
        assert!(
            failed[0]["error"]
                .as_str()
                .is_some_and(|error| error.contains(message)),
            "{outcome}"
        );
        let status = scratch.ok("judge status --experiment e --json").json();
        let found = (&status["failed"], &status["expert"]["pending"]);
        assert_eq!(
            found,
            (&json!(1), &json!(5)),
            "a failed cell has nothing to judge"
        );

        let again = scratch.ok(&collect(&host.url(), ALPHA, &[])).summary();
        assert_eq!(counts(&again), [6, 1, 5, 0]);
        assert_eq!(host.completions().len(), (CELLS + 1) * TIPS);
        assert_eq!(tracked_cells(&scratch).len(), CELLS);
    }
}

#[test]
fn a_failed_candidate_does_not_fail_its_cell() {
    let (host, scratch) = (host(), scratch());
    host.fail(CHAT, 1, Fault::ErrorLine("the runner went away"));
    let outcome = scratch.ok(&collect(&host.url(), ALPHA, &[]));
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [6, 6, 0, 0]);
    assert_eq!(summary["failed_candidates"], 1);
    let exported = scratch.ok("runs export --experiment e").json_lines();
    let failed: Vec<&Value> = exported
        .iter()
        .filter(|record| record["candidate"]["error"].is_string())
        .collect();
    assert_eq!((failed.len(), exported.len()), (1, CELLS * TIPS));
    let reason = failed[0]["candidate"]["error"].as_str().expect("a reason");
    assert!(reason.contains("the runner went away"), "{reason}");
    assert_eq!(failed[0]["metrics"]["n_failed"], json!(1.0));
}

#[test]
fn an_answer_that_comes_too_late_is_a_timeout() {
    let (host, scratch) = (host(), scratch());
    host.fail(CHAT, TIPS, Fault::Slow(Duration::from_secs(5)));
    let more = ["--timeout", "2", "--retries", "0"];
    let outcome = scratch.fails(4, &collect(&host.url(), ALPHA, &more));
    assert_eq!(counts(&outcome.summary()), [6, 5, 0, 1]);
    assert!(
        outcome
            .stderr
            .contains("did not answer within 2 s; --timeout"),
        "{outcome}"
    );
    assert_eq!(host.held_now(), Vec::<String>::new());
    let again = scratch.ok(&collect(&host.url(), ALPHA, &[])).summary();
    assert_eq!(counts(&again), [6, 1, 5, 0]);
}

#[test]
fn a_model_that_cannot_be_loaded_does_not_stop_the_others() {
    let (host, scratch) = (host(), scratch());
    host.fail(
        "/api/generate",
        1,
        Fault::Status(500, "model requires more system memory"),
    );
    let outcome = scratch.fails(4, &collect(&host.url(), "alpha:0.5b,beta:1b", &[]));
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [12, 6, 0, 6]);
    assert_eq!(summary["model_loads"], json!({BETA: 1}));
    assert!(outcome.stderr.contains("more system memory"), "{outcome}");
    assert_eq!(host.held_now(), Vec::<String>::new());
    let again = scratch
        .ok(&collect(&host.url(), "alpha:0.5b,beta:1b", &[]))
        .summary();
    assert_eq!(counts(&again), [12, 6, 6, 0]);
}

#[test]
fn a_load_that_takes_too_long_leaves_no_model_behind() {
    for models in [ALPHA, "alpha:0.5b,beta:1b"] {
        let (host, scratch) = (host(), scratch());
        host.fail(
            "/api/generate",
            1,
            Fault::DoneButLate(Duration::from_secs(4)),
        );
        let more = ["--timeout", "2", "--retries", "0"];
        let outcome = scratch.fails(4, &collect(&host.url(), models, &more));
        assert_eq!(outcome.summary()["failed"], CELLS, "{outcome}");
        assert_eq!(host.most_held_at_once(), 1);
        assert_eq!(host.held_now(), Vec::<String>::new());
    }
}
