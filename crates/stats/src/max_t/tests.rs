#![expect(clippy::float_cmp, reason = "p values are counts over powers of two")]

use super::{max_t, sign_flip, step_down};
use crate::{Alternative, Draws, StatsError};

const DRAWS: Draws = Draws {
    count: 20_000,
    seed: 3,
};

#[test]
fn the_smallest_p_is_one_vector() {
    let test = sign_flip(&[1.0, 2.0, 3.0, 4.0, 5.0], Alternative::Greater, DRAWS).unwrap();
    assert_eq!(
        (test.p, test.is_exact, test.vectors),
        (1.0 / 32.0, true, 32)
    );
}

#[test]
fn four_blocks_are_refused() {
    let refused = sign_flip(&[1.0; 4], Alternative::Greater, DRAWS);
    let (needed, found) = (5, 4);
    assert_eq!(refused, Err(StatsError::TooFewBlocks { needed, found }));
}

#[test]
fn all_ties_give_p_one() {
    let test = sign_flip(&[0.0; 6], Alternative::TwoSided, DRAWS).unwrap();
    assert_eq!(test.p, 1.0);
}

#[test]
fn a_constant_difference_is_tested() {
    let test = sign_flip(&[0.2; 6], Alternative::TwoSided, DRAWS).unwrap();
    assert_eq!(test.p, 2.0 / 64.0);
}

#[test]
fn drawing_approaches_enumeration() {
    let exact = [
        0.9, -0.2, 0.4, 1.1, -0.7, 0.3, 0.8, 0.1, -0.3, 0.5, 0.6, -0.1,
    ];
    // Zeros change neither the sum nor Σd², and take the count of blocks above the limit.
    let padded: Vec<f64> = exact.iter().copied().chain([0.0; 8]).collect();
    let p = sign_flip(&exact, Alternative::Greater, DRAWS).unwrap().p;
    let drawn = sign_flip(&padded, Alternative::Greater, DRAWS).unwrap();
    assert!(!drawn.is_exact);
    let error = (p * (1.0 - p) / 20_000.0).sqrt();
    assert!((drawn.p - p).abs() < 4.0 * error, "{} {p}", drawn.p);
}

#[test]
fn a_comparison_with_few_blocks_stays_out_of_the_family() {
    let strong: Vec<Option<f64>> = (1..=6).map(|d| Some(f64::from(d))).collect();
    let mut sparse = strong.clone();
    sparse[..3].fill(None);
    let family = max_t(&[strong, sparse], Alternative::Greater, DRAWS).unwrap();
    assert_eq!(family.tests[0].unwrap().p_adjusted, 1.0 / 64.0);
    assert_eq!(family.tests[1], None);
    let nothing = max_t(&[], Alternative::Greater, DRAWS).unwrap();
    assert!(nothing.tests.is_empty());
}

#[test]
fn ragged_comparisons_keep_their_own_p() {
    let full: Vec<Option<f64>> = [0.5, -0.1, 0.7, 0.9, -0.3, 0.2, 1.0].map(Some).to_vec();
    let mut missing = full.clone();
    missing[6] = None;
    let family = max_t(&[full, missing], Alternative::Greater, DRAWS).unwrap();
    let six = [0.5, -0.1, 0.7, 0.9, -0.3, 0.2];
    let alone = sign_flip(&six, Alternative::Greater, DRAWS).unwrap();
    let test = family.tests[1].unwrap();
    assert_eq!((test.blocks, test.p), (6, alone.p));
    assert!(test.p_adjusted >= test.p);
}

#[test]
fn step_down_is_never_larger() {
    let wave = |phase: u32| -> Vec<Option<f64>> {
        (0..9)
            .map(|s| Some(f64::from((s * 7 + phase * 5) % 11) - 3.5))
            .collect()
    };
    let family: Vec<_> = (0..6).map(wave).collect();
    let single = max_t(&family, Alternative::TwoSided, DRAWS).unwrap();
    let down = step_down(&family, Alternative::TwoSided, DRAWS).unwrap();
    for (s, d) in single.tests.iter().zip(&down.tests) {
        assert!(d.unwrap().p_adjusted <= s.unwrap().p_adjusted);
        assert_eq!(d.unwrap().p, s.unwrap().p);
    }
}
