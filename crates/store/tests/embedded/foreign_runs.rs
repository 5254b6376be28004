//! Runs that other tools logged straight into the tables: judged and compared like ours.

use assize_domain::judge::Tier;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_store::{Boards as _, PendingQuery, Queue as _, Runs as _, Sittings as _};
use rusqlite::Connection;

use crate::common::{candidate, open, rubric, verdicts};

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
    let counts = store.judging_count("theirs").unwrap();
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
