//! What goes wrong in a loop that lasts for days: providers fail, judges cannot score, files and models
//! change. Nothing that experts judged is lost, and no fault of a service is taken for a bad prompt.

use assize_test_support::Scratch;
use serde_json::{Value, json};

use crate::fixture::{
    START, STEP, fixing_rounds, judge, scratch, scratch_with, start, step, topic,
};

/// Changes the script of model and judge.
fn edit_script(scratch: &Scratch, edit: impl FnOnce(&mut Value)) {
    let mut script = scratch.read_json("script.json");
    edit(&mut script["models"]);
    scratch.write("script.json", &script.to_string());
}

/// The model fails as long as these fields match.
fn fail_on(scratch: &Scratch, fields: &Value) {
    edit_script(scratch, |models| {
        let responses = models["m"]["responses"].as_array_mut().expect("a list");
        let mut failing = fields.clone();
        failing["error"] = json!("http_500");
        responses.insert(0, failing);
    });
}

fn work_again(scratch: &Scratch) {
    edit_script(scratch, |models| {
        models["m"]["responses"]
            .as_array_mut()
            .expect("a list")
            .remove(0);
    });
}

fn children_of(scratch: &Scratch) -> usize {
    let status = scratch.ok("optimise status --experiment e --json").json();
    let children = status["children"].as_array().map(Vec::len);
    children.unwrap_or_default()
}

#[test]
fn verdicts_from_before_a_failed_cell_are_repaired_and_not_the_end() {
    let scratch = scratch(&fixing_rounds());
    fail_on(&scratch, &json!({"prompt": "p1.r2c1", "scenario": "s3"}));
    start(&scratch, "");
    let failed = scratch.fails(4, STEP);
    assert!(failed.stderr.contains("1 cell of nominee"), "{failed}");
    judge(&scratch, "early.json");
    work_again(&scratch);
    assert_eq!(step(&scratch)["waiting_for"], "judge");
    judge(&scratch, "late.json");
    let apart = scratch.ok("optimise step --experiment e");
    assert!(apart.stderr.contains("not judged alike"), "{apart}");
    let repair = "judge reopen --experiment e --pairs scripted:m/p1.r2c1,scripted:m/p1";
    assert!(apart.stderr.contains(repair), "{apart}");
    scratch.ok(format!("{repair} --tier expert --split selection").as_str());
    judge(&scratch, "together.json");
    assert_eq!(step(&scratch)["waiting_for"], "confirmation");
}

#[test]
fn a_provider_that_fails_decides_nothing_about_a_child() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    // The seed is raced, and the packet is answered.
    for _ in 0..3 {
        scratch.ok("optimise step --experiment e --once");
    }
    fail_on(&scratch, &json!({}));
    let failed = scratch.fails(4, STEP);
    assert!(failed.stderr.contains("HTTP 500"), "{failed}");
    work_again(&scratch);
    // Both children pass the screens, and then every cell of the race fails.
    for _ in 0..2 {
        scratch.ok("optimise step --experiment e --once");
    }
    fail_on(&scratch, &json!({}));
    let failed = scratch.fails(4, STEP);
    assert!(failed.stderr.contains("Nothing was decided"), "{failed}");
    work_again(&scratch);
    let found = step(&scratch);
    assert_eq!(found["waiting_for"], "judge", "{found:#}");
    assert_eq!(children_of(&scratch), 4);
}

#[test]
fn a_loop_needs_an_experiment_of_its_own() {
    let scratch = scratch(&fixing_rounds());
    let collect =
        "collect --task task --models scripted:m --script script.json --n-tips 2 --seed 7";
    for (place, experiment) in [("e", "e"), ("f.search", "f")] {
        scratch.ok(format!("{collect} --experiment {place}").as_str());
        let line = START.replace("--experiment e", &format!("--experiment {experiment}"));
        let refused = scratch.fails(2, line.as_str());
        let words = format!("the experiment '{place}' has 8 runs already");
        assert!(refused.stderr.contains(&words), "{refused}");
    }
}

#[test]
fn a_gate_that_no_nominee_could_pass_is_refused_at_the_start() {
    let scratch = scratch(&fixing_rounds());
    let few = scratch.fails(2, START.replace("--n-tips 2", "--n-tips 1").as_str());
    assert!(few.stderr.contains("16 candidates"), "{few}");
    assert!(few.stderr.contains("the gate needs 30"), "{few}");
    scratch.write("assize.toml", "[gate]\nrequire = [\"auto\"]\n");
    let alone = scratch.fails(2, START);
    assert!(alone.stderr.contains("double_scored"), "{alone}");
}

#[test]
fn money_holds_over_all_steps() {
    let scratch = scratch_with(&fixing_rounds(), &json!({"cost_usd": 0.01}), 0);
    edit_script(&scratch, |models| {
        models["m"]["responses"][0]["cost_usd"] = json!(0.02);
    });
    start(&scratch, "--max-cost 0.1");
    for _ in 0..3 {
        let refused = scratch.fails(3, STEP);
        assert!(refused.stderr.contains("higher --max-cost"), "{refused}");
    }
    let runs = scratch
        .ok("runs list --experiment e.search --limit 0 --json")
        .json();
    let runs = runs["runs"].as_array().expect("a list");
    // Two outputs of a scenario cost 0.04: the third scenario passes the limit, and nothing is judged.
    assert_eq!(runs.len(), 3, "{runs:#?}");
}

#[test]
fn a_case_that_the_judge_cannot_score_is_an_error_with_a_remedy() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    let status = || scratch.ok("optimise status --experiment e --json").json();
    while status()["state"] != "pending_judgement" {
        scratch.ok("optimise step --experiment e --once");
    }
    edit_script(&scratch, |models| {
        models["j"] = json!({"parameter_count": 1, "responses": [{"texts": ["I cannot say."]}]});
    });
    let failed = scratch.run(STEP);
    assert_ne!(failed.code, 0, "{failed}");
    assert!(failed.stderr.contains("the step again"), "{failed}");
    assert_eq!(status()["waiting_for"], "judge");
}

#[test]
fn steps_use_the_tracking_uri_of_the_start() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "--tracking-uri sqlite:own.db");
    assert_eq!(step(&scratch)["waiting_for"], "judge");
    assert!(!scratch.file(".assize/assize.db").exists());
    let refused = scratch.fails(2, format!("{STEP} --tracking-uri sqlite:other.db").as_str());
    assert!(
        refused.stderr.contains("--tracking-uri sqlite:own.db"),
        "{refused}"
    );
    assert!(!scratch.file("other.db").exists());
}

#[test]
fn a_step_that_waits_for_judges_needs_no_model_and_a_replaced_model_is_refused() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    let script = scratch.read("script.json");
    std::fs::remove_file(scratch.file("script.json")).expect("the script is there");
    assert_eq!(step(&scratch)["waiting_for"], "judge");
    scratch.write("script.json", &script);
    judge(&scratch, "selection.json");
    edit_script(&scratch, |models| models["m"]["parameter_count"] = json!(2));
    let refused = scratch.fails(2, STEP);
    assert!(
        refused.stderr.contains("scripted:m has changed"),
        "{refused}"
    );
    scratch.write("script.json", &script);
    assert_eq!(step(&scratch)["waiting_for"], "confirmation");
}

#[test]
fn confirmation_scenarios_that_are_added_while_it_waits_are_collected() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    judge(&scratch, "selection.json");
    assert_eq!(step(&scratch)["waiting_for"], "confirmation");
    let more = json!({"id": "c8", "split": "confirmation", "topic": topic("c8")});
    let scenarios = scratch.read("task/scenarios.jsonl");
    scratch.write("task/scenarios.jsonl", &format!("{scenarios}\n{more}"));
    assert_eq!(step(&scratch)["waiting_for"], "confirmation");
    judge(&scratch, "confirmation.json");
    let found = step(&scratch);
    assert_eq!(found["state"], "promoted", "{found:#}");
}

#[test]
fn an_edited_prompt_of_the_champion_is_not_taken_for_its_text() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    for file in ["selection.json", "confirmation.json"] {
        judge(&scratch, file);
        step(&scratch);
    }
    let text = scratch
        .ok("optimise show --experiment e --text r2c1")
        .stdout;
    scratch.write(
        "task/prompts/p1.r2c1.md",
        &format!("{text}And name a day.\n"),
    );
    let again = START.replace("--experiment e", "--experiment f --prompt p1.r2c1");
    let refused = scratch.fails(2, again.as_str());
    assert!(refused.stderr.contains("was edited"), "{refused}");
    scratch.write("task/prompts/p1.r2c1.md", &text);
    scratch.ok(again.as_str());
}
