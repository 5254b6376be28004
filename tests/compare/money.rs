//! Cost and latency on the board, in the Pareto plot and in the gate.

use assize_test_support::promotion_task::{ahead, fill, scratch};
use assize_test_support::{Outcome, Scratch};
use serde_json::{Value, json};

/// An experiment that is judged on both splits, in which p2 costs three times as much as p1.
fn charged() -> Scratch {
    let scratch = scratch(ahead);
    let mut script = scratch.read_json("script.json");
    for response in script["models"]["m"]["responses"]
        .as_array_mut()
        .expect("responses")
    {
        let is_dear = response["prompt"] == "p2";
        response["cost_usd"] = json!(if is_dear { 0.003 } else { 0.001 });
    }
    scratch.write("script.json", &script.to_string());
    fill(&scratch);
    scratch
}

fn row<'a>(board: &'a Value, prompt: &str) -> &'a Value {
    let rows = board["rows"].as_array().expect("rows");
    rows.iter()
        .find(|it| it["prompt"] == prompt)
        .expect("a row")
}

#[test]
fn the_board_says_what_a_thousand_candidates_cost() {
    let scratch = charged();
    let board = scratch
        .ok("compare --task task --experiment e --json")
        .json();
    for (prompt, cost) in [("p1", 1.0), ("p2", 3.0)] {
        let found = row(&board, prompt)["cost_usd_per_1000"].as_f64();
        assert!((found.expect("a cost") - cost).abs() < 1e-9, "{board:#}");
    }
    let one = row(&board, "p1");
    let latency = |key: &str| one[key].as_f64().expect("a latency");
    assert!(
        latency("latency_p50_ms") <= latency("latency_p95_ms"),
        "{one:#}"
    );
    assert_eq!(board["rule"]["level"], 0.05);

    let wide = {
        let mut command = scratch.command("compare --task task --experiment e --pareto=cost");
        Outcome::of(&command.env("COLUMNS", "160").output().expect("it runs"))
    };
    assert_eq!(wide.code, 0, "{wide}");
    for words in ["Quality against cost", "cheaper", "$ per 1,000", "$3.00"] {
        assert!(wide.stdout.contains(words), "{words}: {wide}");
    }
    scratch.ok("compare --task task --experiment e --pareto=cost -o b.html -o b.csv -o b.md");
    let html = scratch.read("b.html");
    assert!(
        html.contains("Quality and cost") && html.contains("US dollars per 1,000"),
        "{html}"
    );
    assert!(
        scratch
            .read("b.csv")
            .lines()
            .next()
            .expect("a header")
            .contains("cost_usd_per_1000")
    );
    assert!(scratch.read("b.md").contains("$3.00"));
    scratch.fails(2, "compare --task task --experiment e --pareto=beauty");
}

#[test]
fn boards_without_costs_do_not_mention_them() {
    let scratch = scratch(ahead);
    fill(&scratch);
    let board = scratch
        .ok("compare --task task --experiment e --json")
        .json();
    assert_eq!(row(&board, "p1")["cost_usd_per_1000"], Value::Null);
    let mut command = scratch.command("compare --task task --experiment e");
    let shown = Outcome::of(&command.env("COLUMNS", "200").output().expect("it runs"));
    assert!(!shown.stdout.contains("per 1,000"), "{shown}");
}

#[test]
fn a_dearer_winner_is_promoted_only_within_the_margin() {
    let scratch = charged();
    let promote = |margin: Option<&str>| {
        let mut command = scratch.command("promote --task task --experiment e --dry-run --json");
        if let Some(margin) = margin {
            command.env("ASSIZE_GATE_COST_MARGIN", margin);
        }
        Outcome::of(&command.output().expect("it runs"))
    };
    let check = |outcome: &Outcome| {
        let report = outcome.json();
        let checks = report["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|it| it["name"] == "cost")
    };
    let unset = promote(None);
    assert_eq!((unset.code, check(&unset)), (0, None), "{unset}");
    let strict = promote(Some("0.5"));
    assert_eq!(strict.code, 3, "{strict}");
    let found = check(&strict).expect("the check");
    assert_eq!(found["outcome"], "failed");
    assert!(
        (found["figure"].as_f64().expect("a figure") - 2.0).abs() < 1e-9,
        "three times as dear"
    );
    let loose = promote(Some("2.5"));
    assert_eq!(loose.code, 0, "{loose}");
    let wrong = promote(Some("-1"));
    assert_eq!(wrong.code, 2, "{wrong}");
}
