//! `assize import promptfoo`, compared with promptfoo itself.
//!
//! tests/data/promptfoo is a configuration of ten prompts and fifty cases, with recorded answers
//! (answers.json) and what promptfoo makes of them (results.json).

#![expect(
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print what they skip"
)]

use std::collections::BTreeMap;
use std::process::Command;

use assize_test_support::{Outcome, Scratch, limits, root, set_up};
use serde_json::{Value, json};

const DATA: &str = "tests/data/promptfoo";
/// The newest version that runs on Node.js 20 as well as 22.
const PROMPTFOO: &str = "promptfoo@0.121.20";

/// Prompt and case, and whether it passed with which score.
type Results = BTreeMap<(String, String), (bool, f64)>;

/// A scratch folder with the configuration and its files.
fn configured() -> Scratch {
    let scratch = Scratch::new();
    let files = [
        "promptfooconfig.yaml",
        "tests.csv",
        "answers.json",
        "provider.mjs",
        "results.json",
        "prompts/one.txt",
        "prompts/two.txt",
        "prompts/chat.json",
        "prompts/chat.yaml",
    ];
    for file in files {
        let text = std::fs::read_to_string(root().join(DATA).join(file)).expect(file);
        scratch.write(file, &text);
    }
    scratch
}

/// The recorded answers as a script.
fn script(scratch: &Scratch) -> String {
    let answers = scratch.read_json("answers.json");
    let mut responses = Vec::new();
    for (prompt, cases) in answers.as_object().expect("prompts") {
        for (case, text) in cases.as_object().expect("cases") {
            responses.push(json!({"prompt": prompt, "scenario": case, "texts": [text]}));
        }
    }
    json!({"models": {"recorded": {"parameter_count": 1_000_000, "responses": responses}}})
        .to_string()
}

/// What Assize computed for every cell.
fn ours(scratch: &Scratch) -> Results {
    let lines = scratch.ok("runs export --experiment e").json_lines();
    let result = |line: &Value| {
        let text = |key: &str| line["params"][key].as_str().expect(key).to_owned();
        let scores = &line["candidate"]["scores"];
        let score = |name: &str| {
            scores[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {line}"))
        };
        (
            (text("prompt"), text("scenario")),
            (score("passed") > 0.5, score("score")),
        )
    };
    lines.iter().map(result).collect()
}

fn recorded(scratch: &Scratch) -> Results {
    let results = scratch.read_json("results.json");
    let mut found = Results::new();
    for (prompt, cases) in results["cells"].as_object().expect("prompts") {
        for (case, it) in cases.as_object().expect("cases") {
            let result = (
                it["pass"].as_bool().expect("pass"),
                it["score"].as_f64().expect("score"),
            );
            found.insert((prompt.clone(), case.clone()), result);
        }
    }
    found
}

#[track_caller]
fn assert_same(theirs: &Results, ours: &Results) {
    assert_eq!(theirs.len(), 500);
    assert_eq!(ours.len(), 500);
    for (cell, (pass, score)) in theirs {
        let own = ours
            .get(cell)
            .unwrap_or_else(|| panic!("{cell:?} is missing"));
        assert!(
            own.0 == *pass && (own.1 - score).abs() < 1e-9,
            "{cell:?}: promptfoo {pass} {score}, here {own:?}"
        );
    }
}

#[test]
fn every_case_has_the_result_that_promptfoo_gives_it() {
    let scratch = configured();
    let imported = scratch
        .ok("import promptfoo promptfooconfig.yaml task --json")
        .json();
    assert_eq!(
        (&imported["prompts"], &imported["scenarios"]),
        (&json!(10), &json!(50))
    );
    let notes = imported["notes"].as_array().expect("notes");
    assert_eq!(notes.len(), 1, "only the provider: {notes:?}");
    assert!(
        notes[0].as_str().expect("a note").contains("provider.mjs"),
        "{notes:?}"
    );
    scratch.write("script.json", &script(&scratch));
    scratch
        .ok("collect --task task --models scripted:recorded --script script.json --experiment e");
    let board = scratch.board("e");
    assert_eq!(board["coverage"]["judged"], 500, "{board}");
    let ours = ours(&scratch);
    let recorded = recorded(&scratch);
    assert_same(&recorded, &ours);
    let best = recorded
        .iter()
        .filter(|(cell, it)| cell.0 == "plain" && it.0)
        .count();
    assert_eq!(board["rows"][0]["prompt"], "plain");
    assert!(
        (board["rows"][0]["composite"]["mean"]
            .as_f64()
            .expect("a mean")
            - best as f64 / 50.0)
            .abs()
            < 1e-9
    );
    if let Some(live) = evaluated(&scratch) {
        assert_same(&live, &ours);
    }
}

/// What promptfoo itself says now; `None`, with a message, where it cannot be had.
fn evaluated(scratch: &Scratch) -> Option<Results> {
    let folder = match set_up("scripts/node-env.sh", &["promptfoo", PROMPTFOO]) {
        Ok(folder) => folder,
        Err(reason) => {
            eprintln!("SKIPPED: {PROMPTFOO} cannot be had here: {reason}");
            return None;
        }
    };
    let _slot = limits::heavyweight();
    let words = [
        "eval",
        "-c",
        "promptfooconfig.yaml",
        "-o",
        "out.json",
        "--no-write",
        "--no-cache",
        "--no-table",
    ];
    let output = Command::new(format!("{folder}/node_modules/.bin/promptfoo"))
        .args(words)
        .current_dir(scratch.path())
        .env("HOME", scratch.path())
        .env("PROMPTFOO_CONFIG_DIR", scratch.file("promptfoo"))
        .env("PROMPTFOO_DISABLE_TELEMETRY", "1")
        .env("PROMPTFOO_DISABLE_UPDATE", "1")
        .output()
        .expect("promptfoo runs");
    let outcome = Outcome::of(&output);
    if !scratch.file("out.json").exists() {
        eprintln!("SKIPPED: promptfoo does not run here: {outcome}");
        return None;
    }
    let results = scratch.read_json("out.json");
    let results = results["results"]["results"]
        .as_array()
        .expect("results")
        .clone();
    let result = |it: &Value| {
        let label = it["prompt"]["label"].as_str().expect("a label");
        let label = label.split(':').next().unwrap_or_default().to_owned();
        let case = it["testCase"]["description"]
            .as_str()
            .expect("a case")
            .to_owned();
        (
            (label, case),
            (
                it["success"] == true,
                it["score"].as_f64().expect("a score"),
            ),
        )
    };
    Some(results.iter().map(result).collect())
}

/// A configuration with much that has no counterpart.
const ODDS: &str = r#"
description: Odds and ends
prompts:
  - file://p/*.txt
  - file://prompt.py
  - '[{"role":"system","content":"Be {{ mood }}."},{"role":"user","content":"{{ topic }}"}]'
providers:
  - ollama:chat:llama3.2:3b
  - id: openai:gpt-4o-mini
    config: {temperature: 0, top_p: 1}
  - anthropic:messages:claude
nunjucksFilters: {x: y.js}
defaultTest:
  vars: {mood: calm}
  assert: [{type: llm-rubric, value: 'Speaks of {{ topic }}'}]
assertionTemplates:
  polite: {type: icontains, value: please}
tests:
  - vars: {topic: [cats, dogs]}
    assert:
      - {type: javascript, value: 'output.length > 3'}
      - {type: similar, value: x}
      - {$ref: '#/assertionTemplates/polite'}
      - {type: regex, value: '(?=x)'}
      - {type: contains, value: '{{ topic | upper }}'}
"#;

#[test]
fn what_cannot_be_carried_over_is_listed() {
    let scratch = Scratch::new();
    scratch.write(
        "p/a.txt",
        "First about {{ topic }}\n---\nSecond about {{ topic }} {{ id }}\n",
    );
    scratch.write("p/b.txt", "Third about {{ topic }}\n");
    scratch.write("config.yaml", ODDS);
    let imported = scratch
        .ok("import promptfoo config.yaml task --json")
        .json();
    assert_eq!(
        (&imported["prompts"], &imported["scenarios"]),
        (&json!(4), &json!(2)),
        "{imported}"
    );
    assert_eq!(
        imported["models"],
        json!(["llama3.2:3b", "openai:gpt-4o-mini"])
    );
    let notes = imported["notes"].to_string();
    for part in [
        "nunjucksFilters",
        "prompt.py",
        "anthropic:messages:claude",
        "top_p",
        "temperature of single providers",
        "'javascript' of test 1",
        "'similar' of test 1",
        "'regex' of test 1",
        "'contains' of test 1",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let listed = scratch.read("task/import-notes.md");
    assert_eq!(
        listed.matches("\n- ").count(),
        imported["notes"].as_array().map_or(0, Vec::len)
    );
    let scenarios = scratch.read("task/scenarios.jsonl");
    let first: Value =
        serde_json::from_str(scenarios.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["rubric"], "Speaks of cats");
    assert_eq!(first["expect"]["rules"], json!([{"contains": ["please"]}]));
    assert_eq!(
        (&first["mood"], &first["topic"]),
        (&json!("calm"), &json!("cats"))
    );
    assert!(
        scratch
            .read("task/prompts/p04.md")
            .contains("system = \"Be {{ mood }}.\"")
    );
    scratch.ok("validate task");
    // A judge is asked about the rubric only.
    scratch.write(
        "script.json",
        &assize_test_support::script(&[("m", &["Cats, please."])]),
    );
    scratch.ok("collect --task task --models scripted:m --script script.json --experiment e");
    let file = scratch.export("e", "judge.json");
    let scores = file["cases"][0]["scores"].as_object().expect("scores");
    assert_eq!(scores.keys().collect::<Vec<_>>(), ["meets_rubric"]);
}

#[test]
fn hostile_and_broken_configurations_are_refused() {
    let scratch = Scratch::new();
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    bomb.push_str("prompts: [x]\n");
    let cases = [
        ("bomb.yaml", bomb.as_str(), "is not YAML that can be read"),
        (
            "broken.yaml",
            "prompts: [x\ntests: {",
            "is not YAML that can be read",
        ),
        ("empty.yaml", "tests: []\n", "has no prompts"),
        ("list.yaml", "- a\n", "is not a promptfoo configuration"),
        (
            "missing.yaml",
            "prompts: [file://nothing.txt]\n",
            "nothing.txt",
        ),
        (
            "template.yaml",
            "prompts: ['{{ x']\ntests: [{vars: {x: 1}}]\n",
            "prompts/p01.md",
        ),
    ];
    for (file, text, message) in cases {
        scratch.write(file, text);
        let refused = scratch.fails(2, &format!("import promptfoo {file} task"));
        assert!(refused.stderr.contains(message), "{refused}");
        assert!(!scratch.file("task").exists());
    }
}
