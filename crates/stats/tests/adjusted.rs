//! Corrections for selection and for a covariate, against `reference/adjusted.py` and in simulations.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::covariate::paired_at_equal;
use assize_stats::describe::mean;
use assize_stats::rng::SplitMix64;
use assize_stats::selection::selection_corrected;
use proptest::prelude::*;
use serde_json::Value;
use support::{close, close_interval, load, number, optional_numbers};

fn data() -> Value {
    load(include_str!("data/adjusted.json"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

#[test]
fn selection_is_that_of_the_reference() {
    for case in list(&data()["selection"]) {
        let table: Vec<_> = list(&case["data"]).iter().map(optional_numbers).collect();
        let found = selection_corrected(&table).unwrap();
        close(found.f.unwrap(), &case["f"]);
        close(found.keep, &case["keep"]);
        for (place, own) in found.differences.iter().enumerate() {
            close(own.unwrap(), &case["corrected"][place]);
        }
    }
}

#[test]
fn differences_at_equal_covariates_are_those_of_the_reference() {
    for case in list(&data()["covariate"]) {
        let differences: Vec<f64> = list(&case["differences"]).iter().map(number).collect();
        let covariate: Vec<f64> = list(&case["x"]).iter().map(number).collect();
        let found = paired_at_equal(&differences, &covariate, 0.95)
            .unwrap()
            .unwrap();
        close(found.slope, &case["slope"]);
        close(found.slope_p, &case["slope_p"]);
        close(found.mean, &case["mean"]);
        close(found.se, &case["se"]);
        close_interval(found.interval, &case["interval"]);
    }
}

/// Differences of 11 challengers to a reference over 8 blocks, 5 replicates, with the spreads of the
/// reference data.
fn challengers(rng: &mut SplitMix64, effects: [f64; 11]) -> Vec<Vec<Option<f64>>> {
    let noise = (0.53_f64.powi(2) + 1.67_f64.powi(2) / 5.0).sqrt();
    let base: Vec<f64> = (0..8).map(|_| noise * rng.next_normal()).collect();
    let mut own = |effect: f64| {
        base.iter()
            .map(|base| Some(effect + noise * rng.next_normal() - base))
            .collect()
    };
    effects.into_iter().map(&mut own).collect()
}

/// The mean error of the winner's difference, raw and corrected.
fn winners_bias(effects: [f64; 11]) -> (f64, f64) {
    let runs = 1500;
    let (mut raw, mut corrected) = (0.0, 0.0);
    for seed in 0..runs {
        let table = challengers(&mut SplitMix64::new(seed << 6), effects);
        let means: Vec<f64> = table
            .iter()
            .map(|own| mean(&own.iter().flatten().copied().collect::<Vec<_>>()).unwrap())
            .collect();
        let winner = (0..11)
            .max_by(|i, j| means[*i].total_cmp(&means[*j]))
            .unwrap();
        let found = selection_corrected(&table).unwrap();
        raw += (means[winner] - effects[winner]) / runs as f64;
        corrected += (found.differences[winner].unwrap() - effects[winner]) / runs as f64;
    }
    (raw, corrected)
}

#[test]
fn most_of_the_winners_bias_is_removed() {
    let (raw, corrected) = winners_bias([0.0; 11]);
    assert!(
        raw > 0.4 && corrected.abs() < 0.35 * raw,
        "{raw} {corrected}"
    );
    let mut one_better = [0.0; 11];
    one_better[4] = 2.5;
    // A single clear winner is chosen by no luck; the correction costs it about a seventh.
    let (raw, corrected) = winners_bias(one_better);
    assert!(
        raw.abs() < 0.1 && (-0.5..0.0).contains(&corrected),
        "{raw} {corrected}"
    );
}

#[test]
fn little_and_bad_input() {
    let two = selection_corrected(&[vec![Some(1.0), Some(3.0)], vec![Some(0.0), None]]).unwrap();
    assert_eq!((two.f, two.differences), (None, vec![Some(2.0), Some(0.0)]));
    assert!(selection_corrected(&[]).is_err() && selection_corrected(&[vec![None]]).is_err());
    assert!(selection_corrected(&[vec![None], vec![]]).is_err());
    let exact: Vec<_> = (0..3).map(|j| vec![Some(f64::from(j)); 4]).collect();
    let found = selection_corrected(&exact).unwrap();
    assert!((found.keep - 1.0).abs() < 1e-12 && found.f.is_none());
    let short = vec![
        vec![Some(1.0), None],
        vec![None, Some(1.0)],
        vec![Some(2.0), None],
    ];
    assert!(selection_corrected(&short).is_err());
}

proptest! {
    #[test]
    fn corrected_differences_stay_in_order_and_between_mean_and_raw(
        scores in prop::collection::vec(prop::collection::vec(-20_i32..30, 6), 1..8),
    ) {
        let table: Vec<Vec<Option<f64>>> = scores
            .iter()
            .map(|own| own.iter().map(|d| Some(f64::from(*d) / 10.0)).collect())
            .collect();
        let found = selection_corrected(&table).unwrap();
        prop_assert!((0.0..=1.0).contains(&found.keep));
        for (own, corrected) in table.iter().zip(&found.differences) {
            let raw = own.iter().flatten().sum::<f64>() / 6.0;
            let corrected = corrected.unwrap();
            let (low, high) = (raw.min(found.mean), raw.max(found.mean));
            prop_assert!(corrected >= low - 1e-9 && corrected <= high + 1e-9);
        }
    }
}
