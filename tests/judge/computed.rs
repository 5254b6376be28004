//! Scores that need no judge: the examples, mixed rubrics, and what boards say of them.

use std::collections::BTreeMap;

use assize_test_support::mcp::McpSession;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, root, script};
use serde_json::{Value, json};

use crate::{first_run, pending};

/// Collects an example with its scripted models into the experiment `e`.
pub(crate) fn example(name: &str, more: &str) -> Scratch {
    let scratch = Scratch::new();
    let folder = root().join("examples").join(name);
    let folder = folder.display();
    scratch.ok(&format!(
        "collect --task {folder} --models scripted:hasty,scripted:careful \
         --script {folder}/script.json --experiment e --json {more}"
    ));
    scratch
}

/// The row of a pair on the board.
pub(crate) fn row(board: &Value, model: &str, prompt: &str) -> Value {
    let rows = board["rows"].as_array().expect("rows");
    let found = rows
        .iter()
        .find(|it| it["model"] == model && it["prompt"] == prompt);
    assert!(found.is_some(), "{board}");
    found.cloned().unwrap_or_default()
}

#[test]
fn classify_is_judged_as_it_is_collected() {
    let scratch = example("classify", "");
    let run = first_run(&scratch);
    let tags = &run["tags"];
    for (name, expected) in [
        ("judge_pending", "false"),
        ("auto_pending", "false"),
        ("judge_kind", "computed"),
        ("judged_by", "rules"),
    ] {
        assert_eq!(tags[name], expected, "{name} of {run}");
    }
    let metrics = run["metrics"].as_object().expect("metrics");
    for name in ["correct", "expert.composite", "auto.composite", "composite"] {
        assert!(metrics.contains_key(name), "{name}: {run}");
    }
    for tier in ["expert", "auto"] {
        assert_eq!(pending(&scratch, tier), 0);
        let tiers = scratch.ok(&format!("compare --experiment e --tier {tier} --json"));
        let board = tiers.json();
        assert_eq!(board["coverage"]["pending"], 0, "{board}");
        // Careful with examples is right everywhere: 3 + 1 + 1.
        let best = row(&board, "scripted:careful", "v2-examples");
        assert_eq!(best["composite"]["mean"], 5.0, "{best}");
        assert_eq!(best["criteria"]["correct"], 1.0, "{best}");
        // With v1 it misses every third ticket, but always names a queue: 2/3·3 + 1 + 1.
        let worse = row(&board, "scripted:careful", "v1");
        assert_eq!(worse["composite"]["mean"], 4.0, "{worse}");
        assert_eq!(board["decision"]["winner"]["prompt"], "v2-examples");
    }
    for line in [
        "judge export --experiment e --out judge.json",
        "judge reopen --experiment e",
    ] {
        let refused = scratch.run(line);
        assert!(
            refused.stderr.contains("computed") || refused.stderr.contains("othing"),
            "{refused}"
        );
    }
}

#[test]
fn the_reason_of_a_failed_rule_is_shown_with_the_candidate() {
    let scratch = example("classify", "--n-scenarios 1 --prompts v1");
    let run = first_run(&scratch);
    let shown = scratch.ok(&["runs", "show", run["run_id"].as_str().expect("an id")]);
    for expected in [
        "✗ More than the label was written.",
        "✗ correct: expected 'billing', found 'The queue for this ticket is billing.'",
        "computed: composite 0",
    ] {
        assert!(shown.stdout.contains(expected), "{expected}: {shown}");
    }
    let lines = scratch.ok("runs export --experiment e").json_lines();
    let reasons = lines[0]["candidate"]["reasons"].to_string();
    assert!(reasons.contains("More than the label"), "{reasons}");
    let rationale = &lines[0]["verdicts"][0]["verdicts"][0]["rationale"];
    assert!(
        rationale.to_string().contains("expected 'billing'"),
        "{rationale}"
    );
    scratch.ok("runs export --experiment e --output runs.csv");
    let csv = scratch.read("runs.csv");
    assert!(
        csv.contains("More than the label was written.; correct:"),
        "{csv}"
    );
}

#[test]
fn the_gate_skips_what_needs_judges_and_promotes() {
    let scratch = example("classify", "");
    let folder = root().join("examples/classify");
    let folder = folder.display();
    scratch.ok(&format!(
        "collect --task {folder} --models scripted:hasty,scripted:careful --script {folder}/script.json \
         --experiment e --split confirmation"
    ));
    let report = scratch
        .ok("promote --experiment e --json --note better")
        .json();
    let checks = report["checks"]
        .as_array()
        .unwrap_or_else(|| panic!("{report}"));
    for name in ["rank.expert", "rank.auto", "double_scored", "judge_bias"] {
        let check = checks.iter().find(|it| it["name"] == name);
        let check = check.unwrap_or_else(|| panic!("{name}: {report}"));
        assert_eq!(check["outcome"], "not_applicable", "{check}");
        assert!(check["why"].to_string().contains("computed"), "{check}");
    }
    assert!(!report.to_string().contains("judge export"), "{report}");
    let table = scratch.ok(&format!("promote history --task {folder}"));
    assert!(table.stdout.contains("v2-examples"), "{table}");
}

#[test]
fn sealed_runs_do_not_show_computed_scores() {
    let scratch = example("classify", "--split confirmation --n-scenarios 1");
    let run = first_run(&scratch);
    assert_eq!(run["sealed"], true, "{run}");
    let candidate = &run["candidates"][0];
    assert!(candidate["text"].is_string(), "{run}");
    assert!(
        candidate.get("scores").is_none() && candidate.get("reasons").is_none(),
        "{run}"
    );
}

#[test]
fn extract_grades_fields_and_counts_fences() {
    let scratch = example("extract", "");
    let board = scratch.board("e");
    let best = row(&board, "scripted:careful", "v2-schema");
    assert_eq!(best["composite"]["mean"], 7.0, "{best}");
    let fenced = row(&board, "scripted:careful", "v1");
    assert_eq!(fenced["flags"]["fenced"], 1.0, "{fenced}");
    assert_eq!(fenced["flags"]["format_ok"], 1.0, "{fenced}");
    let chatty = row(&board, "scripted:hasty", "v1");
    assert_eq!(chatty["flags"]["format_ok"], 0.0, "{chatty}");
    let lines = scratch.ok("runs export --experiment e").json_lines();
    let of = |prompt: &str, model: &str| {
        let found = lines.iter().find(|it| {
            it["params"]["prompt"] == prompt
                && it["params"]["model"] == model
                && it["params"]["scenario"] == "printer"
        });
        found.expect("a run")["candidate"].clone()
    };
    let candidate = of("v1", "scripted:hasty");
    let problem = candidate["problem"].to_string();
    assert!(
        problem.contains("does not fit the schema at /due"),
        "{candidate}"
    );
    // One item too many of two: F1 is 2·1/3.
    let items = candidate["scores"]["items"].as_f64().expect("a score");
    assert!((items - 2.0 / 3.0).abs() < 1e-12, "{candidate}");
}

/// A task `mixed`: a judge is asked for the tone, a rule compares the label.
pub(crate) fn write_mixed(scratch: &Scratch, rule: &str) {
    scratch.write(
        "mixed/task.toml",
        "name = \"mixed\"\n[output]\nflag = \"ok\"\n",
    );
    scratch.write(
        "mixed/rubric.md",
        &format!(
            "+++\nid = \"mixed-v1\"\ncomposite = \"tone + 2*label + ok\"\n[[criteria]]\nname = \"tone\"\n\
             min = 1\nmax = 3\n[criteria.anchors]\n1 = \"rude\"\n2 = \"flat\"\n3 = \"kind\"\n\
             [[criteria]]\nname = \"label\"\nmax = 4\n[criteria.computed]\n{rule}\n\
             [[flags]]\nname = \"ok\"\n+++\nProse.\n"
        ),
    );
    scratch.write(
        "mixed/scenarios.toml",
        "[[scenario]]\nid = \"one\"\nask = \"?\"\nlabel = \"walk\"\nreference = \"walk\"\n",
    );
    scratch.write("mixed/prompts/v1.md", "Answer {{ ask }}\n");
}

const RULE: &str = "equals = \"{{ label }}\"";

pub(crate) fn collect_mixed(scratch: &Scratch) {
    scratch.ok(
        "collect --task mixed --models scripted:a --n-tips 2 --script script.json --experiment e",
    );
}

pub(crate) fn mixed() -> Scratch {
    let scratch = Scratch::new();
    write_mixed(&scratch, RULE);
    let verdict = r#"{"reason":"r","tone":2}"#;
    let models = [("a", &["walk", "rest"][..]), ("judge", &[verdict])];
    scratch.write("script.json", &script(&models));
    collect_mixed(&scratch);
    scratch
}

/// The composites of the run's latest verdicts, in the order of the candidates.
pub(crate) fn composites(scratch: &Scratch) -> Vec<Value> {
    let run = first_run(scratch);
    let files = run["verdicts"].as_array().expect("files").iter();
    let verdicts = files.flat_map(|file| file["verdicts"].as_array().expect("verdicts"));
    let latest: BTreeMap<u64, &Value> = verdicts
        .map(|it| {
            (
                it["candidate"].as_u64().expect("an index"),
                &it["composite"],
            )
        })
        .collect();
    latest.into_values().cloned().collect()
}

#[test]
fn a_judge_file_asks_for_judged_criteria_and_gets_the_computed_ones() {
    let scratch = mixed();
    assert_eq!(pending(&scratch, "expert"), 1);
    let outcome = scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        let scores = case["scores"].as_object().expect("scores");
        let names: Vec<&String> = scores.keys().collect();
        assert_eq!(names, ["tone", "ok"], "{case}");
        case["scores"]["tone"] = json!(3);
    });
    assert!(outcome.stderr.contains('1'), "{outcome}");
    let file = scratch.read_json("judge.json");
    let criteria = file["rubric"]["criteria"].as_array().expect("criteria");
    assert_eq!(criteria.len(), 1, "{file}");
    // tone 3 + 2·label (4 where it is right, 0 where not) + ok 1.
    assert_eq!(composites(&scratch), [json!(12.0), json!(4.0)]);
    let run = first_run(&scratch);
    assert_eq!(run["metrics"]["label"], 2.0, "{run}");
    assert_eq!(run["tags"]["judge_kind"], "human");
    // A judge cannot set what is computed.
    let scratch = mixed();
    let mut file = scratch.export("e", "judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        case["scores"]["tone"] = json!(3);
        case["scores"]["label"] = json!(4);
    }
    scratch.write("judge.json", &file.to_string());
    let refused = scratch.fails(2, "judge apply judge.json --judge-kind human");
    assert!(refused.stderr.contains("label is not a score"), "{refused}");
}

#[test]
fn automatic_judges_and_agents_are_not_asked_either() {
    let scratch = mixed();
    scratch.ok("judge auto --experiment e --judge scripted:judge --script script.json");
    assert_eq!(composites(&scratch), [json!(11.0), json!(3.0)]);

    let scratch = mixed();
    let mut session = McpSession::start(&scratch, "mcp --judged-by Ana", "codex-mcp-client");
    let taken = session.call("next_cases", &json!({"experiment": "e", "limit": 50}));
    let cases = taken["structuredContent"]["cases"].as_array();
    let cases = cases.unwrap_or_else(|| panic!("{taken}"));
    let verdicts: Vec<Value> = cases
        .iter()
        .map(|case| {
            let names: Vec<&String> = case["scores"].as_object().expect("scores").keys().collect();
            assert!(!names.iter().any(|it| *it == "label"), "{case}");
            json!({"case": case["case"], "scores": {"tone": 3}, "rationale": "kind"})
        })
        .collect();
    session.call("submit_verdicts", &json!({"verdicts": verdicts}));
    session.call("finish_sitting", &json!({}));
    assert_eq!(composites(&scratch), [json!(12.0), json!(4.0)]);
}

#[test]
fn a_computed_score_cannot_be_amended() {
    let scratch = mixed();
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["tone"] = json!(1);
    });
    let run_id = crate::first_run_id(&scratch);
    let amend = |set: &str, code: i32| {
        let words = [
            "judge",
            "amend",
            &run_id,
            "--candidate",
            "0",
            "--set",
            set,
            "--reason",
            "so",
        ];
        scratch.fails(code, &words)
    };
    let refused = amend("label=4", 2);
    assert!(refused.stderr.contains("computed by a rule"), "{refused}");
    amend("tone=3", 0);
    let run = first_run(&scratch);
    assert_eq!(run["metrics"]["composite"], 7.0, "{run}");
}

#[test]
fn an_empty_expected_value_is_a_problem_of_the_scenario() {
    let scratch = Scratch::new();
    scratch.write(
        "t/task.toml",
        "name = \"t\"\nscenarios = \"s.csv\"\n[[checks]]\nflag = \"polite\"\nnot_contains = \"{{ word }}\"\n",
    );
    scratch.write(
        "t/rubric.md",
        "+++\nid = \"r\"\ncomposite = \"names + fits\"\n[[criteria]]\nname = \"names\"\n[criteria.computed]\n\
         contains = \"{{ word }}\"\n[[criteria]]\nname = \"fits\"\n[criteria.computed]\nregex = \"{{ shape }}\"\n\
         [[flags]]\nname = \"polite\"\n+++\n",
    );
    scratch.write(
        "t/s.csv",
        "id,word,shape\none,walk,^w\ntwo,,^r\nthree,rest,\n",
    );
    scratch.write("t/prompts/v1.md", "Say something.\n");
    scratch.write("script.json", &script(&[("a", &["walk"])]));
    for line in [
        "validate t",
        "collect --task t --models scripted:a --script script.json --experiment e",
    ] {
        let found = scratch.fails(2, line);
        let all = format!("{}{}", found.stdout, found.stderr);
        for expected in [
            "rubric.md:5: 'names' in scenario 'two': the text that the rule looks for is empty",
            "rubric.md:9: 'fits' in scenario 'three': the regular expression is empty",
            "'polite' in scenario 'two': the text that the rule looks for is empty",
        ] {
            assert!(all.contains(expected), "{line}: {expected}\n{all}");
        }
        assert!(!all.contains("scenario 'one'"), "{all}");
    }
    scratch.write("t/s.csv", "id,word,shape\none,walk,^w\ntwo,rest,^r\n");
    scratch.ok("validate t");
}

#[test]
fn boards_say_that_the_scores_are_computed() {
    let scratch = example("classify", "");
    for tier in ["", "--tier auto"] {
        let board = scratch.ok(&format!("compare --experiment e {tier}"));
        scratch.ok(&format!("compare --experiment e {tier} -o board.html"));
        assert!(
            board.stdout.contains("48 of 48 cells judged (computed)")
                && !board.stdout.contains("(expert)")
                && !board.stdout.contains("automatic"),
            "{board}"
        );
        assert!(
            board.stdout.contains("Ship scripted:careful × v2-examples"),
            "{board}"
        );
        let html = scratch.read("board.html");
        assert!(
            html.contains("computed scores") && !html.contains("expert tier"),
            "{html}"
        );
    }
    // Programs find the tier where it was, and who scored beside it.
    let board = scratch.board("e");
    assert_eq!(
        (&board["tier"], &board["computed"]),
        (&json!("expert"), &json!(true))
    );
    let served = Served::start(&scratch);
    let page = String::from_utf8(served.get("/experiments/e").body).expect("a page");
    served.stop();
    assert!(
        page.contains("(computed)")
            && page.contains("computed scores")
            && !page.contains("verdicts of"),
        "{page}"
    );
}

#[test]
fn validate_names_every_mistake_with_its_place() {
    let scratch = Scratch::new();
    scratch.write(
        "t/task.toml",
        "name = \"t\"\n[output]\nformat = \"json\"\nfences = \"strip\"\n",
    );
    scratch.write(
        "t/rubric.md",
        "+++\nid = \"r\"\ncomposite = \"a + b\"\n[[criteria]]\nname = \"a\"\n[criteria.computed]\n\
         equals = \"{{ missing }}\"\n[[criteria]]\nname = \"b\"\n[criteria.computed]\nnumber = \"{{ size }}\"\n\
         [[flags]]\nname = \"lonely\"\n+++\n",
    );
    scratch.write(
        "t/scenarios.toml",
        "[[scenario]]\nid = \"one\"\nsize = \"large\"\n[[scenario]]\nid = \"two\"\nsize = 3\nmissing = \"x\"\n",
    );
    scratch.write("t/prompts/v1.md", "Size {{ size }}\n");
    let found = scratch.fails(2, "validate t");
    let all = format!("{}{}", found.stdout, found.stderr);
    for expected in [
        "rubric.md:5: 'a' in scenario 'one': the scenario has no field 'missing'",
        "rubric.md:9: 'b' in scenario 'one': 'large' is not a number",
        "rubric.md:13: nothing sets the flag 'lonely'",
        "the flag 'fenced', which the rubric does not have",
    ] {
        assert!(all.contains(expected), "{expected}\n{all}");
    }
    assert!(!all.contains("'a' in scenario 'two'"), "{all}");
}
