//! Messages of the judging commands: suggested commands can be typed as they are, nouns agree with
//! their counts, lines fit a terminal, invalid input is explained.

use assize_test_support::{Outcome, Scratch};
use serde_json::json;

fn narrow(outcome: &Outcome) {
    let wide = outcome
        .stderr
        .lines()
        .find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{outcome}");
}

#[test]
fn the_next_command_is_ready_for_the_shell() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let odd = [
        "--experiment",
        "it's odd",
        "--tracking-uri",
        "sqlite:o ther.db",
    ];
    let run = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(odd);
        scratch.ok(&all)
    };
    let collect = "collect --task task --models scripted:a --prompts p1 --script script.json";
    let collect: Vec<&str> = collect.split(' ').collect();
    let experiment = r"--experiment 'it'\''s odd'";
    let globals = "--task task --tracking-uri 'sqlite:o ther.db'";
    // Long commands are continued on the next line.
    let whole = |outcome: &Outcome| outcome.stderr.replace(" \\\n    ", "");
    let outcome = run(&collect);
    narrow(&outcome);
    let next = format!("assize judge export {experiment} --out judge.json {globals}");
    assert!(whole(&outcome).contains(&next), "{outcome}");
    let outcome = run(&["judge", "status"]);
    assert!(whole(&outcome).contains("--out judge.json --tracking-uri 'sqlite:o ther.db'"));
    let outcome = run(&["judge", "export", "--out", "my file.json", "--no-anchors"]);
    let next = "assize judge apply 'my file.json' --tracking-uri 'sqlite:o ther.db'";
    assert!(whole(&outcome).contains(next), "{outcome}");
    let board = run(&["compare"]).stdout;
    let board: Vec<&str> = board.split_whitespace().filter(|it| *it != "\\").collect();
    let board = board.join(" ");
    assert!(
        board.contains("--tracking-uri 'sqlite:o ther.db'"),
        "{board}"
    );
}

#[test]
fn counts_agree_in_number_with_their_nouns() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let stdout = scratch.ok("judge export --experiment e --out -");
    assert!(
        stdout.stderr.contains("2 cases of 1 run on stdout"),
        "{stdout}"
    );
    assert!(
        stdout.stderr.contains("assize judge apply judge.json"),
        "{stdout}"
    );
    let applied = scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["worth"] = 2.into();
    });
    assert!(
        applied
            .stderr
            .contains("2 verdicts by tester (human, expert tier) on 1 run of e.")
    );
    narrow(&applied);
    let reopened = scratch.ok("judge reopen --experiment e");
    assert!(
        reopened.stderr.starts_with("1 run selected")
            && reopened.stderr.contains("\n1 run pending again"),
        "{reopened}"
    );
    narrow(&reopened);
    let status = scratch.ok("judge status --experiment e");
    assert!(
        status.stdout.starts_with("e: 1 run, 2 candidates"),
        "{status}"
    );
}

#[test]
fn the_command_to_type_after_reopening_names_the_task() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let rubric = scratch.read("task/rubric.md");
    scratch.write("task/rubric.md", &rubric.replace("so so", "maybe"));
    let reopened = scratch.ok("judge reopen --task task --experiment e --rubric");
    let next = "Next: assize judge export --experiment e --out judge.json --task task";
    assert!(reopened.stderr.contains(next), "{reopened}");
    let again = scratch.ok("judge reopen --task task --experiment e --rubric");
    assert!(!again.stderr.contains("Next"), "{again}");
}

#[test]
fn a_run_is_shown_within_the_terminal_with_what_was_amended() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        case["scores"]["worth"] = 2.into();
    });
    let run = scratch.ok("runs list --experiment e --json").json();
    let id = run["runs"][0]["run_id"].as_str().expect("an id").to_owned();
    let reason = "overlooked that the school office closes before the shift is over, at noon";
    let amend = format!("judge amend {id} --candidate 0 --set worth=3 --judged-by Ana --reason");
    let mut amend: Vec<&str> = amend.split(' ').collect();
    amend.push(reason);
    scratch.ok(&amend);
    let shown = scratch.ok(&["runs", "show", &id]).stdout;
    let wide = shown.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{shown}");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains(reason), "{shown}");
    assert!(words.contains("amended by Ana; was composite"), "{shown}");
}

#[test]
fn every_judging_command_has_an_example_and_keeps_global_flags_apart() {
    let scratch = Scratch::new();
    let commands = [
        "judge export",
        "judge apply",
        "judge auto",
        "judge desk",
        "judge agent",
        "judge status",
        "judge amend",
        "judge reopen",
        "judge release",
        "token create",
    ];
    for command in commands {
        let help = scratch.ok(format!("{command} --help").as_str()).stdout;
        assert!(help.contains(&format!("  assize {command}")), "{help}");
        let (own, global) = help.split_once("Global options:").expect("a heading");
        assert!(!own.contains("--tracking-uri"), "{help}");
        assert!(global.contains("--tracking-uri"), "{help}");
        let named = own.lines().skip_while(|it| !it.contains("--experiment <"));
        if let Some(below) = named.filter(|it| !it.starts_with("Usage")).nth(1) {
            assert!(!below.trim().is_empty(), "{help}");
        }
    }
}

#[test]
fn a_judge_that_is_not_in_the_script_is_bad_usage() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let auto = "judge auto --experiment e --judge scripted:nobody --script script.json";
    let unknown = scratch.fails(2, auto);
    assert!(
        unknown.stderr.contains("'nobody': it has a, b"),
        "{unknown}"
    );
    let collect = "collect --models scripted:nobody --script script.json --experiment x";
    scratch.fails(2, collect);
}

#[cfg(unix)]
#[test]
fn agent_output_is_quoted_short_and_without_control_characters() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let noise = r"for i in $(seq 400); do printf 'no\033[2J way\n'; done; exit 3";
    let words = ["judge", "agent", "--experiment", "e", "--cmd", noise];
    let outcome = scratch.fails(1, &words);
    assert!(outcome.stderr.lines().count() < 12, "{outcome}");
    assert!(!outcome.stderr.contains('\x1b'), "{outcome}");
}

#[test]
fn invalid_arguments_are_explained() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    std::fs::create_dir(scratch.file("folder")).expect("a folder");
    let folder = scratch.fails(2, "judge export --experiment e --out folder");
    assert!(folder.stderr.contains("is a folder"), "{folder}");
    assert!(scratch.file("folder").is_dir(), "it is where it was");
    scratch.fails(2, "judge status --experiment e --delta nan");
}

#[test]
fn invalid_files_are_explained() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let file = scratch.export("e", "judge.json");
    for (pointer, value) in [("judge", json!("me")), ("sitting", json!(5))] {
        let mut odd = file.clone();
        odd[pointer] = value;
        scratch.write("odd.json", &odd.to_string());
        let refused = scratch.fails(2, "judge apply odd.json --partial");
        assert!(
            refused.stderr.contains(&format!("/{pointer} ")),
            "{refused}"
        );
    }
    scratch.write("list.json", "[]");
    let list = scratch.fails(2, "judge apply list.json");
    assert!(
        list.stderr.contains("is JSON, but of the kind array"),
        "{list}"
    );
    // Nothing comes on stdin here.
    let empty = scratch.fails(2, "judge apply -");
    assert!(
        empty.stderr.contains("in standard input; nothing"),
        "{empty}"
    );
    assert!(empty.stderr.contains("is not JSON"), "{empty}");
    let response = json!({"prompt": "*", "scenario": "*", "texts": ["{}"], "cost_usd": -1.0});
    let costly = json!({"models": {"a": {"parameter_count": 5, "responses": [response]}}});
    scratch.write("costly.json", &costly.to_string());
    let auto = "judge auto --experiment e --judge scripted:a --script costly.json";
    let negative = scratch.fails(2, auto);
    assert!(negative.stderr.contains("cost_usd is -1"), "{negative}");
}
