//! The answers behind a board: who wins where, examples, all outputs, and lists and exports of them.

use assize_test_support::{Scratch, write_small_task};
use serde_json::{Value, json};

/// What model b answers in the scenario s3.
const HOSTILE: &str = "=cmd()\x1b[2J<script>alert(1)</script>\u{202e}";

/// Two models on six scenarios of a small task. b is better in s0 to s3, equal in s4, worse in s5;
/// an expert judged everything, and a scripted judge disagrees about one output.
fn judged() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 6);
    let response =
        |scenario: &str, text: &str| json!({"prompt": "*", "scenario": scenario, "texts": [text]});
    let script = json!({"models": {
        "a": {"parameter_count": 500_000_000, "responses": [
            response("s4", "middling"), response("s5", "great"), response("*", "poor"),
        ]},
        "b": {"parameter_count": 500_000_000, "responses": [
            response("s3", HOSTILE), response("s4", "middling"), response("s5", "poor"), response("*", "great"),
        ]},
    }});
    scratch.write("script.json", &script.to_string());
    scratch.ok(
        "collect --task task --models scripted:a,scripted:b --script script.json --experiment e --prompts p1 --n-tips 1",
    );
    scratch.judge(
        "e",
        "judge.json",
        "--judge-kind human --judged-by Ana",
        |case| {
            let worth = match case["candidate"].as_str().expect("a text") {
                "poor" => 1,
                "middling" => 2,
                _ => 3,
            };
            case["scores"]["worth"] = json!(worth);
            case["rationale"] = json!(format!("worth {worth}"));
        },
    );
    scratch
}

/// A second opinion of another tier: poor outputs are fine.
fn disputed() -> Scratch {
    let scratch = judged();
    let judge = json!({"models": {"mild": {"parameter_count": 500_000_000, "judge": {"noise": 0.0, "bias": 0.0},
        "scores": {"poor": {"worth": 3, "ok": true}, "middling": {"worth": 2, "ok": true},
                   "great": {"worth": 3, "ok": true}, "*": {"worth": 3, "ok": true}}}}});
    scratch.write("judge-script.json", &judge.to_string());
    scratch.ok(
        "judge auto --experiment e --judge scripted:mild --script judge-script.json --task task",
    );
    scratch
}

fn rows(board: &Value) -> &Vec<Value> {
    board["by_scenario"]["scenarios"]
        .as_array()
        .expect("scenarios")
}

#[test]
fn by_scenario_says_who_wins_where() {
    let scratch = judged();
    let board = scratch
        .ok("compare --experiment e --by scenario --json")
        .json();
    assert_eq!(
        board["rows"].as_array().map(Vec::len),
        Some(2),
        "the board is there too"
    );
    let diffs: Vec<(&str, f64)> = rows(&board)
        .iter()
        .map(|row| {
            (
                row["scenario"].as_str().unwrap(),
                row["diff"].as_f64().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("s0", 2.0),
        ("s1", 2.0),
        ("s2", 2.0),
        ("s3", 2.0),
        ("s4", 0.0),
        ("s5", -2.0),
    ];
    assert_eq!(diffs, expected);
    assert_eq!(
        rows(&board)[4]["best"].as_array().map(Vec::len),
        Some(2),
        "a tie"
    );
    assert_eq!(rows(&board)[5]["best"][0]["model"], "scripted:a");
    let wins = &board["by_scenario"]["wins"];
    assert_eq!(
        (&wins[0]["alone"], &wins[0]["tied"]),
        (&json!(4), &json!(1)),
        "{wins}"
    );
    let plain = scratch.ok("compare --experiment e --json").json();
    assert!(plain.get("by_scenario").is_none() && plain.get("examples").is_none());

    let table = scratch.ok("compare --experiment e --by scenario").stdout;
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    insta::assert_snapshot!("by_scenario", table);
    let csv = scratch
        .ok("compare --experiment e --by scenario --format csv")
        .stdout;
    assert_eq!(csv.lines().count(), 13, "{csv}");
    assert!(
        csv.contains("e,selection,expert,s5,scripted:b,p1,2,-2,false"),
        "{csv}"
    );
    let refused = scratch.fails(2, "compare --experiment e --by scenario -o b.xml");
    assert!(
        refused
            .stderr
            .contains("--by scenario cannot be shown as JUnit"),
        "{refused}"
    );
    assert!(!scratch.file("b.xml").exists());
}

#[test]
fn examples_are_the_best_the_worst_and_the_most_disputed() {
    let scratch = disputed();
    let board = scratch
        .ok("compare --experiment e --examples --json")
        .json();
    let b = &board["examples"][0];
    assert_eq!(b["model"], "scripted:b");
    assert_eq!(b["best"][0]["text"], "great");
    assert_eq!(b["worst"][0]["text"], "poor");
    let disputed = &b["disputed"][0];
    assert_eq!(
        (&disputed["scenario"], &disputed["spread"]),
        (&json!("s5"), &json!(2.0))
    );
    let opinions = disputed["opinions"].as_array().expect("opinions");
    assert_eq!(opinions.len(), 2, "{disputed}");
    assert_eq!(
        opinions[0]["judge"]["name"], "Ana",
        "the tier of the board comes first"
    );
    assert_eq!(opinions[0]["rationale"], "worth 1");
    assert_eq!(opinions[1]["tier"], "auto");
    let three = scratch
        .ok("compare --experiment e --examples=4 --json")
        .json();
    assert_eq!(
        three["examples"][0]["best"].as_array().map(Vec::len),
        Some(4)
    );
    let worst = three["examples"][0]["worst"].as_array().expect("examples");
    assert_eq!(worst.len(), 2, "no output is both: {worst:?}");
    scratch.fails(2, "compare --experiment e --examples=0");
    scratch.fails(2, "compare --experiment e --examples -o b.csv");

    let shown = scratch.ok("compare --experiment e --examples=4").stdout;
    assert!(
        !shown.contains('\x1b') && !shown.contains('\u{202e}'),
        "{shown}"
    );
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let text = scratch.ok("compare --experiment e --examples").stdout;
    let runs = scratch
        .ok("runs list --experiment e --limit 0 --json")
        .json();
    let mut text = text;
    for run in runs["runs"].as_array().expect("runs") {
        let id = run["run_id"].as_str().expect("an id");
        text = text.replace(&id[..8], "RUN");
    }
    insta::assert_snapshot!("examples", text);
}

#[test]
fn the_html_report_holds_scenarios_examples_and_all_outputs() {
    let scratch = disputed();
    scratch.ok("compare --experiment e -o board.html");
    let page = scratch.read("board.html");
    for part in [
        "id=\"by-scenario\"",
        "id=\"examples\"",
        "id=\"outputs\"",
        "<details>",
        "worth 1",
        "middling",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "outputs are text"
    );
    assert!(!page.contains("<script") && !page.contains('\x1b') && !page.contains('\u{202e}'));
    assert_eq!(
        page.matches("<details>").count(),
        6,
        "one for each scenario"
    );
    let unjudged = Scratch::pending("scripted:a,scripted:b", "p1", 2);
    unjudged.ok("compare --experiment e -o board.html");
    assert!(
        unjudged.read("board.html").contains("Walk now."),
        "outputs need no verdict"
    );
}

#[test]
fn runs_are_searched_and_sorted() {
    let scratch = judged();
    let list = |more: &str| {
        let line = format!("runs list --experiment e --json {more}");
        let listed = scratch.ok(line.as_str()).json();
        listed["runs"].as_array().expect("runs").clone()
    };
    let scenarios = |runs: &[Value]| -> Vec<String> {
        let name = |run: &Value| {
            run["params"]["scenario"]
                .as_str()
                .expect("a scenario")
                .to_owned()
        };
        runs.iter().map(name).collect()
    };
    let found = list("--search MIDDL");
    assert_eq!(scenarios(&found), ["s4", "s4"]);
    assert_eq!(found[0]["matches"][0]["text"], "middling");
    assert!(list("--search nothing-like-it").is_empty());
    let sorted = list("--sort composite --limit 0");
    let composites: Vec<f64> = sorted
        .iter()
        .map(|it| it["metrics"]["composite"].as_f64().unwrap())
        .collect();
    assert!(composites.is_sorted_by(|a, b| a >= b), "{composites:?}");
    assert_eq!(composites.len(), 12);
    assert_eq!(list("--sort composite --limit 3").len(), 3);
    assert_eq!(
        list("--sort composite --search poor --limit 1")[0]["metrics"]["composite"],
        2.0
    );
    let newest = list("--sort newest --limit 0");
    let mut oldest = list("--limit 0");
    oldest.reverse();
    assert_eq!(newest, oldest);
    let table = scratch
        .ok("runs list --experiment e --search alert --sort composite")
        .stdout;
    assert!(
        table.contains("<script>alert(1)") && !table.contains('\x1b'),
        "{table}"
    );
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    scratch.fails(2, &["runs", "list", "--experiment", "e", "--search", " "]);
}

#[test]
fn a_csv_export_has_scores_reasons_and_fields_and_no_formulas() {
    let scratch = judged();
    scratch.ok("runs export --experiment e -o runs.csv");
    let text = scratch.read("runs.csv");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headings = reader.headers().expect("headings").clone();
    let column = |name: &str| {
        headings
            .iter()
            .position(|it| it == name)
            .unwrap_or_else(|| panic!("{name}: {headings:?}"))
    };
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 12);
    let hostile = records
        .iter()
        .find(|it| it[column("text")].contains("cmd()"))
        .expect("an output");
    assert_eq!(
        &hostile[column("text")],
        format!("'{HOSTILE}"),
        "it is text, and nothing is lost"
    );
    let expected = [
        ("composite", "4"),
        ("criterion.worth", "3"),
        ("flag.ok", "true"),
        ("rationale", "worth 3"),
        ("judge", "Ana"),
        ("judge_kind", "human"),
        ("tier", "expert"),
        ("rubric", "small-v1"),
        ("scenario", "s3"),
        ("scenario.topic", "topic 3"),
    ];
    for (name, value) in expected {
        assert_eq!(&hostile[column(name)], value, "{name}");
    }
    let lines = scratch.ok("runs export --experiment e -o -").json_lines();
    let hostile = lines
        .iter()
        .find(|it| it["params"]["scenario"] == "s3" && it["params"]["model"] == "scripted:b");
    let hostile = hostile.expect("a run");
    assert_eq!(hostile["candidate"]["text"], HOSTILE, "JSONL is complete");
    assert_eq!(hostile["context"]["topic"], "topic 3");
    assert_eq!(
        hostile["verdicts"][0]["verdicts"][0]["rationale"],
        "worth 3"
    );
    scratch.fails(2, "runs export --experiment e -o runs.xlsx");
}
