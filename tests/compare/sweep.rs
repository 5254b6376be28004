//! Sweeps: settings as part of the pair, from collecting to promotion and rollback.

use assize_test_support::promotion_task::{ahead, judge, scratch};
use assize_test_support::{Outcome, Scratch};
use serde_json::{Value, json};

const COLLECT: &str = "collect --task task --models scripted:m --script script.json --experiment e --n-tips 2 \
                       --prompts p1";
const PROMOTE: &str = "promote --task task --experiment e";
const SWEEP: &str = "--sweep temperature=0.2,0.7";

/// The colder setting is ahead of the default in every scenario.
fn swept_task() -> Scratch {
    let scratch = scratch(ahead);
    let script = std::fs::read_to_string(scratch.file("script.json")).expect("a script");
    let mut script: Value = serde_json::from_str(&script).expect("JSON");
    let responses = script["models"]["m"]["responses"]
        .as_array_mut()
        .expect("responses");
    let colder: Vec<Value> = responses
        .iter()
        .filter(|it| it["prompt"] == "p2")
        .map(|it| json!({"prompt": "p1+temperature=0.2", "scenario": it["scenario"], "texts": it["texts"]}))
        .collect();
    responses.splice(0..0, colder);
    scratch.write("script.json", &script.to_string());
    scratch
}

fn events(outcome: &Outcome, status: &str) -> Vec<Value> {
    let lines = outcome.stdout.lines();
    let events = lines.map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
    events.filter(|it| it["status"] == status).collect()
}

/// The gate asks for the confirmation split with the settings of both pairs, and its commands work.
fn confirm_and_promote(scratch: &Scratch) {
    let refused = scratch
        .fails(3, format!("{PROMOTE} --json").as_str())
        .json();
    let next: Vec<&str> = refused["next"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let collects: Vec<&&str> = next.iter().filter(|it| it.contains("--sweep")).collect();
    assert_eq!(collects.len(), 2, "{next:?}");
    assert!(
        collects[0].contains("--sweep temperature=0.2") && !collects[0].contains("--temperature"),
        "{next:?}"
    );
    for command in collects {
        scratch.ok(command.strip_prefix("assize ").expect("a command"));
    }
    judge(scratch);
    let done = scratch.ok(PROMOTE);
    assert!(
        done.stderr
            .contains("scripted:m × p1+temperature=0.2 is the champion"),
        "{done}"
    );
}

#[test]
fn pairs_that_differ_in_a_setting_are_ranked_and_promoted() {
    let scratch = swept_task();
    // The default is collected first, without a sweep: its cells are the sweep's cells of 0.7.
    scratch.ok(COLLECT);
    let swept = scratch.ok(format!("{COLLECT} {SWEEP} --json").as_str());
    assert_eq!(events(&swept, "skipped").len(), 8, "{swept}");
    let collected = events(&swept, "collected");
    assert_eq!(collected.len(), 8);
    assert!(
        collected
            .iter()
            .all(|it| it["prompt"] == "p1" && it["settings"] == json!({"temperature": 0.2}))
    );
    let exported = scratch.export("e", "blind.json");
    assert!(
        !exported.to_string().contains("temperature"),
        "judges are blind to settings"
    );
    judge(&scratch);

    let board = scratch.board("e");
    let rows = board["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{board:#}");
    assert_eq!(
        (&rows[0]["prompt"], &rows[0]["settings"]),
        (&json!("p1"), &json!({"temperature": 0.2}))
    );
    assert_eq!(rows[1]["settings"], json!({"temperature": 0.7}));
    assert_eq!(
        board["incumbent"]["settings"],
        json!({"temperature": 0.7}),
        "the first run is of the default"
    );
    assert_eq!(
        board["decision"]["winner"]["settings"],
        json!({"temperature": 0.2})
    );
    assert!(
        !board["warnings"].to_string().contains("different settings"),
        "{board:#}"
    );

    confirm_and_promote(&scratch);
    let history = scratch.ok("promote history --task task --json").json();
    let champion = &history["promotions"][0]["champion"];
    assert_eq!(
        (&champion["prompt"], &champion["settings"]["temperature"]),
        (&json!("p1"), &json!(0.2))
    );
    let board = scratch.board("e");
    assert_eq!(board["incumbent"]["settings"], json!({"temperature": 0.2}));

    // The default does not beat it, and there is nothing to roll back to.
    let back = format!("{PROMOTE} --candidate scripted:m/p1+temperature=0.7");
    scratch.fails(3, back.as_str());
    scratch.fails(2, "promote rollback --task task");
    let reopened =
        scratch.ok("judge reopen --experiment e --pairs scripted:m/p1+temperature=0.2 --json");
    assert!(
        reopened.stdout.contains("14") || reopened.stderr.contains("14"),
        "{reopened}"
    );
}

#[test]
fn settings_that_were_not_swept_still_stand_between_pairs() {
    let scratch = scratch(ahead);
    scratch.ok(COLLECT);
    let other = COLLECT.replace("--prompts p1", "--prompts p2 --temperature 0.1");
    scratch.ok(other.as_str());
    judge(&scratch);
    let board = scratch.board("e");
    assert!(
        board["warnings"].to_string().contains("different settings"),
        "{board:#}"
    );
    assert_eq!(board["rows"][0]["settings"], Value::Null);
}

#[test]
fn system_messages_and_options_of_the_model_can_be_swept() {
    let scratch = swept_task();
    scratch.write("task/systems/kind.md", "Be kind about {{ topic }}.\n");
    let sweep = format!("{COLLECT} --sweep system=own,kind --sweep top_k=5,40 --json");
    let first = scratch.ok(sweep.as_str());
    assert_eq!(events(&first, "collected").len(), 32, "{first}");
    let run = events(&first, "collected")
        .into_iter()
        .find(|it| it["settings"] == json!({"system": "kind", "top_k": 5}))
        .expect("such a cell");
    let shown = scratch
        .ok(&format!(
            "runs show {} --json",
            run["run_id"].as_str().expect("an id")
        ))
        .json();
    assert!(
        shown["prompt_text"]
            .as_str()
            .expect("text")
            .contains("Be kind about topic"),
        "{shown:#}"
    );
    let wrong = scratch.fails(2, format!("{COLLECT} --sweep system=rude").as_str());
    assert!(
        wrong.stderr.contains("use one of own, none, kind"),
        "{wrong}"
    );
}
