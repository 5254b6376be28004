//! Hosts that fail: for a while, for ever, from the start, or with one model only.

use std::time::Duration;

use serde_json::json;

use super::{ALL, ALPHA, Pool, counts, made_by, pace, scratch};
use assize_test_support::ollama_stand_in::{COMPLETIONS, Fault};

#[test]
fn a_host_that_is_dead_from_the_start_is_left_out() {
    let (pool, scratch) = (Pool::of(2, 20), scratch(4));
    pool.hosts[0].go_down();
    let outcome = pool.run(&scratch, ALL, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [24, 24, 0, 0]);
    let said = format!("{} cannot be reached", pool.urls[0]);
    assert!(outcome.stderr.contains(&said), "{outcome}");
    let dead = summary["hosts"].as_array().expect("hosts").iter();
    let dead = dead
        .into_iter()
        .find(|it| it["host"] == json!(pool.urls[0]));
    let dead = dead.expect("it is in the summary");
    assert_eq!((&dead["cells"], &dead["loads"]), (&json!(0), &json!(0)));
    assert!(
        dead["error"]
            .as_str()
            .is_some_and(|it| it.contains("cannot be reached")),
        "{summary}"
    );
    assert_eq!(made_by(&scratch), vec![pool.urls[1].clone(); 24]);
}

#[test]
fn a_host_that_answers_later_is_used() {
    let (pool, scratch) = (Pool::of(2, 150), scratch(8));
    pool.hosts[0].go_down();
    let running = pool.start(&scratch, "alpha:0.5b,beta:1b");
    pool.hosts[1].wait_for_completions(3);
    pool.hosts[0].come_back();
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [32, 32, 0, 0]);
    let said = format!("  {}  answers again", pool.urls[0]);
    assert!(outcome.stderr.contains(&said), "{outcome}");
    assert!(made_by(&scratch).contains(&pool.urls[0]), "{outcome}");
    pool.check_memories();
}

#[test]
fn the_cells_of_a_host_that_dies_for_ever_go_to_the_others() {
    let (pool, scratch) = (Pool::of(2, 60), scratch(8));
    let running = pool.start(&scratch, ALL);
    pool.hosts[0].wait_for_completions(4);
    pool.hosts[0].go_down();
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [48, 48, 0, 0]);
    let [dead, alive] = [0, 1].map(|host| &summary["hosts"][host]);
    assert!(dead["failures"].as_u64() >= Some(1), "{summary}");
    assert!(
        dead["error"].is_string() && alive["error"].is_null(),
        "{summary}"
    );
    // Long lines are wrapped.
    let said: Vec<&str> = outcome.stderr.split_whitespace().collect();
    assert!(said.join(" ").contains("and was left out"), "{outcome}");
    assert_eq!(made_by(&scratch).len(), 48);
    pool.check_memories();
}

#[test]
fn when_all_hosts_die_nothing_is_lost_and_the_same_command_continues() {
    let (pool, scratch) = (Pool::of(2, 60), scratch(8));
    let running = pool.start(&scratch, ALL);
    pool.hosts[0].wait_for_completions(4);
    for host in &pool.hosts {
        host.go_down();
    }
    let outcome = running.finish();
    assert_eq!(outcome.code, 1, "{outcome}");
    for words in [
        pool.urls[0].as_str(),
        &pool.urls[1],
        "cannot be reached",
        "run the same command again",
    ] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    let [_, collected, _, failed] = counts(&outcome.summary());
    assert!(collected >= 3 && failed == 0, "{outcome}");
    for host in &pool.hosts {
        host.come_back();
    }
    let again = pool.run(&scratch, ALL, &[]);
    assert_eq!(again.code, 0, "{again}");
    assert_eq!(counts(&again.summary()), [48, 48 - collected, collected, 0]);
    assert_eq!(made_by(&scratch).len(), 48);
}

#[test]
fn a_model_that_one_host_cannot_load_runs_on_the_other() {
    let (pool, scratch) = (Pool::of(2, 20), scratch(4));
    let fault = Fault::Status(500, "model requires more system memory");
    pool.hosts[0].fail("/api/generate", 1000, fault);
    let outcome = pool.run(&scratch, ALL, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [24, 24, 0, 0]);
    assert!(outcome.stderr.contains("more system memory"), "{outcome}");
    assert_eq!(made_by(&scratch), vec![pool.urls[1].clone(); 24]);
    pool.check_memories();
}

#[test]
fn a_model_that_errors_on_one_host_only_runs_on_the_other() {
    let (pool, scratch) = (Pool::of(2, 40), scratch(6));
    pool.hosts[0].fail(COMPLETIONS, 1000, Fault::Status(500, "runner crashed"));
    let outcome = pool.run(&scratch, "alpha:0.5b,beta:1b", &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [24, 24, 0, 0]);
    assert!(outcome.stderr.contains("runner crashed"), "{outcome}");
    assert_eq!(made_by(&scratch), vec![pool.urls[1].clone(); 24]);
    let tried = pool.hosts[0].completions().len();
    assert!(
        (1..=6).contains(&tried),
        "it is not asked for every cell: {tried}"
    );
    pool.check_memories();
}

#[test]
fn a_cell_that_fails_on_every_host_is_a_failed_cell() {
    let (pool, scratch) = (Pool::of(2, 20), scratch(2));
    for host in &pool.hosts {
        host.set_pace(ALPHA, pace(20, 20));
        host.fail(COMPLETIONS, 1000, Fault::Status(400, "no"));
    }
    let outcome = pool.run(&scratch, ALPHA, &[]);
    assert_eq!(outcome.code, 4, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [4, 0, 0, 4]);
    pool.check_memories();
}

#[test]
fn a_host_with_somebody_elses_model_is_left_out() {
    let (pool, scratch) = (Pool::of(2, 20), scratch(4));
    pool.hosts[0].preload("theirs:7b");
    let outcome = pool.run(&scratch, ALL, &[]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [24, 24, 0, 0]);
    assert!(outcome.stderr.contains("'theirs:7b'"), "{outcome}");
    assert_eq!(pool.hosts[0].held_now(), ["theirs:7b"]);
    assert_eq!(made_by(&scratch), vec![pool.urls[1].clone(); 24]);
}

#[test]
fn a_cell_that_takes_too_long_is_tried_on_another_host() {
    let (pool, scratch) = (Pool::of(2, 40), scratch(6));
    pool.hosts[0].fail(COMPLETIONS, 1, Fault::Slow(Duration::from_secs(6)));
    let outcome = pool.run(&scratch, "alpha:0.5b,beta:1b", &["--timeout", "2"]);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(counts(&outcome.summary()), [24, 24, 0, 0]);
    assert!(
        outcome.stderr.contains("did not answer within 2 s"),
        "{outcome}"
    );
    assert_eq!(outcome.summary()["hosts"][0]["failures"], 1, "{outcome}");
    pool.check_memories();
}

#[test]
fn a_host_that_accepts_and_never_answers_does_not_delay_the_end() {
    let (pool, scratch) = (Pool::of(2, 100), scratch(8));
    pool.hosts[0].go_down();
    let running = pool.start(&scratch, "alpha:0.5b,beta:1b");
    pool.hosts[1].wait_for_completions(2);
    pool.hosts[0].fail("/api/show", 1000, Fault::Slow(Duration::from_mins(10)));
    pool.hosts[0].come_back();
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [32, 32, 0, 0]);
    assert!(
        !pool.hosts[0].calls_to("/api/show").is_empty(),
        "it was asked"
    );
    assert!(summary["seconds"].as_f64() < Some(60.0), "{summary}");
}
