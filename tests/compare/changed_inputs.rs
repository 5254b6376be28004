//! Experiments that changed under way: edited scenarios, prompts and rubrics, other settings, runs
//! and stores that went away. Nothing is compared that does not belong together, and nothing
//! that somebody wrote is lost.

use std::process::Stdio;

use assize_test_support::{Outcome, Scratch, script, write_small_task};
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

#[test]
fn nothing_is_paired_across_an_edited_scenario() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    scratch.write(
        "task/scenarios.jsonl",
        &scratch
            .read("task/scenarios.jsonl")
            .replace("topic ", "subject "),
    );
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
        warned(&board, "scenarios were edited"),
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

#[test]
fn an_export_never_overwrites_somebody_s_scores() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    scratch.ok("judge export --experiment e --out judge.json --no-anchors");
    scratch.write("judge.json", "half filled in");
    let again = scratch.ok("judge export --experiment e --out judge.json --no-anchors");
    assert!(
        again
            .stderr
            .contains("judge.json was there already and is now judge.json.1.bak"),
        "{again}"
    );
    assert_eq!(scratch.read("judge.json.1.bak"), "half filled in");
}

#[test]
fn a_deleted_run_does_not_spoil_a_filled_file() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "");
    scratch.ok("judge export --experiment e --out judge.json --no-anchors");
    let mut file = scratch.read_json("judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        case["scores"]["worth"] = json!(2);
    }
    scratch.write("judge.json", &file.to_string());
    let runs = scratch.ok("runs list --experiment e --json").json();
    scratch.ok(&[
        "runs",
        "delete",
        runs["runs"][0]["run_id"].as_str().expect("id"),
    ]);
    let applied = scratch.ok("judge apply judge.json");
    assert!(applied.stderr.contains("1 case passed over"), "{applied}");
    assert_eq!(scratch.board("e")["coverage"]["judged"], 5);
}

#[test]
fn a_store_that_goes_away_under_a_collect_is_an_error() {
    let scratch = scratch();
    let slow = script(&[("a", &["fine"])]).replace("\"prompt\"", "\"latency_ms\":40,\"prompt\"");
    scratch.write("script.json", &slow);
    let args = assize_test_support::collect("scripted:a", "--task task");
    let child = scratch
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let store = scratch.file(".assize/assize.db");
    while !store.exists() {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    std::fs::remove_file(&store).expect("the store is there");
    let outcome = Outcome::of(&child.wait_with_output().expect("it ends"));
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(
        outcome.stderr.contains("was deleted or replaced"),
        "{outcome}"
    );
}

#[test]
fn a_reader_that_leaves_does_not_stop_the_collection() {
    let scratch = scratch();
    let args = assize_test_support::collect("scripted:a,scripted:b", "--task task");
    let mut child = scratch
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    child.wait().expect("it ends");
    let listed = scratch.ok("experiments list --json").json();
    assert_eq!(listed["experiments"][0]["runs"], 24);
}

#[test]
fn tracking_uris_mean_what_mlflow_s_mean() {
    let scratch = scratch();
    collect(&scratch, "scripted:a", "--tracking-uri sqlite:///runs.db");
    assert!(scratch.file("runs.db").exists());
    let absolute = format!("sqlite:{}", scratch.file("runs.db").display());
    let listed = scratch
        .ok(&["experiments", "list", "--json", "--tracking-uri", &absolute])
        .json();
    assert_eq!(listed["experiments"][0]["runs"], 6);
}
