//! Shrunken block effects against `reference/block_effects.py`, and what they are for: more blocks
//! do not make a harmless treatment look harmful, and a harmed block is found.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::block_effects::{Noise, block_effects, group_effects};
use assize_stats::rng::SplitMix64;
use assize_stats::shrinkage::shrink;
use assize_stats::table::{Row, Table};
use proptest::prelude::*;
use serde_json::Value;
use support::{close, index, load, number, numbers};

fn data() -> Value {
    load(include_str!("data/block_effects.json"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

#[test]
fn shrinkage_is_that_of_the_reference() {
    for case in list(&data()["shrink"]) {
        let found = shrink(&numbers(&case["y"]), &numbers(&case["v"])).unwrap();
        close(found.mean, &case["mean"]);
        close(found.mean_se, &case["mean_se"]);
        close(found.between_variance, &case["tau2"]);
        for (place, effect) in found.effects.iter().enumerate() {
            close(effect.mean, &case["effects"][place]);
            close(effect.sd, &case["sd"][place]);
        }
    }
}

#[test]
fn block_and_group_effects_are_those_of_the_reference() {
    let data = data();
    for (case, noise) in list(&data["blocks"])
        .iter()
        .zip([Noise::Replicates, Noise::Spread])
    {
        let mut rows = Vec::new();
        for (treatment, side) in ["left", "right"].into_iter().enumerate() {
            for (block, values) in list(&case[side]).iter().enumerate() {
                let row = |value| Row {
                    treatment,
                    block,
                    value,
                };
                rows.extend(numbers(values).into_iter().map(row));
            }
        }
        let blocks = list(&case["left"]).len();
        let table = Table::from_rows(2, blocks, &rows).unwrap();
        let (left, right) = (table.treatment_cells(0), table.treatment_cells(1));
        let found = block_effects(left, right, number(&case["alpha"])).unwrap();
        assert_eq!(found.noise, noise);
        assert_eq!(Some(found.worst as u64), case["worst"].as_u64());
        close(found.mean, &case["mean"]);
        for (place, effect) in found.blocks.iter().enumerate() {
            assert_eq!(effect.block, place);
            close(effect.difference, &case["differences"][place]);
            close(effect.estimate, &case["estimates"][place]);
            close(effect.sd, &case["sd"][place]);
        }
    }
    let case = &data["groups"];
    let labels: Vec<usize> = list(&case["labels"]).iter().map(index).collect();
    let found = group_effects(&numbers(&case["differences"]), &labels).unwrap();
    assert_eq!(found.len(), list(&case["groups"]).len());
    for (place, group) in found.iter().enumerate() {
        assert_eq!(Some(group.group as u64), case["groups"][place].as_u64());
        assert_eq!(Some(group.blocks as u64), case["blocks"][place].as_u64());
        assert_eq!(group.is_single, group.blocks < 2);
        close(group.mean, &case["mean"][place]);
        close(group.se.unwrap(), &case["se"][place]);
        close(group.estimate.unwrap(), &case["estimates"][place]);
    }
}

/// Two treatments with 5 replicates; the spreads of the reference data. The left one is better by
/// `effect` on average, and by `first` in the first block where that is given.
fn simulated(rng: &mut SplitMix64, blocks: usize, effect: f64, first: Option<f64>) -> Table {
    let mut rows = Vec::with_capacity(blocks * 10);
    for block in 0..blocks {
        let own = effect + 0.53 * 2.0_f64.sqrt() * rng.next_normal();
        let own = first.filter(|_| block == 0).unwrap_or(own);
        for (treatment, centre) in [(0, own), (1, 0.0)] {
            let mut row = || Row {
                treatment,
                block,
                value: centre + 1.67 * rng.next_normal(),
            };
            rows.extend((0..5).map(|_| row()));
        }
    }
    Table::from_rows(2, blocks, &rows).unwrap()
}

/// How often the smallest estimate is below −2, and how often the smallest raw difference.
fn share_below(blocks: usize, effect: f64, runs: usize) -> (f64, f64) {
    let (mut shrunken, mut raw) = (0, 0);
    for seed in 0..runs as u64 {
        let table = simulated(&mut SplitMix64::new(seed << 8), blocks, effect, None);
        let (left, right) = (table.treatment_cells(0), table.treatment_cells(1));
        let found = block_effects(left, right, 0.05).unwrap();
        shrunken += usize::from(found.worst().unwrap().estimate < -2.0);
        raw += usize::from(found.blocks.iter().any(|it| it.difference < -2.0));
    }
    (shrunken as f64 / runs as f64, raw as f64 / runs as f64)
}

#[test]
fn more_blocks_do_not_make_a_harmless_treatment_look_harmful() {
    for effect in [0.5, 1.0] {
        let rates = [8, 24, 48, 96].map(|blocks| share_below(blocks, effect, 1500));
        for pair in rates.windows(2) {
            // Two standard errors of the difference of two shares of 2 %.
            assert!(pair[1].0 <= pair[0].0 + 0.01, "{effect}: {rates:?}");
            assert!(pair[1].1 > pair[0].1, "{effect}: {rates:?}");
        }
        assert!(
            rates[0].0 < 0.04 && rates[3].0 < 0.02,
            "{effect}: {rates:?}"
        );
    }
}

#[test]
fn a_harmed_block_is_found_among_few_and_among_many() {
    for blocks in [8, 96] {
        let mut found = 0;
        for seed in 0..300 {
            let mut rng = SplitMix64::new(seed << 9);
            let table = simulated(&mut rng, blocks, 0.5, Some(-6.0));
            let (left, right) = (table.treatment_cells(0), table.treatment_cells(1));
            let effects = block_effects(left, right, 0.05).unwrap();
            let worst = effects.worst().unwrap();
            found += usize::from(worst.block == 0 && worst.estimate < -2.0);
        }
        assert!(found >= 270, "{blocks} blocks: {found} of 300");
    }
}

#[test]
fn without_replicates_a_bound_is_rarely_too_low() {
    let mut too_low = 0;
    for seed in 0..1000 {
        let mut rng = SplitMix64::new(seed << 7);
        let row = |treatment, block, value| Row {
            treatment,
            block,
            value,
        };
        let rows: Vec<Row> = (0..24)
            .flat_map(|block| {
                [
                    row(0, block, rng.next_normal()),
                    row(1, block, rng.next_normal()),
                ]
            })
            .collect();
        let table = Table::from_rows(2, 24, &rows).unwrap();
        let (left, right) = (table.treatment_cells(0), table.treatment_cells(1));
        let found = block_effects(left, right, 0.05).unwrap();
        assert_eq!(found.noise, Noise::Spread);
        too_low += usize::from(found.worst().unwrap().estimate < 0.0);
    }
    assert!(too_low <= 71, "{too_low} of 1000");
}

#[test]
fn bad_input_is_refused_and_little_input_answered() {
    let table = Table::from_means(&[vec![Some(1.0), Some(2.0)], vec![Some(0.0); 2]]).unwrap();
    let (left, right) = (table.treatment_cells(0), table.treatment_cells(1));
    assert!(block_effects(left, right, 0.05).is_err());
    assert!(block_effects(left, &right[..1], 0.05).is_err());
    assert!(block_effects(left, right, 0.0).is_err());
    assert!(shrink(&[1.0], &[-1.0]).is_err() && shrink(&[], &[]).is_err());
    assert!(shrink(&[f64::NAN], &[1.0]).is_err());
    let exact = shrink(&[1.0, 2.0], &[0.0, 0.0]).unwrap();
    assert!((exact.effects[0].mean - 1.0).abs() < 1e-9 && exact.effects[0].sd < 1e-9);
    assert!(group_effects(&[1.0], &[]).is_err());
    assert!(group_effects(&[], &[]).unwrap().is_empty());
    let apart = group_effects(&[1.0, 2.0], &[4, 7]).unwrap();
    assert!(
        apart
            .iter()
            .all(|it| it.is_single && it.se.is_none() && it.estimate.is_none())
    );
}

proptest! {
    #[test]
    fn a_shrunken_effect_lies_between_the_estimate_and_the_mean(
        pairs in prop::collection::vec((-50_i32..50, 0_u32..40), 1..30),
        shift in -20_i32..20,
    ) {
        let y: Vec<f64> = pairs.iter().map(|it| f64::from(it.0) / 10.0).collect();
        let v: Vec<f64> = pairs.iter().map(|it| f64::from(it.1) / 10.0).collect();
        let found = shrink(&y, &v).unwrap();
        prop_assert!(found.between_variance >= 0.0);
        for (y, effect) in y.iter().zip(&found.effects) {
            let (low, high) = (y.min(found.mean), y.max(found.mean));
            prop_assert!(effect.mean >= low - 1e-9 && effect.mean <= high + 1e-9);
            prop_assert!(effect.sd >= 0.0);
        }
        let moved: Vec<f64> = y.iter().map(|y| y + f64::from(shift)).collect();
        let other = shrink(&moved, &v).unwrap();
        prop_assert!((other.between_variance - found.between_variance).abs() < 1e-6);
        prop_assert!((other.mean - found.mean - f64::from(shift)).abs() < 1e-6);
    }
}
