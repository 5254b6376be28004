use super::*;
use crate::{Run, RunQuery, Runs as _};

const FIRST: &str = "000000000000000000000000000000aa";
const SECOND: &str = "000000000000000000000000000000bb";

/// A reading of one run of the cell `k`; `None` for a run that no reader sees.
fn reading(run_id: &str, version: i64, shown: Option<(RunStatus, i64)>) -> Followed {
    let changed = RunVersion {
        run_id: run_id.to_owned(),
        experiment_id: 7,
        version,
    };
    let runs = shown.map(|(status, start_time_ms)| FollowedRun {
        run: Run {
            run_id: run_id.to_owned(),
            experiment: "e".to_owned(),
            name: format!("version {version}"),
            status,
            start_time_ms,
            end_time_ms: Some(start_time_ms + 1),
            params: Vec::new(),
            metrics: Vec::new(),
            tags: vec![(tag::CELL_KEY.to_owned(), "k".to_owned())],
            artifacts: Vec::new(),
        },
        experiment_id: 7,
        verdict_files: Vec::new(),
        leases: Vec::new(),
    });
    Followed {
        seen: vec![run_id.to_owned()],
        changed: vec![changed],
        runs: runs.into_iter().collect(),
        ..Followed::default()
    }
}

fn names(store: &EmbeddedStore) -> Vec<(String, String)> {
    let page = store.run_list("e", &RunQuery::default()).unwrap();
    let runs = page.runs.into_iter();
    runs.map(|run| (run.run_id, run.name)).collect()
}

fn shown(run_id: &str, version: i64) -> Vec<(String, String)> {
    vec![(run_id.to_owned(), format!("version {version}"))]
}

#[test]
fn the_copy_holds_the_run_of_a_cell_that_readers_of_the_server_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    let store = EmbeddedStore::open(&path, || 1, crate::embedded::random_run_id).unwrap();
    let apply = |followed, read_ms| store.mirror_apply(followed, read_ms).unwrap();
    let finished = |start_ms| Some((RunStatus::Finished, start_ms));
    apply(reading(FIRST, 1, Some((RunStatus::Failed, 5))), 10);
    assert_eq!(names(&store), shown(FIRST, 1));
    apply(reading(SECOND, 2, finished(20)), 11);
    assert_eq!(names(&store), shown(SECOND, 2), "finished before failed");
    apply(reading(FIRST, 3, finished(5)), 12);
    assert_eq!(names(&store), shown(FIRST, 3), "the first of two");
    apply(reading(FIRST, 4, finished(5)), 9);
    assert_eq!(names(&store), shown(FIRST, 3), "an earlier reading");

    apply(reading(FIRST, 5, None), 13);
    assert_eq!(names(&store), []);
    let versions = store.mirror_versions().unwrap();
    assert_eq!(versions[SECOND], 0, "it is to be read again");
    apply(reading(SECOND, 2, finished(20)), 14);
    assert_eq!(names(&store), shown(SECOND, 2));
    let seen = |ids: &[&str]| ids.iter().map(|it| (*it).to_owned()).collect();
    store.mirror_remove_missing(7, 14, seen(&[])).unwrap();
    assert_eq!(names(&store), shown(SECOND, 2), "read since");
    store.mirror_remove_missing(7, 15, seen(&[SECOND])).unwrap();
    assert_eq!(names(&store), shown(SECOND, 2));
    store.mirror_remove_missing(7, 15, seen(&[])).unwrap();
    assert_eq!(names(&store), []);
}

#[test]
fn experiments_of_another_server_are_noticed_and_everything_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    let store = EmbeddedStore::open(&path, || 1, crate::embedded::random_run_id).unwrap();
    let ledger = ("assize.ledger.1".to_owned(), "entry".to_owned());
    let listed = |created_ms| {
        let experiment = |id: i64, name: &str| FollowedExperiment {
            id,
            name: name.to_owned(),
            tags: vec![ledger.clone()],
            created_ms,
            updated_ms: created_ms,
        };
        vec![experiment(0, "Default"), experiment(7, "e")]
    };
    assert!(store.mirror_experiments(listed(100)).unwrap());
    assert!(store.mirror_experiments(listed(100)).unwrap());
    let run = reading(FIRST, 1, Some((RunStatus::Finished, 5)));
    store.mirror_apply(run.clone(), 10).unwrap();
    assert!(!store.mirror_experiments(listed(200)).unwrap());
    assert_eq!(names(&store), shown(FIRST, 1), "nothing was written");

    store.mirror_clear().unwrap();
    assert!(store.mirror_versions().unwrap().is_empty());
    assert!(store.run_list("e", &RunQuery::default()).is_err());
    assert!(store.mirror_experiments(listed(200)).unwrap());
    store.mirror_apply(run, 1).unwrap();
    assert_eq!(names(&store), shown(FIRST, 1));
    // The triggers are there again.
    let changed = [(ledger.0.clone(), "another".to_owned())];
    assert!(crate::Copying::experiment_tags_add(&store, "e", &changed).is_err());
}
