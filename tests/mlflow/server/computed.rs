//! Computed scores on a real MLflow server: judged at collect, scored again later.

use assize_test_support::mlflow::{Mlflow, tag};
use assize_test_support::root;
use serde_json::{Value, json};

/// The board without what is measured and differs between any two collections.
fn rows(board: &Value) -> Vec<Value> {
    let mut rows = board["rows"].as_array().expect("rows").clone();
    for row in &mut rows {
        row["latency_ms"].take();
        row["tokens_per_s"].take();
    }
    rows
}

#[test]
fn computed_runs_are_judged_at_collect_and_scored_again_by_a_changed_rule() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let scratch = server.scratch();
    let source = root().join("examples/classify");
    std::fs::create_dir_all(scratch.file("mine/prompts")).expect("a folder");
    for file in [
        "task.toml",
        "rubric.md",
        "tickets.csv",
        "script.json",
        "prompts/v1.md",
        "prompts/v2-examples.md",
    ] {
        std::fs::copy(source.join(file), scratch.file("mine").join(file)).expect("copied");
    }
    let collect = "collect --task mine --models scripted:hasty,scripted:careful --n-scenarios 6 \
                   --script mine/script.json --experiment computed --json";
    assert_eq!(scratch.ok(collect).summary()["collected"], 24);
    let runs = server.runs("computed");
    assert_eq!(runs.len(), 24);
    for run in &runs {
        assert_eq!(tag(run, "judge_pending"), Some("false"), "{run}");
        assert_eq!(tag(run, "auto_pending"), Some("false"), "{run}");
        assert_eq!(tag(run, "judge_kind"), Some("computed"), "{run}");
    }
    let before = scratch.board("computed");
    assert_eq!(before["coverage"]["judged"], 24, "{before}");
    let id = runs[0]["info"]["run_id"].as_str().expect("an id");
    // The verdict file counts by its param alone: there is no sitting and no commit mark.
    let params = runs[0]["data"]["params"].as_array().expect("params");
    let names = |it: &Value| it["key"].as_str().map(str::to_owned);
    let mut names = params.iter().filter_map(names);
    assert!(
        names.any(|it| it.starts_with("verdict.computed-")),
        "{params:?}"
    );

    let recompute = || {
        let line = "judge recompute --experiment computed --json";
        scratch.ok(line).json()
    };
    assert_eq!(recompute()["changed"], 0);
    let rubric = scratch.read("mine/rubric.md");
    let changed = rubric.replace("equals = \"{{ label }}\"", "contains = \"{{ label }}\"");
    scratch.write("mine/rubric.md", &changed);
    assert_eq!(recompute()["changed"], 24);
    assert_eq!(recompute()["changed"], 0);
    let after = scratch.board("computed");
    assert_eq!(after["coverage"]["judged"], 24, "{after}");
    assert_ne!(rows(&after), rows(&before));
    scratch.write("mine/rubric.md", &rubric);
    assert_eq!(recompute()["changed"], 24);
    assert_eq!(rows(&scratch.board("computed")), rows(&before));
    let shown = scratch.ok(&["runs", "show", id, "--json"]).json();
    assert_eq!(
        shown["verdicts"].as_array().map(Vec::len),
        Some(2),
        "{shown}"
    );
    assert_eq!(shown["tags"]["judge_kind"], json!("computed"));
}
