//! Recovery on a real MLflow server from writes that were interrupted between two requests: partial
//! deliveries, duplicate runs of a cell, a promotion without its alias; and double scoring and
//! quarantine on such a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::sittings;
use assize_domain::run::{CellRecord, RunStatus};
use assize_mlflow::{Config, MlflowStore};
use assize_pipeline::judge::queue::SitOptions;
use assize_store::{Cells as _, Copying as _, Promotions as _, RunQuery, Tracking};
use assize_test_support::mlflow::{Mlflow, tag};
use assize_test_support::promotion_task;
use assize_test_support::{score_all, script};
use serde_json::{Value, json};

#[test]
fn interrupted_writes_are_repaired() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    a_cut_off_run_that_was_finished_since_is_left_alone(&server);
    a_cut_off_run_of_somebody_else_is_not_completed(&server);
    judged_runs_are_kept(&server);
    the_alias_of_a_promotion_that_was_cut_off_is_moved(&server);
    every_case_has_two_judges(&server);
    a_sitting_that_drifts_is_set_aside(&server);
}

fn store(server: &Mlflow) -> MlflowStore {
    let now_ms = || sittings::START_MS;
    MlflowStore::open(&Config::new(&server.url), now_ms).expect("a store")
}

fn shared_store(server: &Mlflow) -> Arc<dyn Tracking> {
    Arc::new(store(server))
}

fn record(cell_key: &str, start_time_ms: i64) -> CellRecord {
    CellRecord {
        cell_key: cell_key.to_owned(),
        name: "m × p × s".to_owned(),
        status: RunStatus::Finished,
        start_time_ms,
        end_time_ms: start_time_ms + 1,
        params: vec![("model".into(), "m".into())],
        tags: vec![("judge_pending".into(), "true".into())],
        metrics: vec![("n_candidates".into(), 1.0)],
        artifacts: vec![("candidates.json".into(), "[]".into())],
    }
}

fn experiment_new(server: &Mlflow, name: &str) -> Value {
    let body = json!({ "name": name });
    server.post("experiments/create", &body)["experiment_id"].clone()
}

/// A run that somebody has made and not finished.
fn run_begun(server: &Mlflow, experiment: &Value, cell_key: &str, start_time: i64) -> String {
    let body = json!({
        "experiment_id": experiment, "start_time": start_time, "run_name": "theirs",
        "tags": [{"key": "cell_key", "value": cell_key}],
    });
    let made = server.post("runs/create", &body);
    let id = made["run"]["info"]["run_id"].as_str().expect("an id");
    id.to_owned()
}

fn finish(server: &Mlflow, run_id: &str) {
    let body = json!({"run_id": run_id, "status": "FINISHED", "end_time": 9});
    server.post("runs/update", &body);
}

fn ids(server: &Mlflow, experiment: &str) -> BTreeSet<String> {
    let runs = server.runs(experiment);
    let ids = runs.iter().map(|run| run["info"]["run_id"].as_str());
    ids.map(|it| it.expect("an id").to_owned()).collect()
}

fn a_cut_off_run_that_was_finished_since_is_left_alone(server: &Mlflow) {
    let experiment = experiment_new(server, "since");
    let theirs = run_begun(server, &experiment, "key", 5);
    let store = store(server);
    let known = store.cells_known("since", &["key".to_owned()]);
    assert_eq!(known.expect("a store"), [None], "not finished");
    finish(server, &theirs);
    let recorded = store.cells_record("since", &[record("key", 7)]);
    let recorded = recorded.expect("recorded").remove(0);
    assert_eq!(
        (&recorded.run_id, recorded.written),
        (&Some(theirs.clone()), false)
    );
    assert_eq!(ids(server, "since"), BTreeSet::from([theirs]));
}

fn a_cut_off_run_of_somebody_else_is_not_completed(server: &Mlflow) {
    let experiment = experiment_new(server, "theirs");
    let theirs = run_begun(server, &experiment, "key", 5);
    // A run of another cell that somebody is at, and one that is finished.
    let other = run_begun(server, &experiment, "other", 5);
    let done = run_begun(server, &experiment, "done", 5);
    finish(server, &done);
    let store = store(server);
    let recorded = store.cells_record("theirs", &[record("key", 7), record("done", 7)]);
    let recorded = recorded.expect("recorded");
    assert!(
        recorded[0].written && recorded[0].run_id.as_ref() != Some(&theirs),
        "{recorded:?}"
    );
    assert!(
        !recorded[1].written && recorded[1].run_id.as_ref() == Some(&done),
        "{recorded:?}"
    );
    let left = ids(server, "theirs");
    assert!(left.contains(&other) && left.contains(&done), "{left:?}");
    let run = &server.get(&format!("runs/get?run_id={theirs}"))["run"];
    assert_eq!(
        run["data"]["params"],
        Value::Null,
        "nothing was added: {run}"
    );
    // Our own that was cut off is completed, and keeps its id.
    let ours = run_begun(server, &experiment, "ours", 7);
    let again = self::store(server).cells_record("theirs", &[record("ours", 7)]);
    assert_eq!(again.expect("recorded")[0].run_id, Some(ours));
}

/// Of two runs of a cell the one that was judged stays, whichever came first.
fn judged_runs_are_kept(server: &Mlflow) {
    let scratch = server.scratch();
    scratch.write("script.json", &script(&[("good", &["A tip."])]));
    let experiment = experiment_new(server, "twice");
    let late = store(server);
    let known = late.cells_known("twice", &["any".to_owned()]);
    assert_eq!(known.expect("a store"), [None]);
    scratch.ok(
        "collect --models scripted:good --prompts v1 --n-scenarios 2 --n-tips 1 \
         --script script.json --experiment twice --json",
    );
    let cells: Vec<String> = server
        .runs("twice")
        .iter()
        .filter_map(|run| tag(run, "cell_key").map(str::to_owned))
        .collect();
    let words = "--judge-kind human --judged-by ada";
    scratch.judge("twice", "judge.json", words, |case| score_all(case, 4));
    let judged = ids(server, "twice");
    assert_eq!(judged.len(), 2);

    // Whoever delivers the cell late and with an earlier time takes their own run away.
    let twin = run_begun(server, &experiment, &cells[0], 1);
    let settled = late.cells_record("twice", &[record(&cells[0], 1)]);
    let settled = settled.expect("recorded");
    assert!(
        !settled[0].written
            && settled[0]
                .run_id
                .as_ref()
                .is_some_and(|it| judged.contains(it)),
        "{settled:?}"
    );
    assert!(judged.is_subset(&ids(server, "twice")));

    // Tidying removes the one that was not judged, although it is the first.
    let first = run_begun(server, &experiment, &cells[1], 1);
    finish(server, &first);
    assert!(ids(server, "twice").contains(&first));
    store(server).runs_tidy("twice").expect("tidied");
    assert_eq!(ids(server, "twice"), judged, "neither {first} nor {twin}");

    // Two that were judged both stay.
    let verdict = json!({"run_id": first, "key": "verdict.x", "value": "y"});
    server.post("runs/restore", &json!({ "run_id": first }));
    server.post("runs/log-parameter", &verdict);
    assert_eq!(store(server).runs_tidy("twice").expect("tidied"), 0);
    assert_eq!(ids(server, "twice").len(), 3);
}

fn the_alias_of_a_promotion_that_was_cut_off_is_moved(server: &Mlflow) {
    let scratch = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&scratch);
    promotion_task::fill(&scratch);
    let done = scratch.ok("promote --task task --experiment e --json");
    assert_eq!(done.json()["promoted"], true, "{done}");
    let aliases =
        || server.get("registered-models/get?name=shop")["registered_model"]["aliases"].clone();
    let expected = json!([{"alias": "champion", "version": "1"}]);
    assert_eq!(aliases(), expected);

    // As if the one before were still there: the entry is written, the alias has not moved.
    let tags = json!([
        {"key": "mlflow.prompt.is_prompt", "value": "true"},
        {"key": "mlflow.prompt.text", "value": "older"},
    ]);
    let body = json!({"name": "shop", "source": "dummy-source", "tags": tags});
    server.post("model-versions/create", &body);
    let body = json!({"name": "shop", "alias": "champion", "version": "2"});
    server.post("registered-models/alias", &body);
    let champion = store(server).champion_get("shop").expect("a store");
    assert_eq!(champion.expect("a champion").version, 1);
    assert_eq!(aliases(), expected);

    // As if it were the first: there is no alias yet.
    let url = format!("{}/api/2.0/mlflow/registered-models/alias", server.url);
    let body = json!({"name": "shop", "alias": "champion"}).to_string();
    let request = ureq::http::Request::delete(&url)
        .header("Content-Type", "application/json")
        .body(body)
        .expect("a request");
    let gone = ureq::Agent::new_with_defaults().run(request);
    assert!(gone.is_ok(), "{gone:?}");
    assert_ne!(aliases(), expected);
    scratch.ok("compare --experiment e --task task --json");
    store(server).champion_get("shop").expect("a store");
    assert_eq!(aliases(), expected);
}

fn every_case_has_two_judges(server: &Mlflow) {
    let scratch = server.scratch();
    scratch.write(
        "script.json",
        &script(&[("a", &["Walk now.", "Rest."]), ("b", &["Eat.", "Sleep."])]),
    );
    scratch.ok(
        "collect --models scripted:a,scripted:b --prompts v1 --n-scenarios 3 --n-tips 2 \
         --script script.json --experiment double --json",
    );
    let double = |name: &str| SitOptions {
        double: true,
        ..sittings::sit_at("double", name)
    };
    std::thread::scope(|scope| {
        for name in ["ann", "bob"] {
            scope.spawn(move || {
                let mut seat =
                    sittings::open(&shared_store(server), double(name), &sittings::at(0));
                assert_eq!(
                    sittings::clear(&mut seat, 4, &sittings::at(1)),
                    12,
                    "{name}"
                );
                seat.finish(&sittings::at(2)).expect("finished");
            });
        }
    });
    let store = shared_store(server);
    let runs = store
        .run_list("double", &RunQuery::default())
        .expect("runs");
    assert_eq!(runs.runs.len(), 6);
    for run in runs.runs {
        let files = store.verdicts_get(&run.run_id).expect("verdicts");
        let judges: BTreeSet<String> = files.into_iter().map(|file| file.judge.name).collect();
        assert_eq!(judges.len(), 2, "{judges:?}");
    }
    let mut third = sittings::open(&store, double("eve"), &sittings::at(9));
    assert_eq!(
        third.next(1, &sittings::at(9)).expect("cases"),
        [],
        "two are enough"
    );
}

fn a_sitting_that_drifts_is_set_aside(server: &Mlflow) {
    let scratch = server.scratch();
    scratch.write("script.json", &script(&[("good", &["A tip."])]));
    scratch.ok(
        "collect --models scripted:good --prompts v1 --n-scenarios 2 --n-tips 1 \
         --script script.json --experiment drift --json",
    );
    scratch.ok("judge export --experiment drift --out judge.json");
    let mut file = scratch.read_json("judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        score_all(case, 5);
    }
    scratch.write("judge.json", &file.to_string());
    let apply = "judge apply judge.json --judge-kind human --judged-by eve --json";
    let applied = scratch.fails(3, apply).json();
    assert_eq!(applied["state"], "quarantined", "{applied}");
    let sitting = applied["sitting"].as_str().expect("an id");
    for run in server.runs("drift") {
        assert_eq!(tag(&run, "judge_pending"), Some("true"), "{run}");
        assert_eq!(tag(&run, "set_aside"), Some(sitting), "{run}");
    }
    assert_eq!(scratch.board("drift")["coverage"]["judged"], 0);
    scratch.fails(2, apply);

    // Somebody else judges the same cases, and then the first are released after all.
    let words = "--judge-kind human --judged-by ada";
    scratch.judge("drift", "again.json", words, |case| score_all(case, 3));
    assert_eq!(scratch.board("drift")["coverage"]["judged"], 2);
    scratch.ok(&["judge", "release", sitting]);
    for run in server.runs("drift") {
        assert_eq!(tag(&run, "set_aside").unwrap_or_default(), "", "{run}");
    }
    let id = ids(server, "drift").pop_first().expect("a run");
    let shown = scratch.ok(&["runs", "show", &id, "--json"]).json();
    assert_eq!(
        shown["verdicts"].as_array().map(Vec::len),
        Some(2),
        "{shown}"
    );
}
