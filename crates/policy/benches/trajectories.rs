//! The same trajectory with this crate's `linucb`, with the formulas in `NumPy`, with `MABWiser` and
//! with Vowpal Wabbit, in one run: choose among 10 arms at D = 12, then learn from the reward.
//!
//! `MABWiser`'s `LinUCB` has the same semantics (disjoint models, the same alpha and regularisation), and
//! so have the formulas in `NumPy`: their choices must be ours, step by step. Vowpal Wabbit explores by
//! another method, so only its speed is shown. `ASSIZE_BENCH_PYTHON` names a Python that has
//! them; what it lacks is skipped, loudly.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use assize_policy::{Policy, PolicyKind, PolicySettings, UserModels};
use assize_stats::rng::SplitMix64;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

const ARMS: usize = 10;
const D: usize = 12;
const STEPS: usize = 3_000;
/// Our own run is repeated, because one takes a few milliseconds.
const REPEATS: usize = 50;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/policies.py");

struct Step {
    context: [f64; D],
    rewards: [f64; ARMS],
}

fn main() {
    let steps = steps();
    let ours = choices(&steps);
    let start = Instant::now();
    for _ in 0..REPEATS {
        assert_eq!(choices(&steps), ours);
    }
    let own_rate = (STEPS * REPEATS) as f64 / start.elapsed().as_secs_f64();
    println!("trajectory of linucb, {ARMS} arms, D = {D}: {own_rate:.0} steps/s");
    let Ok(python) = std::env::var("ASSIZE_BENCH_PYTHON") else {
        println!(
            "SKIPPED: other packages are not compared; set ASSIZE_BENCH_PYTHON to a Python that has them"
        );
        return;
    };
    for found in others(&python, &steps) {
        let name = found["name"].as_str().unwrap();
        if let Some(reason) = found["skipped"].as_str() {
            println!("SKIPPED: {name}: {reason}");
            continue;
        }
        let rate = found["steps_per_s"].as_f64().unwrap();
        let theirs: Vec<usize> = serde_json::from_value(found["choices"].clone()).unwrap();
        let same = ours.iter().zip(&theirs).filter(|(a, b)| a == b).count();
        println!(
            "{name}: {rate:.0} steps per CPU second, ratio {:.0}; the same choice in {same} of {STEPS} steps",
            own_rate / rate
        );
        if found["is_same_method"] == true {
            assert_eq!(same, STEPS, "{name} has the same method");
        }
    }
}

fn steps() -> Vec<Step> {
    let mut rng = SplitMix64::new(7);
    let step = |_| Step {
        context: std::array::from_fn(|_| rng.next_f64()),
        rewards: std::array::from_fn(|_| rng.next_f64()),
    };
    (0..STEPS).map(step).collect()
}

fn choices(steps: &[Step]) -> Vec<usize> {
    let settings = PolicySettings {
        epsilon: 0.0,
        ..PolicySettings::defaults(PolicyKind::LinUcb)
    };
    let policy = Policy::new(PolicyKind::LinUcb, settings).unwrap();
    let arms: Vec<String> = (0..ARMS).map(|arm| format!("arm-{arm}")).collect();
    let mut models = UserModels::default();
    let mut scores = Vec::with_capacity(ARMS);
    let mut decide = |step: &Step| {
        scores.clear();
        for arm in &arms {
            scores.push(policy.score(&models, arm, &step.context).unwrap());
        }
        let chosen = policy.choose(&scores, 0).unwrap().index;
        let reward = step.rewards[chosen];
        let _ = policy
            .update(&mut models, &arms[chosen], &step.context, reward)
            .unwrap();
        chosen
    };
    steps.iter().map(&mut decide).collect()
}

/// One object for each package, as the script prints them.
fn others(python: &str, steps: &[Step]) -> Vec<Value> {
    let contexts: Vec<&[f64]> = steps.iter().map(|it| it.context.as_slice()).collect();
    let rewards: Vec<&[f64]> = steps.iter().map(|it| it.rewards.as_slice()).collect();
    let input = json!({"contexts": contexts, "rewards": rewards}).to_string();
    let mut child = Command::new(python)
        .arg(SCRIPT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{SCRIPT} failed");
    let printed = String::from_utf8(done.stdout).unwrap();
    let lines = printed.lines().filter(|it| it.starts_with('{'));
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}
