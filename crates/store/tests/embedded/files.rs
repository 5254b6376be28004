//! Which files are opened, and which are left alone.

use std::path::Path;

use assize_domain::judge::Tier;
use assize_domain::scenario::Split;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::{
    Boards as _, Cells as _, PendingQuery, Queue as _, RunQuery, Runs as _, StoreError,
    Tracking as _,
};
use rusqlite::Connection;

use crate::common::{NOW_MS, cell, open};

fn refused(path: &Path) -> String {
    let error = EmbeddedStore::open(path, || NOW_MS, random_run_id).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&path.display().to_string()), "{message}");
    message
}

fn files_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_database_of_mlflow_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mlflow.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
         CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name VARCHAR(256));
         INSERT INTO alembic_version VALUES ('bda7b8c39065');",
    )
    .unwrap();
    drop(conn);
    let before = std::fs::read(&path).unwrap();
    let message = refused(&path);
    assert!(message.contains("a database of MLflow"), "{message}");
    assert!(message.contains("mlflow server"), "{message}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(files_in(dir.path()), ["mlflow.db"]);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("CREATE TABLE customers (id INTEGER PRIMARY KEY)")
        .unwrap();
    drop(conn);
    let before = std::fs::read(&path).unwrap();
    assert!(refused(&path).contains("another program"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    let notes = "These are my notes, and they are long enough to look at.\n".repeat(100);
    std::fs::write(&path, &notes).unwrap();
    assert!(refused(&path).contains("not a SQLite database"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), notes);
    assert!(refused(dir.path()).contains("this is a folder"));
    assert!(refused(&path.join("below/assize.db")).contains("its folder cannot be created"));
}

#[test]
fn an_empty_file_becomes_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    std::fs::write(&path, "").unwrap();
    let store = open(&path);
    assert!(store.cells_record("e", &[cell("k", "m", "s")]).unwrap()[0].written);
    assert_eq!(store.uri(), format!("sqlite:{}", path.display()));
}

#[test]
fn a_newer_layout_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 9_999).unwrap();
    drop(conn);
    let message = refused(&path);
    assert!(message.contains("version 9999"), "{message}");
    assert!(message.contains("update assize"), "{message}");
}

#[test]
fn a_write_that_fails_halfway_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "CREATE TRIGGER full BEFORE INSERT ON artifacts WHEN new.run = 2
         BEGIN SELECT raise(ABORT, 'no room'); END",
    )
    .unwrap();
    let cells = [cell("k1", "m", "s1"), cell("k2", "m", "s2")];
    let error = store.cells_record("e", &cells).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    assert!(error.to_string().contains("assize.db"), "{error}");
    let count = |table: &str| -> i64 {
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
    };
    for table in [
        "runs",
        "params",
        "tags",
        "latest_metrics",
        "artifacts",
        "blobs",
    ] {
        assert_eq!(count(table), 0, "{table}");
    }
    conn.execute_batch("DROP TRIGGER full").unwrap();
    assert!(
        store
            .cells_record("e", &cells)
            .unwrap()
            .iter()
            .all(|it| it.written)
    );
}

#[test]
fn an_unknown_experiment_names_the_ones_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let check = |expected: &str| {
        let query = PendingQuery {
            tier: Tier::Expert,
            judge_kind: None,
        };
        let errors = [
            store.run_list("nope", &RunQuery::default()).unwrap_err(),
            store.judging_count("nope").unwrap_err(),
            store
                .pending_each("nope", &query, &mut |_| Ok(()))
                .unwrap_err(),
            store
                .board_each("nope", Split::Selection, &mut |_| Ok(()))
                .unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, StoreError::NoExperiment { .. }));
            let message = error.to_string();
            assert!(message.contains("'nope'"), "{message}");
            assert!(message.contains(expected), "{message}");
        }
    };
    check("run `assize collect`");
    for number in 0..7 {
        store
            .cells_record(&format!("e{number}"), &[cell("k", "m", "s")])
            .unwrap();
    }
    check("e0, e1, e2, e3, e4 or 2 more");
}
