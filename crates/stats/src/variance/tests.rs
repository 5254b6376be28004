#![expect(
    clippy::float_cmp,
    reason = "these sums of small whole numbers are exact"
)]

use super::{decompose, decompose_treatments};
use crate::simulate::BlockModel;
use crate::table::{Row, Table};

fn rows(values: &[&[&[f64]]]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (treatment, blocks) in values.iter().enumerate() {
        for (block, replicates) in blocks.iter().enumerate() {
            for &value in *replicates {
                rows.push(Row {
                    treatment,
                    block,
                    value,
                });
            }
        }
    }
    rows
}

#[test]
fn one_treatment_splits_into_blocks_and_replicates() {
    let values: &[&[&[f64]]] = &[&[&[1.0, 3.0], &[5.0, 7.0]]];
    let table = Table::from_rows(1, 2, &rows(values)).unwrap();
    let found = decompose(&table, 1, 1).unwrap();
    assert_eq!(found.sources.block.ss, 16.0);
    assert_eq!(found.sources.replicate.ss, 4.0);
    assert_eq!(found.components.block, Some((16.0 - 2.0) / 2.0));
    assert_eq!(found.components.first_by_block, None);
    assert_eq!(found.first_test, None);
    assert_eq!(found.pooled_se_of_difference(), None);
}

#[test]
fn one_replicate_leaves_interaction_and_noise_together() {
    let values: &[&[&[f64]]] = &[&[&[1.0], &[2.0], &[6.0]], &[&[2.0], &[5.0], &[5.0]]];
    let table = Table::from_rows(2, 3, &rows(values)).unwrap();
    let found = decompose_treatments(&table).unwrap();
    assert_eq!(found.components.replicate, None);
    assert_eq!(found.components.first_by_block, None);
    let together = found.sources.first_by_block.ms();
    assert_eq!(found.components.confounded, together);
    assert!(found.components.block.is_some());
    assert!(found.first_test.is_some());
}

#[test]
fn one_block_has_no_components_and_no_tests() {
    let values: &[&[&[f64]]] = &[&[&[1.0, 2.0]], &[&[4.0, 4.0]]];
    let table = Table::from_rows(2, 1, &rows(values)).unwrap();
    let found = decompose_treatments(&table).unwrap();
    assert_eq!(found.components.block, None);
    assert_eq!(found.components.replicate, Some(0.25));
    assert_eq!(found.first_test, None);
    assert!(found.shares().unwrap().first > 0.9);
}

#[test]
fn blocks_with_gaps_are_left_out() {
    let values: &[&[&[f64]]] = &[
        &[&[1.0, 2.0], &[3.0, 1.0], &[]],
        &[&[4.0, 4.0], &[2.0, 3.0], &[9.0]],
    ];
    let table = Table::from_rows(2, 3, &rows(values)).unwrap();
    let found = decompose_treatments(&table).unwrap();
    assert_eq!((found.blocks, found.dropped_blocks), (2, 1));
    let empty: &[&[&[f64]]] = &[&[&[1.0], &[]], &[&[], &[2.0]]];
    let table = Table::from_rows(2, 2, &rows(empty)).unwrap();
    assert!(decompose_treatments(&table).is_err());
    assert!(decompose(&table, 2, 2).is_err());
    assert!(decompose(&Table::from_means(&[]).unwrap(), 0, 5).is_err());
}

#[test]
fn a_constant_table_has_no_shares() {
    let table = Table::from_means(&[vec![Some(0.3); 4], vec![Some(0.3); 4]]).unwrap();
    let found = decompose_treatments(&table).unwrap();
    assert!(found.shares().is_none_or(|s| s.first < 1e-9));
    assert!(found.first_test.is_none_or(|test| test.f.is_finite()));
}

#[test]
fn components_recover_the_variances_that_made_the_data() {
    let model = BlockModel {
        treatment_effects: vec![0.0, 1.0, 2.0],
        blocks: 2000,
        replicates: 4,
        block_sd: 1.0,
        treatment_by_block_sd: 0.5,
        replicate_sd: 2.0,
    };
    let found = decompose_treatments(&model.table(11).unwrap()).unwrap();
    let components = found.components;
    for (estimate, truth) in [
        (components.block, 1.0),
        (components.first_by_block, 0.25),
        (components.replicate, 4.0),
    ] {
        let estimate = estimate.unwrap();
        assert!((estimate - truth).abs() < 0.1, "{estimate} {truth}");
    }
}
