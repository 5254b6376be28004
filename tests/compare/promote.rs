//! Promotion, end to end: scripted models, both tiers judged, the gate, the champion,
//! rollback.

use std::process::Stdio;

use assize_test_support::promotion_task::{
    CONFIRMATION, SELECTION, Tip, Tips, ahead, collect, fill, judge, score, scratch,
};
use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch};
use serde_json::{Value, json};

pub const PROMOTE: &str = "promote --task task --experiment e";

fn failed(report: &Value) -> Vec<&str> {
    let checks = report["checks"].as_array().expect("checks");
    let failed = checks.iter().filter(|it| it["outcome"] == "failed");
    failed
        .map(|it| it["name"].as_str().expect("a name"))
        .collect()
}

/// Runs the gate with these settings and expects exactly these checks to fail, separated by spaces.
#[track_caller]
pub fn refused(scratch: &Scratch, settings: &[(&str, &str)], expected: &str) -> Value {
    let mut command = scratch.command(format!("{PROMOTE} --json").as_str());
    command.envs(settings.iter().copied());
    let outcome = Outcome::of(&command.output().expect("the binary runs"));
    assert_eq!(outcome.code, 3, "{outcome}");
    let report = outcome.json();
    let expected: Vec<&str> = expected.split(' ').collect();
    assert_eq!(failed(&report), expected, "{outcome}");
    assert_eq!(report["promoted"], false);
    assert!(!report["next"].as_array().expect("steps").is_empty());
    assert_eq!(history(scratch).len(), 0);
    report
}

fn narrow(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= 80)
}

fn history(scratch: &Scratch) -> Vec<Value> {
    let history = scratch.ok("promote history --task task --json").json();
    history["promotions"].as_array().expect("entries").clone()
}

/// An experiment that is collected and judged on both splits.
pub fn judged(tips: Tips) -> Scratch {
    let scratch = scratch(tips);
    fill(&scratch);
    scratch
}

#[test]
fn the_winner_is_promoted_and_becomes_the_incumbent() {
    let scratch = judged(ahead);
    let dry = scratch.ok(format!("{PROMOTE} --dry-run --json").as_str());
    assert_eq!(dry.json()["passed"], true, "{dry}");
    assert_eq!(dry.json()["incumbent"]["prompt"], "p1");
    assert_eq!(history(&scratch).len(), 0);

    let done = scratch.ok(&[
        "promote",
        "--task",
        "task",
        "--experiment",
        "e",
        "--note",
        "kinder",
    ]);
    assert!(
        done.stderr.contains("scripted:m × p2 is the champion"),
        "{done}"
    );
    assert!(narrow(&done.stdout), "{done}");
    insta::assert_snapshot!("gate_passed", done.stdout);

    let entries = history(&scratch);
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!(
        (&entry["by"], &entry["note"], &entry["version"]),
        (&json!("tester"), &json!("kinder"), &json!(1))
    );
    assert_eq!(
        entry["champion"]["body"],
        "Tell something about {{ topic }}."
    );
    assert_eq!(entry["gate"]["passed"], true);
    assert!(
        entry["gate"]["checks"]
            .as_array()
            .is_some_and(|it| it.len() > 10)
    );

    // Now p2 is whom the others are compared with, and nobody is ahead of it.
    let board = scratch.board("e");
    assert_eq!(board["incumbent"]["prompt"], "p2");
    let again = scratch
        .fails(3, format!("{PROMOTE} --json").as_str())
        .json();
    assert_eq!(again["incumbent"]["prompt"], "p2");
    assert!(failed(&again).contains(&"p_adjusted"));
}

#[test]
fn each_check_fails_alone() {
    let scratch = judged(ahead);
    refused(&scratch, &[("ASSIZE_GATE_MARGIN", "9")], "margin");
    refused(
        &scratch,
        &[("ASSIZE_GATE_DOUBLE_SCORED", "33")],
        "double_scored",
    );
    refused(&scratch, &[("ASSIZE_GATE_LEVEL", "0.003")], "p_adjusted");

    refused(
        &judged(|prompt, s, k| Tip {
            ok: !(prompt == "p2" && s < 2),
            auto_ok: !(prompt == "p2" && s < 2),
            ..ahead(prompt, s, k)
        }),
        &[],
        "flag.ok",
    );
    refused(
        &judged(|prompt, s, k| Tip {
            long: prompt == "p2" && s < 2,
            ..ahead(prompt, s, k)
        }),
        &[],
        "flag.long",
    );
    let report = refused(
        &judged(|prompt, s, k| Tip {
            worth: if prompt == "p2" && s == 2 {
                1
            } else {
                ahead(prompt, s, k).worth
            },
            ..ahead(prompt, s, k)
        }),
        &[("ASSIZE_GATE_SCENARIO_FLOOR", "0")],
        "worst_scenario",
    );
    assert!(
        report.to_string().contains("That is s2: -1.00 as observed"),
        "{report}"
    );
}

#[test]
fn board_and_gate_hold_a_lead_against_the_same_level() {
    let scratch = judged(ahead);
    let winner = json!({"model": "scripted:m", "prompt": "p2", "settings": null});
    assert_eq!(scratch.board("e")["decision"]["winner"], winner);
    let passed = scratch.ok(format!("{PROMOTE} --dry-run --json").as_str());
    assert_eq!(passed.json()["candidate"], winner);

    // The lead has p = 1/256 or more, over two challengers.
    scratch.write("assize.toml", "[gate]\nlevel = 0.003\nmargin = 1.5\n");
    let decision = scratch.board("e")["decision"].clone();
    assert_eq!(decision["winner"], Value::Null, "{decision}");
    let reason = decision["reason"].as_str().expect("a reason");
    assert!(reason.contains("a difference of 1.5"), "{reason}");
    let server = Served::start(&scratch);
    let over_http = server.get("/api/bench/leaderboard/e").json();
    assert_eq!(over_http["decision"], decision);
    let refused = scratch.fails(3, format!("{PROMOTE} --dry-run --json").as_str());
    assert_eq!(refused.json()["candidate"], winner);
    assert_eq!(failed(&refused.json()), ["p_adjusted"]);
}

#[test]
fn judges_who_disagree_block_the_promotion() {
    // The automatic tier finds every tip of p2 misshapen.
    refused(
        &judged(|prompt, s, k| Tip {
            auto_ok: prompt != "p2",
            worth: ahead(prompt, s, k).worth - i64::from(prompt == "p2"),
            ..ahead(prompt, s, k)
        }),
        &[],
        "rank.auto judge_bias",
    );
    refused(
        &judged(|prompt, s, k| Tip {
            auto_tone: ahead(prompt, s, k).tone + i64::from(s == 0 && prompt == "p2"),
            ..ahead(prompt, s, k)
        }),
        &[("ASSIZE_GATE_BIAS", "0.1")],
        "judge_bias",
    );
    // A bias towards both pairs cancels, and noise is reported without blocking.
    let noisy = judged(|prompt, s, k| Tip {
        auto_tone: ahead(prompt, s, 1 - k).tone + i64::from(s == 0),
        ..ahead(prompt, s, k)
    });
    let dry = noisy
        .ok(format!("{PROMOTE} --dry-run --json").as_str())
        .json();
    let checks = dry["checks"].as_array().expect("checks");
    let bias = checks
        .iter()
        .find(|it| it["name"] == "judge_bias")
        .expect("the check");
    assert!(
        bias["why"]
            .as_str()
            .is_some_and(|it| it.contains("agreement (α): worth 1.00")),
        "{bias}"
    );
}

#[test]
fn cells_without_verdicts_block_the_promotion() {
    let scratch = scratch(ahead);
    collect(&scratch, "--prompts p1,p2");
    collect(&scratch, "--prompts p1,p2 --split confirmation");
    let mut left = scratch.export("e", "expert.json");
    let mut auto = scratch.export("e", "auto.json");
    for case in auto["cases"].as_array_mut().expect("cases") {
        score(case, |it| [it[0], it[4], it[5], it[3]]);
    }
    let mut skipped = false;
    for case in left["cases"].as_array_mut().expect("cases") {
        if skipped || case["context"]["topic"] != "topic 3" {
            score(case, |it| [it[0], it[1], it[2], it[3]]);
        } else {
            skipped = true;
        }
    }
    scratch.write("expert.json", &left.to_string());
    scratch.write("auto.json", &auto.to_string());
    scratch.ok("judge apply auto.json --judge-kind haiku");
    scratch.ok("judge apply expert.json --judge-kind human --partial");
    let report = refused(
        &scratch,
        &[("ASSIZE_GATE_DOUBLE_SCORED", "20")],
        "missing_cells",
    );
    assert_eq!(
        report["checks"]
            .as_array()
            .and_then(|it| it.last())
            .map(|it| it["outcome"].clone()),
        Some(json!("sealed"))
    );
}

#[test]
fn a_confirmation_that_is_missing_is_done_by_the_commands_that_are_named() {
    let scratch = scratch(ahead);
    collect(&scratch, "");
    judge(&scratch);
    let shown = scratch.fails(3, PROMOTE);
    insta::assert_snapshot!("gate_refused", format!("{}{}", shown.stdout, shown.stderr));
    let report = refused(&scratch, &[], "confirmation");
    let next: Vec<String> = report["next"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|it| it.as_str().expect("a line").to_owned())
        .collect();
    assert_eq!(next.len(), 4, "{next:?}");
    for line in &next[..2] {
        let line = line.strip_prefix("assize ").expect("a command of ours");
        assert!(line.contains("--split confirmation"), "{line}");
        let collected = scratch.ok(format!("{line} --json").as_str()).summary();
        assert_eq!(collected["collected"], CONFIRMATION);
    }
    assert!(
        next[2].starts_with("assize judge export --experiment e"),
        "{next:?}"
    );
    judge(&scratch);
    scratch.ok(PROMOTE);
}

#[test]
fn an_unconfirmed_win_is_not_promoted() {
    let scratch = judged(|prompt, s, k| {
        if s < SELECTION {
            return ahead(prompt, s, k);
        }
        // There p1 and p2 take turns.
        let tip = ahead("p1", s, k);
        let better = (s % 2 == 0) == (prompt == "p2");
        Tip {
            worth: tip.worth + i64::from(better),
            ..tip
        }
    });
    let report = refused(&scratch, &[], "confirmation confirmation.margin");
    let words = report.to_string();
    assert!(
        words.contains("The candidate is not ahead there."),
        "{words}"
    );
}

/// p2 is better than p1, and p3 than p2.
fn climbing(prompt: &str, s: usize, k: usize) -> Tip {
    let tip = ahead(if prompt == "p3" { "p2" } else { prompt }, s, k);
    let more = i64::from(prompt == "p3");
    Tip {
        tone: tip.tone + more,
        auto_tone: tip.auto_tone + more,
        ..tip
    }
}

const FIRST_STEP: &str = "promote --task task --experiment e --candidate scripted:m/p2 \
                          --incumbent scripted:m/p1 --note better";

/// A weak incumbent must not let a pair pass that is worse than the champion.
#[test]
fn whoever_replaces_the_champion_beats_it() {
    let scratch = scratch(climbing);
    collect(&scratch, "");
    collect(&scratch, "--split confirmation");
    judge(&scratch);
    scratch.ok(PROMOTE);
    let worse = format!("{PROMOTE} --candidate scripted:m/p2 --incumbent scripted:m/p1");
    let refused = scratch.fails(3, format!("{worse} --json").as_str());
    assert_eq!(failed(&refused.json()), ["champion"], "{refused}");
    assert_eq!(history(&scratch).len(), 1);
    let shown = scratch.fails(3, worse.as_str());
    assert!(shown.stdout.contains("better than the champion"), "{shown}");
    assert!(
        shown.stderr.contains("the champion is scripted:m × p3"),
        "{shown}"
    );
}

/// The better pair passes against a weak incumbent, too, and the history says against whom.
#[test]
fn the_history_says_against_whom() {
    let scratch = scratch(climbing);
    collect(&scratch, "");
    collect(&scratch, "--split confirmation");
    judge(&scratch);
    scratch.ok(FIRST_STEP);
    scratch.ok(format!("{PROMOTE} --candidate scripted:m/p3 --incumbent scripted:m/p1").as_str());
    let table = scratch.ok("promote history --task task");
    let compared = "The gate compared them with:\n   2  scripted:m × p1\n   1  scripted:m × p1\n";
    assert!(table.stdout.contains(compared), "{table}");
    assert!(narrow(&table.stdout), "{table}");
}

#[test]
fn rolling_back_is_an_entry_of_its_own() {
    let scratch = scratch(climbing);
    collect(&scratch, "");
    collect(&scratch, "--split confirmation");
    judge(&scratch);
    let nothing = scratch.fails(2, "promote rollback --task task");
    assert!(nothing.stderr.contains("nothing was promoted"), "{nothing}");
    let done = scratch.ok(FIRST_STEP);
    assert!(
        !done.stderr.contains("To undo"),
        "there is nothing to undo: {done}"
    );
    let first = scratch.fails(2, "promote rollback --task task");
    assert!(first.stderr.contains("is the first champion"), "{first}");

    let already = format!("{PROMOTE} --candidate scripted:m/p2 --incumbent scripted:m/p1");
    let already = scratch.fails(2, already.as_str());
    assert!(already.stderr.contains("the champion already"), "{already}");
    let done = scratch.ok(PROMOTE);
    let undo = "To undo: assize promote rollback --task task";
    assert!(done.stderr.contains(undo), "{done}");

    let rolled = scratch.ok("promote rollback --task task --note complaints --json");
    let rolled = rolled.json();
    assert_eq!(
        (&rolled["number"], &rolled["action"], &rolled["restores"]),
        (&json!(3), &json!("rollback"), &json!(1))
    );
    assert_eq!(rolled["champion"]["prompt"], "p2");
    let versions: Vec<Value> = history(&scratch)
        .iter()
        .map(|it| it["version"].clone())
        .collect();
    assert_eq!(versions, [1, 2, 1]);
    scratch.fails(2, "promote rollback --task task");
    let table = scratch.ok("promote history --task task");
    assert!(table.stdout.contains("back to 1"), "{table}");
    assert!(narrow(&table.stdout), "{table}");
}

#[test]
fn of_two_concurrent_promotions_one_is_refused() {
    let scratch = judged(ahead);
    let start = || {
        let mut command = scratch.command(PROMOTE);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary starts")
    };
    let running: Vec<_> = (0..4).map(|_| start()).collect();
    let outcomes: Vec<Outcome> = running
        .into_iter()
        .map(|it| Outcome::of(&it.wait_with_output().expect("it ends")))
        .collect();
    let winners = outcomes.iter().filter(|it| it.code == 0).count();
    assert_eq!(winners, 1);
    assert_eq!(history(&scratch).len(), 1);
    for outcome in outcomes.iter().filter(|it| it.code != 0) {
        // Whoever came late after the gate is told; whoever read afterwards met the new champion.
        let told = outcome.code == 1 && outcome.stderr.contains("has changed meanwhile");
        let refused = outcome.code == 3 && outcome.stdout.contains("Incumbent  scripted:m × p2");
        assert!(told || refused, "{outcome}");
    }
}

#[test]
fn what_is_promoted_is_what_was_judged() {
    let scratch = judged(ahead);
    scratch.write("task/prompts/p2.md", "Tell nothing about {{ topic }}.\n");
    let edited = scratch.fails(2, PROMOTE);
    assert!(edited.stderr.contains("as it was judged"), "{edited}");
    let other = scratch.fails(2, "promote --task tip --experiment e");
    assert!(other.stderr.contains("runs of the task 'shop'"), "{other}");
    let unknown = scratch.fails(2, format!("{PROMOTE} --candidate nobody/p9").as_str());
    assert!(unknown.stderr.contains("is not a pair"), "{unknown}");
    let itself = scratch.fails(2, format!("{PROMOTE} --candidate scripted:m/p1").as_str());
    assert!(itself.stderr.contains("the incumbent itself"), "{itself}");
}

#[test]
fn a_champion_missing_from_the_experiment_blocks_the_promotion() {
    let scratch = judged(ahead);
    scratch.ok(PROMOTE);
    let line = "collect --task task --models scripted:m --script script.json --experiment other \
                --n-tips 2 --prompts p1,p3";
    scratch.ok(line);
    scratch.judge("other", "other.json", "--judge-kind human", |case| {
        score(case, |it| [it[0], it[1], it[2], it[3]]);
    });
    let board = scratch.board("other");
    assert_eq!(board["incumbent"]["prompt"], "p1");
    assert!(
        board["warnings"]
            .to_string()
            .contains("the champion scripted:m × p2 is not in this"),
        "{board}"
    );
    let refused = scratch.fails(2, "promote --task task --experiment other");
    assert!(refused.stderr.contains("collect it there too"), "{refused}");
}

#[test]
fn hostile_names_do_no_harm() {
    let scratch = scratch(ahead);
    let hostile = "m';$(touch${IFS}pwned)/x\u{202e}";
    scratch.write(
        "script.json",
        &scratch
            .read("script.json")
            .replace("\"m\":", &format!("{}:", json!(hostile))),
    );
    let model = format!("scripted:{hostile}");
    let collect = |split: &str| {
        let line = format!(
            "collect --task task --models {model} --script script.json --experiment e --n-tips 2 \
             --split {split}"
        );
        scratch.ok(line.as_str());
    };
    collect("selection");
    judge(&scratch);
    let missing = scratch.fails(3, PROMOTE);
    let quoted = r"--models 'scripted:m'\'';$(touch${IFS}pwned)/x";
    assert!(missing.stderr.contains(quoted), "{missing}");
    collect("confirmation");
    judge(&scratch);
    let done = scratch.ok(PROMOTE);
    let table = scratch.ok("promote history --task task");
    for outcome in [&missing, &done, &table] {
        let shown = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!shown.contains('\u{202e}'), "{outcome}");
    }
    let entry = scratch.ok("promote history --task task --json").json();
    assert_eq!(entry["promotions"][0]["champion"]["model"], json!(model));
}
