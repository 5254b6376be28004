//! Copying runs between stores: what each side lacks is added, nothing is taken back.

use assize_domain::run::{CellRecord, tag};
use assize_domain::sitting::SittingState;
use assize_store::embedded::EmbeddedStore;
use assize_store::queue::Closing;
use assize_store::{
    Cells as _, Change, Copying as _, ImportedRun, Run, RunQuery, Runs as _, Sittings as _,
};

use crate::common::{candidate, cell, cell_with, failed_cell, open, rubric, verdicts};

/// Two stores, and the folder that holds them.
fn stores() -> (EmbeddedStore, EmbeddedStore, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let here = open(&dir.path().join("here.db"));
    let there = open(&dir.path().join("there.db"));
    (here, there, dir)
}

fn all(store: &EmbeddedStore) -> Vec<Run> {
    store.run_list("e", &RunQuery::default()).unwrap().runs
}

fn copy(from: &EmbeddedStore, to: &EmbeddedStore) -> Vec<Change> {
    let runs: Vec<ImportedRun> = all(from)
        .iter()
        .map(|run| ImportedRun::read(from, &from.run_get_whole(&run.run_id).unwrap()).unwrap())
        .collect();
    let imported = to.runs_import("e", &runs).unwrap();
    imported.into_iter().map(|it| it.change).collect()
}

fn record(store: &EmbeddedStore, cell: &CellRecord) -> String {
    let recorded = store.cells_record("e", std::slice::from_ref(cell)).unwrap();
    recorded[0].run_id.clone().unwrap()
}

fn commit(store: &EmbeddedStore, run: &str, sitting: &str, scores: &[(u32, i64)]) {
    let file = verdicts(sitting, "human", scores);
    store
        .sitting_commit(&[(run.to_owned(), file)], &rubric())
        .unwrap();
}

/// The run without what differs between stores by nature.
fn content(mut run: Run) -> Run {
    run.run_id.clear();
    run
}

#[test]
fn a_copy_is_the_same_run_and_a_second_copy_changes_nothing() {
    let (here, there, _dir) = stores();
    let run = record(&here, &cell("k1", "m1", "s1"));
    record(&here, &failed_cell("k2", "m2", "s1"));
    commit(&here, &run, "a", &[(0, 3), (1, 1)]);
    assert_eq!(copy(&here, &there), [Change::Created, Change::Created]);
    let (ours, copies) = (all(&here), all(&there));
    for (original, copied) in ours.iter().zip(&copies) {
        assert_ne!(original.run_id, copied.run_id);
        assert_eq!(content(original.clone()), content(copied.clone()));
        for path in &original.artifacts {
            assert_eq!(
                here.artifact_get(&original.run_id, path).unwrap(),
                there.artifact_get(&copied.run_id, path).unwrap()
            );
        }
    }
    assert_eq!(copy(&here, &there), [Change::Unchanged, Change::Unchanged]);
    assert_eq!(all(&there), copies);
}

#[test]
fn verdicts_of_both_sides_add_up_in_either_order() {
    let (here, there, _dir) = stores();
    let ours = record(&here, &cell("k", "m", "s"));
    let theirs = record(&there, &cell("k", "m", "s"));
    commit(&here, &ours, "a", &[(0, 3), (1, 3)]);
    commit(&there, &theirs, "b", &[(0, 1), (1, 1)]);
    assert_eq!(copy(&here, &there), [Change::Merged]);
    assert_eq!(copy(&there, &here), [Change::Merged]);
    assert_eq!(copy(&here, &there), [Change::Unchanged]);
    let (ours, theirs) = (all(&here).remove(0), all(&there).remove(0));
    assert_eq!(ours.artifacts, theirs.artifacts);
    assert_eq!(ours.metrics, theirs.metrics);
    assert_eq!(ours.tags, theirs.tags);
    // The later sitting speaks louder, wherever it sat.
    assert!(ours.metrics.contains(&("composite".to_owned(), 3.0)));
    assert_eq!(here.verdicts_get(&ours.run_id).unwrap().len(), 2);
}

#[test]
fn what_either_side_sets_aside_is_set_aside() {
    let (here, there, _dir) = stores();
    let run = record(&here, &cell("k", "m", "s"));
    commit(&here, &run, "a", &[(0, 3), (1, 3)]);
    copy(&here, &there);
    let sitting = crate::judging::sitting("a", &run);
    here.sitting_open(&sitting).unwrap();
    let closing = Closing {
        state: SittingState::Quarantined,
        at: "2026-05-02T10:00:00Z".to_owned(),
        judge: None,
        drift: None,
    };
    here.sitting_close("a", &closing).unwrap();
    assert_eq!(copy(&there, &here), [Change::Unchanged]);
    assert_eq!(copy(&here, &there), [Change::Merged]);
    let tags = all(&there).remove(0).tags;
    assert!(tags.contains(&(tag::SET_ASIDE.to_owned(), "a".to_owned())));
    assert!(tags.contains(&(tag::JUDGE_PENDING.to_owned(), "true".to_owned())));
}

#[test]
fn a_failed_cell_is_replaced_and_never_replaces() {
    let (here, there, _dir) = stores();
    record(&here, &cell("k", "m", "s"));
    let failed = record(&there, &failed_cell("k", "m", "s"));
    assert_eq!(copy(&there, &here), [Change::Unchanged]);
    assert_eq!(copy(&here, &there), [Change::Created]);
    let run = all(&there).remove(0);
    assert_eq!(run.run_id, failed);
    assert_eq!(run.status.as_str(), "FINISHED");
}

#[test]
fn verdicts_on_other_candidates_stay_where_they_are() {
    let (here, there, _dir) = stores();
    let ours = record(&here, &cell("k", "m", "s"));
    let other = [candidate(0, Some("Run.")), candidate(1, Some("Rest."))];
    record(&there, &cell_with("k", "m", "s", &other));
    assert_eq!(copy(&here, &there), [Change::Unchanged]);
    commit(&here, &ours, "a", &[(0, 3), (1, 3)]);
    assert_eq!(copy(&here, &there), [Change::Differs]);
    let kept = all(&there).remove(0);
    assert_eq!(there.verdicts_get(&kept.run_id).unwrap(), []);
}

#[test]
fn a_run_without_a_cell_key_is_known_by_where_it_came_from() {
    let (here, there, dir) = stores();
    let third = open(&dir.path().join("third.db"));
    let mut old = cell("", "m", "s");
    old.tags.retain(|(key, _)| &**key != tag::CELL_KEY);
    let run = ImportedRun {
        origin: "0".repeat(32),
        record: old,
        end_time_ms: None,
        points: Vec::new(),
        datasets: Vec::new(),
    };
    here.runs_import("e", &[run]).unwrap();
    assert_eq!(copy(&here, &there), [Change::Created]);
    assert_eq!(copy(&there, &third), [Change::Created]);
    let last = all(&third).remove(0);
    commit(&third, &last.run_id, "a", &[(0, 3), (1, 3)]);
    // Also back at the first it is the same run.
    assert_eq!(copy(&third, &here), [Change::Merged]);
    assert_eq!(copy(&here, &there), [Change::Merged]);
    for store in [&here, &there, &third] {
        assert_eq!(all(store).len(), 1);
    }
}
