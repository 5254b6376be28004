//! The ledger on a real MLflow server, and copies of it.

use assize_domain::ledger::{Entry, Kind, Via};
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_mlflow::{Config, MlflowStore};
use assize_store::{Ledger as _, RunQuery, Runs as _, StoreError};
use assize_test_support::Scratch;
use assize_test_support::mlflow::Mlflow;
use assize_test_support::promotion_task::{ahead, fill, scratch};
use serde_json::{Value, json};

fn ledger(scratch: &Scratch, more: &str) -> Vec<Value> {
    let line = format!("promote ledger --experiment e --json {more}");
    let shown = scratch.ok(line.as_str()).json();
    shown["entries"].as_array().expect("entries").clone()
}

fn store(server: &Mlflow) -> MlflowStore {
    MlflowStore::open(&Config::new(&server.url), || 1_800_000_000_000).expect("a store")
}

fn look(id: &str) -> Entry {
    Entry {
        id: id.to_owned(),
        number: 0,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        by: "ana".to_owned(),
        kind: Kind::Look,
        via: Via::Command,
        split: Some(Split::Confirmation),
        candidate: None,
        incumbent: None,
        outcome: None,
        figures: std::collections::BTreeMap::new(),
    }
}

#[test]
fn the_seal_and_the_ledger_on_a_real_server() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let scratch = scratch(ahead);
    server.adopt(&scratch);
    fill(&scratch);
    let board = "compare --experiment e --split confirmation";
    scratch.fails(3, board);
    scratch.ok(format!("{board} --unseal").as_str());
    let sealed = scratch
        .ok("runs list --experiment e --split confirmation --limit 0 --json")
        .json();
    let runs = sealed["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 12);
    for run in runs {
        assert_eq!(run["sealed"], true, "{run}");
        assert_eq!(run["metrics"]["composite"], Value::Null, "{run}");
    }
    assert_eq!(ledger(&scratch, "").len(), 1);
    runs_are_listed_in_both_orders(&server);
    two_writers_at_once(&server, &scratch);

    // Copies in both directions add up, and what opens the seal is copied, too.
    let here = "sqlite:copy.db";
    let sync = |from: &str, to: &str| {
        let line = format!("sync --from {from} --to {to} --experiment e --json");
        scratch.ok(line.as_str()).json()["ledger"].clone()
    };
    assert_eq!(sync(&server.url, here), 41);
    let copy = format!("--tracking-uri {here}");
    scratch.fails(3, format!("{board} {copy}").as_str());
    scratch.ok(format!("promote --task task --experiment e --dry-run {copy}").as_str());
    scratch.ok(format!("{board} {copy}").as_str());
    scratch.fails(3, board);
    assert_eq!(sync(here, &server.url), 1);
    assert_eq!(sync(&server.url, here), 0);
    assert_eq!(ledger(&scratch, ""), ledger(&scratch, &copy));
    scratch.ok(board);
    let shown = scratch.board("e");
    assert_eq!(
        shown["confirmation"],
        json!({"looks": 41, "attempts": 1, "candidates": 1})
    );
}

fn runs_are_listed_in_both_orders(server: &Mlflow) {
    let store = store(server);
    let ids = |query: &RunQuery| {
        let page = store.run_list("e", query).expect("runs");
        let ids: Vec<String> = page.runs.into_iter().map(|it| it.run_id).collect();
        (ids, page.next_page_token)
    };
    let (mut oldest_first, _) = ids(&RunQuery::default());
    assert!(oldest_first.len() > 20, "{}", oldest_first.len());
    oldest_first.reverse();
    let mut listed = Vec::new();
    let mut query = RunQuery {
        newest_first: true,
        max_results: 7,
        ..RunQuery::default()
    };
    loop {
        let (page, next) = ids(&query);
        listed.extend(page);
        query.page_token = next;
        if query.page_token.is_none() {
            break;
        }
    }
    assert_eq!(listed, oldest_first);
    let failed = RunQuery {
        status: Some(RunStatus::Failed),
        ..RunQuery::default()
    };
    assert_eq!(ids(&failed).0, Vec::<String>::new());
}

fn two_writers_at_once(server: &Mlflow, scratch: &Scratch) {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                let store = store(server);
                for n in 0..10 {
                    let entry = look(&format!("{writer}-{n}"));
                    store.ledger_append("e", &entry).expect("an entry");
                    // A repeated request, as after a timeout, adds nothing.
                    store.ledger_append("e", &entry).expect("the same");
                }
            });
        }
    });
    let entries = ledger(scratch, "");
    assert_eq!(entries.len(), 41);
    let numbers: Vec<u64> = entries
        .iter()
        .filter_map(|it| it["number"].as_u64())
        .collect();
    assert!(numbers.into_iter().eq(1..=41));
    let unknown = store(server).ledger_append("nowhere", &look("x"));
    assert!(matches!(unknown, Err(StoreError::NoExperiment { .. })));
}
