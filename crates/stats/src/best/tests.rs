use super::{probability_of_best, probability_of_best_drawn};
use crate::Draws;

#[test]
fn equal_treatments_share() {
    let treatment: Vec<Option<f64>> = [1.0, 2.0, 4.0].map(Some).to_vec();
    let best = probability_of_best(&[treatment.clone(), treatment], Draws::default()).unwrap();
    for treatment in &best.treatments {
        assert!((treatment.p_best - 0.5).abs() < 1e-12);
        assert_eq!((treatment.rank.low, treatment.rank.high), (1.5, 1.5));
    }
}

#[test]
fn one_treatment_is_the_best_and_no_block_is_refused() {
    let alone = probability_of_best(&[vec![Some(1.0)]], Draws::default()).unwrap();
    assert!((alone.treatments[0].p_best - 1.0).abs() < 1e-15);
    let gaps = [vec![Some(1.0), None], vec![None, Some(2.0)]];
    assert!(probability_of_best(&gaps, Draws::default()).is_err());
    assert!(probability_of_best(&[], Draws::default()).is_err());
}

#[test]
fn drawing_approaches_enumeration() {
    let treatments = [
        [1.0, 5.0, 3.0, 2.0, 4.0, 1.0].map(Some).to_vec(),
        [2.0, 3.0, 3.0, 3.0, 3.0, 1.0].map(Some).to_vec(),
        [4.0, 1.0, 2.0, 4.0, 0.0, 3.0].map(Some).to_vec(),
    ];
    let exact = probability_of_best(&treatments, Draws::default()).unwrap();
    let drawn = probability_of_best_drawn(&treatments, Draws::default()).unwrap();
    assert!(exact.is_exact && !drawn.is_exact);
    for (e, d) in exact.treatments.iter().zip(&drawn.treatments) {
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
    for (treatments, blocks, digits) in
        [(3, 12, 1.0), (24, 60, 1e6), (30, 40, 10.0), (50, 11, 1e15)]
    {
        let mut mean = || Some((rng.next_normal() * digits).round() / digits);
        let means: Vec<Vec<Option<f64>>> = (0..treatments)
            .map(|_| (0..blocks).map(|_| mean()).collect())
            .collect();
        let draws = Draws {
            count: 500,
            seed: 3,
        };
        let quick = probability_of_best_drawn(&means, draws).unwrap();
        assert_eq!(
            quick,
            with_all_digits(&means, draws),
            "{treatments} × {blocks}"
        );
    }
}

#[test]
fn numbers_that_cannot_be_scaled_are_left_to_all_digits() {
    for scale in [0.0, 1e-320, 1e300] {
        let treatment = |k: f64| -> Vec<Option<f64>> {
            (0..12)
                .map(|b| Some(scale * (k + f64::from(b % 5))))
                .collect()
        };
        let means = [treatment(0.0), treatment(1.0), treatment(0.5)];
        let draws = Draws::default();
        let quick = probability_of_best_drawn(&means, draws).unwrap();
        assert_eq!(quick, with_all_digits(&means, draws), "{scale}");
    }
}
