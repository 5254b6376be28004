use super::{probability_of_best, probability_of_best_drawn};
use crate::Draws;

#[test]
fn equal_arms_share() {
    let arm: Vec<Option<f64>> = [1.0, 2.0, 4.0].map(Some).to_vec();
    let best = probability_of_best(&[arm.clone(), arm], Draws::default()).unwrap();
    for arm in &best.arms {
        assert!((arm.p_best - 0.5).abs() < 1e-12);
        assert_eq!((arm.rank.low, arm.rank.high), (1.5, 1.5));
    }
}

#[test]
fn one_arm_is_the_best_and_no_block_is_refused() {
    let alone = probability_of_best(&[vec![Some(1.0)]], Draws::default()).unwrap();
    assert!((alone.arms[0].p_best - 1.0).abs() < 1e-15);
    let gaps = [vec![Some(1.0), None], vec![None, Some(2.0)]];
    assert!(probability_of_best(&gaps, Draws::default()).is_err());
    assert!(probability_of_best(&[], Draws::default()).is_err());
}

#[test]
fn drawing_approaches_enumeration() {
    let arms = [
        [1.0, 5.0, 3.0, 2.0, 4.0, 1.0].map(Some).to_vec(),
        [2.0, 3.0, 3.0, 3.0, 3.0, 1.0].map(Some).to_vec(),
        [4.0, 1.0, 2.0, 4.0, 0.0, 3.0].map(Some).to_vec(),
    ];
    let exact = probability_of_best(&arms, Draws::default()).unwrap();
    let drawn = probability_of_best_drawn(&arms, Draws::default()).unwrap();
    assert!(exact.is_exact && !drawn.is_exact);
    for (e, d) in exact.arms.iter().zip(&drawn.arms) {
        assert!((e.p_best - d.p_best).abs() < 0.02, "{e:?} {d:?}");
    }
}

/// The same without whole numbers.
fn with_all_digits(means: &[Vec<Option<f64>>], draws: Draws) -> super::Best {
    let mut board = super::Board::new(means).unwrap();
    board.quick = super::Quick::new(&[], 0);
    board.drawn(draws).unwrap()
}

#[test]
fn whole_numbers_change_no_bit() {
    let mut rng = crate::rng::SplitMix64::new(5);
    for (arms, blocks, digits) in [(3, 12, 1.0), (24, 60, 1e6), (30, 40, 10.0), (50, 11, 1e15)] {
        let mut mean = || Some((rng.next_normal() * digits).round() / digits);
        let means: Vec<Vec<Option<f64>>> = (0..arms)
            .map(|_| (0..blocks).map(|_| mean()).collect())
            .collect();
        let draws = Draws {
            count: 500,
            seed: 3,
        };
        let quick = probability_of_best_drawn(&means, draws).unwrap();
        assert_eq!(quick, with_all_digits(&means, draws), "{arms} × {blocks}");
    }
}

#[test]
fn numbers_that_cannot_be_scaled_are_left_to_all_digits() {
    for scale in [0.0, 1e-320, 1e300] {
        let arm = |k: f64| -> Vec<Option<f64>> {
            (0..12)
                .map(|b| Some(scale * (k + f64::from(b % 5))))
                .collect()
        };
        let means = [arm(0.0), arm(1.0), arm(0.5)];
        let draws = Draws::default();
        let quick = probability_of_best_drawn(&means, draws).unwrap();
        assert_eq!(quick, with_all_digits(&means, draws), "{scale}");
    }
}
