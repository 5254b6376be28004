//! minP against `reference/min_p.py`, which follows the definition, and what it is for: short
//! comparisons cost a long one nothing.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(
    clippy::float_cmp,
    reason = "p values are counts over the same vectors"
)]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::max_t::{max_t, sign_flip};
use assize_stats::min_p::{Method, family_tests, min_p};
use assize_stats::rng::SplitMix64;
use assize_stats::{Alternative, Draws};
use serde_json::Value;
use support::{close, load, optional_numbers};

const DRAWS: Draws = Draws {
    count: 2000,
    seed: 3,
};

/// `blocks` differences with a mean, of which only the first `present` are there.
fn noisy(rng: &mut SplitMix64, blocks: usize, present: usize, mean: f64) -> Vec<Option<f64>> {
    (0..blocks)
        .map(|block| (block < present).then_some(mean + rng.next_normal()))
        .collect()
}

#[test]
fn every_p_is_that_of_the_reference() {
    let data = load(include_str!("data/min_p.json"));
    for case in data["cases"].as_array().unwrap() {
        let comparisons: Vec<Vec<Option<f64>>> = case["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(optional_numbers)
            .collect();
        let alternative = match case["alternative"].as_str().unwrap() {
            "greater" => Alternative::Greater,
            _ => Alternative::TwoSided,
        };
        let whole = |value: &Value| value.as_u64().unwrap();
        let draws = Draws {
            count: usize::try_from(whole(&case["draws"])).unwrap(),
            seed: whole(&case["seed"]),
        };
        let found = min_p(&comparisons, alternative, draws).unwrap();
        assert_eq!(
            found,
            family_tests(&comparisons, alternative, draws).unwrap()
        );
        assert_eq!(found.method, Method::MinP);
        assert_eq!(found.is_exact, draws.count == 0);
        let tested: Vec<_> = found.tests.iter().flatten().collect();
        assert_eq!(tested.len(), case["p"].as_array().unwrap().len());
        for (place, test) in tested.iter().enumerate() {
            close(test.p, &case["p"][place]);
            close(test.p_adjusted, &case["p_adjusted"][place]);
        }
    }
}

#[test]
fn equal_numbers_of_blocks_stay_with_max_t() {
    let mut rng = SplitMix64::new(1);
    let mut family: Vec<_> = (0..4).map(|_| noisy(&mut rng, 9, 9, 0.4)).collect();
    // Another block is missing in each, and one comparison is too short to be tested.
    family[0][1] = None;
    for (k, comparison) in family.iter_mut().enumerate().skip(1) {
        comparison[k + 2] = None;
    }
    family[3].fill(None);
    for side in [Alternative::Greater, Alternative::TwoSided] {
        let found = family_tests(&family, side, DRAWS).unwrap();
        let expected = max_t(&family, side, DRAWS).unwrap();
        assert_eq!(found.tests, expected.tests);
        assert_eq!((found.method, found.method.name()), (Method::MaxT, "maxT"));
    }
    family[0][5] = None;
    let found = family_tests(&family, Alternative::Greater, DRAWS).unwrap();
    assert_eq!((found.method, found.method.name()), (Method::MinP, "minP"));
}

#[test]
fn two_short_losers_do_not_cost_a_long_winner_its_p() {
    let mut rng = SplitMix64::new(8);
    let winner = noisy(&mut rng, 24, 24, 1.5);
    let loser: Vec<Option<f64>> = (0..24)
        .map(|block| (block < 5).then(|| -2.0 - 0.1 * f64::from(block)))
        .collect();
    let mut other = loser.clone();
    other.rotate_right(7);
    let draws = Draws::default();
    let family = [winner, loser, other];
    let by_t = max_t(&family, Alternative::Greater, draws).unwrap();
    assert!(by_t.tests[0].unwrap().p_adjusted > 0.05);
    let by_p = family_tests(&family, Alternative::Greater, draws).unwrap();
    let test = by_p.tests[0].unwrap();
    assert!(test.p < 0.001 && test.p_adjusted == test.p, "{test:?}");
}

#[test]
fn eleven_short_comparisons_leave_the_power() {
    let (mut by_t, mut by_p, mut alone) = (0, 0, 0);
    for seed in 0..60 {
        let mut rng = SplitMix64::new(seed);
        let mut family = vec![noisy(&mut rng, 24, 24, 0.75)];
        for shift in 0..11 {
            let mut short = noisy(&mut rng, 24, 5, 0.0);
            short.rotate_right(shift);
            family.push(short);
        }
        let first: Vec<f64> = family[0].iter().flatten().copied().collect();
        let test = max_t(&family, Alternative::Greater, DRAWS).unwrap();
        by_t += usize::from(test.tests[0].unwrap().p_adjusted <= 0.05);
        let test = family_tests(&family, Alternative::Greater, DRAWS).unwrap();
        by_p += usize::from(test.tests[0].unwrap().p_adjusted <= 0.05);
        let test = sign_flip(&first, Alternative::Greater, DRAWS).unwrap();
        alone += usize::from(test.p <= 0.05);
    }
    assert!(
        by_t < 40 && by_p >= 54 && by_p <= alone,
        "{by_t} {by_p} {alone}"
    );
}

#[test]
fn the_level_is_held_with_unequal_blocks() {
    let runs = 800;
    let mut false_findings = 0;
    for seed in 0..runs {
        let mut rng = SplitMix64::new(1000 + seed);
        let family: Vec<_> = [10, 8, 6, 5, 9]
            .map(|present| noisy(&mut rng, 10, present, 0.0))
            .to_vec();
        let found = family_tests(&family, Alternative::Greater, DRAWS).unwrap();
        let any = found.tests.iter().flatten().any(|t| t.p_adjusted <= 0.05);
        false_findings += usize::from(any);
    }
    // 5 % and three standard errors.
    assert!(false_findings <= 58, "{false_findings} of {runs}");
}

#[test]
fn a_single_comparison_keeps_its_p_and_ties_count() {
    let same: Vec<Option<f64>> = vec![Some(0.2); 6];
    let zero: Vec<Option<f64>> = vec![Some(0.0); 6];
    for side in [Alternative::Greater, Alternative::TwoSided] {
        let weight = if side == Alternative::Greater {
            1.0
        } else {
            2.0
        };
        let test = min_p(std::slice::from_ref(&same), side, DRAWS)
            .unwrap()
            .tests[0]
            .unwrap();
        assert_eq!((test.p, test.p_adjusted), (weight / 64.0, weight / 64.0));
        let test = min_p(std::slice::from_ref(&zero), side, DRAWS)
            .unwrap()
            .tests[0]
            .unwrap();
        assert_eq!((test.p, test.p_adjusted), (1.0, 1.0));
    }
    assert!(
        min_p(&[], Alternative::Greater, DRAWS)
            .unwrap()
            .tests
            .is_empty()
    );
    assert!(min_p(&[vec![None], vec![]], Alternative::Greater, DRAWS).is_err());
}
