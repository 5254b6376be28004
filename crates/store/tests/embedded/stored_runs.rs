//! How runs are kept and listed: shared contents once, superseded metrics, filters, pages.

use assize_domain::run::RunStatus;
use assize_store::{Cells as _, RunQuery, Runs as _, Sittings as _};
use rusqlite::Connection;

use crate::common::{cell, open, rubric, verdicts};

#[test]
fn what_runs_share_is_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    for n in 0..10 {
        let cells: Vec<_> = (0..10)
            .map(|m| cell(&format!("k{n}-{m}"), &format!("m{m}"), "s"))
            .collect();
        store.cells_record("e", &cells).unwrap();
    }
    let blobs: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM blobs", [], |row| row.get(0))
        .unwrap();
    // Prompt, context and rubric once; candidates and raw output for each of 100 runs.
    assert_eq!(blobs, 3 + 2 * 100);
}

#[test]
fn superseded_metrics_stay_in_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    let recorded = store.cells_record("e", &[cell("k", "m", "s")]).unwrap();
    let run_id = recorded[0].run_id.clone().unwrap();
    for (sitting, tone) in [("s-1", 1), ("s-2", 3), ("s-3", 2), ("s-4", 2)] {
        let file = verdicts(sitting, "human", &[(0, tone), (1, tone)]);
        store
            .sitting_commit(&[(run_id.clone(), file)], &rubric())
            .unwrap();
    }
    let run = store.run_get(&run_id).unwrap();
    assert!(run.metrics.contains(&("composite".to_owned(), 4.0)));
    let conn = Connection::open(&path).unwrap();
    let mut list = conn
        .prepare(
            "SELECT value, timestamp FROM earlier_metrics
             WHERE key = (SELECT id FROM texts WHERE text = 'composite') ORDER BY timestamp",
        )
        .unwrap();
    let history: Vec<(f64, i64)> = list
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let values: Vec<f64> = history.iter().map(|(value, _)| *value).collect();
    assert_eq!(values, [3.0, 5.0]);
    assert!(history[0].1 < history[1].1);
}

#[test]
fn lists_filter_by_params_and_state() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let cells = [
        cell("k1", "m1", "s1"),
        cell("k2", "m1", "s2"),
        cell("k3", "m2", "s1"),
    ];
    let recorded = store.cells_record("e", &cells).unwrap();
    let file = verdicts("s-1", "human", &[(0, 1), (1, 2)]);
    store
        .sitting_commit(&[(recorded[0].run_id.clone().unwrap(), file)], &rubric())
        .unwrap();
    let names = |query: RunQuery| -> Vec<String> {
        let page = store.run_list("e", &query).unwrap();
        page.runs.into_iter().map(|run| run.name).collect()
    };
    let model = |model: &str| RunQuery {
        model: Some(model.to_owned()),
        ..RunQuery::default()
    };
    assert_eq!(names(model("m1")), ["m1 × v1 × s1", "m1 × v1 × s2"]);
    assert_eq!(names(model("m3")), [""; 0]);
    let pending = |pending| RunQuery {
        pending: Some(pending),
        ..model("m1")
    };
    assert_eq!(names(pending(true)), ["m1 × v1 × s2"]);
    assert_eq!(names(pending(false)), ["m1 × v1 × s1"]);
    let both = RunQuery {
        prompt: Some("v1".to_owned()),
        scenario: Some("s1".to_owned()),
        ..RunQuery::default()
    };
    assert_eq!(names(both.clone()), ["m1 × v1 × s1", "m2 × v1 × s1"]);
    let newest = RunQuery {
        newest_first: true,
        max_results: 1,
        ..both
    };
    let first = store.run_list("e", &newest).unwrap();
    assert_eq!(first.runs[0].name, "m2 × v1 × s1");
    let second = RunQuery {
        page_token: first.next_page_token,
        ..newest
    };
    assert_eq!(names(second), ["m1 × v1 × s1"]);
    let failed = RunQuery {
        status: Some(RunStatus::Failed),
        ..RunQuery::default()
    };
    assert_eq!(names(failed), [""; 0]);
}

#[test]
fn pages_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let cells: Vec<_> = (0..7)
        .map(|n| cell(&format!("k{n}"), "m", &format!("s{n}")))
        .collect();
    store.cells_record("e", &cells).unwrap();
    let mut query = RunQuery {
        max_results: 3,
        ..RunQuery::default()
    };
    let mut pages = Vec::new();
    loop {
        let page = store.run_list("e", &query).unwrap();
        pages.push(page.runs.len());
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1]);
    query.page_token = Some("nonsense".to_owned());
    let error = store.run_list("e", &query).unwrap_err();
    assert!(error.to_string().contains("page token"), "{error}");
}
