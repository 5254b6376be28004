//! Experiments whose inputs changed between collections: edited scenarios, prompts and rubrics,
//! other settings. Only runs with the same inputs are compared.

use assize_test_support::{Scratch, script, write_small_task};
use serde_json::{Value, json};

/// A scratch folder with a small task of six scenarios and two scripted models.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 6);
    scratch.write(
        "script.json",
        &script(&[("a", &["fine"]), ("b", &["good"])]),
    );
    scratch
}

fn collect(scratch: &Scratch, model: &str, more: &str) {
    let small = format!("--task task --prompts p1 --n-tips 1 {more}");
    scratch.ok(&assize_test_support::collect(model, &small));
}

/// Exports what is pending, scores "good" high and everything else low, and applies it.
fn judge(scratch: &Scratch, name: &str) {
    scratch.judge("e", name, "", |case| {
        let worth = if case["candidate"] == "good" { 3 } else { 1 };
        case["scores"]["worth"] = json!(worth);
    });
}

fn warned(board: &Value, words: &str) -> bool {
    board["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .any(|it| it.as_str().is_some_and(|it| it.contains(words)))
}

fn edit_scenarios(scratch: &Scratch, from: &str, to: &str) {
    let text = scratch.read("task/scenarios.jsonl").replace(from, to);
    scratch.write("task/scenarios.jsonl", &text);
}

#[test]
fn nothing_is_paired_across_an_edited_scenario() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    edit_scenarios(&scratch, "topic ", "subject ");
    collect(&scratch, "scripted:b", "");
    judge(&scratch, "judge.json");
    let board = scratch.board("e");
    assert_eq!(
        board["decision"]["winner"],
        Value::Null,
        "{}",
        board["decision"]
    );
    assert!(
        warned(
            &board,
            "6 runs of earlier versions of 6 scenarios are not counted"
        ),
        "{}",
        board["warnings"]
    );
}

#[test]
fn an_edited_scenario_counts_once_and_its_earlier_verdicts_are_listed() {
    let scratch = scratch();
    let p_of = |board: &Value| board["rows"][0]["vs_incumbent"]["p"].clone();
    let mut first = Value::Null;
    for edit in ["", "!", "!!"] {
        if !edit.is_empty() {
            edit_scenarios(&scratch, "\"}", "!\"}");
        }
        collect(&scratch, "scripted:a,scripted:b", "");
        judge(&scratch, "judge.json");
        let board = scratch.board("e");
        if first.is_null() {
            first = p_of(&board);
            assert_eq!(first, json!(1.0 / 64.0));
        }
        assert_eq!(p_of(&board), first, "after the edit '{edit}'");
        let row = &board["rows"][0];
        assert_eq!(
            (&row["scenarios"], &row["candidates"]),
            (&json!(6), &json!(6))
        );
        assert_eq!(board["coverage"]["cells"], 12);
        let older = board["older_versions"].as_array().expect("a list");
        assert_eq!(older.len(), 6 * edit.len());
        assert!(older.iter().all(|it| it["runs"] == 2 && it["judged"] == 2));
    }
}

#[test]
fn a_deleted_scenario_no_longer_counts() {
    let scratch = scratch();
    collect(&scratch, "scripted:a,scripted:b", "");
    judge(&scratch, "judge.json");
    let text = scratch.read("task/scenarios.jsonl");
    let kept: Vec<&str> = text.lines().skip(1).collect();
    scratch.write("task/scenarios.jsonl", &kept.join("\n"));
    let board = scratch.board("e");
    assert_eq!(board["rows"][0]["scenarios"], 5, "{board}");
    assert_eq!(board["older_versions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn pairs_that_were_judged_in_different_sittings_have_no_winner() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    judge(&scratch, "first.json");
    collect(&scratch, "scripted:b", "");
    judge(&scratch, "second.json");
    let board = scratch.board("e");
    let row = &board["rows"][0];
    assert_eq!(row["vs_incumbent"]["p"], json!(1.0 / 64.0));
    assert_eq!(row["vs_incumbent"]["judged_apart"], 1.0);
    assert_eq!(board["decision"]["winner"], Value::Null, "{board}");
    let reason = board["decision"]["reason"].as_str().expect("a reason");
    let command =
        "assize judge reopen --experiment e --tier expert --pairs scripted:b/p1,scripted:a/p1";
    assert!(reason.contains(command), "{reason}");

    // The command that is named repairs it: the next sitting judges both.
    let reopened = command.strip_prefix("assize ").expect("a command of ours");
    scratch.ok(reopened);
    judge(&scratch, "both.json");
    let board = scratch.board("e");
    assert_eq!(board["rows"][0]["vs_incumbent"]["judged_apart"], 0.0);
    assert_eq!(
        board["decision"]["winner"]["model"], "scripted:b",
        "{board}"
    );
}

#[test]
fn candidates_that_never_came_are_on_the_board() {
    let scratch = scratch();
    let responses = json!({"models": {
        "a": {"parameter_count": 1, "responses": [{"prompt": "*", "scenario": "*", "texts": ["fine"]}]},
        "b": {"parameter_count": 1, "responses": [
            {"prompt": "*", "scenario": "s1", "texts": [], "error": "timeout"},
            {"prompt": "*", "scenario": "*", "texts": ["good"]}]}}});
    scratch.write("script.json", &responses.to_string());
    let small = "--task task --prompts p1 --n-tips 2 --retries 0";
    scratch.run(&assize_test_support::collect(
        "scripted:a,scripted:b",
        small,
    ));
    judge(&scratch, "judge.json");
    let board = scratch.board("e");
    let rows = board["rows"].as_array().expect("rows");
    let lost = |model: &str| {
        let row = rows.iter().find(|it| it["model"] == model).expect("a row");
        row["n_failed"].clone()
    };
    assert_eq!(
        (lost("scripted:a"), lost("scripted:b")),
        (json!(0), json!(2)),
        "{board}"
    );
    assert!(
        warned(&board, "2 of 12 requests of scripted:b × p1"),
        "{}",
        board["warnings"]
    );
}

#[test]
fn two_contents_of_a_prompt_are_two_rows() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    scratch.write("task/prompts/p1.md", "Say one thing about {{ topic }}.\n");
    collect(&scratch, "scripted:a", "");
    judge(&scratch, "judge.json");
    let board = scratch.board("e");
    let rows = board["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter().all(|row| row["prompt"]
            .as_str()
            .is_some_and(|it| it.starts_with("p1@") && it.len() == 9)),
        "{rows:?}"
    );
}

#[test]
fn different_settings_are_named() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    collect(&scratch, "scripted:b", "--temperature 1.5");
    judge(&scratch, "judge.json");
    assert!(
        warned(&scratch.board("e"), "temperature 1.5"),
        "{}",
        scratch.board("e")["warnings"]
    );
}

#[test]
fn rubrics_are_judged_one_after_the_other_and_never_mixed() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    scratch.write(
        "task/rubric.md",
        &scratch
            .read("task/rubric.md")
            .replace("Judge it.", "Judge it well."),
    );
    collect(&scratch, "scripted:b", "");
    scratch.ok("judge export --experiment e --out new.json --no-anchors");
    assert_eq!(
        scratch.read_json("new.json")["cases"]
            .as_array()
            .map(Vec::len),
        Some(6)
    );
    judge(&scratch, "new.json");
    let first = scratch.board("e");
    assert_eq!(
        (&first["coverage"]["cells"], &first["coverage"]["pending"]),
        (&json!(6), &json!(0))
    );
    assert!(
        warned(&first, "6 runs under another rubric"),
        "{}",
        first["warnings"]
    );
    judge(&scratch, "old.json");
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["expert"]["pending"], 0);
    assert_eq!(
        scratch.board("e")["rows"].as_array().map(Vec::len),
        Some(1),
        "still one rubric's rows"
    );
}
