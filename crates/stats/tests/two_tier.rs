//! Clustered PPI++ against `reference/two_tier.py`, and its coverage and gain in a simulation.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::agreement::{Metric, alpha, alpha_interval};
use assize_stats::paired::{differences, pair};
use assize_stats::rng::SplitMix64;
use assize_stats::two_tier::{
    Lambda, Scored, TierCell, Trusted, TwoTierDiff, differential_bias, paired_two_tier,
    paired_two_tier_table,
};
use proptest::prelude::*;
use serde_json::Value;
use support::{close, close_interval, load, number};

fn data() -> Value {
    load(include_str!("data/two_tier.json"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// The cells of one treatment by block, from rows of cheap score, trusted score and inclusion.
fn cells(blocks: &Value) -> Vec<Option<TierCell>> {
    let scored = |row: &Value| Scored {
        cheap: number(&row[0]),
        trusted: row[1].as_f64().map(|score| Trusted {
            score,
            inclusion: number(&row[2]),
        }),
    };
    let cell = |rows: &Value| TierCell::new(&list(rows).iter().map(scored).collect::<Vec<_>>());
    list(blocks)
        .iter()
        .map(|rows| cell(rows).unwrap())
        .collect()
}

#[track_caller]
fn same(found: &TwoTierDiff, expected: &Value) {
    close(found.lambda, &expected["lambda"]);
    close(found.mean, &expected["mean"]);
    close(found.se, &expected["se"]);
    close_interval(found.interval, &expected["interval"]);
    close(found.lower_bound, &expected["lower_bound"]);
    close(found.trusted_mean, &expected["trusted_mean"]);
    close(found.trusted_se, &expected["trusted_se"]);
    close(found.effective_items, &expected["effective_items"]);
    for (count, key) in [
        (found.blocks, "blocks"),
        (found.trusted_blocks, "trusted_blocks"),
        (found.trusted_items, "items"),
    ] {
        assert_eq!(Some(count as u64), expected[key].as_u64(), "{key}");
    }
    assert_eq!(found.df, found.trusted_blocks - 1);
}

#[test]
fn pairs_and_their_bias_are_those_of_the_reference() {
    for case in list(&data()["pairs"]) {
        let (left, right) = (cells(&case["cells"][0]), cells(&case["cells"][1]));
        let found = paired_two_tier(&left, &right, Lambda::Tuned, 0.95).unwrap();
        same(&found, &case["tuned"]);
        let fixed = paired_two_tier(&left, &right, Lambda::Fixed(0.0), 0.95).unwrap();
        close(fixed.mean, &case["tuned"]["trusted_mean"]);
        assert!((fixed.effective_items - fixed.trusted_items as f64).abs() < 1e-9);
        let bias = differential_bias(&left, &right, 0.95).unwrap();
        close(bias.difference.mean, &case["bias"]["mean"]);
        close_interval(bias.difference.interval, &case["bias"]["interval"]);
        assert!((bias.left - bias.right - bias.difference.mean).abs() < 1e-9);
        assert_eq!(bias.items, found.trusted_items);
    }
}

#[test]
fn a_table_has_one_lambda_and_pseudo_values_that_carry_the_estimates() {
    let data = data();
    let case = &data["table"];
    let table: Vec<_> = list(&case["cells"]).iter().map(cells).collect();
    let found = paired_two_tier_table(&table, 0, Lambda::Tuned, 0.95).unwrap();
    close(found.lambda, &case["lambda"]);
    assert_eq!(found.differences[0], None);
    for (place, expected) in list(&case["differences"]).iter().enumerate() {
        let difference = found.differences[place + 1].unwrap();
        same(&difference, expected);
        let pairing = pair(&found.pseudo_values[place + 1], &found.pseudo_values[0]).unwrap();
        assert_eq!(pairing.blocks.len(), difference.trusted_blocks);
        let plain = pairing.compare(0.95).unwrap();
        close(plain.mean, &expected["mean"]);
        close(plain.se, &expected["se"]);
        close_interval(plain.interval, &expected["interval"]);
    }
}

#[test]
fn alpha_over_clusters_is_that_of_the_reference() {
    let data = data();
    let case = &data["alpha"];
    let score = |value: &Value| value.as_i64().map(|score| i32::try_from(score).unwrap());
    let raters: Vec<Vec<Option<i32>>> = list(&case["raters"])
        .iter()
        .map(|rater| list(rater).iter().map(score).collect())
        .collect();
    let clusters: Vec<usize> = list(&case["clusters"])
        .iter()
        .map(|cluster| usize::try_from(cluster.as_u64().unwrap()).unwrap())
        .collect();
    let interval = |clusters: &[usize]| {
        let found = alpha_interval(&raters, clusters, Metric::Ordinal, 0.95);
        found.unwrap().unwrap()
    };
    let found = interval(&clusters);
    close(found.alpha, &case["alpha"]);
    close(found.se.unwrap(), &case["se"]);
    close_interval(found.interval.unwrap(), &case["interval"]);
    assert_eq!(found.clusters, 8);
    // Every item its own cluster is the jackknife over items.
    let single: Vec<usize> = (0..30).collect();
    let items = alpha(&raters, Metric::Ordinal).unwrap().unwrap();
    assert_eq!(
        (interval(&single).se, interval(&single).items),
        (items.se, items.items)
    );
    assert_eq!(interval(&[0; 30]).interval, None);
    assert!(alpha_interval(&raters, &[0], Metric::Ordinal, 0.95).is_err());
}

/// Two treatments that differ by 0.5; 5 replicates each, of which the first `trusted` of the
/// first `labelled` blocks have a trusted score. The cheap scorer favours the right one by 0.7.
fn simulated(
    rng: &mut SplitMix64,
    blocks: usize,
    labelled: usize,
    trusted: usize,
) -> [Vec<Option<TierCell>>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for block in 0..blocks {
        for (side, (effect, bias)) in sides.iter_mut().zip([(0.5, 0.3), (0.0, 1.0)]) {
            let centre = effect + 0.53 * rng.next_normal();
            let replicates: Vec<Scored> = (0..5)
                .map(|place| {
                    let score = centre + 1.67 * rng.next_normal();
                    let drawn = block < labelled && place < trusted;
                    Scored {
                        cheap: score + bias + 0.8 * rng.next_normal(),
                        trusted: drawn.then_some(Trusted {
                            score,
                            inclusion: 0.4,
                        }),
                    }
                })
                .collect();
            side.push(TierCell::new(&replicates).unwrap());
        }
    }
    sides
}

#[test]
fn intervals_cover_and_are_shorter_than_with_trusted_scores_alone() {
    for (blocks, labelled, trusted) in [(24, 24, 2), (24, 12, 5), (48, 10, 3)] {
        let runs = 1000;
        let (mut covered, mut gain, mut bias_covered) = (0, 0.0, 0);
        for seed in 0..runs {
            let mut rng = SplitMix64::new(seed << 12);
            let [left, right] = simulated(&mut rng, blocks, labelled, trusted);
            let found = paired_two_tier(&left, &right, Lambda::Tuned, 0.95).unwrap();
            covered += usize::from(found.interval.low <= 0.5 && found.interval.high >= 0.5);
            gain += found.effective_items / found.trusted_items as f64 / runs as f64;
            let bias = differential_bias(&left, &right, 0.95).unwrap();
            let interval = bias.difference.interval;
            bias_covered += usize::from(interval.low <= -0.7 && interval.high >= -0.7);
        }
        let what = format!("{blocks} {labelled} {trusted}: {covered} {bias_covered} {gain}");
        assert!((932..=978).contains(&covered), "{what}");
        assert!((925..=975).contains(&bias_covered), "{what}");
        assert!(gain > 1.25, "{what}");
    }
}

#[test]
fn cheap_scores_that_say_nothing_cost_nothing() {
    let cell = |trusted: f64, cheap: f64| {
        let trusted = Some(Trusted {
            score: trusted,
            inclusion: 1.0,
        });
        TierCell::new(&[Scored { cheap, trusted }]).unwrap()
    };
    let left: Vec<_> = (0..6).map(|s| cell(f64::from(s * s), 3.0)).collect();
    let right: Vec<_> = (0..6).map(|s| cell(f64::from(s), 3.0)).collect();
    let found = paired_two_tier(&left, &right, Lambda::Tuned, 0.95).unwrap();
    assert!(found.lambda.abs() < 1e-12 && (found.mean - found.trusted_mean).abs() < 1e-12);
    assert!((found.effective_items - 12.0).abs() < 1e-9);
}

#[test]
fn bad_input_is_refused() {
    let scored = |inclusion| Scored {
        cheap: 1.0,
        trusted: Some(Trusted {
            score: 1.0,
            inclusion,
        }),
    };
    assert!(TierCell::new(&[scored(0.0)]).is_err() && TierCell::new(&[scored(1.5)]).is_err());
    assert_eq!(TierCell::new(&[]).unwrap(), None);
    let nan = Scored {
        cheap: f64::NAN,
        trusted: None,
    };
    assert!(TierCell::new(&[nan]).is_err());
    let one = vec![TierCell::new(&[scored(1.0)]).unwrap()];
    assert!(paired_two_tier(&one, &one, Lambda::Tuned, 0.95).is_err());
    assert!(paired_two_tier(&one, &[], Lambda::Tuned, 0.95).is_err());
    assert!(differential_bias(&one, &one, 0.95).is_err());
    assert!(paired_two_tier_table(&[one], 1, Lambda::Tuned, 0.95).is_err());
}

proptest! {
    #[test]
    fn a_constant_bias_of_the_cheap_scorer_moves_nothing(
        rows in prop::collection::vec((-9_i32..9, -9_i32..9, -9_i32..9, -9_i32..9, 0_u8..3), 4..14),
        bias in -20_i32..20,
    ) {
        let cell = |y: i32, f: i32, extra: u8, bias: i32| {
            let trusted = (extra < 2).then_some(Trusted { score: f64::from(y), inclusion: 0.5 });
            let cheap = f64::from(f + bias);
            let more = Scored { cheap: cheap - f64::from(extra), trusted: None };
            TierCell::new(&[Scored { cheap, trusted }, more]).unwrap()
        };
        let side = |bias: i32| -> Vec<_> { rows.iter().map(|r| cell(r.0, r.1, r.4, bias)).collect() };
        let right: Vec<_> = rows.iter().map(|r| cell(r.2, r.3, r.4, 0)).collect();
        let Ok(found) = paired_two_tier(&side(0), &right, Lambda::Tuned, 0.95) else { return Ok(()) };
        let other = paired_two_tier(&side(bias), &right, Lambda::Tuned, 0.95).unwrap();
        prop_assert!((found.mean - other.mean).abs() < 1e-6 && (found.se - other.se).abs() < 1e-6);
        prop_assert!(found.se <= found.trusted_se + 1e-9);
        prop_assert!((0.0..=1.0).contains(&found.lambda));
        let table = paired_two_tier_table(&[right, side(0)], 0, Lambda::Tuned, 0.95).unwrap();
        prop_assert!((table.lambda - found.lambda).abs() < 1e-9);
        let pseudo = differences(&table.pseudo_values[1], &table.pseudo_values[0]);
        let pseudo: Vec<f64> = pseudo.into_iter().flatten().collect();
        if !pseudo.is_empty() {
            let mean = pseudo.iter().sum::<f64>() / pseudo.len() as f64;
            prop_assert!((mean - found.mean).abs() < 1e-9);
        }
    }
}
