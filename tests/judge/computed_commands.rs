//! Computed criteria that are scored by a program.

use assize_test_support::server::Served;
use assize_test_support::{Scratch, script};
use serde_json::json;

use crate::computed::{collect_mixed, composites, write_mixed};
use crate::first_run;

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

#[test]
fn a_command_scores_in_the_folder_of_the_task() {
    let scratch = with_command();
    scratch.write("script.json", &script(&[("a", &["walk", "rest"])]));
    collect_mixed(&scratch);
    let run = first_run(&scratch);
    let candidates = &run["candidates"];
    assert_eq!(candidates[0]["scores"]["label"], 4.0, "{run}");
    assert_eq!(candidates[0]["reasons"][0], "label: four letters", "{run}");
    // A failure of the program is no score, and says why.
    assert!(candidates[1].get("scores").is_none(), "{run}");
    let reason = candidates[1]["reasons"][0].to_string();
    assert!(
        reason.contains("not computed") && reason.contains("no rest"),
        "{reason}"
    );
    let mut file = scratch.export("e", "judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        case["scores"]["tone"] = json!(1);
    }
    scratch.write("judge.json", &file.to_string());
    let refused = scratch.fails(2, "judge apply judge.json --judge-kind human");
    assert!(refused.stderr.contains("judge recompute"), "{refused}");
    let failed = scratch.fails(4, "judge recompute --experiment e");
    assert!(failed.stderr.contains("no rest"), "{failed}");
    // Corrected, it scores what is stored; the export is still valid.
    scratch.write(
        "mixed/score.py",
        &PROGRAM.replace("sys.exit('no rest')", "pass"),
    );
    scratch.ok("judge recompute --experiment e");
    scratch.ok("judge apply judge.json --judge-kind human");
    assert_eq!(composites(&scratch), [json!(10.0), json!(10.0)]);
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
        collect_mixed(&scratch);
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
