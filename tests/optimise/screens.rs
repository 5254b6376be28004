//! Children that are rejected before they cost a verdict.

use serde_json::json;

use crate::fixture::{SEED, START, child, child_of, scratch, step, topic, with};

#[test]
fn leaking_variable_dropping_overlong_and_repeated_children_are_screened() {
    let leaking = format!("{SEED} For example, act on the seven blue boats of my uncle.");
    let rounds = json!([
        [
            child("copies a scenario", &leaking),
            child("forgets the topic", &SEED.replace("{{ topic }}", "it")),
        ],
        [
            child(
                "much longer",
                &format!("{SEED} {}", "Think again. ".repeat(30))
            ),
            child("nothing new", SEED),
        ],
        [
            child("an unknown field", &SEED.replace("topic", "subject")),
            child("no template", "{% if %}"),
        ],
        "no JSON at all"
    ]);
    let scratch = scratch(&rounds);
    let lines = scratch.read("task/scenarios.jsonl");
    let lines = lines.replace(&topic("c3"), "the seven blue boats of my uncle");
    scratch.write("task/scenarios.jsonl", &lines);
    let line = START.replace("--rounds 2", "--rounds 4 --stale-rounds 4");
    scratch.ok(line.as_str());
    let found = step(&scratch);
    assert_eq!(found["state"], "rejected", "{found:#}");
    for (id, screen) in [
        ("r1c1", "leak"),
        ("r1c2", "variables"),
        ("r2c1", "length"),
        ("r2c2", "duplicate"),
        ("r3c1", "parse"),
        ("r3c2", "parse"),
    ] {
        let child = child_of(&found, id);
        assert_eq!(child["state"], "rejected");
        let reason = child["reason"].as_str().expect("a reason");
        assert!(reason.starts_with(&format!("{screen}: ")), "{id}: {reason}");
        assert_eq!(child["feedback"], json!(null));
    }
    // Only the seed was judged.
    assert_eq!(found["budget"]["auto_verdicts"], 16);
    assert_eq!(found["budget"]["children"], 6);
}

#[test]
fn templates_that_would_hang_a_step_are_screened() {
    let loops = |inner: &str| {
        let open = "{% for a in [0,1,2,3,4,5,6,7,8,9] %}".repeat(8);
        format!("{SEED}{open}{inner}{}", "{% endfor %}".repeat(8))
    };
    let rounds = json!([
        [
            child("turns", &loops("")),
            child("text", &loops("more and more"))
        ],
        [
            child(
                "width",
                &format!("{SEED}{{{{ topic|indent(9000000000) }}}}")
            ),
            child("repeats", &format!("{SEED}{{{{ topic * 90000000 }}}}")),
        ],
    ]);
    let scratch = scratch(&rounds);
    scratch.ok(START);
    let found = step(&scratch);
    for (id, screen) in [
        ("r1c1", "variables"),
        ("r1c2", "variables"),
        ("r2c1", "variables"),
        ("r2c2", "parse"),
    ] {
        let reason = child_of(&found, id)["reason"].as_str().expect("a reason");
        assert!(reason.starts_with(&format!("{screen}: ")), "{id}: {reason}");
    }
}

#[test]
fn a_child_whose_output_does_not_fit_the_contract_fails_the_smoke_test() {
    let rounds = json!([[child("asks for prose", &with(&["write prose"]))]]);
    let scratch = scratch(&rounds);
    let task = scratch.read("task/task.toml");
    scratch.write("task/task.toml", &task.replace("\"text\"", "\"json\""));
    let script = scratch.read("script.json");
    let mut script: serde_json::Value = serde_json::from_str(&script).expect("JSON");
    script["models"]["m"]["responses"] = json!([
        {"prompt_contains": "write prose", "texts": ["Once upon a time."]},
        {"texts": ["{\"tip\": 1}", "{\"tip\": 2}"]}
    ]);
    script["models"]["j"]["scores"] = json!({"*": 3});
    scratch.write("script.json", &script.to_string());
    let line = START.replace("--rounds 2", "--rounds 1");
    scratch.ok(line.as_str());
    let found = step(&scratch);
    let reason = child_of(&found, "r1c1")["reason"]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(reason.starts_with("smoke: "), "{reason}");
    // The candidate of the smoke test is not tracked.
    let runs = scratch
        .ok("runs list --experiment e.search --limit 0 --json")
        .json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(8));
}
