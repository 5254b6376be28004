//! Computed criteria that are scored by a program.

use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch, script};
use serde_json::json;

use crate::computed::{collect_mixed, composites, write_mixed};
use crate::first_run;

const COLLECT: &str = "collect --task mixed --models scripted:a --n-tips 2 --script script.json --experiment e --json";

/// A program that scores the length of the candidate, and fails where the candidate says so.
const PROGRAM: &str = "import json, sys\n\
    given = json.load(sys.stdin)\n\
    assert given['context']['label'] == 'walk', given\n\
    if given['candidate'] == 'rest': sys.exit('no rest')\n\
    print(json.dumps({'score': len(given['candidate']), 'reason': 'four letters'}))\n";

fn with_command() -> Scratch {
    let scratch = Scratch::new();
    write_mixed(
        &scratch,
        "command = [\"python3\", \"score.py\"]\ntimeout_s = 30",
    );
    scratch.write("mixed/score.py", PROGRAM);
    scratch
}

/// Collects two candidates, of which the command scores the first only.
fn collect_half() -> (Scratch, Outcome) {
    let scratch = with_command();
    scratch.write("script.json", &script(&[("a", &["walk", "rest"])]));
    let collected = scratch.fails(4, COLLECT);
    (scratch, collected)
}

#[test]
fn a_command_scores_in_the_folder_of_the_task() {
    let (scratch, collected) = collect_half();
    assert_eq!(collected.summary()["unscored_candidates"], 1, "{collected}");
    assert!(
        collected
            .stderr
            .contains("1 candidate has no computed score")
            && collected.stderr.contains("no rest")
            && collected
                .stderr
                .contains("Next: assize judge recompute --experiment e"),
        "{collected}"
    );
    let run = first_run(&scratch);
    let candidates = &run["candidates"];
    assert_eq!(candidates[0]["scores"]["label"], 4.0, "{run}");
    assert_eq!(candidates[0]["reasons"][0], "label: four letters", "{run}");
    // A failure of the program is no score, and says why.
    assert!(candidates[1].get("scores").is_none(), "{run}");
    assert_eq!(candidates[1]["not_computed"], json!(["label"]), "{run}");
    let reason = candidates[1]["reasons"][0].to_string();
    assert!(
        reason.contains("not computed") && reason.contains("no rest"),
        "{reason}"
    );
    let again = scratch.ok(COLLECT);
    assert_eq!(again.summary()["skipped"], 1, "{again}");
}

#[test]
fn a_run_that_lacks_a_computed_score_is_not_handed_to_judges_before_it_is_computed() {
    let (scratch, _) = collect_half();
    let refused = scratch.fails(2, "judge export --experiment e --out judge.json");
    assert!(
        refused
            .stderr
            .contains("1 run lacks a computed score and cannot be judged before"),
        "{refused}"
    );
    assert!(!scratch.file("judge.json").exists());
    let auto = "judge auto --experiment e --judge scripted:j --script judge-script.json --json";
    scratch.write(
        "judge-script.json",
        &script(&[("j", &[r#"{"reason":"r","tone":2}"#])]),
    );
    let judged = scratch.run(auto);
    assert!(judged.stderr.contains("judge recompute"), "{judged}");
    assert!(
        first_run(&scratch)["verdicts"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    let failed = scratch.fails(4, "judge recompute --experiment e");
    assert!(
        failed.stderr.contains("candidate 1 of run") && failed.stderr.contains("no rest"),
        "{failed}"
    );
    // Corrected, it scores what is stored, and the run is handed out.
    scratch.write(
        "mixed/score.py",
        &PROGRAM.replace("sys.exit('no rest')", "pass"),
    );
    scratch.ok("judge recompute --experiment e");
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["tone"] = json!(1);
    });
    assert_eq!(composites(&scratch), [json!(10.0), json!(10.0)]);
}

#[test]
fn a_command_that_fails_once_while_recomputing_takes_no_score_away() {
    let scratch = with_command();
    scratch.write("script.json", &script(&[("a", &["walk", "walk"])]));
    collect_mixed(&scratch);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["tone"] = json!(1);
    });
    let before = first_run(&scratch);
    for program in [
        "import sys\nsys.exit('the service is away')\n",
        "print(99)\n",
    ] {
        scratch.write("mixed/score.py", program);
        let failed = scratch.fails(4, "judge recompute --experiment e --json");
        let report = failed.json();
        assert_eq!(
            (&report["incomplete"], &report["changed"]),
            (&json!(2), &json!(0)),
            "{failed}"
        );
        assert!(
            failed.stderr.contains("the same command tries again"),
            "{failed}"
        );
        assert_eq!(first_run(&scratch), before);
    }
    // Also where the rubric has changed: the run stays under the one that it was scored by.
    let rubric = scratch.read("mixed/rubric.md");
    scratch.write("mixed/rubric.md", &rubric.replace("2*label", "3*label"));
    scratch.fails(4, "judge recompute --experiment e");
    assert_eq!(first_run(&scratch), before);
    scratch.write("mixed/score.py", PROGRAM);
    let done = scratch.ok("judge recompute --experiment e --json").json();
    assert_eq!(
        (&done["changed"], &done["under_new_rubric"]),
        (&json!(1), &json!(1)),
        "{done}"
    );
}

#[test]
fn commands_that_hang_or_print_nonsense_have_no_score() {
    for (program, expected) in [
        (
            "import time\ntime.sleep(60)\n",
            "took longer than 1 s (timeout_s)",
        ),
        ("print('x' * 100000)\n", "printed more than 65536 bytes"),
        ("print('high')\n", "is not JSON"),
        ("print(9)\n", "score is 9, but label runs from 0 to 4"),
        ("print('{}')\n", "printed no score"),
    ] {
        let scratch = with_command();
        if program.contains("sleep") {
            let rubric = scratch.read("mixed/rubric.md");
            let hasty = rubric.replace("timeout_s = 30", "timeout_s = 1");
            scratch.write("mixed/rubric.md", &hasty);
        }
        scratch.write("mixed/score.py", program);
        scratch.write("script.json", &script(&[("a", &["walk"])]));
        scratch.fails(4, COLLECT);
        let reasons = first_run(&scratch)["candidates"][0]["reasons"].to_string();
        assert!(reasons.contains(expected), "{expected}: {reasons}");
    }
}

#[test]
fn commands_are_refused_where_they_are_not_allowed() {
    let scratch = with_command();
    scratch.write("script.json", &script(&[("a", &["walk"])]));
    let refused = scratch.fails(
        2,
        "collect --task mixed --models scripted:a --script script.json --experiment e --no-commands",
    );
    assert!(refused.stderr.contains("serve_allow_commands"), "{refused}");
    assert!(scratch.ok("experiments list").stdout.lines().count() < 2);
}

#[test]
fn jobs_of_the_server_refuse_commands_unless_a_setting_allows_them() {
    let scratch = with_command();
    scratch.write("script.json", &script(&[("a", &["walk"])]));
    let request = json!({"models": ["scripted:a"], "experiment": "e", "n_tips": 1});
    let ask = |words: &str| {
        let served = Served::start_with(&scratch, words);
        let reply = served.send("POST /api/bench/run", request.to_string().as_bytes());
        served.stop();
        reply
    };
    let words = "serve --port 0 --json --task mixed";
    scratch.write("assize.toml", "script = \"script.json\"\n");
    let refused = ask(words);
    assert_eq!(refused.status, 400, "{}", refused.json());
    assert!(
        refused.json().to_string().contains("serve_allow_commands"),
        "{}",
        refused.json()
    );
    scratch.write(
        "assize.toml",
        "script = \"script.json\"\nserve_allow_commands = true\n",
    );
    let accepted = ask(words);
    assert_eq!(accepted.status, 202, "{}", accepted.json());
}
