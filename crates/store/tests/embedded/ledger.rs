//! The ledger: entries that stay, whoever writes them and however the writer ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use assize_domain::ledger::{Entry, Kind, Via};
use assize_domain::scenario::Split;
use assize_store::{Cells as _, Ledger as _, StoreError};
use rusqlite::Connection;

use crate::common::{cell, open};

fn entry(id: &str) -> Entry {
    Entry {
        id: id.to_owned(),
        number: 0,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        by: "ana\u{1b}[31m'; DROP TABLE runs; --".to_owned(),
        kind: Kind::Look,
        via: Via::Command,
        split: Some(Split::Confirmation),
        candidate: None,
        incumbent: None,
        outcome: None,
        figures: BTreeMap::new(),
    }
}

fn ids(path: &Path) -> BTreeSet<String> {
    let entries = open(path).ledger_list("e").unwrap();
    let numbers: Vec<u32> = entries.iter().map(|it| it.number).collect();
    let expected: Vec<u32> = (1..).take(entries.len()).collect();
    assert_eq!(numbers, expected);
    entries.into_iter().map(|it| it.id).collect()
}

#[test]
fn entries_belong_to_their_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let unknown = store.ledger_append("e", &entry("a")).unwrap_err();
    assert!(
        matches!(unknown, StoreError::NoExperiment { .. }),
        "{unknown}"
    );
    assert!(store.ledger_list("e").is_err());
    store.cells_record("e", &[cell("k", "m", "s")]).unwrap();
    store.cells_record("f", &[cell("l", "m", "s")]).unwrap();
    store.ledger_append("e", &entry("a")).unwrap();
    let expected = Entry {
        number: 1,
        ..entry("a")
    };
    assert_eq!(store.ledger_list("e").unwrap(), [expected]);
    assert_eq!(store.ledger_list("f").unwrap(), []);
}

#[test]
fn an_entry_cannot_be_changed_or_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    store.cells_record("e", &[cell("k", "m", "s")]).unwrap();
    store.ledger_append("e", &entry("a")).unwrap();
    let conn = Connection::open(&path).unwrap();
    for sql in [
        "UPDATE experiment_tags SET value = '{}' WHERE key GLOB 'assize.*'",
        "UPDATE experiment_tags SET key = 'other' WHERE key GLOB 'assize.*'",
        "DELETE FROM experiment_tags",
        "INSERT OR REPLACE INTO experiment_tags SELECT experiment, key, '{}' FROM experiment_tags",
    ] {
        let error = conn.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("never"), "{sql}: {error}");
    }
    // Nor by clients of the MLflow API, which may write the very same entry again.
    let id = store.mlflow().experiment_get_by_name("e").unwrap();
    let id = id.experiment_id;
    let set = |key: &str, value: &str| store.mlflow().experiment_tag(&id, key, Some(value));
    let (key, value) = entry("a").tag();
    set(&key, &value).unwrap();
    set("plain", "1").unwrap();
    set("plain", "2").unwrap();
    let (key_b, value_b) = entry("b").tag();
    let changed = value.replace("look", "attempt");
    for (key, value) in [(&key, &*value_b), (&key, &*changed), (&key_b, "text")] {
        let error = set(key, value).unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{error}");
    }
    let deleted = store.mlflow().experiment_tag(&id, &key, None);
    assert!(matches!(deleted, Err(StoreError::Invalid(_))));
    set(&key_b, &value_b).unwrap();
    drop(store);
    let expected: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
    assert_eq!(ids(&path), expected);
}

#[test]
fn two_stores_that_append_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let stores = [open(&path), open(&path)];
    stores[0].cells_record("e", &[cell("k", "m", "s")]).unwrap();
    std::thread::scope(|scope| {
        for (place, store) in stores.iter().enumerate() {
            for thread in 0..3 {
                scope.spawn(move || {
                    for n in 0..40 {
                        let id = format!("{place}-{thread}-{n}");
                        store.ledger_append("e", &entry(&id)).unwrap();
                    }
                });
            }
        }
    });
    drop(stores);
    assert_eq!(ids(&path).len(), 240);
}

const CHILD: &str = "ASSIZE_LEDGER_TEST_CHILD";

/// Not a test of its own: the process that the next test kills.
#[test]
fn child_appends_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let store = open(Path::new(&path));
    let mut out = std::io::stdout();
    for n in 0.. {
        let id = format!("{}-{n}", std::process::id());
        store.ledger_append("e", &entry(&id)).unwrap();
        writeln!(out, "\nappended {id}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn an_entry_is_whole_or_absent_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    store.cells_record("e", &[cell("k", "m", "s")]).unwrap();
    drop(store);
    let mut acknowledged = BTreeSet::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "ledger::child_appends_until_it_is_killed",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        while heard < 10 + 7 * round {
            let line = lines.next().unwrap().unwrap();
            if let Some(id) = line.strip_prefix("appended ") {
                acknowledged.insert(id.to_owned());
                heard += 1;
            }
        }
        child.kill().unwrap();
        let rest = lines.map_while(Result::ok);
        acknowledged.extend(rest.filter_map(|it| it.strip_prefix("appended ").map(str::to_owned)));
        child.wait().unwrap();
    }
    // Reading parses every entry.
    let found = ids(&path);
    assert!(acknowledged.is_subset(&found));
    // At most one entry a round was committed but not yet said.
    assert!(found.len() <= acknowledged.len() + 4);
}
