//! A task with planted defects: a scripted model makes a mistake for every phrase that the prompt lacks, and a
//! scripted judge takes points off for each.

use assize_test_support::{Outcome, Scratch};
use serde_json::{Value, json};

/// The defects: the phrase that prevents it, and what the output has without it.
pub const DEFECTS: [(&str, &str); 3] = [
    ("be brief", " It rambles on."),
    ("be kind", " You fool."),
    ("name a time", " Some day."),
];

pub const SEED: &str = "You give advice to people who are busy and who have to decide quickly. Write one \
                        useful sentence about {{ topic }} that the reader can act on without asking back.";

/// The field that every scenario has.
pub fn topic(id: &str) -> String {
    format!("the planning of matter {id} before the evening")
}

/// The seed with these phrases.
pub fn with(phrases: &[&str]) -> String {
    format!("{SEED} Please {}.", phrases.join(", "))
}

pub fn child(hypothesis: &str, prompt: &str) -> Value {
    json!({"hypothesis": hypothesis, "prompt": prompt})
}

/// Two rounds, after which two defects are fixed.
pub fn fixing_rounds() -> Value {
    json!([
        [
            child("short answers are used more", &with(&["be brief"])),
            child("polite words change nothing", &with(&["think"])),
        ],
        [
            child("friendly answers are read", &with(&["be brief", "be kind"])),
            child("a restart with other words", &with(&["answer well"])),
        ],
    ])
}

/// The folder of a task, a script of model and judge, and a reflector with these rounds.
pub fn scratch(rounds: &Value) -> Scratch {
    scratch_with(rounds, &json!({"noise": 0.3, "seed": 1}), 0)
}

pub fn scratch_with(rounds: &Value, judge: &Value, latency_ms: u32) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "task/task.toml",
        "name = \"advice\"\nscenarios = \"scenarios.jsonl\"\n\n[output]\nformat = \"text\"\n",
    );
    let anchors = "1 = \"a\"\n2 = \"b\"\n3 = \"c\"\n4 = \"d\"\n5 = \"e\"\n";
    scratch.write(
        "task/rubric.md",
        &format!(
            "+++\nid = \"advice-v1\"\ncomposite = \"worth + tone\"\n\
             [[criteria]]\nname = \"worth\"\nmin = 1\nmax = 5\n[criteria.anchors]\n{anchors}\
             [[criteria]]\nname = \"tone\"\nmin = 1\nmax = 5\n[criteria.anchors]\n{anchors}\
             +++\nJudge it.\n"
        ),
    );
    scratch.write("task/prompts/p1.md", &format!("{SEED}\n"));
    let splits = [
        ("feedback", "f", 8),
        ("selection", "s", 8),
        ("confirmation", "c", 8),
    ];
    let lines = splits.iter().flat_map(|(split, letter, count)| {
        (0..*count).map(move |n| {
            let id = format!("{letter}{n}");
            json!({"id": id, "split": split, "topic": topic(&id)}).to_string()
        })
    });
    scratch.write(
        "task/scenarios.jsonl",
        &lines.collect::<Vec<_>>().join("\n"),
    );
    let append = DEFECTS.map(|(phrase, text)| json!({"prompt_lacks": phrase, "text": text}));
    let adjustments = DEFECTS.map(|(phrase, text)| {
        json!({"candidate_contains": text.trim(), "points": -1, "reason": format!("It should {phrase}.")})
    });
    let script = json!({"models": {
        "m": {"parameter_count": 1, "responses": [
            {"texts": ["Do the first step now.", "Begin with the first step."], "append": append,
             "latency_ms": latency_ms}
        ]},
        "j": {"parameter_count": 1, "judge": judge, "scores": {"*": 5}, "adjustments": adjustments},
    }});
    scratch.write("script.json", &script.to_string());
    scratch.write("children.json", &json!({"rounds": rounds}).to_string());
    scratch
}

/// Gives the task a rubric that needs no judge: a point for every defect that is not there.
pub fn compute(scratch: &Scratch) {
    let names = ["brief", "kind", "time"];
    let criteria = names.iter().zip(DEFECTS).map(|(name, (_, text))| {
        let text = text.trim();
        format!("[[criteria]]\nname = \"{name}\"\n[criteria.computed]\nnot_contains = \"{text}\"\n")
    });
    let criteria: String = criteria.collect();
    scratch.write(
        "task/rubric.md",
        &format!(
            "+++\nid = \"advice-v2\"\ncomposite = \"{}\"\n{criteria}+++\nNobody judges it.\n",
            names.join(" + ")
        ),
    );
}

pub const START: &str = "optimise start --experiment e --task task --models scripted:m --judge scripted:j \
                         --script script.json --reflector script:children.json --n-tips 2 --children 2 \
                         --rounds 2 --seed 7";

pub const STEP: &str = "optimise step --experiment e --json";

pub fn start(scratch: &Scratch, more: &str) -> Outcome {
    scratch.ok(format!("{START} {more}").as_str())
}

pub fn step(scratch: &Scratch) -> Value {
    scratch.ok(STEP).json()
}

/// The lineage, as bytes.
pub fn lineage(scratch: &Scratch) -> String {
    scratch.ok("optimise show --experiment e --json").stdout
}

/// An expert scores what is pending: points off for every defect, and a little that differs between
/// scenarios.
pub fn judge(scratch: &Scratch, file: &str) {
    scratch.judge("e", file, "--judge-kind human --judged-by Ana", |case| {
        let text = case["candidate"].as_str().expect("a text");
        let defects = DEFECTS.iter().filter(|it| text.contains(it.1.trim()));
        let lost = i64::try_from(defects.count()).expect("few");
        let topic = case["context"]["topic"].as_str().expect("a topic");
        let digit = topic.bytes().find(u8::is_ascii_digit);
        let odd = i64::from(digit.is_some_and(|it| it % 2 == 1));
        case["scores"] = json!({"worth": 5 - lost, "tone": (4 - lost + odd).clamp(1, 5)});
    });
}

/// The child with this id.
pub fn child_of<'a>(status: &'a Value, id: &str) -> &'a Value {
    let children = status["children"].as_array().expect("children");
    let found = children.iter().find(|it| it["id"] == id);
    assert!(found.is_some(), "no child {id} in {status:#}");
    found.expect("it was found")
}
