//! Loops that are not worth starting.

use serde_json::json;

use crate::fixture::{START, fixing_rounds, scratch, scratch_with};

#[test]
fn a_saturated_seed_stops_before_anything_is_spent() {
    let scratch = scratch(&fixing_rounds());
    let script = scratch.read("script.json");
    let mut script: serde_json::Value = serde_json::from_str(&script).expect("JSON");
    script["models"]["j"]["scores"] = json!({"*": 9});
    scratch.write("script.json", &script.to_string());
    scratch.ok(
        "collect --task task --models scripted:m --script script.json --experiment old --n-tips 2 \
         --split feedback",
    );
    scratch.ok("judge auto --experiment old --judge scripted:j --script script.json");
    let refused = scratch.fails(3, START);
    assert!(
        refused
            .stderr
            .contains("better prompts cannot score higher"),
        "{refused}"
    );
    assert!(refused.stderr.contains("add harder"), "{refused}");
    scratch.fails(2, "optimise status --experiment e");
    let forced = scratch
        .ok(format!("{START} --force --json").as_str())
        .json();
    assert_eq!(forced["started"], true);
}

#[test]
fn prompts_that_score_alike_stop_it_too() {
    let scratch = scratch_with(&fixing_rounds(), &json!({}), 0);
    for (name, verb) in [
        ("p2", "Kindly give"),
        ("p3", "Always give"),
        ("p4", "Just give"),
    ] {
        let text = crate::fixture::SEED.replace("You give", verb);
        scratch.write(&format!("task/prompts/{name}.md"), &text);
    }
    scratch.ok(
        "collect --task task --models scripted:m --script script.json --experiment old --n-tips 2 \
         --split feedback",
    );
    scratch.ok("judge auto --experiment old --judge scripted:j --script script.json");
    let refused = scratch.fails(3, format!("{START} --json").as_str()).json();
    let objection = refused["objections"][0].as_str().expect("an objection");
    assert!(
        objection.contains("the race would rank two prompts rightly"),
        "{objection}"
    );
    assert!(objection.contains("rubric"), "{objection}");
    assert_eq!(refused["started"], false);
}

#[test]
fn what_cannot_work_is_refused_with_the_remedy() {
    let scratch = scratch(&fixing_rounds());
    for (from, to, problem) in [
        ("script:children.json", "qwen2.5:0.5b", "--force"),
        ("script:children.json", "script:none.json", "none.json"),
        ("--judge scripted:j", "--judge scripted:nobody", "nobody"),
        ("--children 2", "--children 9", "children"),
        ("--n-tips 2", "--n-tips 2 --prompt p9", "p9"),
    ] {
        let line = START.replace(from, to);
        let refused = scratch.run(line.as_str());
        assert!(refused.code == 2 || refused.code == 1, "{refused}");
        assert!(refused.stderr.contains(problem), "{problem}: {refused}");
    }
    let lines = scratch
        .read("task/scenarios.jsonl")
        .replace("\"confirmation\"", "\"selection\"");
    scratch.write("task/scenarios.jsonl", &lines);
    let refused = scratch.fails(2, START);
    assert!(
        refused.stderr.contains("split = \"confirmation\""),
        "{refused}"
    );
}
