use super::{Evaluation, Limits, Row, estimate, evaluate, progressive_rows};
use crate::{
    Context, LoggedCandidate, LoggedDecision, Policy, PolicyKind, PolicySettings, Profile,
};
use assize_stats::rng::SplitMix64;

/// The true chance of a reward of each candidate.
fn truth(hour: f64, arm: usize, task_match: f64) -> f64 {
    let likes = [0.2, 0.35, 0.5][arm];
    let morning = if hour < 12.0 { 0.15 } else { -0.1 };
    (likes + morning * [1.0, 0.0, -1.0][arm] + 0.2 * task_match).clamp(0.0, 1.0)
}

/// A log by a uniformly random policy, and the true values of its candidates.
fn uniform_log(users: usize, steps: usize, seed: u64) -> (Vec<LoggedDecision>, Vec<Vec<f64>>) {
    let mut rng = SplitMix64::new(seed);
    let mut truths = Vec::new();
    let mut log = Vec::new();
    for step in 0..users * steps {
        let hour = 24.0 * rng.next_f64();
        let matches: Vec<f64> = (0..3).map(|_| rng.next_f64()).collect();
        let values: Vec<f64> = (0..3).map(|arm| truth(hour, arm, matches[arm])).collect();
        let chosen = rng.below(3);
        let reward = f64::from(u8::from(rng.next_f64() < values[chosen]));
        let candidate = |arm: usize| LoggedCandidate {
            arm: Some(format!("arm-{arm}")),
            task_match: Some(matches[arm]),
            features: None,
        };
        log.push(LoggedDecision {
            user_id: format!("user-{}", step % users),
            context: Context {
                hour: Some(hour),
                ..Context::default()
            },
            profile_features: Some(Profile::default()),
            candidates: (0..3).map(candidate).collect(),
            chosen,
            propensity: 1.0 / 3.0,
            reward,
        });
        truths.push(values);
    }
    (log, truths)
}

fn policy(kind: PolicyKind) -> Policy {
    Policy::new(kind, PolicySettings::defaults(kind)).unwrap()
}

fn row(user: usize, weight: f64, reward: f64) -> Row {
    Row {
        user,
        reward,
        propensity: 0.02,
        target: 0.02 * weight,
        predicted: 0.3,
        predicted_target: 0.4,
    }
}

fn no_limit() -> Limits {
    Limits {
        least_ess: 0.0,
        ..Limits::default()
    }
}

#[test]
fn the_formulas_by_hand() {
    let rows = [row(0, 2.0, 1.0), row(1, 0.0, 0.5), row(2, 1.0, 0.25)];
    let found = estimate(&rows, &no_limit());
    let estimates = found.estimates.unwrap();
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
    close(estimates.ips.value, 2.25 / 3.0);
    close(estimates.snips.value, 0.75);
    close(estimates.dr.value, 0.4 + (2.0 * 0.7 - 0.05) / 3.0);
    close(found.ess, 9.0 / 5.0);
    close(found.logged, 1.75 / 3.0);
    close(estimates.dr_gain.value, estimates.dr.value - 1.75 / 3.0);
    // Values 2, 0 and 0.25 around 0.75.
    let variance = (1.25_f64.powi(2) + 0.75_f64.powi(2) + 0.5_f64.powi(2)) / 2.0;
    close(estimates.ips.se, (variance / 3.0).sqrt());
    let t = assize_stats::dist::t_quantile(0.975, 2.0).unwrap();
    close(
        estimates.ips.high - estimates.ips.value,
        t * estimates.ips.se,
    );
}

#[test]
fn weights_are_clipped_at_twenty() {
    let rows: Vec<Row> = (0..100)
        .map(|it| row(it, if it == 0 { 40.0 } else { 1.0 }, 1.0))
        .collect();
    let found = estimate(&rows, &no_limit());
    assert_eq!(found.clipped, 1);
    assert!((found.max_weight - 40.0).abs() < 1e-9);
    assert!((found.estimates.unwrap().ips.value - 1.19).abs() < 1e-12);
    assert!((found.ess - 119.0 * 119.0 / 499.0).abs() < 1e-9);
}

#[test]
fn one_users_decisions_count_as_one_cluster() {
    let apart: Vec<Row> = (0..400)
        .map(|it| row(it, 1.0, f64::from(u8::from(it % 4 < 2))))
        .collect();
    // The same rewards, each four times in a row for one of 100 users whose rewards are all alike.
    let together: Vec<Row> = (0..400)
        .map(|it| row(it / 4, 1.0, f64::from(u8::from(it / 4 % 2 == 0))))
        .collect();
    let se = |rows: &[Row]| estimate(rows, &no_limit()).estimates.unwrap().snips.se;
    assert!((se(&together) / se(&apart) - 2.0).abs() < 0.02);
}

#[test]
fn too_little_is_refused_with_a_reason() {
    let refused = |rows: &[Row], reason: &str| {
        let found = estimate(rows, &Limits::default());
        assert_eq!(found.estimates, None, "{reason}");
        let text = found.refusal.unwrap();
        assert!(text.contains(reason) && text.contains(';'), "{text}");
    };
    refused(&[], "no rewarded decisions");
    let few: Vec<Row> = (0..199).map(|it| row(it, 1.0, 0.5)).collect();
    refused(
        &few,
        "the effective sample size is 199 of 199 decisions, below 200",
    );
    let never: Vec<Row> = (0..1000).map(|it| row(it, 0.0, 0.5)).collect();
    refused(&never, "the effective sample size is 0");
    let one_user: Vec<Row> = (0..500).map(|_| row(0, 1.0, 0.5)).collect();
    refused(&one_user, "one user");
    let mut invalid: Vec<Row> = (0..500).map(|it| row(it, 1.0, 0.5)).collect();
    invalid[3].propensity = 0.0;
    refused(&invalid, "1 decisions have a propensity");
    let enough: Vec<Row> = (0..200).map(|it| row(it, 1.0, 0.5)).collect();
    assert_eq!(estimate(&enough, &Limits::default()).refusal, None);
}

/// The mean over decisions of Σ π(a)·truth(a), with the target's probabilities from the rows.
fn true_value(log: &[LoggedDecision], truths: &[Vec<f64>], rows: &[Row], epsilon: f64) -> f64 {
    // Which candidate is greedy shows only where it was shown, so the target's probabilities are
    // recomputed here by a second progressive pass.
    let policy = policy(PolicyKind::EgreedyV1);
    let mut users = std::collections::BTreeMap::new();
    let mut sum = 0.0;
    for ((decision, values), row) in log.iter().zip(truths).zip(rows) {
        let models = users.entry(&decision.user_id).or_default();
        let score = |it: &LoggedCandidate| {
            let x = decision.features(&policy, it).unwrap().unwrap();
            policy.score(models, it.arm(), &x).unwrap()
        };
        let scores: Vec<f64> = decision.candidates.iter().map(score).collect();
        let best = (0..3)
            .rev()
            .max_by(|l, r| scores[*l].total_cmp(&scores[*r]))
            .unwrap();
        let pi = |it: usize| epsilon / 3.0 + if it == best { 1.0 - epsilon } else { 0.0 };
        assert!((pi(decision.chosen) - row.target).abs() < 1e-12);
        sum += (0..3).map(|it| pi(it) * values[it]).sum::<f64>();
        crate::replay::learn(&policy, models, decision).unwrap();
    }
    sum / log.len() as f64
}

#[test]
fn intervals_cover_the_known_truth() {
    let runs = 200;
    let mut covered = [0; 3];
    let mut errors = [0.0; 3];
    for seed in 0..runs {
        let (log, truths) = uniform_log(40, 25, seed);
        let policy = policy(PolicyKind::EgreedyV1);
        let (rows, skipped) = progressive_rows(&policy, &log).unwrap();
        assert_eq!(skipped, 0);
        let truth = true_value(&log, &truths, &rows, policy.settings().epsilon);
        let found = estimate(&rows, &Limits::default()).estimates.unwrap();
        for (at, it) in [found.ips, found.snips, found.dr].into_iter().enumerate() {
            covered[at] += u32::from(it.low <= truth && truth <= it.high);
            errors[at] += it.value - truth;
        }
    }
    for at in 0..3 {
        let coverage = f64::from(covered[at]) / runs as f64;
        let bias = errors[at] / runs as f64;
        assert!(
            (0.90..=0.99).contains(&coverage),
            "method {at}: coverage {coverage}"
        );
        assert!(bias.abs() < 0.006, "method {at}: bias {bias}");
    }
}

#[test]
fn doubly_robust_is_tighter_than_ips() {
    let (log, _) = uniform_log(60, 50, 7);
    let found = evaluate(&policy(PolicyKind::EgreedyV2), &log, &Limits::default()).unwrap();
    let estimates = found.estimates.unwrap();
    assert!(estimates.dr.se < estimates.ips.se, "{estimates:?}");
    assert!(
        estimates.dr_gain.low > 0.0,
        "a learner beats a random log: {estimates:?}"
    );
    assert!(found.mean_weight > 0.9 && found.mean_weight < 1.1);
}

#[test]
fn the_reward_model_never_sees_the_users_that_it_predicts() {
    let (mut log, _) = uniform_log(10, 40, 3);
    let policy = policy(PolicyKind::EgreedyV1);
    let predictions = |log: &[LoggedDecision]| {
        let (rows, _) = progressive_rows(&policy, log).unwrap();
        rows.into_iter()
            .filter(|it| it.user == 0)
            .map(|it| it.predicted)
            .collect::<Vec<_>>()
    };
    let before = predictions(&log);
    for decision in log.iter_mut().filter(|it| it.user_id == "user-0") {
        decision.reward = 1.0 - decision.reward;
    }
    assert_eq!(predictions(&log), before);
}

#[test]
fn decisions_with_features_of_another_length_are_skipped() {
    let (mut log, _) = uniform_log(20, 30, 4);
    for decision in log.iter_mut().take(11) {
        for candidate in &mut decision.candidates {
            candidate.features = Some(vec![0.5; 12]);
        }
    }
    let found = evaluate(&policy(PolicyKind::EgreedyV1), &log, &Limits::default()).unwrap();
    assert_eq!((found.skipped, found.decisions), (11, 589));
}

#[test]
fn an_evaluation_is_json() {
    let found = estimate(&[row(0, 1.0, 1.0)], &Limits::default());
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Evaluation>(&json).unwrap(), found);
}
