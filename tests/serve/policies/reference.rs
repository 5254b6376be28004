//! The reference trajectories, step by step, over HTTP and across restarts.

use assize_stats::rng::SplitMix64;
use assize_test_support::Scratch;
use assize_test_support::server::Served;
use serde_json::{Value, json};

use super::{get, ok, serve};

const TOLERANCE: f64 = 1e-9;

fn cases() -> Vec<(String, Value)> {
    let text = include_str!("../../../crates/policy/tests/data/linucb.json");
    let reference: Value = serde_json::from_str(text).expect("JSON");
    let cases = reference["cases"].as_object().expect("cases").iter();
    cases
        .map(|(name, case)| (name.clone(), case.clone()))
        .collect()
}

fn size(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a number")).expect("small")
}

/// Scores the step's arms with the given features; the answer.
fn score(served: &Served, path: &str, (user, case, t): (&str, &Value, usize), seed: u64) -> Value {
    let x = &case["contexts"][t];
    let candidates: Vec<Value> = (0..size(&case["arms"]))
        .map(|arm| json!({"id": arm.to_string(), "arm": format!("arm-{arm}"), "features": x}))
        .collect();
    let body = json!({"user_id": user, "candidates": candidates, "seed": seed, "context": {}});
    ok(served, path, &body)
}

fn chosen(answer: &Value) -> usize {
    answer["chosen"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("a number")
}

fn reward(served: &Served, path: &str, answer: &Value, case: &Value, t: usize) {
    let value = &case["rewards_full"][t][chosen(answer)];
    let body = json!({"decision_id": answer["decision_id"], "reward": value});
    ok(served, path, &body);
}

fn close(answer: &Value, expected: &Value, what: &str) {
    let scores = answer["scores"].as_array().expect("scores");
    let expected = expected.as_array().expect("numbers");
    assert_eq!(scores.len(), expected.len(), "{what}");
    for (score, expected) in scores.iter().zip(expected) {
        let difference =
            score["score"].as_f64().expect("a score") - expected.as_f64().expect("one");
        assert!(difference.abs() <= TOLERANCE, "{what}: {difference}");
    }
}

#[test]
fn linucb_meets_every_step_across_restarts() {
    let scratch = Scratch::new();
    let settings = "[policy.linucb]\nepsilon = 0";
    let mut served = serve(&scratch, settings);
    for (name, case) in cases() {
        let steps = case["linucb"]["steps"].as_array().expect("steps");
        for (t, step) in steps.iter().enumerate() {
            let answer = score(&served, "/score/linucb", (&name, &case, t), t as u64);
            close(&answer, &step["ucb"], &format!("{name} step {t}"));
            assert_eq!(chosen(&answer), size(&step["arm"]), "{name} step {t}");
            assert_eq!(answer["propensity"], 1.0);
            reward(&served, "/reward/linucb", &answer, &case, t);
            if t % 25 == 24 {
                served.kill();
                served = serve(&scratch, settings);
            }
        }
        let stats = get(&served, &format!("/stats/linucb?user_id={name}"));
        let arms = stats["user"]["arms"].as_array().expect("arms");
        for (arm, pulls) in case["linucb"]["final"]["pulls"]
            .as_array()
            .expect("pulls")
            .iter()
            .enumerate()
        {
            let key = format!("arm-{arm}");
            let found = arms.iter().find(|it| it["arm"] == key.as_str());
            let updates = found.map_or(json!(0), |it| it["updates"].clone());
            assert_eq!(&updates, pulls, "{name} {key}");
        }
    }
}

#[test]
fn linucb_with_forgetting_meets_every_choice() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "[policy.linucb]\nepsilon = 0\ngamma = 0.98");
    for (name, case) in cases() {
        let source = &case["linucb_discounted"];
        assert_eq!(source["gamma"], 0.98);
        let steps = size(&case["T"]);
        for t in 0..steps {
            let answer = score(&served, "/score/linucb", (&name, &case, t), 0);
            assert_eq!(chosen(&answer), size(&source["arms"][t]), "{name} step {t}");
            if t + 1 == steps {
                close(&answer, &source["ucb_last"], &name);
            }
            reward(&served, "/reward/linucb", &answer, &case, t);
        }
    }
}

/// A seed whose random part is that of the reference step.
fn seed_for(step: &Value, (epsilon, arms): (f64, usize)) -> u64 {
    let explores = step["explore"].as_bool().expect("a flag");
    let arm = size(&step["arm"]);
    let fits = |seed: &u64| {
        let mut rng = SplitMix64::new(*seed);
        let is_random = rng.next_f64() < epsilon;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number in [0, arms)"
        )]
        let drawn = (rng.next_f64() * arms as f64) as usize;
        is_random == explores && (!explores || drawn == arm)
    };
    (0..1_000_000).find(fits).expect("a seed")
}

#[test]
fn epsilon_greedy_meets_every_step() {
    let scratch = Scratch::new();
    let served = serve(&scratch, "");
    for (name, case) in cases() {
        let source = &case["epsilon_greedy_ridge"];
        let (score_path, reward_path) = match size(&case["D"]) {
            7 => ("/score/egreedy", "/reward/egreedy"),
            _ => ("/score/egreedy/v2", "/reward/egreedy/v2"),
        };
        let about = (source["epsilon"].as_f64().expect("ε"), size(&case["arms"]));
        for (t, step) in source["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .enumerate()
        {
            let seed = seed_for(step, about);
            let answer = score(&served, score_path, (&name, &case, t), seed);
            close(&answer, &step["mean"], &format!("{name} step {t}"));
            assert_eq!(chosen(&answer), size(&step["arm"]), "{name} step {t}");
            assert_eq!(answer["explored"], step["explore"], "{name} step {t}");
            let propensity = answer["propensity"].as_f64().expect("a number");
            let expected = step["propensity"].as_f64().expect("a number");
            assert!(
                (propensity - expected).abs() <= TOLERANCE,
                "{name} step {t}"
            );
            reward(&served, reward_path, &answer, &case, t);
        }
    }
}
