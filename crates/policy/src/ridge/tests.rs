use super::{REBUILD_EVERY, Ridge, diagonal, inverse, product};
use crate::PolicyError;
use assize_stats::rng::SplitMix64;

fn observation<const D: usize>(rng: &mut SplitMix64) -> ([f64; D], f64) {
    let mut x = [0.0; D];
    x.fill_with(|| rng.next_f64());
    x[0] = 1.0;
    (x, rng.next_f64())
}

fn trained<const D: usize>(updates: u64) -> Ridge<D> {
    let mut rng = SplitMix64::new(5);
    let mut ridge = Ridge::new(1.0);
    for _ in 0..updates {
        let (x, reward) = observation(&mut rng);
        ridge.update(&x, reward).unwrap();
    }
    ridge
}

fn apart<const D: usize>(left: &Ridge<D>, right: &Ridge<D>) -> f64 {
    let mut rng = SplitMix64::new(9);
    let distances = (0..20).map(|_| {
        let (x, _) = observation(&mut rng);
        let mean = (left.mean(&x) - right.mean(&x)).abs();
        mean.max((left.width(&x) - right.width(&x)).abs())
    });
    distances.fold(0.0, f64::max)
}

#[test]
fn a_new_model_predicts_nothing_with_the_width_of_the_prior() {
    let ridge = Ridge::<3>::new(4.0);
    let x = [1.0, 2.0, 2.0];
    assert_eq!(ridge.mean(&x).to_bits(), 0.0_f64.to_bits());
    assert!((ridge.width(&x) - 1.5).abs() < 1e-15);
}

#[test]
fn one_observation_has_the_closed_form() {
    let mut ridge = Ridge::<2>::new(1.0);
    ridge.update(&[1.0, 1.0], 0.6).unwrap();
    // A = [[2, 1], [1, 2]], b = [0.6, 0.6], θ = A⁻¹b = [0.2, 0.2].
    assert!((ridge.theta()[0] - 0.2).abs() < 1e-15);
    assert!((ridge.mean(&[1.0, 2.0]) - 0.6).abs() < 1e-15);
    assert!((ridge.width(&[1.0, 0.0]) - (2.0_f64 / 3.0).sqrt()).abs() < 1e-15);
}

#[test]
fn updates_between_rebuilds_agree_with_a_rebuild() {
    for updates in [
        1,
        50,
        REBUILD_EVERY - 1,
        REBUILD_EVERY,
        REBUILD_EVERY + 1,
        2999,
    ] {
        let updated = trained::<7>(updates);
        let rebuilt = Ridge::from_sums(updated.n(), *updated.a(), *updated.b()).unwrap();
        assert!(apart(&updated, &rebuilt) < 1e-12, "{updates}");
    }
}

#[test]
fn the_inverse_is_rebuilt_after_every_thousand_updates() {
    let updated = trained::<7>(REBUILD_EVERY);
    let rebuilt = Ridge::from_sums(updated.n(), *updated.a(), *updated.b()).unwrap();
    assert_eq!(updated, rebuilt);
}

#[test]
fn forgetting_follows_its_formula_and_keeps_lambda() {
    let mut ridge = trained::<7>(30);
    let before = ridge.clone();
    ridge.forget(0.9, 1.0).unwrap();
    for row in 0..7 {
        for column in 0..7 {
            let added = if row == column { 0.1 } else { 0.0 };
            let expected = 0.9 * before.a()[row][column] + added;
            assert!((ridge.a()[row][column] - expected).abs() < 1e-14);
        }
        assert!((ridge.b()[row] - 0.9 * before.b()[row]).abs() < 1e-14);
    }
    for _ in 0..2000 {
        ridge.forget(0.9, 1.0).unwrap();
    }
    assert!(apart(&ridge, &Ridge::new(1.0)) < 1e-12);
}

#[test]
fn forgetting_and_updating_at_once_equals_one_after_the_other() {
    let mut rng = SplitMix64::new(3);
    let (x, reward) = observation(&mut rng);
    let (mut at_once, mut in_turn) = (trained::<7>(40), trained::<7>(40));
    at_once.forget_and_update(0.95, 1.0, &x, reward).unwrap();
    in_turn.forget(0.95, 1.0).unwrap();
    in_turn.update(&x, reward).unwrap();
    assert_eq!(at_once.a(), in_turn.a());
    assert!(apart(&at_once, &in_turn) < 1e-13);
}

#[test]
fn the_inverse_times_the_matrix_is_the_identity() {
    let ridge = trained::<12>(200);
    let inverse = inverse(ridge.a()).unwrap();
    let identity = diagonal::<12>(1.0);
    for (row, expected) in inverse.iter().zip(&identity) {
        let found = product(ridge.a(), row);
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() < 1e-12);
        }
    }
}

#[test]
fn matrices_that_are_not_positive_definite_are_refused() {
    for a in [
        [[1.0, 2.0], [2.0, 1.0]],
        [[0.0, 0.0], [0.0, 1.0]],
        [[1.0, f64::NAN], [f64::NAN, 1.0]],
        [[f64::INFINITY, 0.0], [0.0, 1.0]],
    ] {
        let found = Ridge::from_sums(1, a, [0.0; 2]);
        assert_eq!(found, Err(PolicyError::NotPositiveDefinite));
    }
}
