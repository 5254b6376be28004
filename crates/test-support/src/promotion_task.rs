//! A task for promotion tests: three prompts, two splits, and candidates whose text says what they
//! are worth to each tier.

use serde_json::{Value, json};

use crate::Scratch;

/// What a scripted candidate is worth: its text says so, and judges read it.
#[derive(Debug, Clone, Copy)]
pub struct Tip {
    pub worth: i64,
    pub tone: i64,
    pub ok: bool,
    pub long: bool,
    /// What the automatic judge sees instead.
    pub auto_tone: i64,
    pub auto_ok: bool,
}

/// One prompt's tip for a scenario and a candidate.
pub type Tips = fn(prompt: &str, scenario: usize, candidate: usize) -> Tip;

/// p2 is ahead of p1 by two or three points in every scenario, p3 is level with p1.
pub fn ahead(prompt: &str, scenario: usize, candidate: usize) -> Tip {
    let number = |it: usize| i64::try_from(it).expect("a small number");
    let (s, k) = (number(scenario), number(candidate));
    let level = Tip {
        worth: 1 + s % 3,
        tone: 2 + k,
        ok: true,
        long: false,
        auto_tone: 2 + k,
        auto_ok: true,
    };
    match prompt {
        "p1" => level,
        "p2" => Tip {
            worth: level.worth + 2,
            tone: level.tone + i64::from(s % 2 == 0),
            auto_tone: level.tone + i64::from(s % 2 == 0),
            ..level
        },
        _ => Tip {
            tone: if s % 4 < 2 {
                5 - level.tone
            } else {
                level.tone
            },
            auto_tone: if s % 4 < 2 {
                5 - level.tone
            } else {
                level.tone
            },
            ..level
        },
    }
}

pub fn text(tip: Tip) -> String {
    let Tip {
        worth,
        tone,
        ok,
        long,
        auto_tone,
        auto_ok,
    } = tip;
    format!(
        "{worth} {tone} {} {} {auto_tone} {}",
        u8::from(ok),
        u8::from(long),
        u8::from(auto_ok)
    )
}

pub const SELECTION: usize = 8;
pub const CONFIRMATION: usize = 6;

pub fn scenario_id(place: usize) -> String {
    if place < SELECTION {
        format!("s{place}")
    } else {
        format!("c{}", place - SELECTION)
    }
}

/// A task with two splits and a script in which one model answers as `tips` says.
pub fn scratch(tips: Tips) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "task/task.toml",
        "name = \"shop\"\nscenarios = \"scenarios.jsonl\"\n",
    );
    let anchors = "1 = \"a\"\n2 = \"b\"\n3 = \"c\"\n4 = \"d\"\n5 = \"e\"\n";
    scratch.write(
        "task/rubric.md",
        &format!(
            "+++\nid = \"shop-v1\"\ncomposite = \"worth + tone + 2*ok - long\"\n\
             [[criteria]]\nname = \"worth\"\nmin = 1\nmax = 5\n[criteria.anchors]\n{anchors}\
             [[criteria]]\nname = \"tone\"\nmin = 1\nmax = 5\n[criteria.anchors]\n{anchors}\
             [[flags]]\nname = \"ok\"\n[[flags]]\nname = \"long\"\n+++\nJudge it.\n"
        ),
    );
    for (name, verb) in [("p1", "Say"), ("p2", "Tell"), ("p3", "Ask")] {
        scratch.write(
            &format!("task/prompts/{name}.md"),
            &format!("{verb} something about {{{{ topic }}}}.\n"),
        );
    }
    let places = 0..SELECTION + CONFIRMATION;
    let scenarios: Vec<String> = places
        .clone()
        .map(|place| {
            let split = if place < SELECTION {
                "selection"
            } else {
                "confirmation"
            };
            json!({"id": scenario_id(place), "split": split, "topic": format!("topic {place}")})
                .to_string()
        })
        .collect();
    scratch.write("task/scenarios.jsonl", &scenarios.join("\n"));
    let responses: Vec<Value> = places
        .flat_map(|place| {
            ["p1", "p2", "p3"].map(|prompt| {
                let texts = [0, 1].map(|candidate| text(tips(prompt, place, candidate)));
                json!({"prompt": prompt, "scenario": scenario_id(place), "texts": texts})
            })
        })
        .collect();
    let model = json!({"parameter_count": 1, "responses": responses});
    scratch.write("script.json", &json!({"models": {"m": model}}).to_string());
    scratch
}

pub fn collect(scratch: &Scratch, more: &str) {
    let line = format!(
        "collect --task task --models scripted:m --script script.json --experiment e --n-tips 2 {more}"
    );
    scratch.ok(line.as_str());
}

/// Both tiers judge everything that is pending.
pub fn judge(scratch: &Scratch) {
    let mut expert = scratch.export("e", "expert.json");
    let mut auto = scratch.export("e", "auto.json");
    for case in expert["cases"].as_array_mut().expect("cases") {
        score(case, |it| [it[0], it[1], it[2], it[3]]);
    }
    for case in auto["cases"].as_array_mut().expect("cases") {
        score(case, |it| [it[0], it[4], it[5], it[3]]);
    }
    scratch.write("expert.json", &expert.to_string());
    scratch.write("auto.json", &auto.to_string());
    scratch.ok("judge apply auto.json --judge-kind haiku --judged-by cheap");
    scratch.ok("judge apply expert.json --judge-kind human --judged-by Ana");
}

/// Worth, tone, ok and long, picked from what the candidate says of itself.
pub fn score(case: &mut Value, pick: impl Fn(&[i64]) -> [i64; 4]) {
    let text = case["candidate"].as_str().expect("a text").to_owned();
    let numbers: Vec<i64> = text
        .split(' ')
        .map(|it| it.parse().expect("a number"))
        .collect();
    let [worth, tone, ok, long] = pick(&numbers);
    case["scores"] = json!({"worth": worth, "tone": tone, "ok": ok == 1, "long": long == 1});
}

/// Collects the experiment and judges it on both splits.
pub fn fill(scratch: &Scratch) {
    collect(scratch, "");
    collect(scratch, "--split confirmation --prompts p1,p2");
    judge(scratch);
}
