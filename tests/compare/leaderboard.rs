//! Leaderboards of sparse, uneven and degenerate data, and the exit codes and reports for builds.

use assize_test_support::{Outcome, Scratch, score_all, script, write_small_task};
use serde_json::{Value, json};

/// A small task with so many scenarios, two models, and a judge who gives "good" 3 and else 1.
fn judged(scenarios: usize, models: &str, n_tips: u32) -> Scratch {
    let scratch = collected(scenarios, models, n_tips);
    judge(&scratch);
    scratch
}

fn collected(scenarios: usize, models: &str, n_tips: u32) -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, scenarios);
    scratch.write(
        "script.json",
        &script(&[("a", &["fine"]), ("b", &["good", "fine", "good"])]),
    );
    scratch.ok(format!(
        "collect --task task --models {models} --script script.json --experiment e --prompts p1 --n-tips {n_tips}"
    )
    .as_str());
    scratch
}

fn judge(scratch: &Scratch) {
    scratch.judge("e", "judge.json", "", |case| {
        let worth = if case["candidate"] == "good" { 3 } else { 1 };
        case["scores"]["worth"] = json!(worth);
    });
}

/// The board as a person sees it, which must fit, and as JSON.
fn boards(scratch: &Scratch) -> (String, Value) {
    scratch.ok("compare --experiment e -o b.html -o b.md -o b.csv -o b.xml");
    let table = scratch.ok("compare --experiment e --pareto").stdout;
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    (table, scratch.board("e"))
}

fn reason(board: &Value) -> &str {
    board["decision"]["reason"].as_str().expect("a reason")
}

#[test]
fn one_scenario_is_too_few_for_a_test() {
    let scratch = judged(1, "scripted:a,scripted:b", 3);
    let (table, board) = boards(&scratch);
    assert!(
        reason(&board).contains("1 scenario cannot carry a test"),
        "{table}"
    );
    let row = &board["rows"][0];
    assert!(row["composite"]["se"].is_null() && row["vs_incumbent"]["p"].is_null());
    assert_eq!(board["decision"]["scenarios_needed"], 5);
}

#[test]
fn a_single_pair_has_no_comparison() {
    let (table, board) = boards(&judged(6, "scripted:a", 1));
    assert!(reason(&board).contains("is alone"), "{table}");
    assert!(board["variance"].is_null() && board["rows"][0]["p_best"].is_null());
}

#[test]
fn all_ties_have_no_winner_and_no_spread() {
    let scratch = collected(6, "scripted:a,scripted:b", 1);
    scratch.judge("e", "judge.json", "", |case| {
        case["scores"]["worth"] = json!(2);
    });
    let (table, board) = boards(&scratch);
    assert!(board["decision"]["winner"].is_null());
    assert!(reason(&board).contains("no challenger is ahead"), "{table}");
    assert_eq!(
        (&board["rows"][0]["rank"], &board["rows"][1]["rank"]),
        (&json!(1), &json!(1))
    );
    assert!(board["variance"].is_null(), "nothing varies");
    let p_best = board["rows"][0]["p_best"].as_f64().expect("a chance");
    assert!((p_best - 0.5).abs() < 1e-9, "ties share: {p_best}");
}

#[test]
fn one_candidate_per_cell_leaves_noise_unseparated() {
    let scratch = judged(6, "scripted:a,scripted:b", 1);
    let (table, board) = boards(&scratch);
    let variance = &board["variance"];
    assert!(variance["noise"].is_null(), "{variance}");
    let shares = variance.as_object().expect("shares").values();
    let total: f64 = shares.filter_map(Value::as_f64).sum();
    assert!((total - 1.0).abs() < 1e-9, "{variance}");
    assert!(
        table.contains("rest + noise") && !table.contains("by scenario"),
        "{table}"
    );
}

#[test]
fn missing_cells_are_reported_and_not_filled_in() {
    let scratch = collected(7, "scripted:a,scripted:b", 3);
    let mut file = scratch.export("e", "judge.json");
    let mut seen = 0;
    for case in file["cases"].as_array_mut().expect("cases") {
        let is_b = case["candidate"] == "good";
        seen += u32::from(is_b);
        // Two scenarios of one pair stay unjudged in part, and some of the other too.
        if case["context"]["topic"] == "topic 0" || (is_b && seen % 5 == 0) {
            continue;
        }
        case["scores"]["worth"] = json!(if is_b { 3 } else { 1 });
    }
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json --partial");
    let (table, board) = boards(&scratch);
    let warnings = board["warnings"].to_string();
    for words in [
        "judged in part",
        "judged candidates: each cell counts the same",
    ] {
        assert!(warnings.contains(words), "{words}\n{table}");
    }
    assert_eq!(board["rows"][0]["scenarios"], 6);
    assert_eq!(
        board["rows"][1]["vs_incumbent"].is_null(),
        board["rows"][1]["model"] == "scripted:a"
    );
}

#[test]
fn criteria_come_in_the_order_of_the_rubric() {
    let scratch = Scratch::new();
    scratch.write(
        "script.json",
        &script(&[("a", &["Walk."]), ("b", &["Rest."])]),
    );
    scratch.ok("collect --models scripted:a,scripted:b --script script.json --experiment e --n-tips 1 --prompts v1");
    scratch.judge("e", "judge.json", "", |case| score_all(case, 4));
    let text = scratch.ok("compare --experiment e --json").stdout;
    let place = |name: &str| text.find(&format!("\"{name}\"")).expect(name);
    assert!(place("relevance") < place("actionability") && place("actionability") < place("tone"));
    let csv = scratch.ok("compare --experiment e --format csv").stdout;
    assert!(
        csv.contains("criterion.relevance,criterion.actionability,criterion.tone"),
        "{csv}"
    );
}

#[test]
fn an_exported_candidate_has_its_own_composite() {
    let scratch = judged(5, "scripted:b", 3);
    scratch.ok("runs export --experiment e -o runs.csv");
    let composites: Vec<String> = scratch
        .read("runs.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(11).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(composites[..3], ["4", "2", "4"], "good, fine, good");
}

#[test]
fn a_build_gets_3_where_the_answer_is_no() {
    let scratch = judged(6, "scripted:a,scripted:b", 1);
    let compare =
        |more: &str| -> Outcome { scratch.run(format!("compare --experiment e {more}").as_str()) };
    // b wins with 4 of 4; a, the incumbent, has 2.
    assert_eq!(compare("--fail-under 4").code, 0);
    let refused = compare("--fail-under 4.5");
    assert_eq!(refused.code, 3, "{refused}");
    assert!(
        refused
            .stderr
            .contains("scripted:b × p1 has 4.00, under 4.5"),
        "{refused}"
    );
    assert!(
        refused.stdout.contains("Ship scripted:b"),
        "the board is shown all the same"
    );
    assert_eq!(compare("--fail-under 3 --candidate scripted:a/p1").code, 3);
    assert_eq!(compare("--fail-unless-winner").code, 0);
    assert_eq!(
        compare("--fail-unless-winner --candidate scripted:a/p1").code,
        3
    );
    assert_eq!(
        compare("--fail-unless-winner --incumbent scripted:b/p1").code,
        3
    );
    assert_eq!(compare("--candidate scripted:a/p1").code, 0);
    assert_eq!(compare("--candidate scripted:x/p1").code, 2);
    assert_eq!(compare("--fail-under nan").code, 2);
}

#[test]
fn a_build_gets_one_test_a_pair() {
    let scratch = judged(6, "scripted:a,scripted:b", 1);
    let outcome = scratch.fails(3, "compare --experiment e --fail-under 4.5 -o board.xml");
    assert!(outcome.stderr.contains("Wrote board.xml"), "{outcome}");
    let xml = scratch.read("board.xml");
    assert!(
        xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"),
        "{xml}"
    );
    assert!(
        xml.contains("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"1\""),
        "what is not shipped does not fail the build: {xml}"
    );
    let printed = scratch.ok("compare --experiment e --format junit").stdout;
    assert!(printed.contains("failures=\"0\""), "{printed}");
    assert_eq!(printed.matches("<testcase ").count(), 2);
}

#[test]
fn nothing_judged_passes_no_threshold() {
    let scratch = collected(6, "scripted:a,scripted:b", 1);
    let refused = scratch.fails(3, "compare --experiment e --fail-under 0");
    assert!(refused.stderr.contains("nothing is judged"), "{refused}");
}

#[test]
fn the_frontier_needs_a_measured_latency() {
    let scratch = judged(6, "scripted:a,scripted:b", 1);
    let table = scratch.ok("compare --experiment e --pareto").stdout;
    assert!(table.contains("nothing to weigh"), "{table}");
    assert!(scratch.board("e")["pareto"].is_null());

    let scratch = collected(6, "scripted:a", 1);
    let slow = scratch
        .read("script.json")
        .replace("\"prompt\":\"*\"", "\"latency_ms\":5,\"prompt\":\"*\"");
    scratch.write("script.json", &slow);
    scratch.ok("collect --task task --models scripted:a,scripted:b --script script.json --experiment e --prompts p1 --n-tips 2");
    judge(&scratch);
    let board = scratch.board("e");
    let frontier = board["pareto"]["frontier"].as_array().expect("a frontier");
    assert!(!frontier.is_empty(), "{board}");
    let table = scratch.ok("compare --experiment e --pareto").stdout;
    assert!(table.contains('◆'), "{table}");
}

#[test]
fn the_same_data_give_the_same_board_to_the_last_digit() {
    let scratch = judged(11, "scripted:a,scripted:b", 3);
    let first = scratch.ok("compare --experiment e --json").stdout;
    for _ in 0..8 {
        assert_eq!(scratch.ok("compare --experiment e --json").stdout, first);
    }
}

#[test]
fn where_the_incumbent_is_shown_to_be_better_no_scenarios_are_asked_for() {
    let scratch = judged(6, "scripted:a,scripted:b", 1);
    let compare = "compare --experiment e --incumbent scripted:b/p1";
    let board = scratch.ok(&format!("{compare} --json")).json();
    assert!(board["decision"]["scenarios_needed"].is_null(), "{board}");
    let shown = scratch.ok(compare).stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("More scenarios would not change that"),
        "{shown}"
    );
    assert!(shown.contains("write another prompt"), "{shown}");
}
