//! The registry: one alias, versions by content, a history that stays.

use assize_domain::promotion::{Action, Champion, Promotion};
use assize_store::{Promotions as _, StoreError};
use rusqlite::Connection;

use crate::common::open;

fn promotion(number: u32, prompt: &str) -> Promotion {
    Promotion {
        number,
        task: "tip".to_owned(),
        action: Action::Promote,
        champion: Champion {
            model: "hostile\u{1b}[31m/'; DROP TABLE runs; --".to_owned(),
            model_digest: "d".to_owned(),
            prompt: prompt.to_owned(),
            prompt_sha256: format!("sha of {prompt}"),
            system: None,
            body: "Say {{ x }}".to_owned(),
            settings: std::collections::BTreeMap::new(),
            swept: Vec::new(),
        },
        version: 0,
        restores: None,
        experiment: "e".to_owned(),
        by: "ana".to_owned(),
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        note: Some("because".to_owned()),
        gate: None,
    }
}

fn rows(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn the_alias_follows_the_history_and_contents_are_registered_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let store = open(&path);
    assert_eq!(store.champion_get("tip").unwrap(), None);
    assert!(store.promotion_list("tip").unwrap().is_empty());
    for (number, prompt, version) in [(1, "v1", 1), (2, "v2", 2), (3, "v1", 1)] {
        assert_eq!(
            store.promotion_record(&promotion(number, prompt)).unwrap(),
            version
        );
        let champion = store.champion_get("tip").unwrap().unwrap();
        assert_eq!(
            champion,
            Promotion {
                version,
                ..promotion(number, prompt)
            }
        );
    }
    let numbers: Vec<u32> = store
        .promotion_list("tip")
        .unwrap()
        .iter()
        .map(|it| it.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(store.champion_get("other").unwrap(), None);

    let conn = Connection::open(&path).unwrap();
    let alias = "SELECT alias || version FROM registered_model_aliases";
    assert_eq!(rows(&conn, alias), ["champion1"]);
    let text = "SELECT value FROM model_version_tags WHERE key = 'mlflow.prompt.text'";
    assert_eq!(rows(&conn, text), ["Say {{ x }}", "Say {{ x }}"]);
    let latest =
        "SELECT value FROM model_version_tags WHERE key = 'assize.promotion' AND version = 1";
    assert_eq!(rows(&conn, latest), ["3"]);
}

#[test]
fn whoever_is_late_is_told_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    let (one, two) = (open(&path), open(&path));
    one.promotion_record(&promotion(1, "v1")).unwrap();
    let late = two.promotion_record(&promotion(1, "v2")).unwrap_err();
    assert!(matches!(late, StoreError::Superseded { .. }), "{late}");
    assert!(late.to_string().contains("by ana"), "{late}");
    assert!(!late.kind().is_invalid_input());
    assert!(two.promotion_record(&promotion(3, "v2")).is_err());
    assert_eq!(two.promotion_list("tip").unwrap().len(), 1);
    let conn = Connection::open(&path).unwrap();
    assert_eq!(
        rows(&conn, "SELECT sha256 FROM model_versions"),
        ["sha of v1"]
    );
}

#[test]
fn the_history_cannot_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assize.db");
    open(&path).promotion_record(&promotion(1, "v1")).unwrap();
    let conn = Connection::open(&path).unwrap();
    for sql in [
        "UPDATE promotions SET record = ''",
        "DELETE FROM promotions",
    ] {
        let error = conn.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("never"), "{error}");
    }
}
