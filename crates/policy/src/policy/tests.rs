use super::{Changed, Policy, PolicyKind, PolicySettings, check_reward, choose, choose_with};
use crate::{FeatureVersion, Model, PolicyError, Pool, SHARED_ARM, UserModels};
use assize_stats::rng::SplitMix64;
use proptest::prelude::*;

fn policy(kind: PolicyKind) -> Policy {
    Policy::new(kind, PolicySettings::defaults(kind)).unwrap()
}

fn with(kind: PolicyKind, change: impl FnOnce(&mut PolicySettings)) -> Policy {
    let mut settings = PolicySettings::defaults(kind);
    change(&mut settings);
    Policy::new(kind, settings).unwrap()
}

fn x(seed: u64, dimension: usize) -> Vec<f64> {
    let mut rng = SplitMix64::new(seed);
    (0..dimension).map(|_| rng.next_f64()).collect()
}

#[test]
fn names_and_routes_are_the_public_ones() {
    let found = PolicyKind::ALL.map(|kind| (kind.name(), kind.route()));
    let expected = [
        ("egreedy-v1", "egreedy"),
        ("egreedy-v2", "egreedy/v2"),
        ("linucb", "linucb"),
    ];
    assert_eq!(found, expected);
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let json = serde_json::to_string(&kind).unwrap();
        assert_eq!(json, format!("\"{}\"", kind.name()));
    }
    assert!("egreedy".parse::<PolicyKind>().is_err());
}

#[test]
fn each_policy_has_one_feature_version() {
    let versions = PolicyKind::ALL.map(PolicyKind::feature_version);
    let [v1, v2] = [FeatureVersion::V1, FeatureVersion::V2];
    assert_eq!(versions, [v1, v2, v1]);
}

#[test]
fn linucb_takes_both_lengths_and_the_others_one() {
    let lengths = |kind: PolicyKind| {
        let taken = (0..20).filter(|length| kind.check_length(*length).is_ok());
        taken.collect::<Vec<_>>()
    };
    assert_eq!(
        PolicyKind::ALL.map(lengths),
        [vec![7], vec![12], vec![7, 12]]
    );
}

#[test]
fn defaults_are_the_documented_ones() {
    let epsilon = PolicyKind::ALL.map(|kind| PolicySettings::defaults(kind).epsilon);
    assert_eq!(
        epsilon.map(f64::to_bits),
        [0.1, 0.1, 0.05].map(f64::to_bits)
    );
    for kind in PolicyKind::ALL {
        let settings = PolicySettings::defaults(kind);
        assert_eq!(
            (settings.alpha, settings.lambda, settings.gamma),
            (1.0, 1.0, 1.0)
        );
    }
}

#[test]
fn settings_have_ranges() {
    type Set = fn(&mut PolicySettings, f64);
    let fields: [(&str, Set, [f64; 2], [f64; 2]); 5] = [
        ("alpha", |s, v| s.alpha = v, [0.0, 5.0], [-0.1, 1e4]),
        ("lambda", |s, v| s.lambda = v, [1e-6, 10.0], [0.0, -1.0]),
        ("epsilon", |s, v| s.epsilon = v, [0.0, 1.0], [-0.1, 1.1]),
        ("gamma", |s, v| s.gamma = v, [0.5, 1.0], [0.0, 1.1]),
        ("prior", |s, v| s.prior = v, [0.0, 100.0], [-1.0, 1e7]),
    ];
    for (name, set, allowed, refused) in fields {
        let checked = |value| {
            let mut settings = PolicySettings::defaults(PolicyKind::LinUcb);
            set(&mut settings, value);
            Policy::new(PolicyKind::LinUcb, settings).map(|_| ())
        };
        assert!(
            allowed.iter().all(|value| checked(*value).is_ok()),
            "{name}"
        );
        for value in refused {
            let error = checked(value).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(
            checked(f64::NAN),
            Err(PolicyError::NotFinite { field: name })
        );
    }
}

#[test]
fn ties_go_to_the_lowest_index() {
    let greedy = |scores: &[f64]| choose(scores, 0.0, 1).unwrap().index;
    assert_eq!(greedy(&[0.5, 0.5, 0.5]), 0);
    assert_eq!(greedy(&[0.1, 0.5, 0.5 + 1e-13]), 1);
    assert_eq!(greedy(&[0.1, 0.5, 0.5 + 1e-9]), 2);
    assert_eq!(greedy(&[-2.0, -1.0]), 1);
}

#[test]
fn bad_scores_are_refused() {
    assert_eq!(choose(&[], 0.1, 1), Err(PolicyError::NoCandidates));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(choose(&[0.0, bad], 0.1, 1).is_err());
    }
}

#[test]
fn the_first_number_decides_whether_to_explore_and_the_second_which() {
    let scores = [0.0, 1.0, 0.0, 0.0];
    let chosen = |uniforms| {
        let choice = choose_with(&scores, 0.1, uniforms).unwrap();
        (choice.index, choice.explored, choice.greedy)
    };
    assert_eq!(chosen([0.1, 0.9]), (1, false, 1));
    assert_eq!(chosen([0.099, 0.9]), (3, true, 1));
    assert_eq!(chosen([0.0, 0.25]), (1, true, 1));
    assert_eq!(chosen([0.0, 0.999_999_999_999_999_9]), (3, true, 1));
}

#[test]
fn choices_have_the_propensities_that_are_reported() {
    let scores = [0.2, 0.9, 0.1];
    let draws = 40_000;
    let mut counts = [0_u32; 3];
    for draw in 0..draws {
        counts[choose(&scores, 0.3, draw * 77).unwrap().index] += 1;
    }
    let choice = choose(&scores, 0.3, 0).unwrap();
    for (index, count) in counts.into_iter().enumerate() {
        let share = f64::from(count) / draws as f64;
        assert!(
            (share - choice.propensity_of(index)).abs() < 0.01,
            "{index} {share}"
        );
    }
    assert!(choice.propensity_of(3).abs() < f64::EPSILON);
}

proptest! {
    #[test]
    fn propensities_sum_to_one(
        scores in prop::collection::vec(-5.0..5.0_f64, 1..40),
        epsilon in 0.0..=1.0_f64,
        draw: u64,
    ) {
        let choice = choose(&scores, epsilon, draw).unwrap();
        let sum: f64 = (0..scores.len()).map(|it| choice.propensity_of(it)).sum();
        prop_assert!((sum - 1.0).abs() < 1e-12);
        prop_assert!(choice.propensity() >= epsilon / scores.len() as f64);
        prop_assert!(choice.explored || choice.index == choice.greedy);
        prop_assert_eq!(choose(&scores, epsilon, draw).unwrap(), choice);
    }

    #[test]
    fn a_rewarded_candidate_is_predicted_between_before_and_the_reward(
        seed: u64, reward in 0.0..=1.0_f64, updates in 0_u64..30,
    ) {
        let policy = policy(PolicyKind::EgreedyV2);
        let mut models = UserModels::default();
        for step in 0..updates {
            let _ = policy.update(&mut models, "a", &x(seed ^ step, 12), 0.5).unwrap();
        }
        let x = x(!seed, 12);
        let before = policy.score(&models, "a", &x).unwrap();
        let _ = policy.update(&mut models, "a", &x, reward).unwrap();
        let after = policy.score(&models, "a", &x).unwrap();
        prop_assert!((after - reward).abs() <= (before - reward).abs() + 1e-12);
    }
}

#[test]
fn only_linucb_adds_the_width() {
    let x = vec![1.0; 7];
    let models = UserModels::default();
    let greedy = policy(PolicyKind::EgreedyV1).score(&models, "a", &x);
    assert_eq!(greedy, Ok(0.0));
    let wide = with(PolicyKind::LinUcb, |it| it.alpha = 2.0).score(&models, "a", &x);
    assert!((wide.unwrap() - 2.0 * 7.0_f64.sqrt()).abs() < 1e-12);
}

#[test]
fn arms_learn_apart_and_candidates_of_one_arm_together() {
    let policy = policy(PolicyKind::EgreedyV1);
    let mut models = UserModels::default();
    let changed = policy.update(&mut models, "quick", &x(1, 7), 1.0);
    assert_eq!(changed, Ok(Changed::OneArm));
    assert!(policy.score(&models, "quick", &x(2, 7)).unwrap() > 0.0);
    assert_eq!(policy.score(&models, "deep", &x(2, 7)), Ok(0.0));
    assert_eq!(models.len(), 1);
}

#[test]
fn an_error_leaves_the_models_as_they_were() {
    for gamma in [1.0, 0.9] {
        let policy = with(PolicyKind::LinUcb, |it| it.gamma = gamma);
        let mut models = UserModels::default();
        let _ = policy.update(&mut models, "a", &x(1, 7), 0.3).unwrap();
        let _ = policy.update(&mut models, "b", &x(2, 12), 0.3).unwrap();
        let before = models.clone();
        let mut not_finite = x(3, 7);
        not_finite[2] = f64::NAN;
        for (arm, x, reward) in [
            ("a", x(3, 12), 0.5),
            ("b", x(3, 7), 0.5),
            ("a", x(3, 8), 0.5),
            ("a", not_finite, 0.5),
            ("a", x(3, 7), f64::NAN),
            ("a", x(3, 7), 1.5),
            ("new", x(3, 7), -0.1),
            ("new", Vec::new(), 0.5),
        ] {
            assert!(
                policy.update(&mut models, arm, &x, reward).is_err(),
                "{arm} {x:?}"
            );
            assert_eq!(models, before);
        }
        assert!(policy.score(&models, "a", &x(3, 12)).is_err());
    }
}

#[test]
fn with_gamma_below_one_every_arm_forgets() {
    let policy = with(PolicyKind::EgreedyV1, |it| it.gamma = 0.5);
    let mut models = UserModels::default();
    let _ = policy.update(&mut models, "a", &x(1, 7), 1.0).unwrap();
    let before = models.get("a").unwrap().mean(&x(1, 7)).unwrap();
    let changed = policy.update(&mut models, "b", &x(1, 7), 1.0);
    assert_eq!(changed, Ok(Changed::AllArms));
    assert!(models.get("a").unwrap().mean(&x(1, 7)).unwrap() < before);
    assert_eq!(models.get("a").map(Model::n), Some(1));
}

#[test]
fn rewards_are_between_zero_and_one() {
    for good in [0.0, 0.5, 1.0] {
        assert!(check_reward(good).is_ok());
    }
    for bad in [-1e-9, 1.001, f64::NAN, f64::INFINITY] {
        assert!(check_reward(bad).is_err());
    }
}

#[test]
fn a_pool_is_worth_kappa_average_observations() {
    let observations: Vec<(Vec<f64>, f64)> =
        (0..50).map(|it| (x(it, 7), it as f64 / 50.0)).collect();
    let mut pool = Pool::default();
    for (x, reward) in &observations {
        pool.add("a", x, *reward).unwrap();
    }
    // With κ = n the pooled start is the model that has seen all observations.
    let pooled = with(PolicyKind::LinUcb, |it| it.prior = 50.0);
    let pooled = pooled.with_pool(&pool).unwrap();
    let plain = policy(PolicyKind::LinUcb);
    let mut models = UserModels::default();
    for (x, reward) in &observations {
        let _ = plain.update(&mut models, "a", x, *reward).unwrap();
    }
    let new_user = UserModels::default();
    let trained = plain.score(&models, "a", &x(99, 7)).unwrap();
    let started = pooled.score(&new_user, "a", &x(99, 7)).unwrap();
    assert!((trained - started).abs() < 1e-12);
    // An arm that the pool lacks, and a length that it lacks, start with nothing.
    for (arm, dimension) in [("b", 7), ("a", 12)] {
        let x = x(98, dimension);
        assert_eq!(
            pooled.score(&new_user, arm, &x),
            plain.score(&new_user, arm, &x)
        );
    }
}

#[test]
fn a_user_continues_from_the_pooled_start() {
    let mut pool = Pool::default();
    pool.add(SHARED_ARM, &x(1, 7), 1.0).unwrap();
    let policy = policy(PolicyKind::EgreedyV1).with_pool(&pool).unwrap();
    let mut models = UserModels::default();
    let _ = policy
        .update(&mut models, SHARED_ARM, &x(2, 7), 1.0)
        .unwrap();
    let model = models.get(SHARED_ARM).unwrap();
    assert_eq!(model.n(), 1);
    let own = {
        let plain = super::tests::policy(PolicyKind::EgreedyV1);
        let mut models = UserModels::default();
        let _ = plain
            .update(&mut models, SHARED_ARM, &x(2, 7), 1.0)
            .unwrap();
        models.get(SHARED_ARM).unwrap().mean(&x(1, 7)).unwrap()
    };
    assert!(model.mean(&x(1, 7)).unwrap() > own);
}

#[test]
fn a_pool_survives_its_bytes_and_is_not_a_model() {
    let mut pool = Pool::default();
    pool.add("a", &x(1, 12), 0.7).unwrap();
    let bytes = pool.arm_bytes("a").unwrap();
    let mut again = Pool::default();
    again.insert_arm_bytes("a", &bytes).unwrap();
    assert_eq!(again, pool);
    assert!(Model::from_bytes(&bytes).is_err());
    assert!(pool.add("a", &x(1, 7), 0.7).is_err());
    assert!(pool.add("b", &x(1, 8), 0.7).is_err());
    assert_eq!(pool.arms().collect::<Vec<_>>(), [("a", 1)]);
}
