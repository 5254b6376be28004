//! Concurrent threads and stores, and processes that are killed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use assize_store::{Cells as _, Queue as _, RunQuery, Runs as _, Sittings as _};
use rusqlite::Connection;

use crate::common::{cell, open, rubric, verdicts};

fn keys_in(path: &Path) -> Vec<String> {
    let store = open(path);
    let page = store.run_list("e", &RunQuery::default()).unwrap();
    let keys = page.runs.iter().map(|run| {
        let tag = run.tags.iter().find(|(key, _)| key == "cell_key");
        tag.unwrap().1.clone()
    });
    keys.collect()
}

fn is_sound(path: &Path) {
    let conn = Connection::open(path).unwrap();
    let verdict: String = conn
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn every_cell_is_there_once_whoever_records_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let stores = std::thread::scope(|scope| {
        // Both make the file and its tables at once.
        let opening = [0, 1].map(|_| scope.spawn(|| open(&path)));
        opening.map(|it| it.join().unwrap())
    });
    let written = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for store in &stores {
            for _ in 0..4 {
                threads.push(scope.spawn(|| {
                    let mut written = 0;
                    for start in (0..240).step_by(6) {
                        let cells: Vec<_> = (start..start + 6)
                            .map(|n| cell(&format!("k{n}"), "m", &format!("s{n}")))
                            .collect();
                        let recorded = store.cells_record("e", &cells).unwrap();
                        written += recorded.iter().filter(|it| it.written).count();
                    }
                    written
                }));
            }
        }
        threads
            .into_iter()
            .map(|it| it.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(written, 240);
    drop(stores);
    let keys = keys_in(&path);
    assert_eq!(keys.len(), 240);
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>().len(), 240);
    is_sound(&path);
}

#[test]
fn a_failing_job_fails_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..20 {
                    let key = format!("k{thread}-{n}");
                    let recorded = store.cells_record("e", &[cell(&key, &key, "s")]).unwrap();
                    let run_id = recorded[0].run_id.clone().unwrap();
                    // The first file brings new texts, the second one takes them back.
                    let file = verdicts(&format!("s-{key}"), "human", &[(0, 2), (1, 2)]);
                    let good = (run_id.clone(), file.clone());
                    let bad = ("f".repeat(32), file.clone());
                    assert!(
                        store
                            .sitting_commit(&[good.clone(), bad], &rubric())
                            .is_err()
                    );
                    store.sitting_commit(&[good], &rubric()).unwrap();
                    assert_eq!(store.verdicts_get(&run_id).unwrap(), [file]);
                }
            });
        }
    });
    assert_eq!(store.judging_count("e").unwrap().expert_judged, 160);
    drop(store);
    assert_eq!(keys_in(&path).len(), 160);
    is_sound(&path);
}

const CHILD: &str = "ASSIZE_STORE_TEST_CHILD";

/// Not a test of its own: the process that the next test kills.
#[test]
fn child_records_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let store = open(Path::new(&path));
    let mut out = std::io::stdout();
    for n in 0.. {
        let key = format!("k{}-{n}", std::process::id());
        store
            .cells_record("e", &[cell(&key, "m", &format!("s{n}"))])
            .unwrap();
        writeln!(out, "\nrecorded {key}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let mut acknowledged = BTreeSet::new();
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "concurrency::child_records_until_it_is_killed",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        while heard < 20 + 13 * round {
            let line = lines.next().unwrap().unwrap();
            if let Some(key) = line.strip_prefix("recorded ") {
                acknowledged.insert(key.to_owned());
                heard += 1;
            }
        }
        child.kill().unwrap();
        let rest = lines.map_while(Result::ok);
        acknowledged.extend(rest.filter_map(|it| it.strip_prefix("recorded ").map(str::to_owned)));
        child.wait().unwrap();
    }
    let keys: BTreeSet<String> = keys_in(&path).into_iter().collect();
    let lost: Vec<&String> = acknowledged.difference(&keys).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // At most one cell a round was committed but not yet said.
    assert!(keys.len() <= acknowledged.len() + 5);
    is_sound(&path);
}
