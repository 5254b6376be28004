//! `collect --adaptive`: the best pair survives halving, the cost is what the plan says, and a
//! killed collection goes on where it was.

use std::process::Stdio;
use std::time::Duration;

use assize_test_support::{Scratch, write_small_task};
use serde_json::{Value, json};

/// How many of four candidates are good, by model and prompt.
const GOOD: [(&str, &str, usize); 8] = [
    ("m0", "p1", 2),
    ("m0", "p2", 1),
    ("m1", "p1", 1),
    ("m1", "p2", 0),
    ("m2", "p1", 3),
    ("m2", "p2", 4),
    ("m3", "p1", 2),
    ("m3", "p2", 3),
];
const COLLECT: &str = "collect --task task --experiment e --script script.json --n-tips 4 --json \
                       --models scripted:m0,scripted:m1,scripted:m2,scripted:m3 --adaptive --judge scripted:judge";

/// Twelve scenarios; the judge gives every candidate the same, and the check of the word "bad"
/// makes the difference.
fn scratch(latency_ms: u32) -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 12);
    let mut models = serde_json::Map::new();
    for (model, prompt, good) in GOOD {
        let texts: Vec<&str> = (0..4)
            .map(|n| if n < good { "fine" } else { "bad" })
            .collect();
        let response =
            json!({"prompt": prompt, "scenario": "*", "texts": texts, "latency_ms": latency_ms});
        let model = models
            .entry(model)
            .or_insert_with(|| json!({"parameter_count": 500_000_000, "responses": []}));
        model["responses"]
            .as_array_mut()
            .expect("responses")
            .push(response);
    }
    let verdict = "{\"reason\":\"so so\",\"worth\":2}";
    models.insert(
        "judge".to_owned(),
        json!({"parameter_count": 1, "responses": [{"prompt": "*", "scenario": "*", "texts": [verdict]}]}),
    );
    scratch.write("script.json", &json!({ "models": models }).to_string());
    scratch
}

fn rounds(lines: &[Value]) -> Vec<Value> {
    lines
        .iter()
        .filter(|line| line["event"] == "round")
        .cloned()
        .collect()
}

fn pairs(list: &Value) -> Vec<String> {
    let name = |it: &Value| format!("{}/{}", it["model"], it["prompt"]).replace('"', "");
    list.as_array().expect("pairs").iter().map(name).collect()
}

#[test]
fn the_best_pair_survives_at_the_planned_cost() {
    let scratch = scratch(0);
    let plan = scratch.ok(format!("{COLLECT} --dry-run").as_str()).json();
    assert_eq!(
        (&plan["cells"], &plan["full_cells"]),
        (&json!(56), &json!(96))
    );
    let cells: Vec<&Value> = plan["rounds"]
        .as_array()
        .expect("rounds")
        .iter()
        .map(|it| &it["cells"])
        .collect();
    assert_eq!(cells, [32, 16, 8]);
    assert!(
        scratch.run("compare --experiment e").code != 0,
        "nothing was collected"
    );

    let outcome = scratch.ok(COLLECT);
    let lines = outcome.json_lines();
    let summary = outcome.summary();
    assert_eq!(
        (&summary["cells"], &summary["collected"]),
        (&json!(56), &json!(56))
    );
    assert_eq!(summary["adaptive"]["saved_cells"], 40);
    assert_eq!(
        summary["adaptive"]["nominated"],
        json!({"model": "scripted:m2", "prompt": "p2", "settings": null})
    );
    let told = rounds(&lines);
    assert_eq!(told.len(), 3);
    assert_eq!(
        pairs(&told[0]["kept"]),
        [
            "scripted:m2/p2",
            "scripted:m2/p1",
            "scripted:m3/p2",
            "scripted:m0/p1"
        ]
    );
    assert_eq!(
        pairs(&told[1]["kept"]),
        ["scripted:m2/p2", "scripted:m0/p1"]
    );
    let worst = &told[0]["dropped"][3];
    assert_eq!(
        (&worst["prompt"], &worst["diff"]),
        (&json!("p2"), &json!(-0.5))
    );
    assert!(
        worst["reason"]
            .as_str()
            .is_some_and(|it| it.contains("against the incumbent")),
        "{worst}"
    );
    for words in [
        "Saved 40 of 96 cells (42 %)",
        "Nominated: scripted:m2 × p2, +0.50",
        "no confirmation split",
    ] {
        assert!(outcome.stderr.contains(words), "{words}\n{outcome}");
    }
}

#[test]
fn boards_say_that_the_survivors_were_chosen_and_pair_only_what_is_shared() {
    let scratch = scratch(0);
    scratch.ok(COLLECT);
    let board = scratch.board("e");
    assert_eq!(board["adaptive"], true);
    let warnings = board["warnings"].to_string();
    assert!(warnings.contains("confirmation split"), "{warnings}");
    assert!(!warnings.contains("different settings"), "{warnings}");
    for row in board["rows"].as_array().expect("rows") {
        let versus = &row["vs_incumbent"];
        if versus.is_object() {
            assert_eq!(versus["scenarios"], row["scenarios"], "{row}");
            let tested = row["scenarios"].as_u64() >= Some(5);
            assert_eq!(versus["p"].is_number(), tested, "{row}");
        }
    }
    let table = scratch.ok("compare --experiment e").stdout;
    assert!(table.contains("Note: collected adaptively"), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
}

#[test]
fn the_gate_requires_a_confirmation_after_adaptive_rounds() {
    let scratch = scratch(0);
    scratch.ok(COLLECT);
    scratch.judge("e", "judge.json", "", |case| {
        let worth = if case["scores"]["ok"] == true { 3 } else { 1 };
        case["scores"]["worth"] = json!(worth);
    });
    let gate = scratch.fails(3, "promote --task task --experiment e --dry-run");
    let shown = format!("{}{}", gate.stdout, gate.stderr);
    assert!(shown.contains("collected adaptively"), "{gate}");
    assert!(
        !shown.contains("The task has no confirmation split."),
        "{gate}"
    );
    let board = scratch.ok("compare --experiment e").stdout;
    assert!(board.contains("scripted:m2 × p2 is nominated"), "{board}");
}

#[test]
fn the_incumbent_stays_even_where_it_is_the_worst() {
    let scratch = scratch(0);
    let outcome = scratch.ok(format!("{COLLECT} --incumbent scripted:m1/p2").as_str());
    for round in rounds(&outcome.json_lines()) {
        assert!(
            pairs(&round["kept"]).contains(&"scripted:m1/p2".to_owned()),
            "{round}"
        );
    }
    assert_eq!(
        outcome.summary()["cells"],
        56,
        "the cost does not depend on it"
    );
    let unknown = scratch.fails(2, format!("{COLLECT} --incumbent x/y").as_str());
    assert!(unknown.stderr.contains("scripted:m0/p1"), "{unknown}");
}

#[test]
fn killed_and_started_again_it_decides_the_same_and_collects_nothing_twice() {
    let whole = scratch(0);
    let expected = rounds(&whole.ok(COLLECT).json_lines());

    let scratch = scratch(2);
    let mut kills = 0;
    for wait_ms in [150, 400, 700, 1000] {
        let mut child = scratch
            .command(COLLECT)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        std::thread::sleep(Duration::from_millis(wait_ms));
        kills += u32::from(child.try_wait().expect("a status").is_none());
        child.kill().expect("SIGKILL");
        child.wait().expect("it ends");
    }
    let last = scratch.ok(COLLECT);
    assert_eq!(rounds(&last.json_lines()), expected, "after {kills} kills");
    assert_eq!(last.summary()["cells"], 56);
    let runs = scratch
        .ok("runs list --experiment e --limit 500 --json")
        .stdout;
    assert_eq!(runs.matches("\"run_id\"").count(), 56, "{runs}");
    let again = scratch.ok(COLLECT).summary();
    assert_eq!(
        (&again["collected"], &again["skipped"]),
        (&json!(0), &json!(56))
    );
    assert_eq!(
        again["model_loads"],
        json!({}),
        "nothing is loaded to find that out"
    );
}

#[test]
fn a_pair_that_only_fails_is_dropped_and_a_bad_judge_is_noticed_first() {
    let scratch = scratch(0);
    let broken = scratch.read("script.json").replacen(
        "\"latency_ms\":0",
        "\"error\":\"http_500\",\"latency_ms\":0",
        8,
    );
    let mut script: Value = serde_json::from_str(&broken).expect("JSON");
    for (model, responses) in script["models"].as_object_mut().expect("models") {
        for response in responses["responses"].as_array_mut().expect("responses") {
            if model != "m2" {
                response
                    .as_object_mut()
                    .expect("a response")
                    .remove("error");
            }
        }
    }
    scratch.write("script.json", &script.to_string());
    let outcome = scratch.fails(4, format!("{COLLECT} --retries 0").as_str());
    let told = rounds(&outcome.json_lines());
    let dropped = told[0]["dropped"].to_string();
    assert!(dropped.contains("shares no judged scenario"), "{dropped}");
    assert_eq!(
        outcome.summary()["adaptive"]["nominated"]["model"],
        "scripted:m3"
    );

    let nobody = scratch.fails(
        2,
        COLLECT
            .replace("scripted:judge", "scripted:nobody")
            .as_str(),
    );
    assert!(nobody.stderr.contains("nobody"), "{nobody}");
    scratch.fails(2, "collect --adaptive");
    scratch.fails(2, "collect --adaptive --judge scripted:j --shard 1/2");
    scratch.fails(2, "collect --judge scripted:j");
}

/// The time of an adaptive collection includes its judging.
#[test]
fn the_time_of_judging_counts() {
    let scratch = scratch(0);
    let mut script = scratch.read_json("script.json");
    script["models"]["judge"]["responses"][0]["latency_ms"] = json!(40);
    scratch.write("script.json", &script.to_string());
    let started = std::time::Instant::now();
    let outcome = scratch.ok(COLLECT);
    let took = started.elapsed().as_secs_f64();
    let seconds = outcome.summary()["seconds"].as_f64().expect("a time");
    assert!(
        seconds > 1.0 && seconds <= took,
        "{seconds} of {took}: {outcome}"
    );
    assert!(!outcome.stderr.contains("in 0s"), "{outcome}");
    let again = scratch.ok(COLLECT);
    assert!(!again.stderr.contains("in 0s"), "{again}");
}

#[test]
fn computed_criteria_need_no_judge_between_the_rounds() {
    let scratch = scratch(0);
    let without = COLLECT.replace(" --judge scripted:judge", "");
    let refused = scratch.fails(2, without.as_str());
    assert!(
        refused.stderr.contains("--adaptive needs --judge MODEL"),
        "{refused}"
    );
    scratch.write(
        "task/rubric.md",
        "+++\nid = \"small-v2\"\ncomposite = \"good + ok\"\n[[criteria]]\nname = \"good\"\n[criteria.computed]\n\
         contains = \"fine\"\n[[flags]]\nname = \"ok\"\n+++\nNobody judges it.\n",
    );
    let plan = scratch.ok(format!("{without} --dry-run").as_str()).json();
    assert_eq!(plan["judge"], Value::Null, "{plan}");
    let collected = scratch.ok(without.as_str());
    let summary = collected.summary();
    assert_eq!(summary["adaptive"]["rounds"], 3, "{collected}");
    assert_eq!(
        summary["adaptive"]["nominated"]["model"], "scripted:m2",
        "{collected}"
    );
    assert_eq!(
        summary["adaptive"]["nominated"]["prompt"], "p2",
        "{collected}"
    );
    assert!(
        collected.stderr.contains("(computed scores)"),
        "{collected}"
    );
    let board = scratch.board("e");
    assert_eq!(board["coverage"]["pending"], 0, "{board}");
}
