//! What a board reads.

use assize_domain::scenario::Split;
use assize_store::{Boards as _, Cells as _, StoreError, Tracking as _};

use crate::common::{cell, open, verdicts};
use crate::judging::{desk, judged_desk};

#[test]
fn the_board_sees_every_run_with_its_files() {
    let desk = judged_desk();
    let mut confirmation = cell("k9", "m9", "s9");
    confirmation.params[4].1 = "confirmation".into();
    let mut unsplit = cell("k8", "m8", "s8");
    unsplit.params.remove(4);
    desk.store
        .cells_record("e", &[confirmation, unsplit])
        .unwrap();

    let seen = |split| {
        let mut seen = Vec::new();
        desk.store
            .board_each("e", split, &mut |run| {
                assert_eq!((run.prompt, run.prompt_sha256), ("v1", "5e1f"));
                assert_eq!(run.rubric.id, "r-1");
                let sittings: Vec<&str> = run.files.iter().map(|it| &*it.sitting).collect();
                seen.push(format!(
                    "{} {} {} n={} {:?} {:?} {}",
                    run.model,
                    run.scenario,
                    run.status.as_str(),
                    run.n_candidates,
                    run.latency_ms,
                    run.tokens_per_s,
                    sittings.join("+")
                ));
                for file in &run.files {
                    for verdict in &file.verdicts {
                        let tone = verdict.composite - 2.0;
                        assert_eq!(verdict.scores.0, [("ok", 1.0), ("tone", tone)]);
                    }
                }
                Ok(())
            })
            .unwrap();
        seen
    };
    assert_eq!(
        seen(Split::Selection),
        [
            "m1 s1 FINISHED n=2 Some(40.0) Some(88.5) a-1+s-1",
            "m2 s1 FINISHED n=2 Some(40.0) Some(88.5) s-1",
            "m3 s1 FAILED n=1 Some(40.0) Some(88.5) ",
            "m8 s8 FINISHED n=2 Some(40.0) Some(88.5) ",
        ]
    );
    assert_eq!(
        seen(Split::Confirmation),
        ["m9 s9 FINISHED n=2 Some(40.0) Some(88.5) "]
    );
    assert_eq!(seen(Split::Feedback), [""; 0]);
}

#[test]
fn a_visitor_that_has_had_enough_ends_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    // More than are read ahead.
    let cells: Vec<_> = (0..2_000)
        .map(|n| cell(&format!("k{n}"), "m", &format!("s{n}")))
        .collect();
    store.cells_record("e", &cells).unwrap();
    let mut seen = Vec::new();
    let mut visit = |limit: usize| {
        seen.clear();
        store.board_each("e", Split::Selection, &mut |run| {
            if seen.len() == limit {
                return Err(StoreError::Conflict("enough".to_owned()));
            }
            seen.push(run.scenario.to_owned());
            Ok(())
        })
    };
    assert_eq!(visit(3).unwrap_err().to_string(), "enough");
    visit(usize::MAX).unwrap();
    let expected: Vec<String> = (0..2_000).map(|n| format!("s{n}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_verdict_file_that_cannot_be_read_is_named() {
    let desk = desk();
    desk.commit(&[(0, verdicts("s-1", "human", &[(0, 1)]))])
        .unwrap();
    let path = desk.store.uri().strip_prefix("sqlite:").unwrap();
    rusqlite::Connection::open(path)
        .unwrap()
        .execute_batch(
            "UPDATE blobs SET content = '{' WHERE id = (SELECT max(blob) FROM artifacts);
             DELETE FROM board",
        )
        .unwrap();
    let error = desk
        .store
        .board_each("e", Split::Selection, &mut |_| Ok(()))
        .unwrap_err()
        .to_string();
    assert!(error.contains(&desk.runs[0]), "{error}");
    assert!(error.contains("verdicts/s-1.json"), "{error}");
}

#[test]
fn a_row_that_cannot_be_read_is_named() {
    let desk = desk();
    let path = desk.store.uri().strip_prefix("sqlite:").unwrap();
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch("UPDATE board SET line = CAST(line || x'ff' AS BLOB) WHERE run = 1")
        .unwrap();
    let read = desk
        .store
        .board_each("e", Split::Selection, &mut |_| Ok(()));
    let error = read.unwrap_err().to_string();
    assert!(error.contains(&desk.runs[0]), "{error}");
}
