//! The rows of `board` repeat other tables: after every kind of change to a run they still agree.

use std::io::Write as _;

use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_store::embedded::EmbeddedStore;
use assize_store::mlflow::{Batch, Entry, Point, RunChange};
use assize_store::queue::Reopening;
use assize_store::{
    Boards as _, Cells as _, Copying as _, ImportedRun, Queue as _, RunQuery, Runs as _,
    Tracking as _,
};

use crate::common::{NOW_MS, cell, open, rubric, verdicts};
use crate::judging::{Desk, desk, judged_desk};

/// Everything that boards see, in words.
fn seen(store: &EmbeddedStore) -> Vec<String> {
    let mut seen = Vec::new();
    for split in [Split::Selection, Split::Feedback, Split::Confirmation] {
        let mut note = |run: assize_store::BoardRun<'_>| {
            seen.push(format!("{run:?}"));
            Ok(())
        };
        store.board_each("e", split, &mut note).unwrap();
    }
    seen
}

fn path_of(store: &EmbeddedStore) -> &str {
    store.uri().strip_prefix("sqlite:").unwrap()
}

/// Checks a copy of the database without board rows against the original; answers how many rows
/// the original has.
fn rows_checked(store: &EmbeddedStore) -> i64 {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.db");
    let original = rusqlite::Connection::open(path_of(store)).unwrap();
    original
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    let bare = rusqlite::Connection::open(&copy).unwrap();
    bare.execute_batch("DELETE FROM board").unwrap();
    drop(bare);
    assert_eq!(seen(store), seen(&open(&copy)));
    original
        .query_row("SELECT count(*) FROM board", [], |row| row.get(0))
        .unwrap()
}

fn tag(key: &str, value: &str) -> Batch {
    Batch {
        tags: vec![Entry {
            key: key.to_owned(),
            value: value.to_owned(),
        }],
        ..Batch::default()
    }
}

fn latency(step: i64, value: f64) -> Batch {
    Batch {
        metrics: vec![Point {
            key: "latency_ms".to_owned(),
            value,
            timestamp: NOW_MS + 1,
            step,
        }],
        ..Batch::default()
    }
}

fn judged() -> Desk {
    let desk = judged_desk();
    desk.commit(&[(0, verdicts("s-1", "human", &[(0, 1), (1, 2)]))])
        .unwrap();
    desk
}

#[test]
fn recorded_and_judged_runs_have_true_rows() {
    let desk = judged();
    assert_eq!(rows_checked(&desk.store), 3);
    desk.store
        .cells_record("e", &[cell("k3", "m3", "s1"), cell("k4", "m4", "s1")])
        .unwrap();
    assert_eq!(rows_checked(&desk.store), 4);
}

#[test]
fn what_is_set_aside_reopened_or_deleted_shows_on_boards() {
    let desk = judged();
    let reopening = |rubric: Option<Rubric>, run: usize| Reopening {
        run_ids: vec![desk.runs[run].clone()],
        rubric,
        tiers: vec![Tier::Expert],
    };
    let before = seen(&desk.store);
    desk.store.runs_reopen(&reopening(None, 0)).unwrap();
    assert_ne!(before, seen(&desk.store));
    assert_eq!(rows_checked(&desk.store), 3);
    let text = rubric().text.replace("Prose.", "Other prose.");
    let other = Rubric::parse("rubric.md", &text).unwrap();
    desk.store.runs_reopen(&reopening(Some(other), 1)).unwrap();
    assert_eq!(rows_checked(&desk.store), 3);
    desk.store.run_delete(&desk.runs[..1]).unwrap();
    assert_eq!(seen(&desk.store).len(), 2);
    rows_checked(&desk.store);
}

#[test]
fn what_other_tools_change_shows_on_boards() {
    let desk = judged();
    let mlflow = desk.store.mlflow();
    let run = &desk.runs[0];
    mlflow.run_log(run, tag("note", "kept")).unwrap();
    assert_eq!(rows_checked(&desk.store), 3);
    let changes: [&dyn Fn(); 4] = [
        &|| mlflow.run_log(run, tag("settings", "other")).unwrap(),
        &|| mlflow.run_log(run, latency(1, 41.5)).unwrap(),
        &|| mlflow.run_log(run, latency(2, f64::NAN)).unwrap(),
        &|| mlflow.run_tag_delete(run, "settings").unwrap(),
    ];
    for change in changes {
        let before = seen(&desk.store);
        change();
        assert_ne!(before, seen(&desk.store));
        assert_eq!(rows_checked(&desk.store), 2);
    }
    // The end of a run is when its row is written again.
    let mut file = tempfile::tempfile().unwrap();
    let status = |status| RunChange {
        status: Some(status),
        ..RunChange::default()
    };
    mlflow.run_update(run, status(RunStatus::Failed)).unwrap();
    assert_eq!(rows_checked(&desk.store), 3);
    mlflow.run_update(run, status(RunStatus::Finished)).unwrap();
    let verdicts = verdicts("s-2", "human", &[(0, 3)]);
    file.write_all(&serde_json::to_vec(&verdicts).unwrap())
        .unwrap();
    let before = seen(&desk.store);
    mlflow
        .artifact_write(run, "verdicts/s-2.json", file)
        .unwrap();
    assert_ne!(before, seen(&desk.store));
    assert_eq!(rows_checked(&desk.store), 3);
}

#[test]
fn copied_runs_have_true_rows() {
    let desk = judged();
    let dir = tempfile::tempdir().unwrap();
    let there = open(&dir.path().join("there.db"));
    let copy = || {
        let runs = desk.store.run_list("e", &RunQuery::default()).unwrap().runs;
        let runs: Vec<ImportedRun> = runs
            .iter()
            .map(|run| {
                ImportedRun::read(&desk.store, &desk.store.run_get_whole(&run.run_id).unwrap())
                    .unwrap()
            })
            .collect();
        there.runs_import("e", &runs).unwrap();
    };
    copy();
    assert_eq!(rows_checked(&there), 3);
    desk.commit(&[(1, verdicts("s-3", "human", &[(0, 1)]))])
        .unwrap();
    copy();
    assert_eq!(rows_checked(&there), 3);
}

#[test]
fn rows_of_another_format_count_as_missing_and_verdicts_bring_them_back() {
    let desk = judged();
    let before = seen(&desk.store);
    let conn = rusqlite::Connection::open(path_of(&desk.store)).unwrap();
    conn.execute_batch("UPDATE board SET line = x'00'; DELETE FROM board WHERE run = 2")
        .unwrap();
    assert_eq!(before, seen(&desk.store));
    desk.commit(&[(1, verdicts("s-4", "human", &[(0, 2)]))])
        .unwrap();
    assert_ne!(before, seen(&desk.store));
    assert_eq!(rows_checked(&desk.store), 3);
}

#[test]
fn the_order_of_sittings_does_not_depend_on_who_came_first() {
    let desk = desk();
    let (early, late) = (("s-1", 1), ("s-2", 3));
    for (run, order) in [(0, [early, late]), (1, [late, early])] {
        for (sitting, tone) in order {
            desk.commit(&[(run, verdicts(sitting, "human", &[(0, tone)]))])
                .unwrap();
        }
    }
    assert_eq!(rows_checked(&desk.store), 3);
}

#[test]
fn a_program_that_is_too_old_does_not_write() {
    let desk = desk();
    let conn = rusqlite::Connection::open(path_of(&desk.store)).unwrap();
    conn.pragma_update(None, "user_version", 999).unwrap();
    let refused = desk.commit(&[(0, verdicts("s-1", "human", &[(0, 1)]))]);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("a newer version of Assize"), "{error}");
    assert!(desk.store.verdicts_get(&desk.runs[0]).unwrap().is_empty());
}
