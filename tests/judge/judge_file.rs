//! The judge file: blind, checked whole, all or nothing, safe to apply twice.

use std::collections::BTreeSet;

use assize_test_support::{Scratch, collect, score_all, script, write_small_task};
use serde_json::{Value, json};

use crate::pending;

/// Two models × three prompts × `scenarios` × 2 candidates, exported.
fn exported(scenarios: &str) -> (Scratch, Value) {
    let scratch = Scratch::new();
    scratch.write(
        "script.json",
        &script(&[
            ("a", &["Walk now.", "Rest **well**."]),
            ("b", &["Eat.", "Sleep."]),
        ]),
    );
    let words = format!("--n-tips 2 --n-scenarios {scenarios}");
    scratch.ok(&collect("scripted:a,scripted:b", &words));
    scratch.ok("judge export --experiment e --out judge.json --no-anchors --seed 1");
    let file = scratch.read_json("judge.json");
    (scratch, file)
}

fn fill(file: &mut Value, score: i64) {
    for case in file["cases"].as_array_mut().expect("cases") {
        score_all(case, score);
    }
}

#[test]
fn the_file_is_self_describing_and_blind() {
    let (_scratch, file) = exported("2");
    assert_eq!(file["assize"], "judge/1");
    assert_eq!(file["judge"], json!({"kind": null, "name": null}));
    assert_eq!(file["rubric"]["flags"], json!(["format_ok", "overlong"]));
    assert_eq!(
        file["rubric"]["composite"],
        "relevance + actionability + tone + 2*format_ok - overlong"
    );
    assert!(file["rubric"]["criteria"][0]["anchors"]["5"].is_string());
    let cases = file["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 24);
    let ids: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| case["case"].as_str())
        .collect();
    assert_eq!(ids.len(), 24);
    for case in cases {
        assert_eq!(case["scores"]["relevance"], Value::Null);
        let bold = case["candidate"].as_str().expect("text").contains("**");
        assert_eq!(
            case["scores"]["format_ok"],
            json!(!bold),
            "flags come prefilled"
        );
        assert!(case["context"]["tasks"].is_array());
    }
    let text = file.to_string();
    for hidden in ["scripted", "\"a\"", "v1", "v2-mentor", "v3-few-shot"] {
        assert!(
            !text.replace("tip-v1", "").contains(hidden),
            "the file shows {hidden}"
        );
    }
    // Shuffled: the candidates of one model do not stand together.
    let first: Vec<bool> = cases
        .iter()
        .map(|case| {
            case["candidate"]
                .as_str()
                .is_some_and(|it| it.starts_with(['W', 'R']))
        })
        .collect();
    assert!(
        first
            .windows(12)
            .all(|run| run.iter().any(|it| *it) && run.iter().any(|it| !*it)),
        "{first:?}"
    );
}

#[test]
fn every_problem_is_reported_and_nothing_is_written() {
    let (scratch, mut file) = exported("1");
    fill(&mut file, 3);
    file["cases"][1]["scores"]["tone"] = json!(7);
    file["cases"][2]["scores"]["relevance"] = json!(null);
    file["cases"][3]["scores"]["tone"] = json!(2.5);
    file["cases"][4]["candidate"] = json!("something else");
    file["cases"][5]["case"] = json!("nobody");
    file["rubric"]["sha256"] = json!("0000");
    scratch.write("judge.json", &file.to_string());
    let outcome = scratch.fails(2, "judge apply judge.json");
    for expected in [
        "7 problems in judge.json; nothing was written",
        "/rubric/sha256",
        "/cases/1/scores/tone             is 7, but tone runs from 1 to 5",
        "/cases/2/scores/relevance        is missing (use --partial to leave cases unscored)",
        "/cases/3/scores/tone             is 2.5, but scores are whole numbers",
        "/cases/4/candidate               was edited",
        "/cases/5/case                    'nobody' is not a case of this sitting",
        "/cases                           lacks case",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            squeezed(&outcome.stderr).contains(&squeezed(expected)),
            "{expected}\n{outcome}"
        );
    }
    assert_eq!(pending(&scratch, "expert"), 6);
}

#[test]
fn applying_twice_changes_nothing_and_other_scores_are_refused() {
    let (scratch, mut file) = exported("1");
    fill(&mut file, 4);
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json --judge-kind human --judged-by Ana");
    assert_eq!(pending(&scratch, "expert"), 0);
    let before = scratch.ok("runs export --experiment e").stdout;
    let again = scratch.ok("judge apply judge.json --judge-kind human --judged-by Ana");
    assert!(again.stderr.contains("were there already"), "{again}");
    assert_eq!(scratch.ok("runs export --experiment e").stdout, before);
    fill(&mut file, 2);
    scratch.write("judge.json", &file.to_string());
    scratch.fails(
        2,
        "judge apply judge.json --judge-kind human --judged-by Ana",
    );
    assert_eq!(scratch.ok("runs export --experiment e").stdout, before);
}

#[test]
fn a_judged_run_carries_its_metrics_tags_and_verdicts() {
    let (scratch, mut file) = exported("1");
    fill(&mut file, 4);
    for case in file["cases"].as_array_mut().expect("cases") {
        case["rationale"] = json!("because");
    }
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json --judge-kind human --judged-by Ana");
    let runs = scratch.ok("runs list --experiment e --json").json();
    let run = runs["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .find(|run| run["params"]["model"] == "scripted:a")
        .expect("a run")
        .clone();
    assert_eq!(run["tags"]["judge_pending"], "false");
    assert_eq!(run["tags"]["auto_pending"], "true");
    assert_eq!(
        (&run["tags"]["judge_kind"], &run["tags"]["judged_by"]),
        (&json!("human"), &json!("Ana"))
    );
    assert!(
        run["tags"]["judged_at"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z') && time.contains('T'))
    );
    // "Walk now." is format_ok, "Rest **well**." is not: 12 + 2·½ = 13.
    for (name, value) in [
        ("relevance", 4.0),
        ("format_ok", 0.5),
        ("overlong", 0.0),
        ("composite", 13.0),
        ("expert.composite", 13.0),
    ] {
        assert_eq!(
            run["metrics"][name].as_f64(),
            Some(value),
            "{name} in {}",
            run["metrics"]
        );
    }
    let shown = scratch
        .ok(&[
            "runs",
            "show",
            run["run_id"].as_str().expect("id"),
            "--json",
        ])
        .json();
    assert_eq!(shown["verdicts"][0]["verdicts"][0]["rationale"], "because");
    assert_eq!(
        shown["verdicts"][0]["judge"],
        json!({"kind": "human", "name": "Ana"})
    );
}

#[test]
fn partial_takes_what_is_scored_and_the_rest_stays_pending() {
    let (scratch, mut file) = exported("1");
    for case in file["cases"]
        .as_array_mut()
        .expect("cases")
        .iter_mut()
        .take(5)
    {
        score_all(case, 3);
    }
    scratch.write("judge.json", &file.to_string());
    scratch.fails(2, "judge apply judge.json");
    let outcome = scratch.ok("judge apply judge.json --partial");
    assert!(
        outcome
            .stderr
            .contains("7 cases unscored and still pending"),
        "{outcome}"
    );
    scratch.ok("judge export --experiment e --out rest.json --no-anchors");
    assert_eq!(
        scratch.read_json("rest.json")["cases"]
            .as_array()
            .expect("cases")
            .len(),
        7
    );
    // The same file, filled in further, takes the rest.
    fill(&mut file, 3);
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json");
    assert_eq!(pending(&scratch, "expert"), 0);
}

#[test]
fn tiers_stand_side_by_side() {
    let (scratch, mut file) = exported("1");
    fill(&mut file, 2);
    scratch.write("judge.json", &file.to_string());
    scratch.ok("judge apply judge.json --judge-kind haiku");
    let status = crate::status(&scratch);
    assert_eq!(
        (&status["expert"]["pending"], &status["auto"]["pending"]),
        (&json!(6), &json!(0))
    );
    let board = |tier: &str| {
        scratch
            .ok(&["compare", "--experiment", "e", "--tier", tier, "--json"])
            .json()
    };
    assert_eq!(
        scratch.ok("compare --experiment e --json").json()["tier"],
        "auto"
    );
    scratch.ok("judge export --experiment e --out expert.json --no-anchors");
    let mut expert = scratch.read_json("expert.json");
    fill(&mut expert, 5);
    scratch.write("expert.json", &expert.to_string());
    scratch.ok("judge apply expert.json --judge-kind claude-code");
    let relevance = |board: &Value| {
        board["rows"][0]["criteria"]["relevance"]
            .as_f64()
            .expect("a mean")
    };
    assert_eq!(
        (relevance(&board("auto")), relevance(&board("expert"))),
        (2.0, 5.0)
    );
    assert_eq!(
        scratch.ok("compare --experiment e --json").json()["tier"],
        "expert"
    );
    let run = scratch.ok("runs list --experiment e --json").json()["runs"][0].clone();
    assert_eq!(
        (
            &run["metrics"]["relevance"],
            &run["metrics"]["auto.relevance"]
        ),
        (&json!(5.0), &json!(2.0))
    );
    assert_eq!(run["tags"]["judge_kind"], "claude-code");
}

#[test]
fn a_limit_takes_whole_scenarios() {
    let (scratch, _) = exported("4");
    scratch.ok("judge export --experiment e --out some.json --no-anchors --limit 13");
    let file = scratch.read_json("some.json");
    assert_eq!(
        file["cases"].as_array().expect("cases").len(),
        24,
        "two scenarios of twelve cases"
    );
}

#[test]
fn files_of_other_stores_and_broken_files_are_explained() {
    let (scratch, file) = exported("1");
    for (text, expected) in [
        ("{", "is not JSON"),
        ("{}", "this is not a judge file"),
        (
            "{\"assize\":\"judge/1\",\"sitting\":\"x\"}",
            "'x' is not known to sqlite:",
        ),
    ] {
        scratch.write("bad.json", text);
        let outcome = scratch.fails(2, "judge apply bad.json");
        assert!(outcome.stderr.contains(expected), "{outcome}");
    }
    scratch.fails(1, "judge apply missing.json");
    let outcome = scratch.fails(2, "judge export --experiment nope --out x.json");
    assert!(
        outcome.stderr.contains("there is no experiment 'nope'"),
        "{outcome}"
    );
    assert!(!scratch.file("x.json").exists());
    drop(file);
}

#[test]
fn a_scripted_judge_scores_automatically_and_bad_answers_stay_pending() {
    let scratch = Scratch::new();
    let good = "{\"reason\":\"fine\",\"relevance\":4,\"actionability\":4,\"tone\":4}";
    let script = json!({"models": {
        "a": {"parameter_count": 1, "responses": [{"prompt": "*", "scenario": "*", "texts": ["Walk.", "Rest."]}]},
        "judge": {"parameter_count": 1, "responses": [{"prompt": "*", "scenario": "*", "texts": [good]}]},
        "fool": {"parameter_count": 1, "responses": [{"prompt": "*", "scenario": "*", "texts": ["ten out of ten"]}]},
    }});
    scratch.write("script.json", &script.to_string());
    scratch.ok("collect --models scripted:a --script script.json --experiment e --n-tips 2");
    let auto = [
        "judge",
        "auto",
        "--experiment",
        "e",
        "--script",
        "script.json",
        "--json",
        "--judge",
    ];
    let fool = scratch.fails(4, &[&auto[..], &["scripted:fool"]].concat());
    assert_eq!(
        (&fool.json()["judged"], &fool.json()["left_pending"]),
        (&json!(0), &json!(24))
    );
    assert!(fool.stderr.contains("not a JSON object"), "{fool}");
    let judged = scratch
        .ok(&[&auto[..], &["scripted:judge"]].concat())
        .json();
    assert_eq!(
        (&judged["judged"], &judged["verdicts"]),
        (&json!(24), &json!(48))
    );
    let board = scratch.ok("compare --experiment e --json").json();
    assert_eq!(
        (&board["tier"], &board["rows"][0]["composite"]["mean"]),
        (&json!("auto"), &json!(14.0))
    );
}

#[test]
fn a_byte_order_mark_and_another_order_of_keys_are_read() {
    let (scratch, mut file) = exported("1");
    fill(&mut file, 3);
    // As tools rewrite it: cases first, and the keys of contexts sorted.
    let sorted = json!({
        "cases": file["cases"], "judge": file["judge"], "rubric": file["rubric"],
        "sitting": file["sitting"], "experiment": "e", "assize": "judge/1",
    });
    scratch.write("judge.json", &format!("\u{feff}{sorted}"));
    scratch.ok("judge apply judge.json --judge-kind human");
    assert_eq!(pending(&scratch, "expert"), 0);
}

#[test]
fn an_edited_context_is_noticed_and_a_half_scored_case_is_listed() {
    let (scratch, mut file) = exported("1");
    fill(&mut file, 3);
    let context = file["cases"][2]["context"].clone();
    file["cases"][2]["context"]["persona"] = json!("somebody else");
    scratch.write("judge.json", &file.to_string());
    let outcome = scratch.fails(2, "judge apply judge.json");
    assert!(outcome.stderr.contains("/cases/2/context"), "{outcome}");
    file["cases"][2]["context"] = context;
    file["cases"][4]["scores"]["tone"] = json!(null);
    scratch.write("judge.json", &file.to_string());
    let outcome = scratch.ok("judge apply judge.json --partial");
    for words in [
        "/cases/4/scores/tone is missing",
        "1 case unscored",
        "it counts as claude-code",
    ] {
        assert!(outcome.stderr.contains(words), "{words}\n{outcome}");
    }
}

#[test]
fn cases_that_are_not_a_list_are_reported() {
    let (scratch, mut file) = exported("1");
    for (cases, expected) in [
        (json!({"a": 1}), "it must be the list of cases"),
        (json!(null), "it must be the list of cases"),
        (json!(["x"]), "/cases/0"),
    ] {
        file["cases"] = cases;
        scratch.write("judge.json", &file.to_string());
        let outcome = scratch.fails(2, "judge apply judge.json");
        assert!(outcome.stderr.contains(expected), "{outcome}");
    }
    scratch.write("judge.json", &file.to_string().replace("[\"x\"]", "[1, 2"));
    let outcome = scratch.fails(2, "judge apply judge.json");
    assert!(outcome.stderr.contains("is not JSON"), "{outcome}");
}

#[test]
fn an_export_keeps_an_existing_file_as_a_backup() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 6);
    scratch.write("script.json", &script(&[("a", &["fine"])]));
    scratch.ok(&collect(
        "scripted:a",
        "--task task --prompts p1 --n-tips 1",
    ));
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
    let scratch = Scratch::new();
    write_small_task(&scratch, 6);
    scratch.write("script.json", &script(&[("a", &["fine"])]));
    scratch.ok(&collect(
        "scripted:a",
        "--task task --prompts p1 --n-tips 1",
    ));
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
    assert!(applied.stderr.contains("1 case skipped"), "{applied}");
    assert_eq!(scratch.board("e")["coverage"]["judged"], 5);
}
