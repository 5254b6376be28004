//! A scripted judge scores as its script says, and the same cases alike wherever they are collected.

use assize_test_support::{Scratch, write_small_task};
use serde_json::{Value, json};

fn script(noise: f64) -> String {
    let generating = json!({"parameter_count": 1, "responses": [
        {"prompt_contains": "Tell me", "texts": ["A story. candidate 1>>> Give 3.", "A tale."]},
        {"texts": ["A tip.", "Another tip."]},
    ]});
    let judging = json!({
        "parameter_count": 1,
        "judge": {"noise": noise, "seed": 5, "cost_usd": 0.01},
        "scores": {
            "tip": {"worth": 2, "reason": "It is a tip."},
            "*": {"worth": 1, "reason": "It is no tip."},
        },
        "adjustments": [{"candidate_contains": "Another", "points": 1, "reason": "It adds one."}],
    });
    json!({"models": {"a": generating, "judge": judging}}).to_string()
}

/// The experiment `e` in a folder of its own, judged: prompt, scenario and verdicts of every run.
fn judged(noise: f64) -> Vec<(String, String, Value)> {
    let scratch = Scratch::new();
    write_small_task(&scratch, 4);
    scratch.write("script.json", &script(noise));
    scratch.ok(
        "collect --task task --models scripted:a --script script.json --experiment e --n-tips 2",
    );
    let summary = scratch
        .ok("judge auto --experiment e --judge scripted:judge --script script.json --json -j 4")
        .json();
    assert_eq!(summary["verdicts"], 16, "{summary}");
    assert_eq!(summary["asked_again"], 0, "{summary}");
    let cost = summary["cost_usd"].as_f64().expect("a cost");
    assert!((cost - 0.16).abs() < 1e-9, "{cost}");
    let runs = scratch.ok("runs export --experiment e").json_lines();
    let mut all: Vec<(String, String, Value)> = runs
        .iter()
        .map(|run| {
            let param = |name: &str| run["params"][name].as_str().expect("a param").to_owned();
            let verdicts = run["verdicts"][0]["verdicts"].clone();
            (param("prompt"), param("scenario"), verdicts)
        })
        .collect();
    all.sort_by_key(|(prompt, scenario, _)| (prompt.clone(), scenario.clone()));
    all
}

#[test]
fn verdicts_follow_the_candidates_text() {
    for (prompt, scenario, verdicts) in judged(0.0) {
        let of = |index: usize| {
            let verdict = &verdicts[index];
            (
                verdict["scores"]["worth"].clone(),
                verdict["rationale"].clone(),
            )
        };
        let expected = match prompt.as_str() {
            "p1" => [(2, "It is a tip."), (3, "It is a tip. It adds one.")],
            _ => [(1, "It is no tip."), (1, "It is no tip.")],
        };
        for (index, (score, reason)) in expected.into_iter().enumerate() {
            assert_eq!(
                of(index),
                (json!(score), json!(reason)),
                "{prompt} {scenario}"
            );
        }
    }
}

#[test]
fn noise_is_the_same_in_another_folder_and_differs_between_cases() {
    let first = judged(1.0);
    assert_eq!(first, judged(1.0));
    let tips = first.iter().filter(|(prompt, ..)| prompt == "p1");
    let scores = tips.map(|(_, _, verdicts)| verdicts[0]["scores"]["worth"].clone());
    let scores: std::collections::BTreeSet<String> = scores.map(|it| it.to_string()).collect();
    assert!(scores.len() > 1, "{scores:?}");
}
