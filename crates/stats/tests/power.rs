//! The power figures of `data/leaderboard.json`.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::float_cmp, reason = "counts of blocks are compared exactly")]

#[path = "reference/board.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod board;
#[path = "reference/brent.rs"]
mod brent;
#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::Alternative;
use assize_stats::power::{
    Goal, blocks_needed, detectable_dz, detectable_effect, detectable_effect_normal, power,
    predicted_se_of_difference,
};
use assize_stats::variance::decompose_treatments;
use board::{composite, data, pairing};
use serde_json::Value;
use support::{close, number};

/// Where the reference's noncentral t gave no number on the finder's way; its finder took that
/// for +∞.
fn is_hole(blocks: usize, alternative: Alternative, dz: f64) -> bool {
    alternative == Alternative::TwoSided
        && match blocks {
            5 => (6.9..7.1).contains(&dz),
            6 => dz >= 5.5,
            8 => dz >= 3.25,
            _ => false,
        }
}

/// The reference's detectable effects are where its root finder stopped, which is within 1e-5 of
/// the root: the same finder on our power function must stop at the same number, and our own
/// answer must be the root itself.
#[track_caller]
fn detectable(blocks: usize, goal: Goal, expected: &Value) -> f64 {
    let shortfall = |dz| power(dz, blocks, goal.alpha, goal.alternative).unwrap() - goal.power;
    let start = match goal.alternative {
        Alternative::TwoSided => 1e-8,
        Alternative::Greater => -1.0,
    };
    let with_holes = |dz: f64| {
        if is_hole(blocks, goal.alternative, dz) {
            f64::INFINITY
        } else {
            shortfall(dz)
        }
    };
    let stopped = brent::expanding_root(with_holes, start);
    close(stopped, expected);
    let dz = detectable_dz(blocks, goal).unwrap();
    assert!(shortfall(dz).abs() < 1e-12);
    assert!((dz - stopped).abs() < 1e-5);
    stopped
}

#[test]
fn power_and_blocks_needed() {
    let data = data();
    let expected = &data["reference"]["power"];
    let two_sided = Goal::usual(Alternative::TwoSided);
    let one_sided = Goal::usual(Alternative::Greater);
    for (key, wanted) in expected["dz_mde"].as_object().unwrap() {
        let blocks = key.trim_start_matches("S=").parse().unwrap();
        detectable(blocks, two_sided, &wanted["two_sided"]);
        detectable(blocks, one_sided, &wanted["one_sided"]);
    }
    let table = composite(&data);
    let sd = pairing(&table, "m2/p1").compare(0.95).unwrap().sd;
    close(sd, &expected["example_sd_d"]);
    let stopped = detectable(8, two_sided, &expected["dz_mde"]["S=8"]["two_sided"]);
    close(stopped * sd, &expected["mde_composite_S8_two_sided"]);
    let own = detectable_effect(sd, 8, two_sided).unwrap();
    assert_eq!(own, detectable_dz(8, two_sided).unwrap() * sd);
    let normal = detectable_effect_normal(sd, 8, two_sided).unwrap();
    close(normal, &expected["mde_normal_approx_S8"]);
    for (key, goal) in [
        ("S_needed_two_sided_80pct", two_sided),
        ("S_needed_one_sided_80pct", one_sided),
    ] {
        for (effect, wanted) in expected[key].as_object().unwrap() {
            let effect: f64 = effect.parse().unwrap();
            let blocks = blocks_needed(effect, sd, goal, 100_000).unwrap();
            assert_eq!(blocks as f64, number(wanted), "{key} {effect}");
        }
    }
    let components = decompose_treatments(&table).unwrap().components;
    for (key, wanted) in expected["predicted_se_diff_grid"].as_object().unwrap() {
        let (blocks, replicates) = key.split_once(',').unwrap();
        let se = predicted_se_of_difference(
            components.first_by_block.unwrap(),
            components.replicate.unwrap(),
            blocks.trim_start_matches("S=").parse().unwrap(),
            replicates.trim_start_matches("K=").parse().unwrap(),
        );
        close(se.unwrap(), wanted);
    }
}
