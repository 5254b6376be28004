//! Recording cells: each once, whatever happens.

use crate::common::{cell, failed_cell, open};
use std::slice::from_ref;

use assize_domain::run::{RunStatus, tag};
use assize_store::{Cells as _, KnownCell, RunQuery, Runs as _};

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = pairs.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn a_cell_is_recorded_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("a/b/assize.db"));
    let cells = [cell("k1", "m1", "s1"), cell("k2", "m1", "s2")];
    let first = store.cells_record("e", &cells).unwrap();
    assert!(first.iter().all(|it| it.written));
    let mut other = cell("k2", "m9", "s9");
    other.status = RunStatus::Failed;
    let again = store
        .cells_record(
            "e",
            &[other, cell("k3", "m1", "s3"), cell("k3", "m1", "s3")],
        )
        .unwrap();
    let written: Vec<bool> = again.iter().map(|it| it.written).collect();
    assert_eq!(written, [false, true, false]);
    assert_eq!(again[0].run_id, first[1].run_id);
    assert_eq!(again[1].run_id, again[2].run_id);
    assert_eq!(
        store
            .run_list("e", &RunQuery::default())
            .unwrap()
            .runs
            .len(),
        3
    );
    assert_eq!(
        store
            .run_get(first[1].run_id.as_ref().unwrap())
            .unwrap()
            .name,
        "m1 × v1 × s2"
    );

    // The same cell in another experiment is another run.
    let elsewhere = store.cells_record("f", &cells[..1]).unwrap();
    assert!(elsewhere[0].written);
    assert_ne!(elsewhere[0].run_id, first[0].run_id);
}

#[test]
fn a_run_reads_as_it_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let cell = cell("k1", "m1", "s1");
    let run_id = open(&path).cells_record("e", from_ref(&cell)).unwrap()[0]
        .run_id
        .clone()
        .unwrap();
    assert_eq!(run_id.len(), 32);
    assert!(run_id.chars().all(|c| "0123456789abcdef".contains(c)));

    let store = open(&path);
    let run = store.run_get(&run_id[..8]).unwrap();
    assert_eq!(run.run_id, run_id);
    assert_eq!(run.experiment, "e");
    assert_eq!(run.status, RunStatus::Finished);
    assert_eq!(run.start_time_ms, cell.start_time_ms);
    assert_eq!(run.end_time_ms, Some(cell.end_time_ms));
    let mut params: Vec<(String, String)> = cell
        .params
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    params.sort();
    assert_eq!(run.params, params);
    assert_eq!(run.tags.len(), cell.tags.len());
    assert_eq!(value(&run.tags, tag::CELL_KEY), Some("k1"));
    assert_eq!(run.metrics.len(), 3);
    for (path, content) in &cell.artifacts {
        assert!(run.artifacts.contains(&path.to_string()));
        let kept = store.artifact_get(&run_id, path).unwrap();
        assert_eq!(kept.as_deref(), Some(&**content));
    }
    assert_eq!(store.artifact_get(&run_id, "nope.txt").unwrap(), None);
}

#[test]
fn a_failed_cell_is_replaced_and_keeps_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let failed = store
        .cells_record("e", &[failed_cell("k1", "m1", "s1")])
        .unwrap();
    let keys = ["k1".to_owned(), "k2".to_owned()];
    let known = store.cells_known("e", &keys).unwrap();
    let run_id = failed[0].run_id.clone().unwrap();
    assert_eq!(
        known,
        [
            Some(KnownCell {
                run_id: Some(run_id.clone()),
                failed: true
            }),
            None
        ]
    );
    assert!(value(&store.run_get(&run_id).unwrap().tags, tag::ERROR).is_some());

    let retried = store.cells_record("e", &[cell("k1", "m1", "s1")]).unwrap();
    assert!(retried[0].written);
    assert_eq!(retried[0].run_id.as_ref(), Some(&run_id));
    let run = store.run_get(&run_id).unwrap();
    assert_eq!(run.status, RunStatus::Finished);
    assert_eq!(value(&run.tags, tag::ERROR), None);
    let known = store.cells_known("e", &keys).unwrap();
    assert_eq!(
        known[0],
        Some(KnownCell {
            run_id: Some(run_id),
            failed: false
        })
    );
    assert_eq!(store.cells_known("none", &keys).unwrap(), [None, None]);
}

#[test]
fn a_deleted_run_frees_its_cell() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let first = store.cells_record("e", &[cell("k1", "m1", "s1")]).unwrap();
    let run_id = first[0].run_id.clone().unwrap();

    let missing = "0".repeat(32);
    let error = store.run_delete(&[run_id.clone(), missing]).unwrap_err();
    assert!(error.to_string().contains("there is no run"), "{error}");
    assert!(
        store.run_get(&run_id).is_ok(),
        "nothing is deleted by halves"
    );

    store.run_delete(from_ref(&run_id)).unwrap();
    let error = store.run_get(&run_id).unwrap_err();
    assert!(error.to_string().contains("deleted"), "{error}");
    assert_eq!(store.cells_known("e", &["k1".to_owned()]).unwrap(), [None]);
    let again = store.cells_record("e", &[cell("k1", "m1", "s1")]).unwrap();
    assert!(again[0].written);
    assert_ne!(again[0].run_id, Some(run_id));
}
