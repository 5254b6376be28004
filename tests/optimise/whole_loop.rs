//! A loop from its start to a promotion, and to a refusal.

use assize_domain::run::RunStatus;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_store::{Copying as _, RunQuery, Runs as _};
use assize_test_support::Scratch;
use serde_json::{Value, json};

use crate::fixture::{
    START, STEP, child, child_of, compute, fixing_rounds, judge, lineage, scratch, start, step,
    with,
};

fn champion(scratch: &Scratch) -> Value {
    let history = scratch.ok("promote history --task task --json").json();
    let entries = history["promotions"].as_array().expect("entries");
    entries
        .last()
        .map_or(Value::Null, |it| it["champion"].clone())
}

#[test]
fn planted_defects_are_fixed_and_the_fix_is_promoted() {
    let scratch = scratch(&fixing_rounds());
    let plan = scratch.ok(format!("{START} --dry-run").as_str());
    assert!(plan.stdout.contains("at most 64 verdicts"), "{plan}");
    scratch.fails(2, STEP);
    let started = start(&scratch, "");
    assert!(
        started
            .stderr
            .contains("assize optimise step --experiment e"),
        "{started}"
    );
    let twice = scratch.fails(2, START);
    assert!(twice.stderr.contains("has a loop already"), "{twice}");

    let found = step(&scratch);
    assert_eq!(found["state"], "pending_judgement", "{found:#}");
    assert_eq!(found["waiting_for"], "judge");
    assert_eq!(found["nominee"], "r2c1");
    assert_eq!(child_of(&found, "r1c2")["state"], "rejected");
    let leader = child_of(&found, "r1c1");
    assert!(leader["feedback"]["mean"].as_f64() > Some(3.0), "{leader}");
    assert!(leader["feedback"]["ci95"].is_array());
    assert_eq!(found["budget"]["rounds"], 2);
    assert_eq!(found["budget"]["children"], 4);
    assert_eq!(found["budget"]["expert_verdicts"], 0);
    assert!(found["budget"]["auto_verdicts"].as_u64() <= Some(300));
    // Experts see nominee and incumbent on the selection split, and nothing of the search.
    let file = scratch.export("e", "peek.json");
    assert_eq!(file["cases"].as_array().map(Vec::len), Some(32));
    assert_eq!(champion(&scratch), Value::Null);

    judge(&scratch, "selection.json");
    let found = step(&scratch);
    assert_eq!(found["state"], "confirming", "{found:#}");
    assert_eq!(found["waiting_for"], "confirmation");
    let sealed = scratch.fails(3, "compare --experiment e --split confirmation");
    assert!(sealed.stderr.contains("sealed"), "{sealed}");
    judge(&scratch, "confirmation.json");
    let done = scratch.ok("optimise step --experiment e");
    assert!(done.stderr.contains("is the champion"), "{done}");
    let found = scratch.ok("optimise status --experiment e --json").json();
    assert_eq!(found["state"], "promoted", "{found:#}");
    assert_eq!(found["waiting_for"], Value::Null);
    assert_eq!(found["budget"]["expert_verdicts"], 64);
    assert_eq!(champion(&scratch)["prompt"], "p1.r2c1");
    assert_eq!(champion(&scratch)["body"], with(&["be brief", "be kind"]));

    let idle = scratch.ok("optimise step --experiment e");
    assert!(idle.stderr.contains("nothing to do"), "{idle}");
    let tree = scratch.ok("optimise show --experiment e");
    insta::assert_snapshot!("tree", tree.stdout);
    assert!(tree.stdout.lines().all(|line| line.chars().count() <= 80));
    let diff = scratch.ok("optimise diff --experiment e seed r2c1").stdout;
    assert!(
        diff.contains("+You give advice") && diff.contains("-You give advice"),
        "{diff}"
    );
    let text = scratch
        .ok("optimise show --experiment e --text r2c1")
        .stdout;
    assert!(text.contains(&with(&["be brief", "be kind"])), "{text}");
    let ledger = scratch.ok("promote ledger --experiment e --json").json();
    assert!(ledger.to_string().contains("passed"), "{ledger}");
}

#[test]
fn the_loop_is_a_run_with_the_keys_of_mlflow_and_the_nominee_a_version() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    judge(&scratch, "selection.json");
    step(&scratch);
    judge(&scratch, "confirmation.json");
    step(&scratch);
    let path = scratch.file(".assize/assize.db");
    let store = EmbeddedStore::open(&path, || 0, random_run_id).expect("a store");
    let runs = store
        .run_list("e", &RunQuery::default())
        .expect("runs")
        .runs;
    let run = runs
        .iter()
        .find(|it| it.name == "optimise e")
        .expect("a run");
    let whole = store.run_get_whole(&run.run_id).expect("all of it");
    let point = |key: &str, step: i64| {
        let mut points = whole.points.iter();
        let found = points.find(|it| it.key == key && it.step == step);
        found.map_or(f64::NAN, |it| it.value)
    };
    assert!(point("initial_eval_score", 0) < point("eval_score", 1));
    assert!(point("eval_score", 1) < point("eval_score", 2));
    // Of the experts on the confirmation split: one defect is left.
    assert!(
        (point("final_eval_score", 2) - 7.5).abs() < 1e-9,
        "{whole:#?}"
    );
    let files: Vec<&str> = whole.files.iter().map(|it| it.0.as_str()).collect();
    for file in [
        "p1.r1c1.txt",
        "p1.r1c2.txt",
        "eval_results.json",
        "scores.json",
    ] {
        let path = format!("prompt_candidates/iteration_1/{file}");
        assert!(files.contains(&path.as_str()), "{path}: {files:?}");
    }
    let value = |entries: &[(String, String)], key: &str| {
        let found = entries.iter().find(|it| it.0 == key);
        found.map_or_else(String::new, |it| it.1.clone())
    };
    assert_eq!(value(&whole.run.params, "num_training_samples"), "8");
    assert_eq!(value(&whole.run.params, "source_prompt_uri"), "p1");
    assert_eq!(
        value(&whole.run.tags, "mlflow.linkedPrompts"),
        "[{\"name\":\"advice\",\"version\":\"1\"}]"
    );
    assert_eq!(whole.run.status, RunStatus::Finished);
    let version = store
        .mlflow()
        .version_by_alias("advice", "challenger")
        .expect("the challenger");
    assert_eq!(version.description, "friendly answers are read");
    let tag = |key: &str| {
        let found = version.tags.iter().find(|it| it.key == key);
        found.map_or("", |it| it.value.as_str())
    };
    assert_eq!(tag("optimise.parents"), "r1c1,seed");
    assert_eq!(tag("optimise.reflector"), "script:children.json");
    assert!(
        tag("optimise.feedback")
            .split(',')
            .all(|it| it.starts_with('f'))
    );
    // The run of the loop is not a cell.
    assert_eq!(scratch.board("e")["coverage"]["cells"], 16);
}

#[test]
fn the_next_loop_starts_from_the_champion() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    judge(&scratch, "selection.json");
    step(&scratch);
    judge(&scratch, "confirmation.json");
    step(&scratch);
    let fixed = with(&["be brief", "be kind", "name a time"]);
    let rounds = json!({"rounds": [[child("a time makes it usable", &fixed)]]});
    scratch.write("children.json", &rounds.to_string());
    // Neither the prompt nor the model is named: both are the champion's.
    let again = START
        .replace("--experiment e", "--experiment f")
        .replace("--models scripted:m ", "");
    let plan = scratch
        .ok(format!("{again} --dry-run --json").as_str())
        .json();
    assert_eq!(plan["plan"]["seed"], "p1.r2c1");
    assert_eq!(
        plan["plan"]["incumbent"],
        json!({"model": "scripted:m", "prompt": "p1.r2c1", "settings": null})
    );
    scratch.ok(again.as_str());
    let found = scratch.ok("optimise step --experiment f --json").json();
    assert_eq!(found["nominee"], "r1c1", "{found:#}");
    assert_eq!(found["state"], "pending_judgement");
}

#[test]
fn a_nominee_that_experts_do_not_prefer_is_refused_and_nothing_moves() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    step(&scratch);
    scratch.judge(
        "e",
        "s.json",
        "--judge-kind human --judged-by Ana",
        |case| {
            let length = case["candidate"].as_str().map_or(0, str::len);
            let score = 2 + i64::try_from(length % 2).expect("small");
            case["scores"] = json!({"worth": score, "tone": 3});
        },
    );
    let refused = scratch.fails(3, STEP).json();
    assert_eq!(refused["state"], "rejected");
    let nominee = child_of(&refused, "r2c1");
    assert_eq!(nominee["state"], "rejected");
    assert!(
        nominee["reason"]
            .as_str()
            .is_some_and(|it| it.contains("p_adjusted")),
        "{nominee}"
    );
    assert_eq!(champion(&scratch), Value::Null);
    // The gate has spoken; the next step has nothing to do.
    scratch.ok(STEP);
}

#[test]
fn the_same_seed_and_script_make_the_same_bytes() {
    let run = || {
        let scratch = scratch(&fixing_rounds());
        start(&scratch, "");
        step(&scratch);
        lineage(&scratch)
    };
    let first = run();
    assert!(first.contains("be brief"));
    assert_eq!(first, run());
}

#[test]
fn an_agent_is_waited_for_without_doing_anything_twice() {
    let scratch = scratch(&fixing_rounds());
    let line = START.replace("script:children.json", "agent");
    scratch.ok(line.as_str());
    let found = step(&scratch);
    assert_eq!(found["waiting_for"], "reflector", "{found:#}");
    assert_eq!(found["state"], "reflecting");
    let before = lineage(&scratch);
    // Nobody is asked while it waits: the model's script may be gone.
    scratch.write("script.json", "gone");
    let waiting = scratch.ok("optimise step --experiment e");
    assert!(waiting.stderr.contains("/reflect"), "{waiting}");
    assert_eq!(lineage(&scratch), before);
    let stopped = scratch
        .ok("optimise stop --experiment e --reason enough --json")
        .json();
    assert_eq!(stopped["state"], "rejected");
    assert!(
        stopped["reason"]
            .as_str()
            .is_some_and(|it| it.contains("enough"))
    );
}

#[test]
fn a_task_that_has_changed_is_refused() {
    let scratch = scratch(&fixing_rounds());
    start(&scratch, "");
    let rubric = scratch.read("task/rubric.md");
    scratch.write(
        "task/rubric.md",
        &rubric.replace("Judge it.", "Judge it well."),
    );
    let refused = scratch.fails(2, STEP);
    assert!(refused.stderr.contains("have changed"), "{refused}");
    scratch.write("task/rubric.md", &rubric);
    step(&scratch);
}

#[test]
fn a_loop_with_computed_criteria_needs_no_judge_at_all() {
    let scratch = scratch(&fixing_rounds());
    let without = START.replace("--judge scripted:j ", "");
    let refused = scratch.fails(2, without.as_str());
    assert!(refused.stderr.contains("needs --judge MODEL"), "{refused}");
    compute(&scratch);
    let plan = scratch.ok(format!("{START} --dry-run").as_str());
    assert!(plan.stderr.contains("scripted:j is not asked"), "{plan}");
    let started = scratch.ok(without.as_str());
    assert!(
        started
            .stdout
            .contains("judge       none: every criterion is computed")
            && started.stdout.contains("expert      none"),
        "{started}"
    );
    // Nobody is waited for: one step goes from the seed to the promotion.
    let found = step(&scratch);
    assert_eq!(found["state"], "promoted", "{found:#}");
    assert_eq!(found["nominee"], "r2c1");
    assert_eq!(found["budget"]["expert_verdicts"], 0, "{found:#}");
    assert_eq!(champion(&scratch)["body"], with(&["be brief", "be kind"]));
}
