//! The history only grows, and of two changes at once one fails.

use std::sync::Barrier;

use assize_domain::error_kind::ErrorKind;
use assize_store::policies::{HistoryEntry, PolicyAction, PolicyFile};
use rusqlite::Connection;

use crate::common::{NOW_MS, open};

fn entry(number: u32, author: &str) -> HistoryEntry {
    HistoryEntry {
        number,
        at_ms: NOW_MS,
        action: PolicyAction::AutomaticRollback,
        from: Some("egreedy-v2".to_owned()),
        to: None,
        author: author.to_owned(),
        reason: "the reward fell below 0.2".to_owned(),
        evidence: serde_json::json!({"mean": 0.125, "n": 500}),
    }
}

#[test]
fn of_two_entries_with_one_number_the_second_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let other = PolicyFile::open(&dir.path().join("policies.db")).unwrap();
    assert_eq!(other.history_latest().unwrap(), None);
    other.history_append(&entry(1, "ada")).unwrap();
    let error = store.file().history_append(&entry(1, "bob")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Superseded);
    assert!(error.to_string().contains("by ada"), "{error}");
    assert!(store.file().history_append(&entry(3, "bob")).is_err());
    store.file().history_append(&entry(2, "bob")).unwrap();
    assert_eq!(
        other.history_list().unwrap(),
        [entry(1, "ada"), entry(2, "bob")]
    );
    assert_eq!(other.history_latest().unwrap(), Some(entry(2, "bob")));
}

#[test]
fn of_many_entries_at_once_one_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policies.db");
    let files: Vec<_> = (0..6).map(|_| PolicyFile::open(&path).unwrap()).collect();
    let start = Barrier::new(files.len());
    let recorded = std::thread::scope(|scope| {
        let threads: Vec<_> = files
            .iter()
            .map(|file| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    file.history_append(&entry(1, "somebody")).is_ok()
                })
            })
            .collect();
        let done = threads.into_iter().map(|it| it.join().unwrap());
        done.filter(|it| *it).count()
    });
    assert_eq!(recorded, 1);
    assert_eq!(files[0].history_list().unwrap().len(), 1);
}

#[test]
fn the_database_itself_refuses_changes_of_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policies.db");
    let file = PolicyFile::open(&path).unwrap();
    file.history_append(&entry(1, "ada")).unwrap();
    let conn = Connection::open(&path).unwrap();
    let replace = "INSERT OR REPLACE INTO policy_history
                   SELECT 1, 0, action, null, null, 'eve', '', '{}' FROM policy_history";
    for sql in [
        "UPDATE policy_history SET author = 'eve'",
        "DELETE FROM policy_history",
        replace,
    ] {
        let error = conn.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("policy history"), "{error}");
    }
    assert_eq!(file.history_list().unwrap(), [entry(1, "ada")]);
}

#[test]
fn an_entry_of_a_newer_version_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policies.db");
    let file = PolicyFile::open(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute(
            "INSERT INTO policy_history VALUES (1, 0, 'merge', null, null, 'eve', '', '{}')",
            [],
        )
        .unwrap();
    let error = file.history_list().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("'merge'"), "{error}");
}

#[test]
fn actions_have_one_name_everywhere() {
    for (action, name) in [
        (PolicyAction::Promote, "promote"),
        (PolicyAction::Rollback, "rollback"),
        (PolicyAction::AutomaticRollback, "automatic-rollback"),
        (PolicyAction::EnableShadow, "enable-shadow"),
        (PolicyAction::DisableShadow, "disable-shadow"),
    ] {
        assert_eq!(action.as_str(), name);
        assert_eq!(serde_json::to_value(action).unwrap(), name);
    }
}
