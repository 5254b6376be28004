//! The e-process against `reference/e_process.py`, its error rate under peeking, and its power.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::Draws;
use assize_stats::e_process::{EProcessSettings, e_path, e_process, further_blocks};
use assize_stats::paired::paired_diff;
use assize_stats::rng::SplitMix64;
use proptest::prelude::*;
use support::{close, load, number, numbers};

const SETTINGS: EProcessSettings = EProcessSettings {
    scale: 1.0,
    alpha: 0.05,
};

#[test]
fn every_figure_is_that_of_the_reference() {
    let data = load(include_str!("data/e_process.json"));
    for case in data["cases"].as_array().unwrap() {
        let differences = numbers(&case["d"]);
        let settings = EProcessSettings {
            scale: number(&case["scale"]),
            alpha: number(&case["alpha"]),
        };
        let found = e_process(&differences, settings).unwrap();
        close(found.log_e, &case["log_e"]);
        assert_eq!(found.blocks, differences.len());
        assert!((found.p - (-found.log_e).exp().min(1.0)).abs() < 1e-15);
        assert_eq!(found.is_significant, found.p <= settings.alpha);
        match found.lower_bound {
            Some(bound) => close(bound, &case["lower_bound"]),
            None => assert!(case["lower_bound"].is_null()),
        }
        let path = e_path(&differences, settings).unwrap();
        for (place, log_e) in path.iter().enumerate() {
            close(*log_e, &case["path"][place]);
        }
    }
}

/// How often E ≥ 20 after any of 100 blocks.
fn ever_significant(runs: u64, mut draw: impl FnMut(&mut SplitMix64) -> f64) -> usize {
    let ever = |seed: u64| {
        let mut rng = SplitMix64::new(seed << 10);
        let differences: Vec<f64> = (0..100).map(|_| draw(&mut rng)).collect();
        let path = e_path(&differences, SETTINGS).unwrap();
        path.iter().any(|log_e| *log_e >= 20.0_f64.ln())
    };
    (0..runs).map(ever).filter(|ever| *ever).count()
}

#[test]
fn looking_after_every_block_keeps_the_error_rate() {
    let sign = |rng: &mut SplitMix64| if rng.next_f64() < 0.5 { -1.0 } else { 1.0 };
    // 5 % of 1000 and three standard errors.
    let most = 71;
    for sd in [0.3, 1.0, 3.0] {
        let found = ever_significant(1000, |rng| sd * rng.next_normal());
        assert!(found <= most, "normal with sd {sd}: {found}");
    }
    let found = ever_significant(1000, |rng| rng.next_normal() / rng.next_normal());
    assert!(found <= most, "Cauchy: {found}");
    let found = ever_significant(1000, |rng| sign(rng));
    assert!(found <= most, "signs: {found}");
    let found = ever_significant(1000, |rng| sign(rng) * (1.0 + rng.next_f64()) - 0.2);
    assert!(found <= most, "centre below zero: {found}");
}

#[test]
fn the_t_test_does_not_survive_looking_and_the_e_process_keeps_most_of_its_power() {
    let (mut peeking, mut by_t, mut by_e) = (0, 0, 0);
    for seed in 0..400 {
        let mut rng = SplitMix64::new(seed << 11);
        let null: Vec<f64> = (0..100).map(|_| rng.next_normal()).collect();
        let p = |n: usize| paired_diff(&null[..n], 0.95).unwrap().p_greater.unwrap();
        peeking += usize::from((5..=100).any(|n| p(n) <= 0.05));
        let effect: Vec<f64> = (0..24).map(|_| 0.8 + rng.next_normal()).collect();
        let t = paired_diff(&effect, 0.95).unwrap().p_greater.unwrap();
        by_t += usize::from(t <= 0.05);
        by_e += usize::from(e_process(&effect, SETTINGS).unwrap().is_significant);
    }
    assert!(peeking > 80, "{peeking} of 400");
    assert!(by_t > 370 && by_e > 300, "{by_t} {by_e} of 400");
}

#[test]
fn further_blocks_are_what_it_takes() {
    let draws = Draws {
        count: 200,
        seed: 1,
    };
    let found = further_blocks(&[], 1.0, 1.0, 400, SETTINGS, draws).unwrap();
    let (median, p80) = (found.median.unwrap(), found.p80.unwrap());
    assert!((8..20).contains(&median) && p80 > median, "{found:?}");
    let smaller = further_blocks(&[], 0.4, 1.0, 400, SETTINGS, draws).unwrap();
    assert!(smaller.median.unwrap() > 2 * median, "{smaller:?}");
    let never = further_blocks(&[], -0.5, 1.0, 50, SETTINGS, draws).unwrap();
    assert_eq!((never.median, never.p80), (None, None));
    let done = further_blocks(&[2.0; 12], 1.0, 1.0, 50, SETTINGS, draws).unwrap();
    assert_eq!((done.median, done.p80), (Some(0), Some(0)));
    assert!(further_blocks(&[], f64::NAN, 1.0, 50, SETTINGS, draws).is_err());
}

#[test]
fn bad_input_is_refused() {
    let with = |scale, alpha| e_process(&[1.0], EProcessSettings { scale, alpha });
    assert!(with(0.0, 0.05).is_err() && with(1.0, 1.0).is_err() && with(f64::NAN, 0.05).is_err());
    assert!(e_process(&[f64::NAN], SETTINGS).is_err());
    let nothing = e_process(&[], SETTINGS).unwrap();
    assert!(nothing.log_e.abs() < 1e-12 && nothing.lower_bound.is_none());
}

proptest! {
    #[test]
    fn order_does_not_matter_and_larger_differences_never_weaken(
        scores in prop::collection::vec(-30_i32..40, 1..30),
        raised in 0_usize..30,
    ) {
        let mut differences: Vec<f64> = scores.iter().map(|d| f64::from(*d) / 10.0).collect();
        let found = e_process(&differences, SETTINGS).unwrap();
        if let Some(bound) = found.lower_bound {
            prop_assert_eq!(bound > 0.0, found.is_significant);
            let largest = differences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(bound < largest);
        }
        let place = raised % differences.len();
        differences[place] += 0.5;
        differences.reverse();
        let other = e_process(&differences, SETTINGS).unwrap();
        prop_assert!(other.log_e >= found.log_e - 1e-12);
    }
}
