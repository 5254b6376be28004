//! What `sync` does about promotion histories and about runs under other rubrics, which are
//! never taken back. Whole experiments are copied in the tests of the binary.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;

use assize_domain::promotion::{Action, Champion, Promotion};
use assize_domain::run::{CellRecord, RunStatus, tag};
use assize_pipeline::sync::{Sync, Synced, run};
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::{Cells as _, Promotions as _, Runs as _};

fn open(folder: &Path, name: &str, rubric: &str) -> EmbeddedStore {
    let store = EmbeddedStore::open(&folder.join(name), || 0, random_run_id).unwrap();
    let cell = CellRecord {
        cell_key: "k".to_owned(),
        name: "m × v1 × s".to_owned(),
        status: RunStatus::Finished,
        start_time_ms: 1,
        end_time_ms: 2,
        params: vec![("task".into(), "small".into())],
        tags: vec![(tag::RUBRIC_SHA256.into(), rubric.into())],
        metrics: Vec::new(),
        artifacts: Vec::new(),
    };
    store.cells_record("e", &[cell]).unwrap();
    store
}

fn promote(store: &EmbeddedStore, number: u32, prompt: &str) {
    let promotion = Promotion {
        number,
        task: "small".to_owned(),
        action: Action::Promote,
        champion: Champion {
            model: "m".to_owned(),
            model_digest: "d".to_owned(),
            prompt: prompt.to_owned(),
            prompt_sha256: format!("hash of {prompt}"),
            system: None,
            body: format!("Say {prompt}."),
            settings: std::collections::BTreeMap::new(),
            swept: Vec::new(),
        },
        version: 0,
        restores: None,
        experiment: "e".to_owned(),
        by: "ann".to_owned(),
        at: "2026-05-01T10:00:00Z".to_owned(),
        note: None,
        gate: None,
    };
    store.promotion_record(&promotion).unwrap();
}

fn prompts(store: &EmbeddedStore) -> Vec<String> {
    let history = store.promotion_list("small").unwrap();
    history.into_iter().map(|it| it.champion.prompt).collect()
}

fn sync(from: &EmbeddedStore, to: &EmbeddedStore, dry_run: bool) -> Synced {
    let sync = Sync {
        from,
        to: Some(to),
        journals: &[],
        experiment: "e",
        dry_run,
    };
    run(&sync, &|| false, &|_, _| {}).unwrap()
}

#[test]
fn a_history_is_continued_and_never_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let here = open(dir.path(), "here.db", "r");
    let there = open(dir.path(), "there.db", "r");
    promote(&here, 1, "v1");
    promote(&here, 2, "v2");
    assert_eq!(sync(&here, &there, true).promotions, 2);
    assert_eq!(prompts(&there), [""; 0]);
    assert_eq!(sync(&here, &there, false).promotions, 2);
    assert_eq!(prompts(&there), ["v1", "v2"]);
    promote(&here, 3, "v1");
    // The one that is behind adds nothing to the other.
    assert_eq!(sync(&there, &here, false).promotions, 0);
    assert_eq!(sync(&here, &there, false).promotions, 1);
    assert_eq!(sync(&here, &there, false), sync(&there, &here, false));

    promote(&here, 4, "v3");
    promote(&there, 4, "v4");
    let synced = sync(&here, &there, false);
    assert_eq!(synced.different_histories, ["small"]);
    assert_eq!(synced.promotions, 0);
    assert_eq!(prompts(&there), ["v1", "v2", "v1", "v4"]);
}

#[test]
fn a_run_under_another_rubric_stays_under_it() {
    let dir = tempfile::tempdir().unwrap();
    let here = open(dir.path(), "here.db", "new");
    let there = open(dir.path(), "there.db", "old");
    let synced = sync(&here, &there, false);
    assert_eq!((synced.other_rubric, synced.unchanged), (1, 1));
    let run = there
        .run_list("e", &assize_store::RunQuery::default())
        .unwrap()
        .runs
        .remove(0);
    assert!(
        run.tags
            .contains(&(tag::RUBRIC_SHA256.to_owned(), "old".to_owned()))
    );
}
