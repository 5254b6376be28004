//! Runs that other programs logged: copied through another store, then compared.

use std::collections::{BTreeMap, HashMap};

use assize_domain::run::RunStatus;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::mlflow::{
    Batch, Dataset, DatasetInput, Entry, NewLoggedModel, NewRun, Point, RunChange,
};
use assize_store::{Copying as _, RunQuery, Runs as _, WholeRun};
use serde_json::{Value, json};

use assize_test_support::Scratch;

const FIRST: &str = "sqlite:.assize/assize.db";
const PARENT: &str = "mlflow.parentRunId";

fn open(scratch: &Scratch, file: &str) -> EmbeddedStore {
    EmbeddedStore::open(&scratch.file(file), || 7, random_run_id).expect("a store")
}

fn entry(key: &str, value: &str) -> Entry {
    Entry {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn point(key: &str, step: i64, value: f64) -> Point {
    Point {
        key: key.to_owned(),
        value,
        timestamp: 1_700_000_000_000 + step,
        step,
    }
}

fn create(store: &EmbeddedStore, experiment_id: &str, name: &str, tags: Vec<Entry>) -> String {
    let made = store.mlflow().run_create(NewRun {
        experiment_id: experiment_id.to_owned(),
        name: Some(name.to_owned()),
        start_time: Some(1_700_000_000_000),
        tags,
        ..NewRun::default()
    });
    made.expect("a run").info.run_id
}

/// A finished run that is nested in one that was begun after it, and is still running.
fn log(store: &EmbeddedStore) -> (String, String) {
    let mlflow = store.mlflow();
    let id = mlflow
        .experiment_create("any", None, &[entry("team", "tips")])
        .expect("an experiment");
    let child = create(store, &id, "child", Vec::new());
    let parent = create(store, &id, "parent", Vec::new());
    let batch = Batch {
        metrics: vec![
            point("loss", 0, 3.0),
            point("loss", 2, 0.5),
            point("loss", 1, f64::NAN),
            point("accuracy", 5, 0.25),
        ],
        params: vec![
            entry("lr", "0.1"),
            entry("lease.term", "12 months"),
            entry("verdict.mode", "x"),
        ],
        tags: vec![
            entry(PARENT, &parent),
            entry("mlflow.user", "ann"),
            entry("mlflow.source.name", "train.py"),
            entry("mlflow.note.content", "A note.\nOf two lines."),
            entry("color", "red"),
        ],
        ..Batch::default()
    };
    mlflow.run_log(&child, batch).expect("logged");
    let dataset = DatasetInput {
        tags: vec![entry("mlflow.data.context", "training")],
        dataset: Dataset {
            name: "rows".to_owned(),
            digest: "d1".to_owned(),
            source_type: "local".to_owned(),
            source: "{\"uri\": \"rows.csv\"}".to_owned(),
            schema: None,
            profile: None,
        },
    };
    mlflow
        .run_inputs_log(&child, vec![dataset], Vec::new())
        .expect("logged");
    let bytes: Vec<u8> = (0..2560_u32).map(|it| it.to_le_bytes()[0]).collect();
    for path in ["b.bin", "deep/er/b.bin", "prompt.txt", "more.json"] {
        store
            .artifact_add(&child, path, bytes.clone())
            .expect("kept");
    }
    store
        .artifact_add(&child, "empty.txt", Vec::new())
        .expect("kept");
    end(store, &child, RunStatus::Finished, 1_700_000_000_900);
    (child, parent)
}

fn end(store: &EmbeddedStore, run_id: &str, status: RunStatus, at: i64) {
    let change = RunChange {
        status: Some(status),
        end_time: Some(at),
        name: None,
    };
    store.mlflow().run_update(run_id, change).expect("ended");
}

/// The runs of a store by name, with the contents of their files and without what is the
/// store's own; a parent goes by its name.
fn seen(scratch: &Scratch, file: &str) -> BTreeMap<String, (WholeRun, Vec<Vec<u8>>)> {
    let store = open(scratch, file);
    let runs = store.run_list("any", &RunQuery::default()).expect("runs");
    let names: HashMap<String, String> = runs
        .runs
        .iter()
        .map(|run| (run.run_id.clone(), run.name.clone()))
        .collect();
    let mut all = BTreeMap::new();
    for run in runs.runs {
        let mut whole = store.run_get_whole(&run.run_id).expect("a run");
        let contents = whole.files.iter().map(|(path, _)| {
            let content = store.artifact_get_bytes(&run.run_id, path);
            content.expect("an answer").expect("a file")
        });
        let contents = contents.collect();
        whole.run.run_id.clear();
        whole.run.tags.retain(|(key, _)| key != "copied_from");
        for (_, parent) in whole.run.tags.iter_mut().filter(|(key, _)| key == PARENT) {
            if let Some(name) = names.get(parent) {
                parent.clone_from(name);
            }
        }
        // NaN is nothing's equal.
        for point in whole.points.iter_mut().filter(|it| it.value.is_nan()) {
            point.value = -1.0;
        }
        all.insert(run.name, (whole, contents));
    }
    all
}

fn sync(scratch: &Scratch, from: &str, to: &str) -> Value {
    let line = format!("sync --from {from} --to {to} --experiment any --json");
    scratch.ok(&line).json()
}

/// From the first store by way of `middle` into a third, and again when something was added.
pub fn round_trip(middle: &str) {
    let scratch = Scratch::new();
    let first = open(&scratch, ".assize/assize.db");
    let (child, parent) = log(&first);
    let there_and_back = |copied: u64, merged: u64| {
        for (from, to) in [(FIRST, middle), (middle, "sqlite:last.db")] {
            let synced = sync(&scratch, from, to);
            assert_eq!(synced["runs"], 2, "{synced}");
            assert_eq!(synced["copied"], copied, "{synced}");
            assert_eq!(synced["merged"], merged, "{synced}");
            assert_eq!(synced["other_values"], 0, "{synced}");
            assert_eq!(synced["unreadable_files"], 0, "{synced}");
        }
        assert_eq!(
            seen(&scratch, "last.db"),
            seen(&scratch, ".assize/assize.db")
        );
    };
    there_and_back(2, 0);
    let seen_first = seen(&scratch, "last.db");
    let running = &seen_first["parent"].0.run;
    assert_eq!(
        (running.status, running.end_time_ms),
        (RunStatus::Running, None)
    );
    assert_eq!(seen_first["child"].0.points.len(), 4);
    let nested = (PARENT.to_owned(), "parent".to_owned());
    assert!(seen_first["child"].0.run.tags.contains(&nested));
    let tags = open(&scratch, "last.db").experiment_tags_get("any");
    assert_eq!(
        tags.expect("tags"),
        [("team".to_owned(), "tips".to_owned())]
    );
    there_and_back(0, 0);

    // A finished run gets more, and the other one ends.
    let more = Batch {
        metrics: vec![point("loss", -1, 9.0), point("recall", 0, 1.0)],
        params: vec![entry("late", "1")],
        tags: vec![entry("late", "2")],
        ..Batch::default()
    };
    first.mlflow().run_log(&child, more).expect("logged");
    first
        .artifact_add(&child, "late.bin", vec![0, 255, 1])
        .expect("kept");
    end(&first, &parent, RunStatus::Killed, 1_700_000_000_950);
    there_and_back(0, 2);
    there_and_back(0, 0);
    // And back, where nothing is lacking.
    let back = sync(&scratch, "sqlite:last.db", FIRST);
    assert_eq!(back["unchanged"], 2, "{back}");

    what_differs_is_told(&scratch, &first, &child, middle);
}

fn what_differs_is_told(scratch: &Scratch, first: &EmbeddedStore, child: &str, middle: &str) {
    let tags = vec![entry("color", "blue")];
    let batch = Batch {
        tags,
        ..Batch::default()
    };
    first.mlflow().run_log(child, batch).expect("logged");
    let id = first.mlflow().experiment_get_by_name("any").expect("it");
    let model = NewLoggedModel {
        experiment_id: id.experiment_id,
        ..NewLoggedModel::default()
    };
    first.mlflow().logged_model_create(model).expect("a model");
    let synced = sync(scratch, FIRST, middle);
    let told: Vec<&Value> = ["unchanged", "other_values", "logged_models_left"]
        .iter()
        .map(|key| &synced[*key])
        .collect();
    assert_eq!(told, [&json!(2), &json!(1), &json!(1)], "{synced}");
    let line = format!("sync --from {FIRST} --to {middle} --experiment any");
    let outcome = scratch.ok(&line);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("1 logged model is not copied"), "{said}");
    assert!(said.contains("1 run has a name, params, tags"), "{said}");
}
