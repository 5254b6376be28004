//! Collections that end early: by Ctrl-C, by `kill -9`, by an unreachable host.

use std::time::Duration;

use serde_json::json;

use super::{ALPHA, BETA, CELLS, collect, counts, host, scratch, tracked_cells};
use assize_test_support::Scratch;
use assize_test_support::ollama_stand_in::{Fault, OllamaStandIn};
use assize_test_support::running::Running;

/// Collects until two cells are made and the third is in flight, then kills the process.
fn killed(host: &OllamaStandIn, scratch: &Scratch) {
    host.pause_after(4);
    let running = Running::start(scratch, "killed", &collect(&host.url(), ALPHA, &[]));
    host.wait_for_completions(5);
    running.kill();
    host.resume();
    assert_eq!(host.held_now(), [ALPHA], "nobody was there to unload it");
}

#[test]
fn after_a_kill_the_next_collect_goes_on_with_its_own_orphan() {
    let (host, scratch) = (host(), scratch());
    killed(&host, &scratch);
    let summary = scratch.ok(&collect(&host.url(), ALPHA, &[])).summary();
    let [cells, collected, skipped, failed] = counts(&summary);
    assert_eq!((cells, collected + skipped, failed), (6, 6, 0));
    assert!(
        collected >= 4,
        "the third cell was never answered: {summary}"
    );
    assert_eq!(
        host.loads(),
        [ALPHA],
        "the orphan's weights are used as they are"
    );
    assert_eq!(host.held_now(), Vec::<String>::new());
    assert_eq!(tracked_cells(&scratch).len(), CELLS);
}

#[test]
fn an_orphan_is_unloaded_before_another_model_is_loaded() {
    let (host, scratch) = (host(), scratch());
    killed(&host, &scratch);
    let summary = scratch.ok(&collect(&host.url(), BETA, &[])).summary();
    assert_eq!(counts(&summary), [6, 6, 0, 0]);
    assert_eq!(host.loads(), [ALPHA, BETA]);
    assert_eq!(host.most_held_at_once(), 1);
    assert_eq!(host.held_now(), Vec::<String>::new());
}

#[test]
fn an_orphan_that_another_client_took_over_is_left_alone() {
    let (host, scratch) = (host(), scratch());
    killed(&host, &scratch);
    host.renew_as_another_client(ALPHA, Duration::from_mins(10));
    for models in [ALPHA, BETA] {
        let outcome = scratch.fails(1, &collect(&host.url(), models, &[]));
        for words in ["'alpha:0.5b'", "--evict"] {
            assert!(outcome.stderr.contains(words), "{outcome}");
        }
    }
    assert_eq!(host.held_now(), [ALPHA]);
    scratch.ok(&collect(&host.url(), BETA, &["--evict"]));
    assert_eq!(host.most_held_at_once(), 1);
}

#[test]
fn ctrl_c_finishes_what_is_in_flight_and_unloads() {
    let (host, scratch) = (host(), scratch());
    let url = host.url();
    let args = collect(&url, "alpha:0.5b,beta:1b", &[]);
    host.pause_after(4);
    let mut running = Running::start(&scratch, "stopped", &args);
    host.wait_for_completions(5);
    running.interrupt();
    running.wait_for_stderr(|said| said.contains("Stopping"));
    host.resume();
    let outcome = running.finish();
    assert_eq!(outcome.code, 130, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [3, 3, 0, 0]);
    assert_eq!(summary["interrupted"], true);
    assert_eq!(host.held_now(), Vec::<String>::new());
    assert_eq!(host.loads(), [ALPHA]);
    assert_eq!(tracked_cells(&scratch).len(), 3);

    let again = scratch.ok(&args).summary();
    assert_eq!(counts(&again), [12, 9, 3, 0]);
}

/// `timeout` sends its signal twice, to the process and to its group.
#[test]
fn two_signals_at_once_are_one_and_the_model_is_unloaded() {
    let (host, scratch) = (host(), scratch());
    host.pause_after(4);
    let mut running = Running::start(&scratch, "stopped", &collect(&host.url(), ALPHA, &[]));
    host.wait_for_completions(5);
    running.interrupt();
    running.interrupt();
    running.wait_for_stderr(|said| said.contains("Stopping"));
    running.interrupt();
    host.resume();
    let outcome = running.finish();
    assert_eq!(outcome.code, 130, "{outcome}");
    assert_eq!(outcome.summary()["interrupted"], true, "{outcome}");
    assert_eq!(host.held_now(), Vec::<String>::new(), "{outcome}");
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_leaves_a_known_orphan() {
    let (host, scratch) = (host(), scratch());
    host.pause_after(4);
    let mut running = Running::start(&scratch, "stopped", &collect(&host.url(), ALPHA, &[]));
    host.wait_for_completions(5);
    running.interrupt();
    running.wait_for_stderr(|said| said.contains("Stopping"));
    std::thread::sleep(Duration::from_millis(1500));
    running.interrupt();
    let outcome = running.finish();
    assert_eq!(outcome.code, 130, "{outcome}");
    host.resume();
    assert_eq!(host.held_now(), [ALPHA]);
    let again = scratch.ok(&collect(&host.url(), ALPHA, &[])).summary();
    assert_eq!(again["failed"], 0);
    assert_eq!(host.held_now(), Vec::<String>::new());
}

#[test]
fn when_the_host_goes_away_the_work_is_kept_and_can_go_on_elsewhere() {
    let scratch = scratch();
    let (first, second) = (host(), host());
    first.pause_after(4);
    let url = first.url();
    let running = Running::start(&scratch, "cut", &collect(&url, ALPHA, &["--retries", "0"]));
    first.wait_for_completions(5);
    drop(first);
    let outcome = running.finish();
    assert_eq!(outcome.code, 1, "{outcome}");
    for words in [&url, "cannot be reached", "run the same command again"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    let summary = outcome.summary();
    assert_eq!(
        (&summary["collected"], &summary["failed"]),
        (&json!(2), &json!(0)),
        "the cells did not fail, their host did"
    );

    let again = scratch.ok(&collect(&second.url(), ALPHA, &[])).summary();
    assert_eq!(counts(&again), [6, 4, 2, 0]);
    assert_eq!(tracked_cells(&scratch).len(), CELLS);
}

#[test]
fn a_host_that_fails_once_is_tried_again() {
    let (host, scratch) = (host(), scratch());
    host.fail("/api/generate", 1, Fault::CutMidBody);
    let outcome = scratch.ok(&collect(&host.url(), ALPHA, &["--retries", "0"]));
    assert_eq!(counts(&outcome.summary()), [6, 6, 0, 0]);
    assert_eq!(outcome.summary()["hosts"][0]["failures"], 1);
    assert!(outcome.stderr.contains("answers again"), "{outcome}");
}

#[test]
fn a_host_lost_before_loading_does_not_fail_the_cells() {
    let (host, scratch) = (host(), scratch());
    host.preload("theirs:7b");
    // As often as a host is tried that answers and cannot load.
    host.fail("/api/generate", 4, Fault::CutMidBody);
    let more = ["--retries", "0", "--evict"];
    let outcome = scratch.fails(1, &collect(&host.url(), "alpha:0.5b,beta:1b", &more));
    assert!(outcome.stderr.contains("cannot be reached"), "{outcome}");
    assert_eq!(counts(&outcome.summary()), [0, 0, 0, 0]);
    assert_eq!(
        counts(&scratch.ok(&collect(&host.url(), ALPHA, &[])).summary()),
        [6, 6, 0, 0]
    );
}
