//! Prompts of several messages: the example task `examples/chat`, run with scripted models.

use assize_test_support::{Scratch, cells, root};
use serde_json::{Value, json};

/// The example in a scratch folder, and a script whose answers depend on how the conversation is sent.
fn example() -> Scratch {
    let scratch = Scratch::new();
    copy(&root().join("examples/chat"), &scratch, "chat");
    let answers = json!({"models": {
        "desk": {"parameter_count": 500_000_000, "responses": [
            {"prompt": "v1-transcript", "prompt_contains": "assistant: ", "texts": ["assistant: What is your address?"]},
            {"prompt": "v1-transcript", "texts": ["I will look that up for you today."]},
            {"prompt": "v3-shown", "prompt_contains": "torn cover", "texts": ["As you said before; it leaves today and is with you on Thursday."]},
            {"prompt": "*", "texts": ["We know that from before and do it today."]},
        ]},
        "judge": {"parameter_count": 500_000_000, "judge": {}, "scores": {"": {"memory": 3, "help": 3, "tone": 3}}, "adjustments": [
            {"candidate_contains": "before", "points": {"memory": 1}},
            {"candidate_contains": "Thursday", "points": {"help": 2}},
        ]},
    }});
    scratch.write("script.json", &answers.to_string());
    scratch
}

fn copy(from: &std::path::Path, scratch: &Scratch, to: &str) {
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let name = format!("{to}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            copy(&entry.path(), scratch, &name);
        } else {
            scratch.write(
                &name,
                &std::fs::read_to_string(entry.path()).expect("a text"),
            );
        }
    }
}

const COLLECT: &str =
    "collect --task chat --models scripted:desk --script script.json --experiment e --json";

#[test]
fn the_example_with_history_is_collected_judged_and_compared() {
    let scratch = example();
    scratch.ok("validate chat");
    let collected = scratch.ok(COLLECT);
    let cells = cells(&collected);
    assert_eq!(cells.len(), 18, "{collected}");
    let shown = |prompt: &str, scenario: &str| -> Value {
        let cell = cells
            .iter()
            .find(|it| it["prompt"] == prompt && it["scenario"] == scenario);
        let id = cell.expect("such a cell")["run_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        scratch.ok(&format!("runs show {id} --json")).json()
    };
    let turns = shown("v2-turns", "gift-wrap");
    let text = turns["prompt_text"].as_str().expect("a text");
    let roles: Vec<&str> = text.lines().filter(|it| it.starts_with('[')).collect();
    assert_eq!(
        roles,
        [
            "[system]",
            "[user]",
            "[assistant]",
            "[user]",
            "[assistant]",
            "[user]"
        ],
        "{text}"
    );
    assert!(text.trim_end().ends_with("When does it leave?"), "{text}");
    // Without a history there is only the customer's message.
    let first = shown("v2-turns", "first-contact");
    assert_eq!(
        first["prompt_text"]
            .as_str()
            .expect("a text")
            .matches("[user]")
            .count(),
        1
    );
    // The answer that goes on with the transcript is flagged.
    let flagged = shown("v1-transcript", "late-parcel");
    assert_eq!(
        flagged["candidates"][0]["flags"]["format_ok"], false,
        "{flagged:#}"
    );

    scratch.ok("judge auto --task chat --experiment e --judge scripted:judge --script script.json");
    let board = scratch
        .ok("compare --experiment e --tier auto --json")
        .json();
    assert_eq!(board["rows"][0]["prompt"], "v3-shown", "{board:#}");
    assert_eq!(board["rows"][2]["prompt"], "v1-transcript");
    let again = scratch.ok(COLLECT);
    assert_eq!(again.summary()["skipped"], 18, "{again}");
}

#[test]
fn another_system_message_is_swept() {
    let scratch = example();
    let swept = scratch.ok(format!(
        "{COLLECT} --prompts v2-turns --sweep system=own,warm --n-scenarios 1"
    )
    .as_str());
    let cells = cells(&swept);
    assert_eq!(cells.len(), 2);
    let warm = cells
        .iter()
        .find(|it| it["settings"] == json!({"system": "warm"}))
        .expect("a cell");
    let shown = scratch
        .ok(&format!(
            "runs show {} --json",
            warm["run_id"].as_str().expect("an id")
        ))
        .json();
    assert!(
        shown["prompt_text"]
            .as_str()
            .expect("a text")
            .contains("Ines's favourite bookseller"),
        "{shown:#}"
    );
    assert_eq!(
        shown["name"],
        "scripted:desk × v2-turns+system=warm × late-parcel"
    );
}

#[test]
fn mistakes_in_conversations_are_reported_with_their_place() {
    let scratch = example();
    scratch.write(
        "chat/prompts/v2-turns.md",
        "[user]\nHi\n[assistant]\nHello\n",
    );
    let wrong = scratch.fails(2, "validate chat");
    assert!(
        wrong
            .stdout
            .contains("prompts/v2-turns.md:4: the conversation must end with the user's message")
            || wrong.stderr.contains(
                "prompts/v2-turns.md:4: the conversation must end with the user's message"
            ),
        "{wrong}"
    );
    scratch.write(
        "chat/prompts/v2-turns.md",
        "[history topic]\n[user]\n{{ message }}\n",
    );
    let wrong = scratch.fails(2, "validate chat");
    assert!(
        wrong.to_string().contains("must be a list of messages"),
        "{wrong}"
    );
}
