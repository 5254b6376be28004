//! Every figure of `data/leaderboard.json` except `reml_crosscheck`, which is an optimiser's value.
//! The file was computed with `NumPy`, `SciPy` and statsmodels; its conventions are in its `meta`.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(
    clippy::float_cmp,
    reason = "counts and given differences are compared exactly"
)]

#[path = "reference/board.rs"]
mod board;
#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::Alternative;
use assize_stats::best::{probability_of_best, probability_of_best_drawn};
use assize_stats::bootstrap::{bootstrap_mean, bootstrap_mean_exact};
use assize_stats::dist::{f_upper, t_quantile};
use assize_stats::max_t::{max_t, sign_flip, step_down};
use assize_stats::multiplicity::{benjamini_hochberg, bonferroni, holm};
use assize_stats::ranks::{friedman, wilcoxon_signed_rank};
use assize_stats::rng::SplitMix64;
use assize_stats::score::{macro_score, row_score};
use assize_stats::table::Table;
use assize_stats::variance::{Source, decompose, decompose_treatments};
use board::{
    CHALLENGERS, DRAWS, TREATMENTS, composite, data, family, pairing, table_of, treatment_of,
};
use serde_json::Value;
use support::{close, close_interval, number, numbers};

#[test]
fn generator_is_the_one_of_the_reference() {
    let first = data()["meta"]["conventions"]["splitmix64_first_output_seed42"].clone();
    let found = SplitMix64::new(42).next_u64().to_string();
    assert_eq!(Some(found.as_str()), first.as_str());
}

#[test]
fn treatments() {
    let data = data();
    let table = composite(&data);
    let format_ok = table_of(&data, "format_ok", |_| true);
    let overlong = table_of(&data, "overlong", |_| true);
    for (treatment, name) in TREATMENTS.iter().enumerate() {
        let expected = &data["reference"]["per_arm"][name];
        let rows = row_score(table.treatment_cells(treatment)).unwrap();
        assert_eq!(rows.rows as f64, number(&expected["n"]));
        close(rows.mean, &expected["mean"]);
        close(rows.sd.unwrap(), &expected["sd"]);
        close(rows.se_naive.unwrap(), &expected["se_naive_iid"]);
        close(rows.se_cr0, &expected["se_cluster_CR0"]);
        close(rows.se_cr1.unwrap(), &expected["se_cluster_CR1"]);
        close(rows.icc1.unwrap(), &expected["icc1"]);
        close(
            rows.design_effect.unwrap(),
            &expected["design_effect_observed"],
        );
        let score = macro_score(&table.treatment_means(treatment), 0.95).unwrap();
        close(score.mean, &expected["mean"]);
        close(score.se.unwrap(), &expected["se_cluster_CR1"]);
        close_interval(score.interval.unwrap(), &expected["ci95_t7"]);
        for (found, wanted) in table
            .treatment_means(treatment)
            .iter()
            .zip(expected["scenario_means"].as_array().unwrap())
        {
            close(found.unwrap(), wanted);
        }
        let rate = |t: &Table| row_score(t.treatment_cells(treatment)).unwrap().mean;
        close(rate(&format_ok), &expected["format_ok_rate"]);
        close(rate(&overlong), &expected["overlong_rate"]);
    }
}

#[test]
fn pairs() {
    let data = data();
    let table = composite(&data);
    assert_eq!(
        data["reference"]["vs_incumbent"]["incumbent"],
        TREATMENTS[0]
    );
    for name in CHALLENGERS {
        let expected = &data["reference"]["vs_incumbent"]["pairs"][name];
        let pairing = pairing(&table, name);
        assert_eq!(pairing.differences, numbers(&expected["d_by_scenario"]));
        let diff = pairing.compare(0.95).unwrap();
        close(diff.mean, &expected["mean_diff"]);
        close(diff.sd, &expected["sd_d"]);
        close(diff.se, &expected["se_paired"]);
        close(pairing.se_unpaired().unwrap(), &expected["se_unpaired"]);
        close(pairing.correlation().unwrap(), &expected["corr"]);
        close(diff.t.unwrap(), &expected["t"]);
        assert_eq!(diff.df as f64, number(&expected["df"]));
        close(diff.p_two_sided.unwrap(), &expected["p_two_sided_t"]);
        close(diff.p_greater.unwrap(), &expected["p_one_sided_t"]);
        close_interval(diff.interval, &expected["ci95_t"]);
        close(diff.lower_bound, &expected["lower95_one_sided_t"]);
        close(diff.cohen_dz.unwrap(), &expected["cohen_dz"]);
        let flip = |side| sign_flip(&pairing.differences, side, DRAWS).unwrap();
        assert!(flip(Alternative::TwoSided).is_exact);
        close(
            flip(Alternative::TwoSided).p,
            &expected["p_two_sided_signflip_exact"],
        );
        close(
            flip(Alternative::Greater).p,
            &expected["p_one_sided_signflip_exact"],
        );
        let wilcoxon = wilcoxon_signed_rank(&pairing.differences).unwrap();
        close(wilcoxon, &expected["p_wilcoxon_two_sided"]);
    }
}

#[test]
fn bootstraps() {
    let data = data();
    let table = composite(&data);
    for name in CHALLENGERS {
        let pair = &data["reference"]["vs_incumbent"]["pairs"][name];
        let d = pairing(&table, name).differences;
        let expected = &pair["boot_exact"];
        let exact = bootstrap_mean_exact(&d, 0.95).unwrap();
        close(exact.se, &expected["se"]);
        close_interval(exact.interval, &expected["ci95_percentile_inverted_cdf"]);
        close(exact.p_above_zero, &expected["p_diff_gt0"]);
        close(exact.p_zero, &expected["p_diff_eq0"]);

        let expected = &pair["boot_mc_splitmix64"];
        assert_eq!(number(&expected["B"]), DRAWS.count as f64);
        assert_eq!(number(&expected["seed"]), DRAWS.seed as f64);
        let drawn = bootstrap_mean(&d, 0.95, DRAWS).unwrap();
        let bits = [
            drawn.se,
            drawn.interval.low,
            drawn.interval.high,
            drawn.p_above_zero,
        ];
        let percentiles = numbers(&expected["ci95_percentile_type7"]);
        let wanted = [
            number(&expected["se"]),
            percentiles[0],
            percentiles[1],
            number(&expected["p_diff_gt0"]),
        ];
        assert_eq!(
            bits.map(f64::to_bits),
            wanted.map(f64::to_bits),
            "{name} {bits:?} {wanted:?}"
        );
    }
}

#[test]
fn a_percentile_bootstrap_would_have_promoted_what_max_t_rejects() {
    let data = data();
    let table = composite(&data);
    let d = pairing(&table, "m2/p0").differences;
    assert!(bootstrap_mean_exact(&d, 0.95).unwrap().interval.low > 0.0);
    assert!(bootstrap_mean(&d, 0.95, DRAWS).unwrap().interval.low > 0.0);
    let tests = max_t(&family(&table), Alternative::Greater, DRAWS)
        .unwrap()
        .tests;
    let place = CHALLENGERS
        .iter()
        .position(|name| *name == "m2/p0")
        .unwrap();
    assert!(tests[place].unwrap().p_adjusted > 0.05);
}

#[test]
fn multiplicity() {
    let data = data();
    let table = composite(&data);
    let expected = &data["reference"]["multiplicity"];
    let diff = |name: &&str| pairing(&table, name).compare(0.95).unwrap();
    let from_t: Vec<Option<f64>> = CHALLENGERS.iter().map(|n| diff(n).p_two_sided).collect();
    let from_t_one: Vec<Option<f64>> = CHALLENGERS.iter().map(|n| diff(n).p_greater).collect();
    let two_sided = max_t(&family(&table), Alternative::TwoSided, DRAWS).unwrap();
    let from_flips: Vec<Option<f64>> = two_sided.tests.iter().map(|t| t.map(|t| t.p)).collect();
    for (key, p) in [
        ("from_t_two_sided", &from_t),
        ("from_signflip_two_sided", &from_flips),
        ("from_t_one_sided", &from_t_one),
    ] {
        let corrections = [
            ("holm", holm(p)),
            ("bh", benjamini_hochberg(p)),
            ("bonferroni", bonferroni(p)),
        ];
        for (method, adjusted) in corrections {
            for (name, found) in CHALLENGERS.iter().zip(adjusted) {
                close(found.unwrap(), &expected[key][method][name]);
            }
        }
    }
    for (key, side) in [
        ("maxT_signflip_exact_two_sided", Alternative::TwoSided),
        ("maxT_signflip_exact_one_sided", Alternative::Greater),
    ] {
        let single = max_t(&family(&table), side, DRAWS).unwrap();
        let down = step_down(&family(&table), side, DRAWS).unwrap();
        for (method, result) in [("single_step", single), ("step_down", down)] {
            for (name, test) in CHALLENGERS.iter().zip(result.tests) {
                close(test.unwrap().p_adjusted, &expected[key][method][name]);
            }
        }
    }
}

#[test]
fn probability_of_being_best() {
    let data = data();
    let table = composite(&data);
    let expected = &data["reference"]["prob_best"];
    let exact = probability_of_best(&table.means(), DRAWS).unwrap();
    let drawn = probability_of_best_drawn(&table.means(), DRAWS).unwrap();
    assert!(exact.is_exact && !drawn.is_exact);
    for (treatment, name) in TREATMENTS.iter().enumerate() {
        close(
            exact.treatments[treatment].p_best,
            &expected["exact_bootstrap"][name],
        );
        let wanted = number(&expected["mc_splitmix64"][name]);
        assert_eq!(
            drawn.treatments[treatment].p_best.to_bits(),
            wanted.to_bits()
        );
        close_interval(
            drawn.treatments[treatment].rank,
            &expected["rank_ci95_mc"][name],
        );
    }
}

#[test]
fn analysis_of_variance() {
    let data = data();
    let found = decompose(&composite(&data), 2, 3).unwrap();
    let expected = &data["reference"]["anova"];
    let shares = found.shares().unwrap();
    let names = ["M", "P", "MP", "S", "MS", "PS", "MPS", "E"];
    let lines = names.iter().zip(found.sources.to_array());
    for ((name, source), share) in lines.zip(shares.to_array()) {
        let Source { df, ss } = source;
        assert_eq!(df as f64, number(&expected["table"][name]["df"]));
        close(ss, &expected["table"][name]["ss"]);
        close(source.ms().unwrap(), &expected["table"][name]["ms"]);
        close(share, &expected["eta2"][name]);
    }
    let components = [
        ("E", found.components.replicate),
        ("MPS", found.components.first_by_second_by_block),
        ("MS", found.components.first_by_block),
        ("PS", found.components.second_by_block),
        ("S", found.components.block),
    ];
    for (name, component) in components {
        let component = component.unwrap();
        close(component, &expected["ems_variance_components_raw"][name]);
        let truncated = &expected["ems_variance_components_truncated"][name];
        close(component.max(0.0), truncated);
    }
    let tests = [
        ("model", found.first_test),
        ("prompt", found.second_test),
        ("model_x_prompt", found.first_by_second_test),
    ];
    for (name, test) in tests {
        let (test, expected) = (test.unwrap(), &expected["F_tests"][name]);
        close(test.f, &expected["F"]);
        assert_eq!(test.df1 as f64, number(&expected["df1"]));
        assert_eq!(test.df2 as f64, number(&expected["df2"]));
        close(test.p, &expected["p"]);
    }
}

#[test]
fn treatment_level() {
    let data = data();
    let table = composite(&data);
    let expected = &data["reference"]["arm_level"];
    let found = decompose_treatments(&table).unwrap();
    let ms = |source: Source| source.ms().unwrap();
    close(ms(found.sources.first), &expected["MS_arm"]);
    close(ms(found.sources.block), &expected["MS_scenario"]);
    close(
        ms(found.sources.first_by_block),
        &expected["MS_arm_x_scenario"],
    );
    close(ms(found.sources.replicate), &expected["MS_candidate"]);
    let components = found.components;
    close(components.block.unwrap(), &expected["sigma2_scenario"]);
    close(
        components.first_by_block.unwrap(),
        &expected["sigma2_arm_x_scenario"],
    );
    close(components.replicate.unwrap(), &expected["sigma2_candidate"]);
    let test = found.first_test.unwrap();
    close(test.f, &expected["F_arm"]);
    assert_eq!(
        [test.df1 as f64, test.df2 as f64].to_vec(),
        numbers(&expected["F_df"])
    );
    close(test.p, &expected["F_p"]);
    close(f_upper(test.f, 5.0, 35.0).unwrap(), &expected["F_p"]);
    let pooled = found.pooled_se_of_difference().unwrap();
    close(pooled.se, &expected["pooled_se_of_difference"]);
    assert_eq!(pooled.df as f64, number(&expected["pooled_df"]));
    let critical = t_quantile(0.975, pooled.df as f64).unwrap();
    close(critical, &expected["pooled_t_crit_975"]);
    let ranks = friedman(&table.means()).unwrap();
    close(ranks.chi2, &expected["friedman"]["chi2"]);
    close(ranks.p, &expected["friedman"]["p"]);
}

#[test]
fn unbalanced() {
    let data = data();
    let expected = &data["reference"]["unbalanced_case"];
    let dropped = expected["dropped"].as_array().unwrap();
    let is_dropped = |row: &Value| {
        dropped.iter().any(|drop| {
            drop["arm"] == TREATMENTS[treatment_of(row)]
                && drop["scenario"] == row["scenario"]
                && drop["candidates"]
                    .as_array()
                    .unwrap()
                    .contains(&row["candidate"])
        })
    };
    let table = table_of(&data, "composite", |row| !is_dropped(row));
    let treatment = TREATMENTS
        .iter()
        .position(|name| expected["arm"] == *name)
        .unwrap();
    let rows = row_score(table.treatment_cells(treatment)).unwrap();
    close(rows.mean, &expected["row_mean"]);
    close(rows.se_cr1.unwrap(), &expected["row_mean_cluster_CR1"]);
    let score = macro_score(&table.treatment_means(treatment), 0.95).unwrap();
    close(score.mean, &expected["macro_mean"]);
    close(score.se.unwrap(), &expected["macro_se"]);
    let diff = pairing(&table, TREATMENTS[treatment])
        .compare(0.95)
        .unwrap();
    close(diff.mean, &expected["paired_macro_diff_vs_m1_p0"]);
    close(diff.se, &expected["paired_macro_se"]);
    close(diff.t.unwrap(), &expected["t"]);
}
