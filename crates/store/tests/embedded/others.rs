//! Runs that other tools logged, and how contents and histories are kept: seen in the tables.

use assize_domain::judge::Tier;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_store::{PendingQuery, RunQuery, Tracking};
use rusqlite::Connection;

use crate::common::{candidate, cell, open, rubric, verdicts};

const TEXT: &str = "INSERT OR IGNORE INTO texts (text) VALUES (?1)";
const NUMBER: &str = "(SELECT id FROM texts WHERE text = ?2)";

/// A run as a tool would log it that knows params, tags and artifacts, but neither cells nor
/// tiers.
fn log_foreign_run(conn: &Connection) {
    conn.execute_batch(
        "INSERT INTO experiments (experiment_id, name, creation_time, last_update_time)
         VALUES (7, 'theirs', 1, 1);
         INSERT INTO runs (id, run_id, experiment, name, status, start_time)
         VALUES (70, x'00112233445566778899aabbccddeeff', 7, 'theirs', 3, 1);",
    )
    .unwrap();
    let log = |table: &str, key: &str, value: &str| {
        conn.execute(TEXT, [key]).unwrap();
        conn.execute(TEXT, [value]).unwrap();
        let sql = format!(
            "INSERT INTO {table} VALUES (70, {NUMBER}, (SELECT id FROM texts WHERE text = ?1))"
        );
        conn.execute(&sql, [value, key]).unwrap();
    };
    log("params", "model", "their-model");
    log("params", "prompt", "their-prompt");
    log("params", "scenario", "their-scenario");
    log("tags", "judge_pending", "true");
    log("tags", "judge_kind", "human");
    let candidates = [candidate(0, Some("Walk.")), candidate(1, Some("Rest."))];
    conn.execute(
        "INSERT INTO blobs (id, content) VALUES (700, ?1)",
        [serde_json::to_vec(&candidates).unwrap()],
    )
    .unwrap();
    conn.execute_batch(
        "INSERT INTO artifacts VALUES
         (70, (SELECT id FROM texts WHERE text = 'candidates.json'), 700)",
    )
    .unwrap();
}

#[test]
fn runs_of_other_tools_are_judged_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    log_foreign_run(&Connection::open(&path).unwrap());
    for tier in Tier::ALL {
        let query = PendingQuery {
            tier,
            judge_kind: None,
        };
        let mut seen = Vec::new();
        store
            .pending_each("theirs", &query, &mut |run| {
                seen.push((run.scenario, run.context, run.candidates.len()));
                Ok(())
            })
            .unwrap();
        assert_eq!(
            seen,
            [("their-scenario".to_owned(), "{}".to_owned(), 2)],
            "{tier}"
        );
    }
    let file = verdicts("s-1", "human", &[(0, 1), (1, 2)]);
    store
        .sitting_commit(&[("00112233".to_owned(), file)], &rubric())
        .unwrap();
    let counts = store.judging_counts("theirs").unwrap();
    assert_eq!((counts.expert_judged, counts.auto_pending), (1, 1));
    let mut seen = Vec::new();
    store
        .board_each("theirs", Split::Selection, &mut |run| {
            seen.push((
                run.model.to_owned(),
                run.status,
                run.n_candidates,
                run.files.len(),
            ));
            Ok(())
        })
        .unwrap();
    assert_eq!(
        seen,
        [("their-model".to_owned(), RunStatus::Finished, 2, 1)]
    );
    let listed = store.experiment_list().unwrap();
    assert_eq!(listed[0].name, "theirs");
    assert_eq!(listed[0].experiment_id, "7");
}

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
    let run_id = recorded[0].run_id.clone();
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
        .sitting_commit(&[(recorded[0].run_id.clone(), file)], &rubric())
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
