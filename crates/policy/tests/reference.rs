//! The reference trajectories in `data/linucb.json`, step by step, through the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use assize_policy::off_policy::{Limits, Row, estimate};
use assize_policy::policy::choose_with;
use assize_policy::{Model, Policy, PolicyKind, PolicySettings, UserModels};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

fn cases() -> Vec<(String, Value)> {
    let reference: Value = serde_json::from_str(include_str!("data/linucb.json")).unwrap();
    let cases = reference["cases"].as_object().unwrap();
    cases
        .iter()
        .map(|(name, case)| (name.clone(), case.clone()))
        .collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    let entries = value.as_array().unwrap().iter();
    entries.map(|it| it.as_f64().unwrap()).collect()
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn close(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() <= TOLERANCE,
        "{what}: {found} {expected}"
    );
}

fn all_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (f, e) in found.iter().zip(expected) {
        close(*f, *e, what);
    }
}

fn arms(case: &Value) -> Vec<String> {
    (0..index(&case["arms"]))
        .map(|it| format!("arm-{it}"))
        .collect()
}

fn policy(kind: PolicyKind, source: &Value) -> Policy {
    let mut settings = PolicySettings::defaults(kind);
    let set = |target: &mut f64, name: &str| {
        if let Some(value) = source[name].as_f64() {
            *target = value;
        }
    };
    set(&mut settings.alpha, "alpha");
    set(&mut settings.lambda, "lam");
    set(&mut settings.gamma, "gamma");
    settings.epsilon = source["epsilon"].as_f64().unwrap_or(0.0);
    Policy::new(kind, settings).unwrap()
}

/// The arm's model, or the one with which it starts.
fn model(models: &UserModels, arm: &str, dimension: usize, lambda: f64) -> Model {
    let stored = models.get(arm).cloned();
    stored.unwrap_or_else(|| Model::new(dimension, lambda).unwrap())
}

fn scores(policy: &Policy, models: &UserModels, arms: &[String], x: &[f64]) -> Vec<f64> {
    let scores = arms.iter().map(|arm| policy.score(models, arm, x).unwrap());
    scores.collect()
}

/// Writes every model to bytes and reads it back, as a restart of the service does.
fn restarted(models: &UserModels) -> UserModels {
    let mut again = UserModels::default();
    for (arm, model) in models.iter() {
        again.insert(arm, Model::from_bytes(&model.to_bytes()).unwrap());
    }
    again
}

#[test]
fn linucb_meets_every_step() {
    for (name, case) in cases() {
        let source = &case["linucb"];
        let policy = policy(PolicyKind::LinUcb, source);
        let arms = arms(&case);
        let mut models = UserModels::default();
        for (t, step) in source["steps"].as_array().unwrap().iter().enumerate() {
            let what = format!("{name} step {t}");
            let x = numbers(&case["contexts"][t]);
            let each = |read: fn(&Model, &[f64]) -> f64| {
                let values = arms
                    .iter()
                    .map(|arm| read(&model(&models, arm, x.len(), 1.0), &x));
                values.collect::<Vec<_>>()
            };
            all_close(
                &each(|m, x| m.mean(x).unwrap()),
                &numbers(&step["mean"]),
                &what,
            );
            all_close(
                &each(|m, x| m.width(x).unwrap()),
                &numbers(&step["width"]),
                &what,
            );
            let scores = scores(&policy, &models, &arms, &x);
            all_close(&scores, &numbers(&step["ucb"]), &what);
            let chosen = policy.choose(&scores, t as u64).unwrap().index;
            assert_eq!(chosen, index(&step["arm"]), "{what}");
            let reward = case["rewards_full"][t][chosen].as_f64().unwrap();
            let _ = policy
                .update(&mut models, &arms[chosen], &x, reward)
                .unwrap();
            if t % 17 == 0 {
                models = restarted(&models);
            }
        }
        let last = &source["final"];
        for (arm, key) in arms.iter().enumerate() {
            let model = model(&models, key, index(&case["D"]), 1.0);
            all_close(model.theta(), &numbers(&last["theta"][arm]), &name);
            assert_eq!(model.n(), last["pulls"][arm].as_u64().unwrap(), "{name}");
            let trace: f64 = (0..model.dimension())
                .map(|at| {
                    let mut unit = vec![0.0; model.dimension()];
                    unit[at] = 1.0;
                    model.width(&unit).unwrap().powi(2)
                })
                .sum();
            close(trace, last["A_inv_trace"][arm].as_f64().unwrap(), &name);
        }
    }
}

#[test]
fn linucb_with_forgetting_meets_every_choice() {
    for (name, case) in cases() {
        let source = &case["linucb_discounted"];
        let policy = policy(PolicyKind::LinUcb, source);
        let arms = arms(&case);
        let mut models = UserModels::default();
        let steps = index(&case["T"]);
        for t in 0..steps {
            let x = numbers(&case["contexts"][t]);
            let scores = scores(&policy, &models, &arms, &x);
            if t + 1 == steps {
                all_close(&scores, &numbers(&source["ucb_last"]), &name);
            }
            let chosen = policy.choose(&scores, 0).unwrap().index;
            assert_eq!(chosen, index(&source["arms"][t]), "{name} step {t}");
            let reward = case["rewards_full"][t][chosen].as_f64().unwrap();
            close(reward, source["rewards"][t].as_f64().unwrap(), &name);
            let _ = policy
                .update(&mut models, &arms[chosen], &x, reward)
                .unwrap();
        }
        for (arm, key) in arms.iter().enumerate() {
            let model = model(&models, key, index(&case["D"]), 1.0);
            all_close(model.theta(), &numbers(&source["theta"][arm]), &name);
            assert_eq!(model.n(), source["pulls"][arm].as_u64().unwrap(), "{name}");
        }
    }
}

#[test]
fn epsilon_greedy_meets_every_step() {
    for (name, case) in cases() {
        let source = &case["epsilon_greedy_ridge"];
        let kind = match index(&case["D"]) {
            7 => PolicyKind::EgreedyV1,
            _ => PolicyKind::EgreedyV2,
        };
        let policy = policy(kind, source);
        let arms = arms(&case);
        let mut models = UserModels::default();
        for (t, step) in source["steps"].as_array().unwrap().iter().enumerate() {
            let what = format!("{name} step {t}");
            let x = numbers(&case["contexts"][t]);
            let scores = scores(&policy, &models, &arms, &x);
            all_close(&scores, &numbers(&step["mean"]), &what);
            let uniforms = numbers(&case["uniforms"][t]);
            let epsilon = policy.settings().epsilon;
            let choice = choose_with(&scores, epsilon, [uniforms[0], uniforms[1]]).unwrap();
            assert_eq!(choice.greedy, index(&step["greedy"]), "{what}");
            assert_eq!(choice.index, index(&step["arm"]), "{what}");
            assert_eq!(
                choice.explored,
                step["explore"].as_bool().unwrap(),
                "{what}"
            );
            close(
                choice.propensity(),
                step["propensity"].as_f64().unwrap(),
                &what,
            );
            let reward = case["rewards_full"][t][choice.index].as_f64().unwrap();
            let _ = policy
                .update(&mut models, &arms[choice.index], &x, reward)
                .unwrap();
        }
        for (arm, key) in arms.iter().enumerate() {
            let model = model(&models, key, index(&case["D"]), 1.0);
            all_close(
                model.theta(),
                &numbers(&source["final"]["theta"][arm]),
                &name,
            );
        }
    }
}

/// Two targets on the log of the ε-greedy trajectory. The reference has no clipping, no clusters
/// and no correction n/(n − 1) in the delta method.
#[test]
fn off_policy_estimates_meet_the_reference() {
    for (name, case) in cases() {
        let source = &case["epsilon_greedy_ridge"];
        let theta = source["final"]["theta"].as_array().unwrap();
        let steps = source["steps"].as_array().unwrap();
        for target in ["greedy_on_final_theta", "uniform"] {
            let row = |(t, step): (usize, &Value)| {
                let x = numbers(&case["contexts"][t]);
                let predict = |theta: &Value| -> f64 {
                    numbers(theta).iter().zip(&x).map(|(w, x)| w * x).sum()
                };
                let predicted: Vec<f64> = theta.iter().map(predict).collect();
                let greedy = choose_with(&predicted, 0.0, [0.5, 0.5]).unwrap().greedy;
                let pi = |arm: usize| match target {
                    "uniform" => 1.0 / predicted.len() as f64,
                    _ => f64::from(u8::from(arm == greedy)),
                };
                let arm = index(&step["arm"]);
                Row {
                    user: t,
                    reward: step["reward"].as_f64().unwrap(),
                    propensity: step["propensity"].as_f64().unwrap(),
                    target: pi(arm),
                    predicted: predicted[arm],
                    predicted_target: predicted.iter().enumerate().map(|(a, q)| pi(a) * q).sum(),
                }
            };
            let rows: Vec<Row> = steps.iter().enumerate().map(row).collect();
            let limits = Limits {
                clip: f64::INFINITY,
                least_ess: 0.0,
                confidence: 0.95,
            };
            let found = estimate(&rows, &limits);
            let expected = |key: &str| source["final"]["ope"][target][key].as_f64().unwrap();
            let estimates = found.estimates.unwrap();
            let n = rows.len() as f64;
            for (value, key) in [
                (estimates.ips.value, "ips"),
                (estimates.ips.se, "ips_se"),
                (estimates.snips.value, "snips"),
                (
                    estimates.snips.se * ((n - 1.0) / n).sqrt(),
                    "snips_se_delta",
                ),
                (estimates.dr.value, "dr"),
                (estimates.dr.se, "dr_se"),
                (found.ess, "ess"),
                (found.max_weight, "max_weight"),
                (found.mean_weight, "mean_weight"),
            ] {
                close(value, expected(key), &format!("{name} {target} {key}"));
            }
        }
    }
}
