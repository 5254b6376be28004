//! Scoring stored outputs again: changed rules, corrected references, changed scenarios.

use assize_test_support::{Scratch, root, script};
use serde_json::{Value, json};

use crate::computed::{collect_mixed, composites, example, mixed, row, write_mixed};
use crate::{first_run, pending, status};

#[test]
fn a_changed_rule_scores_stored_outputs_again_without_generating() {
    let scratch = example("classify", "--n-scenarios 6");
    let source = root().join("examples/classify");
    let copy = scratch.file("mine");
    std::fs::create_dir_all(copy.join("prompts")).expect("a folder");
    for file in [
        "task.toml",
        "rubric.md",
        "tickets.csv",
        "prompts/v1.md",
        "prompts/v2-examples.md",
    ] {
        std::fs::copy(source.join(file), copy.join(file)).expect("copied");
    }
    let recompute = |more: &str| {
        scratch
            .ok(&format!(
                "judge recompute --experiment e --task mine --json {more}"
            ))
            .json()
    };
    let same = recompute("");
    assert_eq!(same["changed"], 0, "{same}");
    let before = scratch.board("e");
    let rubric = scratch.read("mine/rubric.md");
    scratch.write(
        "mine/rubric.md",
        &rubric.replace("equals = \"{{ label }}\"", "contains = \"{{ label }}\""),
    );
    let dry = recompute("--dry-run");
    assert_eq!(
        (&dry["runs"], &dry["changed"]),
        (&json!(24), &json!(24)),
        "{dry}"
    );
    assert_eq!(scratch.board("e"), before);
    let done = recompute("");
    assert_eq!(
        (&done["changed"], &done["under_new_rubric"]),
        (&json!(24), &json!(24)),
        "{done}"
    );
    let again = recompute("");
    assert_eq!(again["changed"], 0, "{again}");
    let after = scratch.board("e");
    assert_ne!(after["rubric"]["sha256"], before["rubric"]["sha256"]);
    assert_eq!(after["coverage"]["pending"], 0, "{after}");
    // Sentences that name the right queue count now: every fourth of hasty's.
    let chatty = row(&after, "scripted:hasty", "v1");
    let share = chatty["criteria"]["correct"].as_f64().expect("a share");
    assert!((share - 2.0 / 6.0).abs() < 1e-9, "{chatty}");
    let earlier = row(&before, "scripted:hasty", "v1");
    assert_eq!(earlier["criteria"]["correct"], 0.0, "{earlier}");
    // The earlier verdicts stay in the history, and going back makes them count again.
    assert_eq!(
        first_run(&scratch)["verdicts"].as_array().map(Vec::len),
        Some(2)
    );
    scratch.write("mine/rubric.md", &rubric);
    recompute("");
    assert_eq!(scratch.board("e")["rows"], before["rows"]);
    assert_eq!(status(&scratch)["expert"]["pending"], 0);
}

#[test]
fn a_corrected_reference_and_a_changed_check_are_computed_again() {
    let scratch = Scratch::new();
    write_mixed(&scratch, "equals = \"{{ reference }}\"");
    scratch.write("script.json", &script(&[("a", &["walk", "rest"])]));
    collect_mixed(&scratch);
    let scenarios = scratch.read("mixed/scenarios.toml");
    scratch.write(
        "mixed/scenarios.toml",
        &scenarios.replace("reference = \"walk\"", "reference = \"rest\""),
    );
    let task = scratch.read("mixed/task.toml");
    scratch.write(
        "mixed/task.toml",
        &format!("{task}[[checks]]\nflag = \"ok\"\nnot_contains = [\"walk\"]\n"),
    );
    let done = scratch.ok("judge recompute --experiment e --json").json();
    assert_eq!(
        (&done["changed"], &done["under_new_rubric"]),
        (&json!(1), &json!(0)),
        "{done}"
    );
    let run = first_run(&scratch);
    let of = |index: usize| &run["candidates"][index];
    assert_eq!(
        (&of(0)["scores"]["label"], &of(1)["scores"]["label"]),
        (&json!(0.0), &json!(4.0))
    );
    assert_eq!(
        (&of(0)["flags"]["ok"], &of(1)["flags"]["ok"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(pending(&scratch, "expert"), 1);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["tone"] = json!(1);
    });
    assert_eq!(composites(&scratch), [json!(1.0), json!(10.0)]);
}

#[test]
fn recompute_says_that_a_changed_field_needs_a_new_collection() {
    let scratch = mixed();
    let scenarios = scratch.read("mixed/scenarios.toml");
    scratch.write(
        "mixed/scenarios.toml",
        &scenarios.replace("label = \"walk\"", "label = \"rest\""),
    );
    let done = scratch.ok("judge recompute --experiment e --json");
    let report = done.json();
    assert_eq!(
        (&report["other_scenario"], &report["changed"]),
        (&json!(1), &json!(0)),
        "{done}"
    );
    assert!(
        done.stderr
            .contains("Only reference and expect can change afterwards")
            && done.stderr.contains("assize collect again"),
        "{done}"
    );
    // Which it does: the changed scenario is another cell.
    collect_mixed(&scratch);
    let scores: Vec<Value> = scratch
        .ok("runs export --experiment e")
        .json_lines()
        .iter()
        .map(|it| it["candidate"]["scores"]["label"].clone())
        .collect();
    assert!(
        scores.len() == 4 && scores[2] == 0.0 && scores[3] == 4.0,
        "{scores:?}"
    );
    scratch.write("mixed/scenarios.toml", &scenarios);
    let same = scratch.ok("judge recompute --experiment e --json").json();
    assert_eq!(same["other_scenario"], 1, "{same}");
}

#[test]
fn a_rubric_with_computed_criteria_is_applied_by_recompute() {
    let scratch = mixed();
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["tone"] = json!(1);
    });
    write_mixed(&scratch, "contains = \"{{ label }}\"");
    let refused = scratch.fails(2, "judge reopen --experiment e --rubric");
    assert!(refused.stderr.contains("judge recompute"), "{refused}");
    let done = scratch.ok("judge recompute --experiment e");
    assert!(done.stderr.contains("pending again"), "{done}");
    assert_eq!(pending(&scratch, "expert"), 1);
}
