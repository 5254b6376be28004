//! What is derived from a loop's log in the tracking store: its run, and the alias of its nominee.

use assize_domain::run::RunStatus;
use assize_pipeline::optimise::LoopLog;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::state::State;
use assize_store::{RunQuery, Runs as _};
use assize_test_support::Scratch;

use crate::fixture::{START, fixing_rounds, scratch, start, step, with};

fn store(scratch: &Scratch) -> EmbeddedStore {
    let path = scratch.file(".assize/assize.db");
    EmbeddedStore::open(&path, || 0, random_run_id).expect("a store")
}

fn status(scratch: &Scratch) -> RunStatus {
    let runs = store(scratch).run_list("e", &RunQuery::default());
    let runs = runs.expect("runs").runs;
    let run = runs.iter().find(|it| it.name == "optimise e");
    run.expect("the loop's run").status
}

fn has_challenger(scratch: &Scratch) -> bool {
    let store = store(scratch);
    let found = store.mlflow().version_by_alias("advice", "challenger");
    found.is_ok()
}

/// A loop whose nominee waits for judges.
fn nominated() -> Scratch {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    assert_eq!(status(&scratch), RunStatus::Running);
    assert!(has_challenger(&scratch));
    scratch
}

#[test]
fn a_stopped_loop_ends_its_run_and_its_nominee_is_no_challenger() {
    let scratch = nominated();
    scratch.ok("optimise stop --experiment e");
    assert_eq!(status(&scratch), RunStatus::Finished);
    assert!(!has_challenger(&scratch));
}

#[test]
fn a_step_that_was_killed_behind_the_last_event_is_made_up_for() {
    let scratch = nominated();
    let state = State::open(&scratch.file(".assize")).expect("a state");
    let mut log = LoopLog::open(&state, "e").expect("a log");
    log.stop("killed", 1).expect("appended");
    drop(state);
    assert_eq!(status(&scratch), RunStatus::Running);
    let idle = scratch.ok("optimise step --experiment e");
    assert!(idle.stderr.contains("nothing to do"), "{idle}");
    assert_eq!(status(&scratch), RunStatus::Finished);
    assert!(!has_challenger(&scratch));
}

#[test]
fn a_loop_that_was_never_stepped_is_stopped_without_a_store() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    let stopped = scratch.ok("optimise stop --experiment e");
    assert!(!stopped.stderr.contains("not brought"), "{stopped}");
    assert!(!scratch.file(".assize/assize.db").exists());
}

#[test]
#[cfg(unix)]
fn the_arguments_of_a_command_are_not_registered() {
    let scratch = scratch(&fixing_rounds());
    let answer = serde_json::json!({"children": [
        {"hypothesis": "short answers are used more", "template": with(&["be brief"])}
    ]});
    scratch.write("answer.json", &answer.to_string());
    scratch.write("writer.sh", "cat > /dev/null; cat answer.json\n");
    let line = START.replace("--rounds 2", "--rounds 1");
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let place = words.iter().position(|it| *it == "script:children.json");
    words[place.expect("a reflector")] = "cmd:sh writer.sh --key=hidden";
    scratch.ok(&words[..]);
    step(&scratch);
    let version = store(&scratch)
        .mlflow()
        .version_by_alias("advice", "challenger")
        .expect("a nominee");
    let tags: Vec<&str> = version.tags.iter().map(|it| it.value.as_str()).collect();
    assert!(tags.contains(&"cmd:sh"), "{tags:?}");
    assert!(!tags.iter().any(|it| it.contains("hidden")), "{tags:?}");
}
