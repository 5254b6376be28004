//! Unusual values: hostile strings, NaN, values given twice, artifacts that cannot be parsed.

use std::cmp::Ordering::Equal;
use std::slice::from_ref;
use std::sync::Arc;

use assize_domain::judge::Tier;
use assize_store::{Cells as _, PendingQuery, Queue as _, RunQuery, Runs as _};

use crate::common::{cell, open};

#[test]
fn unusual_texts_come_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("ünï ✓ 'quoted'.db"));
    let long = "ä'\0".repeat(300_000);
    let strange = [
        "'; DROP TABLE runs; --",
        "\0",
        "a\0b",
        "a\0c",
        "",
        "🦀 קול 中文 \u{202e}",
        "\"\\\n\r\t%_?1",
        "true",
        "12",
        long.as_str(),
    ];
    for (number, text) in strange.iter().enumerate() {
        let mut cell = cell(&format!("k{text}"), text, text);
        cell.name = (*text).to_owned();
        for (position, other) in strange.iter().enumerate() {
            let key = format!("key {position} {other}");
            cell.params.push((key.as_str().into(), (*text).into()));
            cell.tags.push((key.into(), (*other).into()));
        }
        cell.artifacts[0].1 = Arc::from(*text);
        let experiment = format!("e{text}");
        let recorded = store.cells_record(&experiment, from_ref(&cell)).unwrap();
        assert!(recorded[0].written, "{number}");

        let run = store.run_get(recorded[0].run_id.as_ref().unwrap()).unwrap();
        assert_eq!(run.name, *text);
        assert_eq!(run.experiment, experiment);
        let wanted = |pairs: &[(Arc<str>, Arc<str>)]| {
            let mut all: Vec<(String, String)> = pairs
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect();
            all.sort();
            all
        };
        assert!(run.params == wanted(&cell.params), "params of {number}");
        assert!(run.tags == wanted(&cell.tags), "tags of {number}");
        let prompt = store.artifact_get(&run.run_id, "prompt.txt").unwrap();
        assert!(prompt.as_deref() == Some(*text), "prompt of {number}");

        let query = RunQuery {
            model: Some((*text).to_owned()),
            scenario: Some((*text).to_owned()),
            ..RunQuery::default()
        };
        assert_eq!(store.run_list(&experiment, &query).unwrap().runs.len(), 1);
        let known = store.cells_known(&experiment, &[cell.cell_key]).unwrap();
        assert!(known[0].is_some(), "{number}");
    }
    assert_eq!(store.experiment_list().unwrap().len(), strange.len());
}

#[test]
fn nan_and_infinities_are_numbers_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let mut cell = cell("k", "m", "s");
    cell.metrics = vec![
        ("n_candidates".into(), f64::NAN),
        ("latency_ms".into(), f64::INFINITY),
        ("load_ms".into(), f64::NEG_INFINITY),
        ("tiny".into(), 5e-324),
        ("negative_zero".into(), -0.0),
    ];
    let run_id = store.cells_record("e", &[cell]).unwrap()[0]
        .run_id
        .clone()
        .unwrap();
    let metrics = store.run_get(&run_id).unwrap().metrics;
    let value = |name: &str| metrics.iter().find(|(key, _)| key == name).unwrap().1;
    assert!(value("n_candidates").is_nan());
    let same = |name: &str, expected: f64| assert_eq!(value(name).total_cmp(&expected), Equal);
    same("latency_ms", f64::INFINITY);
    same("load_ms", f64::NEG_INFINITY);
    same("tiny", 5e-324);
    same("negative_zero", 0.0);
    assert_eq!(store.judging_count("e").unwrap().candidates, 0);
}

#[test]
fn the_first_of_several_values_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let mut cell = cell("k", "m", "s");
    cell.params
        .push(("model".into(), "a scenario's own".into()));
    cell.metrics.push(("latency_ms".into(), 1.0));
    let run_id = store.cells_record("e", &[cell]).unwrap()[0]
        .run_id
        .clone()
        .unwrap();
    let run = store.run_get(&run_id).unwrap();
    assert!(run.params.contains(&("model".to_owned(), "m".to_owned())));
    assert!(run.metrics.contains(&("latency_ms".to_owned(), 40.0)));
}

#[test]
fn an_artifact_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("assize.db"));
    let mut cell = cell("k", "m", "s");
    cell.artifacts[2].1 = "[{".into();
    let run_id = store.cells_record("e", &[cell]).unwrap()[0]
        .run_id
        .clone()
        .unwrap();
    let query = PendingQuery {
        tier: Tier::Expert,
        judge_kind: None,
    };
    let error = store
        .pending_each("e", &query, &mut |_| Ok(()))
        .unwrap_err()
        .to_string();
    assert!(error.contains(&run_id), "{error}");
    assert!(error.contains("candidates.json"), "{error}");
}
