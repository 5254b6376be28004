//! What must hold for any data: order, labels and offsets do not matter, corrections only raise
//! p values, shares add up, and nothing panics on gaps, ties or non-numbers.

use assize_stats::agreement::{Metric, Scale, alpha, compare};
use assize_stats::best::{probability_of_best, probability_of_best_drawn};
use assize_stats::bootstrap::{bootstrap_mean, bootstrap_mean_exact};
use assize_stats::drift::{DriftSettings, drift};
use assize_stats::max_t::{MaxT, max_t, sign_flip, step_down};
use assize_stats::min_p::{family_tests, min_p};
use assize_stats::multiplicity::{benjamini_hochberg, bonferroni, holm};
use assize_stats::paired::{differences, pair};
use assize_stats::power::{Goal, blocks_needed, detectable_dz, power};
use assize_stats::ranks::{friedman, wilcoxon_signed_rank};
use assize_stats::rng::SplitMix64;
use assize_stats::score::{macro_score, row_score};
use assize_stats::table::{Row, Table};
use assize_stats::variance::{decompose, decompose_treatments};
use assize_stats::{Alternative, Draws};
use proptest::prelude::*;

const DRAWS: Draws = Draws {
    count: 300,
    seed: 7,
};
const SIDES: [Alternative; 2] = [Alternative::TwoSided, Alternative::Greater];

/// Scores as a rubric gives them: whole numbers with many ties.
fn rows(treatments: usize, blocks: usize) -> impl Strategy<Value = Vec<Row>> {
    let row = (0..treatments, 0..blocks, -5_i32..15).prop_map(|(treatment, block, score)| Row {
        treatment,
        block,
        value: f64::from(score),
    });
    prop::collection::vec(row, 1..treatments * blocks * 3)
}

/// Arbitrary input of a caller, including gaps and non-numbers.
fn wild() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        6 => (-3_i32..4).prop_map(|score| Some(f64::from(score))),
        3 => (-1e3_f64..1e3).prop_map(Some),
        2 => Just(None),
        1 => prop_oneof![
            Just(Some(f64::NAN)),
            Just(Some(f64::INFINITY)),
            Just(Some(1e308)),
            Just(Some(-1e308)),
            Just(Some(1e-308)),
        ],
    ]
}

fn wild_table() -> impl Strategy<Value = Vec<Vec<Option<f64>>>> {
    (0_usize..5, 0_usize..20).prop_flat_map(|(treatments, blocks)| {
        prop::collection::vec(prop::collection::vec(wild(), blocks), treatments)
    })
}

fn differences_table() -> impl Strategy<Value = Vec<Vec<Option<f64>>>> {
    let difference = prop_oneof![
        8 => (-20_i32..30).prop_map(|d| Some(f64::from(d) / 5.0)),
        1 => Just(None),
    ];
    (1_usize..6, 5_usize..19).prop_flat_map(move |(comparisons, blocks)| {
        prop::collection::vec(
            prop::collection::vec(difference.clone(), blocks),
            comparisons,
        )
    })
}

fn shuffled<T: Clone>(items: &[T], seed: u64) -> Vec<T> {
    let mut rng = SplitMix64::new(seed);
    let mut items = items.to_vec();
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
    items
}

fn same(left: Option<f64>, right: Option<f64>) -> bool {
    match (left, right) {
        (Some(l), Some(r)) => (l - r).abs() <= 1e-9 * l.abs().max(1.0),
        (None, None) => true,
        _ => false,
    }
}

fn adjusted(family: &MaxT) -> Vec<Option<f64>> {
    family
        .tests
        .iter()
        .map(|t| t.map(|t| t.p_adjusted))
        .collect()
}

proptest! {
    #[test]
    fn the_order_of_rows_does_not_matter(rows in rows(3, 4), seed: u64) {
        let table = Table::from_rows(3, 4, &rows).unwrap();
        let other = Table::from_rows(3, 4, &shuffled(&rows, seed)).unwrap();
        for treatment in 0..3 {
            let score = |table: &Table| row_score(table.treatment_cells(treatment));
            let (l, r) = (score(&table), score(&other));
            prop_assert!(same(l.map(|s| s.mean), r.map(|s| s.mean)));
            prop_assert!(same(l.and_then(|s| s.se_cr1), r.and_then(|s| s.se_cr1)));
            prop_assert!(same(l.and_then(|s| s.icc1), r.and_then(|s| s.icc1)));
        }
    }

    #[test]
    fn shifting_all_scores_moves_means_and_nothing_else(rows in rows(4, 6), shift in -100_i32..100) {
        let shift = f64::from(shift);
        let moved: Vec<Row> = rows
            .iter()
            .map(|row| Row { value: row.value + shift, ..*row })
            .collect();
        let table = Table::from_rows(4, 6, &rows).unwrap();
        let other = Table::from_rows(4, 6, &moved).unwrap();
        for treatment in 0..4 {
            let score = macro_score(&table.treatment_means(treatment), 0.95).ok();
            let shifted = macro_score(&other.treatment_means(treatment), 0.95).ok();
            prop_assert!(same(score.map(|s| s.mean + shift), shifted.map(|s| s.mean)));
            prop_assert!(same(score.and_then(|s| s.se), shifted.and_then(|s| s.se)));
        }
        let family = |t: &Table| -> Vec<Vec<Option<f64>>> {
            (1..4).map(|i| differences(&t.treatment_means(i), &t.treatment_means(0))).collect()
        };
        for side in SIDES {
            let before = max_t(&family(&table), side, DRAWS).unwrap();
            let after = max_t(&family(&other), side, DRAWS).unwrap();
            prop_assert_eq!(before, after);
        }
        if let Ok(before) = decompose(&table, 2, 2) {
            let after = decompose(&other, 2, 2).unwrap();
            for (l, r) in before.sources.to_array().iter().zip(after.sources.to_array()) {
                prop_assert!(same(Some(l.ss), Some(r.ss)));
            }
        }
        let best = |t: &Table| probability_of_best(&t.means(), DRAWS).ok();
        if let (Some(l), Some(r)) = (best(&table), best(&other)) {
            for (l, r) in l.treatments.iter().zip(&r.treatments) {
                prop_assert!(same(Some(l.p_best), Some(r.p_best)));
            }
        }
    }

    #[test]
    fn relabelling_treatments_and_blocks_relabels_the_answers(
        means in prop::collection::vec(
            prop::collection::vec((-5_i32..15).prop_map(|m| Some(f64::from(m))), 7), 2..6),
        seed: u64,
    ) {
        let order: Vec<usize> = shuffled(&(0..means.len()).collect::<Vec<_>>(), seed);
        let blocks: Vec<usize> = shuffled(&(0..7).collect::<Vec<_>>(), seed ^ 1);
        let relabelled: Vec<Vec<Option<f64>>> = order
            .iter()
            .map(|&treatment| blocks.iter().map(|&block| means[treatment][block]).collect())
            .collect();
        let best = probability_of_best(&means, DRAWS).unwrap();
        let other = probability_of_best(&relabelled, DRAWS).unwrap();
        let total: f64 = best.treatments.iter().map(|treatment| treatment.p_best).sum();
        prop_assert!((total - 1.0).abs() < 1e-9);
        for (place, &treatment) in order.iter().enumerate() {
            let (l, r) = (other.treatments[place].p_best, best.treatments[treatment].p_best);
            prop_assert!(same(Some(l), Some(r)));
            prop_assert_eq!(other.treatments[place].rank, best.treatments[treatment].rank);
        }
        for side in SIDES {
            let before = adjusted(&max_t(&means, side, DRAWS).unwrap());
            let after = adjusted(&max_t(&relabelled, side, DRAWS).unwrap());
            for (place, &treatment) in order.iter().enumerate() {
                prop_assert_eq!(after[place], before[treatment]);
            }
        }
        let (l, r) = (Table::from_means(&means).unwrap(), Table::from_means(&relabelled).unwrap());
        let (l, r) = (decompose_treatments(&l).unwrap(), decompose_treatments(&r).unwrap());
        prop_assert!(same(l.components.block, r.components.block));
        prop_assert!(same(l.components.confounded, r.components.confounded));
    }

    #[test]
    fn corrections_only_raise_p(family in differences_table()) {
        for side in SIDES {
            let single = max_t(&family, side, DRAWS).unwrap();
            let smallest = min_p(&family, side, DRAWS).unwrap();
            for (s, m) in single.tests.iter().zip(&smallest.tests) {
                prop_assert_eq!(s.map(|t| t.p), m.map(|t| t.p));
                prop_assert!(m.is_none_or(|t| t.p_adjusted >= t.p && t.p_adjusted <= 1.0));
            }
            let down = step_down(&family, side, DRAWS).unwrap();
            for (s, d) in single.tests.iter().zip(&down.tests) {
                let (Some(s), Some(d)) = (s, d) else { continue };
                prop_assert!(s.p > 0.0 && s.p_adjusted <= 1.0);
                prop_assert!(s.p_adjusted >= s.p && d.p_adjusted >= d.p);
                prop_assert!(d.p_adjusted <= s.p_adjusted);
            }
            let raw: Vec<Option<f64>> = single.tests.iter().map(|t| t.map(|t| t.p)).collect();
            for adjusted in [holm(&raw), bonferroni(&raw), benjamini_hochberg(&raw)] {
                for (raw, adjusted) in raw.iter().zip(adjusted) {
                    prop_assert!(adjusted >= *raw && adjusted.is_none_or(|p| p <= 1.0));
                }
            }
        }
    }

    #[test]
    fn a_larger_lead_never_has_a_larger_p_and_company_never_lowers_it(
        family in prop::collection::vec(prop::collection::vec(-20_i32..30, 8), 2..6),
        lead in 1_i32..20,
    ) {
        let whole = |lead: i32| -> Vec<Vec<Option<f64>>> {
            let first = family[0].iter().map(|d| d + lead).collect();
            let rest = family[1..].iter().cloned();
            let all = std::iter::once::<Vec<i32>>(first).chain(rest);
            all.map(|c| c.into_iter().map(|d| Some(f64::from(d))).collect()).collect()
        };
        let tests = |family: &[Vec<Option<f64>>]| {
            max_t(family, Alternative::Greater, DRAWS).unwrap().tests
        };
        let (before, after) = (tests(&whole(0)), tests(&whole(lead)));
        prop_assert!(after[0].unwrap().p <= before[0].unwrap().p);
        let fewer = tests(&whole(0)[..family.len() - 1]);
        for (fewer, more) in fewer.iter().zip(&before) {
            prop_assert!(more.unwrap().p_adjusted >= fewer.unwrap().p_adjusted);
            prop_assert!((more.unwrap().p - fewer.unwrap().p).abs() < 1e-12);
        }
    }

    #[test]
    fn swapping_the_two_sides_mirrors_the_comparison(
        left in prop::collection::vec(-9_i32..9, 6), right in prop::collection::vec(-9_i32..9, 6),
    ) {
        let wrap = |v: &[i32]| -> Vec<Option<f64>> { v.iter().map(|x| Some(f64::from(*x))).collect() };
        let forth = pair(&wrap(&left), &wrap(&right)).unwrap();
        let back = pair(&wrap(&right), &wrap(&left)).unwrap();
        let (f, b) = (forth.compare(0.95).unwrap(), back.compare(0.95).unwrap());
        prop_assert!(same(Some(f.mean), Some(-b.mean)));
        prop_assert!(same(Some(f.interval.low), Some(-b.interval.high)));
        prop_assert!(same(f.p_two_sided, b.p_two_sided));
        prop_assert!(f.lower_bound >= f.interval.low);
        let flip = |d: &[f64]| sign_flip(d, Alternative::TwoSided, DRAWS).unwrap().p;
        prop_assert!(same(Some(flip(&forth.differences)), Some(flip(&back.differences))));
    }

    #[test]
    fn shares_add_up_to_one(rows in rows(6, 5), wide: bool) {
        let table = Table::from_rows(6, 5, &rows).unwrap();
        let (first, second) = if wide { (2, 3) } else { (6, 1) };
        let Ok(found) = decompose(&table, first, second) else { return Ok(()) };
        let Some(shares) = found.shares() else { return Ok(()) };
        let shares = shares.to_array();
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        prop_assert!(shares.iter().all(|share| *share >= 0.0));
    }

    #[test]
    fn balanced_sums_of_squares_are_those_of_the_rows(
        scores in prop::collection::vec(-9_i32..9, 6 * 4 * 3),
    ) {
        let rows: Vec<Row> = scores
            .iter()
            .enumerate()
            .map(|(i, s)| Row { treatment: i / 12, block: i / 3 % 4, value: f64::from(*s) })
            .collect();
        let found = decompose(&Table::from_rows(6, 4, &rows).unwrap(), 3, 2).unwrap();
        let total: f64 = found.sources.map(|s| s.ss).to_array().iter().sum();
        let mean = rows.iter().map(|r| r.value).sum::<f64>() / rows.len() as f64;
        let direct: f64 = rows.iter().map(|r| (r.value - mean).powi(2)).sum();
        prop_assert!(same(Some(total), Some(direct)));
        let df: usize = found.sources.map(|s| s.df).to_array().iter().sum();
        prop_assert_eq!(df, rows.len() - 1);
    }

    #[test]
    fn more_blocks_never_cost_power(dz in 0.05_f64..3.0, blocks in 2_usize..200) {
        for side in SIDES {
            let now = power(dz, blocks, 0.05, side).unwrap();
            let more = power(dz, blocks + 1, 0.05, side).unwrap();
            prop_assert!(more >= now - 1e-9);
            let goal = Goal::usual(side);
            let needed = blocks_needed(dz, 1.0, goal, 100_000).unwrap();
            prop_assert!(detectable_dz(needed, goal).unwrap() <= dz + 1e-9);
        }
    }

    #[test]
    fn agreement_is_symmetric_and_bounded(
        pairs in prop::collection::vec((1_i32..6, 1_i32..6), 2..30),
    ) {
        let scale = Scale { low: 1, high: 5 };
        let left: Vec<Option<i32>> = pairs.iter().map(|p| Some(p.0)).collect();
        let right: Vec<Option<i32>> = pairs.iter().map(|p| Some(p.1)).collect();
        let forth = compare(&left, &right, scale).unwrap();
        let back = compare(&right, &left, scale).unwrap();
        prop_assert!(same(Some(forth.bias), Some(-back.bias)));
        for (f, b) in [
            (forth.kappa_quadratic, back.kappa_quadratic),
            (forth.kendall_tau_b, back.kendall_tau_b),
            (forth.spearman, back.spearman),
            (forth.icc_agreement, back.icc_agreement),
        ] {
            prop_assert!(same(f, b));
            prop_assert!(f.is_none_or(|f| f <= 1.0 + 1e-12));
        }
        let l = alpha(&[left.clone(), right.clone()], Metric::Ordinal).unwrap().map(|a| a.alpha);
        let r = alpha(&[right, left], Metric::Ordinal).unwrap().map(|a| a.alpha);
        prop_assert!(same(l, r));
    }

    #[test]
    fn nothing_panics_on_wild_tables(means in wild_table()) {
        let present = |means: &Vec<Option<f64>>| means.iter().flatten().copied().collect::<Vec<f64>>();
        let table = Table::from_means(&means).unwrap();
        for side in SIDES {
            let family = max_t(&means, side, DRAWS).unwrap();
            let in_range = |p: f64| p > 0.0 && p <= 1.0;
            let all = family.tests.iter().flatten().all(|t| in_range(t.p) && in_range(t.p_adjusted));
            prop_assert!(all, "{:?}", family);
            step_down(&means, side, DRAWS).unwrap();
            let family = family_tests(&means, side, DRAWS).unwrap();
            let all = family.tests.iter().flatten().all(|t| in_range(t.p) && t.p_adjusted >= t.p);
            prop_assert!(all, "{:?}", family);
        }
        if let Ok(best) = probability_of_best(&means, DRAWS) {
            let total: f64 = best.treatments.iter().map(|treatment| treatment.p_best).sum();
            prop_assert!((total - 1.0).abs() < 1e-9, "{:?}", best);
        }
        let _ = decompose_treatments(&table);
        let _ = friedman(&means);
        for treatment in &means {
            let _ = macro_score(treatment, 0.95);
            let _ = sign_flip(&present(treatment), Alternative::Greater, DRAWS);
            let _ = wilcoxon_signed_rank(&present(treatment));
            let _ = bootstrap_mean(&present(treatment), 0.95, DRAWS);
            let _ = bootstrap_mean_exact(&present(treatment), 0.95);
            let _ = pair(treatment, &means[0]).unwrap().compare(0.95);
            let known = vec![3.0; treatment.len()];
            let _ = drift(&known, std::slice::from_ref(treatment), DriftSettings::default());
        }
        for treatment in 0..table.treatments() {
            let _ = row_score(table.treatment_cells(treatment));
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let mut rng = SplitMix64::new(99);
    let means: Vec<Vec<Option<f64>>> = (0..7)
        .map(|_| (0..40).map(|_| Some(rng.next_normal().round())).collect())
        .collect();
    let all = || {
        (
            max_t(&means, Alternative::Greater, Draws::default()).unwrap(),
            min_p(&means, Alternative::Greater, Draws::default()).unwrap(),
            probability_of_best_drawn(&means, Draws::default()).unwrap(),
            bootstrap_mean(
                &means[0].iter().flatten().copied().collect::<Vec<_>>(),
                0.95,
                Draws::default(),
            )
            .unwrap(),
        )
    };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(all)
    };
    let alone = on(1);
    assert_eq!(alone, on(2));
    assert_eq!(alone, on(5));
}
