//! What the gate refuses although p is small: pairs that were not collected and judged alike.

use assize_test_support::Scratch;
use assize_test_support::promotion_task::{ahead, collect, fill, judge, scratch};

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
    let report = refused(&scratch, &[], "judged_alike");
    let next = report["next"].as_array().expect("steps");
    let reopen = next[0].as_str().and_then(|it| it.strip_prefix("assize "));
    let reopen = reopen.expect("a command of ours");
    assert!(
        reopen.contains("--pairs scripted:m/p2,scripted:m/p1"),
        "{reopen}"
    );
    scratch.ok(reopen);
    judge(&scratch);
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
