//! What the gate refuses although p is small: pairs that were not collected and judged alike.

use assize_test_support::Scratch;
use assize_test_support::promotion_task::{SELECTION, Tip, ahead, collect, fill, judge, scratch};

use crate::promote::{PROMOTE, judged, refused};

/// Judges what is pending for p1, then what is pending for p2, as experts do over weeks.
fn judged_apart() -> Scratch {
    let scratch = scratch(ahead);
    for prompt in ["p1,p3", "p2"] {
        collect(&scratch, &format!("--prompts {prompt}"));
        collect(
            &scratch,
            &format!("--split confirmation --prompts {prompt}"),
        );
        judge(&scratch);
    }
    scratch
}

#[test]
fn a_lead_of_another_sitting_is_not_promoted_until_both_are_judged_again() {
    let scratch = judged_apart();
    for failed in ["judged_alike", "confirmation.judged_alike"] {
        let report = refused(&scratch, &[], failed);
        let next = report["next"].as_array().expect("steps");
        let reopen = next[0].as_str().and_then(|it| it.strip_prefix("assize "));
        let reopen = reopen.expect("a command of ours");
        let pairs = "--pairs scripted:m/p2,scripted:m/p1";
        assert!(reopen.contains(pairs), "{reopen}");
        scratch.ok(reopen);
        judge(&scratch);
    }
    scratch.ok(PROMOTE);
}

#[test]
fn pairs_that_were_dropped_before_experts_judged_count() {
    let scratch = scratch(ahead);
    collect(&scratch, "--prompts p1,p2");
    judge(&scratch);
    // The task has no confirmation split, and a third pair was never judged by experts.
    let text = scratch.read("task/scenarios.jsonl");
    let selection: Vec<&str> = text
        .lines()
        .filter(|it| !it.contains("confirmation"))
        .collect();
    scratch.write("task/scenarios.jsonl", &selection.join("\n"));
    scratch.ok(format!("{PROMOTE} --dry-run").as_str());
    collect(&scratch, "--prompts p3");
    let report = refused(&scratch, &[], "family");
    assert!(
        report.to_string().contains("1 pair was left out"),
        "{report}"
    );
}

#[test]
fn different_settings_block_the_promotion() {
    let scratch = scratch(ahead);
    for (prompts, temperature) in [("p1,p3", "0.7"), ("p2", "0.2")] {
        for split in ["selection", "confirmation"] {
            let more = format!("--prompts {prompts} --temperature {temperature} --split {split}");
            collect(&scratch, &more);
        }
    }
    judge(&scratch);
    refused(&scratch, &[], "same_settings");
}

#[test]
fn an_edit_of_every_scenario_adds_no_evidence() {
    let scratch = judged(ahead);
    let p = |scratch: &Scratch| {
        let dry = scratch
            .ok(format!("{PROMOTE} --dry-run --json").as_str())
            .json();
        let checks = dry["checks"].as_array().expect("checks").clone();
        let check = checks.into_iter().find(|it| it["name"] == "p_adjusted");
        check.expect("the check")["figure"].clone()
    };
    let before = p(&scratch);
    let text = scratch.read("task/scenarios.jsonl").replace("\"}", ".\"}");
    scratch.write("task/scenarios.jsonl", &text);
    fill(&scratch);
    assert_eq!(p(&scratch), before);
}

#[test]
fn the_confirmation_must_be_judged_alike_too() {
    let scratch = scratch(ahead);
    collect(&scratch, "");
    judge(&scratch);
    for prompt in ["p1", "p2"] {
        collect(
            &scratch,
            &format!("--split confirmation --prompts {prompt}"),
        );
        judge(&scratch);
    }
    refused(&scratch, &[], "confirmation.judged_alike");
}

#[test]
fn a_confirmation_scenario_that_was_lost_cannot_be_deleted() {
    let scratch = judged(|prompt, s, k| {
        let tip = ahead("p1", s, k);
        if s < SELECTION {
            return ahead(prompt, s, k);
        }
        // There p2 wins on half of the scenarios and loses on the others.
        let is_better = (s % 2 == 0) == (prompt == "p2");
        Tip {
            worth: tip.worth + i64::from(is_better),
            ..tip
        }
    });
    let lost = "confirmation confirmation.margin";
    refused(&scratch, &[], lost);
    let text = scratch.read("task/scenarios.jsonl");
    let is_won = |line: &&str| !["c1", "c3", "c5"].iter().any(|id| line.contains(*id));
    let kept: Vec<&str> = text.lines().filter(is_won).collect();
    scratch.write("task/scenarios.jsonl", &kept.join("\n"));
    refused(&scratch, &[], lost);
    let selection: Vec<&str> = text.lines().take(SELECTION).collect();
    scratch.write("task/scenarios.jsonl", &selection.join("\n"));
    refused(&scratch, &[], lost);
}

#[test]
fn a_new_rubric_does_not_make_the_family_smaller() {
    let scratch = scratch(ahead);
    let text = scratch.read("task/scenarios.jsonl");
    let selection: Vec<&str> = text.lines().take(SELECTION).collect();
    scratch.write("task/scenarios.jsonl", &selection.join("\n"));
    collect(&scratch, "");
    judge(&scratch);
    scratch.ok(format!("{PROMOTE} --dry-run").as_str());
    let rubric = scratch.read("task/rubric.md");
    scratch.write(
        "task/rubric.md",
        &rubric.replace("Judge it.", "Judge it well."),
    );
    let pairs = "--pairs scripted:m/p1,scripted:m/p2";
    scratch.ok(format!("judge reopen --experiment e --rubric --task task {pairs}").as_str());
    judge(&scratch);
    let board = scratch.board("e");
    assert_eq!(board["rows"].as_array().map(Vec::len), Some(2), "{board}");
    let report = refused(&scratch, &[], "family").to_string();
    assert!(report.contains("1 pair was left out"), "{report}");
}

#[test]
fn a_forgotten_task_does_not_replace_the_experiments_own() {
    let scratch = scratch(ahead);
    collect(&scratch, "");
    let forgotten = "collect --models scripted:m --script script.json --experiment e --n-tips 2";
    let refused = scratch.fails(2, forgotten);
    assert!(
        refused.stderr.contains("name the folder with --task"),
        "{refused}"
    );
}
