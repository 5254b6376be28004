//! `assize sync`: an experiment copied between stores, repeatedly and interrupted anywhere.

mod foreign_runs;

use std::process::Stdio;
use std::time::Duration;

use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch, collect, script};
use serde_json::{Value, json};

const HERE: &str = "sqlite:.assize/assize.db";

/// A small experiment, of which one sitting has judged everything.
fn judged() -> Scratch {
    let scratch = Scratch::pending("scripted:a,scripted:b", "p1,p2", 4);
    judge(&scratch, "first", 1);
    scratch
}

/// Scores everything that is pending, by a person of this name.
fn judge(scratch: &Scratch, name: &str, worst: i64) {
    let mut next = 0;
    let words = format!("--judge-kind human --judged-by {name}");
    scratch.judge("e", &format!("{name}.json"), &words, |case| {
        next += 1;
        case["scores"]["worth"] = json!((next % 2 + worst).min(3));
    });
}

fn sync(scratch: &Scratch, from: &str, to: &str) -> Value {
    let line = format!("sync --from {from} --to {to} --experiment e --json");
    scratch.ok(&line).json()
}

fn at(scratch: &Scratch, uri: &str, command: &str) -> Outcome {
    scratch.ok(&format!(
        "{command} --experiment e --json --tracking-uri {uri}"
    ))
}

fn board(scratch: &Scratch, uri: &str) -> Value {
    at(scratch, uri, "compare").json()
}

/// The runs of a store by cell, without what is each store's own.
fn runs(scratch: &Scratch, uri: &str) -> Vec<Value> {
    let mut list = at(scratch, uri, "runs list --limit 0").json();
    let runs = list["runs"].as_array_mut().expect("runs");
    for run in runs.iter_mut() {
        run.as_object_mut().expect("a run").remove("run_id");
    }
    runs.sort_by_key(|run| run["tags"]["cell_key"].to_string());
    runs.clone()
}

#[test]
fn a_copy_has_the_same_board_and_a_second_one_changes_nothing() {
    let scratch = judged();
    let copied = sync(&scratch, HERE, "sqlite:one.db");
    assert_eq!(copied["runs"], 16, "{copied}");
    assert_eq!(copied["copied"], 16);
    assert_eq!(copied["sittings"], 1);
    sync(&scratch, "sqlite:one.db", "sqlite:two.db");
    let original = board(&scratch, HERE);
    assert_eq!(original["coverage"]["judged"], 16);
    for uri in ["sqlite:one.db", "sqlite:two.db"] {
        assert_eq!(board(&scratch, uri), original);
        assert_eq!(runs(&scratch, uri), runs(&scratch, HERE));
        let status = |uri: &str| at(&scratch, uri, "judge status").json();
        assert_eq!(status(uri), status(HERE));
    }
    for (from, to) in [(HERE, "sqlite:one.db"), ("sqlite:two.db", HERE)] {
        let again = sync(&scratch, from, to);
        assert_eq!(again["unchanged"], 16, "{again}");
        for nothing in ["copied", "merged", "sittings", "different"] {
            assert_eq!(again[nothing], 0, "{nothing}");
        }
    }
}

#[test]
fn verdicts_of_both_sides_add_up() {
    let scratch = Scratch::pending("scripted:a,scripted:b", "p1,p2", 4);
    sync(&scratch, HERE, "sqlite:other.db");
    judge(&scratch, "here", 1);
    scratch.ok(
        "judge export --experiment e --out there.json --no-anchors --tracking-uri sqlite:other.db",
    );
    let mut file = scratch.read_json("there.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        case["scores"]["worth"] = json!(3);
    }
    scratch.write("there.json", &file.to_string());
    scratch.ok("judge apply there.json --judge-kind human --judged-by there --tracking-uri sqlite:other.db");
    assert_ne!(board(&scratch, HERE), board(&scratch, "sqlite:other.db"));

    let merged = sync(&scratch, HERE, "sqlite:other.db");
    assert_eq!(merged["merged"], 16, "{merged}");
    let back = sync(&scratch, "sqlite:other.db", HERE);
    assert_eq!(back["merged"], 16, "{back}");
    let both = board(&scratch, HERE);
    assert_eq!(both, board(&scratch, "sqlite:other.db"));
    // The later sitting counts, wherever it sat.
    assert_eq!(both["rows"][0]["criteria"]["worth"], 3.0);
    assert_eq!(runs(&scratch, HERE), runs(&scratch, "sqlite:other.db"));
}

#[test]
fn verdicts_set_aside_stay_set_aside_in_the_copy() {
    let scratch = judged();
    sync(&scratch, HERE, "sqlite:copy.db");
    scratch.ok("judge reopen --experiment e");
    let merged = sync(&scratch, HERE, "sqlite:copy.db");
    assert_eq!(merged["merged"], 16, "{merged}");
    let copy = board(&scratch, "sqlite:copy.db");
    assert_eq!(copy["coverage"]["pending"], 16);
    assert_eq!(runs(&scratch, HERE), runs(&scratch, "sqlite:copy.db"));
}

#[test]
fn a_dry_run_says_what_it_would_do_and_writes_nothing() {
    let scratch = judged();
    let line = format!("sync --from {HERE} --to sqlite:new.db --experiment e --dry-run --json");
    let planned = scratch.ok(&line).json();
    assert_eq!(planned["copied"], 16);
    assert_eq!(planned["dry_run"], true);
    assert!(!scratch.file("new.db").exists());
}

#[test]
fn mistakes_are_explained() {
    let scratch = judged();
    let same = format!("sync --from {HERE} --to {HERE} --experiment e");
    assert!(scratch.fails(2, &same).stderr.contains("name two stores"));
    let unknown = format!("sync --from {HERE} --to sqlite:x.db --experiment f");
    let outcome = scratch.fails(2, &unknown);
    assert!(
        outcome.stderr.contains("there is no experiment 'f'"),
        "{outcome}"
    );
    let missing = format!("sync --from sqlite:no.db --to {HERE} --experiment e");
    assert!(
        scratch
            .fails(2, &missing)
            .stderr
            .contains("nothing is tracked")
    );
    scratch.fails(2, &format!("sync --from {HERE}"));
    let nothing = scratch.ok("sync --json").json();
    assert_eq!(nothing, json!({"delivered": 0, "waiting": 0}));
}

#[test]
fn killed_anywhere_and_repeated_it_ends_with_the_same_experiment() {
    let scratch = Scratch::new();
    let models: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
    let texts: Vec<(&str, &[&str])> = models
        .iter()
        .map(|model| (model.as_str(), &["one", "two"][..]))
        .collect();
    scratch.write("script.json", &script(&texts));
    let names: Vec<String> = models
        .iter()
        .map(|model| format!("scripted:{model}"))
        .collect();
    scratch.ok(&collect(&names.join(","), "--n-tips 2 -j 4"));
    let cells = 12 * 3 * 8;
    let line = format!("sync --from {HERE} --to sqlite:copy.db --experiment e --json");
    let mut killed = 0;
    for pause_ms in [10, 25, 40, 60, 80, 100, 130, 160] {
        let mut child = scratch
            .command(&line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        std::thread::sleep(Duration::from_millis(pause_ms));
        killed += u64::from(child.try_wait().expect("a status").is_none());
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
    }
    assert!(killed > 0, "no kill met a living process");
    let last = scratch.ok(&line).json();
    assert_eq!(last["runs"], cells, "{last}");
    assert_eq!(runs(&scratch, "sqlite:copy.db"), runs(&scratch, HERE));
    assert_eq!(scratch.ok(&line).json()["unchanged"], cells);
}

#[test]
fn foreign_runs_are_copied_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let middle = folder.path().join("middle.db");
    foreign_runs::round_trip(&format!("sqlite:{}", middle.display()));
}

#[test]
fn foreign_runs_are_copied_whole_through_assize_serve() {
    let scratch = Scratch::new();
    let served = Served::start_with(&scratch, "serve --port 0 --json --open-loopback");
    foreign_runs::round_trip(&served.url);
}

/// The runs of a copy that has been on a server, as far as a server keeps them.
fn lean(mut runs: Vec<Value>) -> Vec<Value> {
    for run in &mut runs {
        let run = run.as_object_mut().expect("a run");
        run.remove("artifacts");
        let tags = run["tags"].as_object_mut().expect("tags");
        tags.retain(|key, _| !key.starts_with("mlflow."));
    }
    runs
}

#[cfg(unix)]
#[test]
fn an_experiment_survives_a_round_trip_through_mlflow() {
    let Some(server) = assize_test_support::mlflow::Mlflow::usual() else {
        return;
    };
    let scratch = judged();
    // Cut off early, and then begun again.
    let line = format!("sync --from {HERE} --to {} --experiment e", server.url);
    let mut child = scratch.command(&line).spawn().expect("the binary runs");
    std::thread::sleep(Duration::from_millis(900));
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    sync(&scratch, HERE, &server.url);
    let back = sync(&scratch, &server.url, "sqlite:back.db");
    assert_eq!(back["copied"], 16, "{back}");
    let original = board(&scratch, HERE);
    assert_eq!(board(&scratch, &server.url), original);
    assert_eq!(board(&scratch, "sqlite:back.db"), original);
    assert_eq!(
        lean(runs(&scratch, "sqlite:back.db")),
        lean(runs(&scratch, HERE))
    );
    assert_eq!(
        lean(runs(&scratch, &server.url)),
        lean(runs(&scratch, HERE))
    );

    for (from, to) in [(HERE, &*server.url), (&*server.url, HERE)] {
        let again = sync(&scratch, from, to);
        assert_eq!(again["unchanged"], 16, "{again}");
        assert_eq!(again["sittings"], 0, "{again}");
    }

    // A second opinion on one side reaches the other, with what follows from it.
    scratch.ok("judge reopen --experiment e");
    judge(&scratch, "second", 2);
    let merged = sync(&scratch, HERE, &server.url);
    assert_eq!(merged["merged"], 16, "{merged}");
    assert_eq!(board(&scratch, &server.url), board(&scratch, HERE));
    assert_eq!(
        lean(runs(&scratch, &server.url)),
        lean(runs(&scratch, HERE))
    );

    surplus_runs_are_removed(&scratch, &server);
    foreign_runs::round_trip(&server.url);
}

/// Makes a second run of a cell, as two machines at once could.
#[cfg(unix)]
fn surplus_runs_are_removed(scratch: &Scratch, server: &assize_test_support::mlflow::Mlflow) {
    let first = server.runs("e").remove(0);
    let key = assize_test_support::mlflow::tag(&first, "cell_key")
        .expect("a key")
        .to_owned();
    let made = server.post(
        "runs/create",
        &json!({"experiment_id": first["info"]["experiment_id"], "start_time": 4_000_000_000_000_i64,
                "tags": [{"key": "cell_key", "value": key}]}),
    );
    let id = made["run"]["info"]["run_id"].clone();
    server.post(
        "runs/update",
        &json!({"run_id": id, "status": "FINISHED", "end_time": 4_000_000_000_001_i64}),
    );
    assert_eq!(server.runs("e").len(), 17);
    let tidied = sync(scratch, HERE, &server.url);
    assert_eq!(tidied["surplus_removed"], 1, "{tidied}");
    assert_eq!(server.runs("e").len(), 16);
    assert!(
        !server
            .runs("e")
            .iter()
            .any(|run| run["info"]["run_id"] == id)
    );
}
