//! Sittings in this process: opens the store that the binary left behind and judges what is queued
//! there. It depends on the product's crates, so the test binaries that need it include it.

#![allow(dead_code, reason = "every test binary uses its own part of this")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use assize_domain::anchor::Anchors;
use assize_domain::builtin;
use assize_domain::case::Case;
use assize_domain::judge::Judge;
use assize_domain::submission::Submission;
use assize_domain::task::Task;
use assize_pipeline::Now;
use assize_pipeline::judge::queue::{Queue, SitOptions};
use assize_store::Tracking;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use serde_json::{Value, json};

use assize_test_support::Scratch;

/// What the tests' clocks start from: 2026-04-27T10:00:00Z.
pub const START_MS: i64 = 1_777_284_000_000;
pub const LEASE_MS: i64 = 60_000;

/// So many milliseconds after the start.
pub fn at(ms: i64) -> Now {
    let ms = START_MS + ms;
    let time = jiff::Timestamp::from_millisecond(ms).expect("a time");
    Now {
        ms,
        rfc3339: format!("{time:.3}"),
    }
}

/// Another connection to a folder's store, as another process would have.
pub fn store_of(scratch: &Scratch) -> Arc<dyn Tracking> {
    open_store(&scratch.file(".assize/assize.db"))
}

/// Opens a store by its path.
pub fn open_store(path: &Path) -> Arc<dyn Tracking> {
    let store = EmbeddedStore::open(path, || START_MS, random_run_id).expect("a store");
    Arc::new(store)
}

/// The known scores of the built-in anchors, by their texts.
pub fn known() -> BTreeMap<String, BTreeMap<String, Value>> {
    let task = Task::parse(&builtin::files("tip").expect("built in")).expect("sound");
    let cases = task.anchors.cases.into_iter();
    cases.map(|it| (it.candidate, it.scores)).collect()
}

/// A person of this name at the queue of the experiment `e`.
pub fn sit(name: &str) -> SitOptions {
    sit_at("e", name)
}

/// A person of this name at the queue of an experiment.
pub fn sit_at(experiment: &str, name: &str) -> SitOptions {
    SitOptions {
        experiment: experiment.to_owned(),
        judge: Judge {
            kind: "human".to_owned(),
            name: name.to_owned(),
            version: None,
        },
        desk: None,
        seed: Some(1),
        double: false,
        anchors: Anchors::default(),
        lease_ms: LEASE_MS,
        entropy: random_run_id,
    }
}

/// Opens a sitting where something waits.
pub fn open(store: &Arc<dyn Tracking>, options: SitOptions, now: &Now) -> Queue {
    let queue = Queue::open(Arc::clone(store), options, now).expect("a store");
    queue.expect("something to judge")
}

/// The same score on every criterion of the built-in task.
pub fn scored(case: &Case, score: i64) -> Submission {
    submission(
        &case.case,
        &json!({"relevance": score, "actionability": score, "tone": score}),
    )
}

pub fn submission(case: &str, scores: &Value) -> Submission {
    Submission {
        case: case.to_owned(),
        scores: scores.as_object().expect("an object").clone(),
        rationale: None,
    }
}

/// Scores everything that the queue has for this judge, so many cases at a time.
pub fn clear(queue: &mut Queue, at_once: usize, now: &Now) -> usize {
    let mut done = 0;
    loop {
        let cases = queue.next(at_once, now).expect("the next cases");
        if cases.is_empty() {
            return done;
        }
        let verdicts: Vec<Submission> = cases.iter().map(|case| scored(case, 3)).collect();
        done += queue.submit(&verdicts, now).expect("accepted").scored;
    }
}
