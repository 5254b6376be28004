//! Every figure of `data/agreement.json`, which was computed with `SciPy`, scikit-learn and the
//! package krippendorff; its conventions are in its `meta`.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::agreement::{Metric, Scale, alpha, compare, compare_flags};
use assize_stats::drift::{DriftSettings, drift};
use assize_stats::max_t::sign_flip;
use assize_stats::two_tier::{Drawn, Lambda, inclusion_weighted, prediction_powered};
use assize_stats::{Alternative, Draws};
use serde_json::Value;
use support::{close, close_interval, load, number, numbers};

const SCALE: Scale = Scale { low: 1, high: 5 };

fn data() -> Value {
    load(include_str!("data/agreement.json"))
}

fn scores(values: &Value) -> Vec<Option<i32>> {
    let score = |value: &Value| value.as_i64().map(|v| i32::try_from(v).unwrap());
    values.as_array().unwrap().iter().map(score).collect()
}

fn flags(values: &Value) -> Vec<Option<bool>> {
    scores(values)
        .iter()
        .map(|score| score.map(|s| s == 1))
        .collect()
}

#[track_caller]
fn same_count(found: usize, expected: &Value) {
    assert_eq!(Some(found as u64), expected.as_u64());
}

#[test]
fn pairs_of_raters() {
    let data = data();
    for (key, left, right) in [
        ("human_vs_auto", "human", "auto"),
        ("human_vs_agent", "human", "agent"),
        ("agent_vs_auto", "agent", "auto"),
    ] {
        let expected = &data["reference"][key];
        let (left, right) = (scores(&data["data"][left]), scores(&data["data"][right]));
        let found = compare(&left, &right, SCALE).unwrap();
        same_count(found.items, &expected["n"]);
        close(found.exact, &expected["exact_agreement"]);
        close(found.within_one, &expected["adjacent_agreement_within1"]);
        close(found.bias, &expected["mean_bias_b_minus_a"]);
        close(found.mean_absolute_error, &expected["mae"]);
        close(found.kappa.unwrap(), &expected["kappa_unweighted"]);
        close(found.kappa_linear.unwrap(), &expected["kappa_linear"]);
        close(found.kappa_quadratic.unwrap(), &expected["kappa_quadratic"]);
        let se = found.kappa_quadratic_se.unwrap();
        close(se, &expected["kappa_quadratic_jackknife_se"]);
        close(found.spearman.unwrap(), &expected["spearman"]);
        close(found.kendall_tau_b.unwrap(), &expected["kendall_tau_b"]);
        close(found.pearson.unwrap(), &expected["pearson"]);
        close(found.icc_agreement.unwrap(), &expected["icc_2_1_absolute"]);
        close(
            found.icc_consistency.unwrap(),
            &expected["icc_3_1_consistency"],
        );
        close(found.bias_t.unwrap(), &expected["bias_t"]);
        close(found.bias_p.unwrap(), &expected["bias_p_two_sided_t"]);
    }
}

#[test]
fn krippendorffs_alpha() {
    let data = data();
    for (key, raters) in [
        (
            "krippendorff_3_judges_missing",
            vec!["human", "auto", "agent"],
        ),
        ("krippendorff_human_auto", vec!["human", "auto"]),
        ("krippendorff_human_agent", vec!["human", "agent"]),
    ] {
        let expected = &data["reference"][key];
        let raters: Vec<_> = raters.iter().map(|r| scores(&data["data"][r])).collect();
        let found = |metric| alpha(&raters, metric).unwrap().unwrap();
        close(found(Metric::Nominal).alpha, &expected["nominal"]);
        close(found(Metric::Ordinal).alpha, &expected["ordinal"]);
        close(found(Metric::Interval).alpha, &expected["interval"]);
        close(
            found(Metric::Ordinal).se.unwrap(),
            &expected["ordinal_jackknife_se"],
        );
    }
}

#[test]
fn krippendorffs_published_examples() {
    let data = data();
    for example in ["package_readme_3coders", "krippendorff2011_4coders"] {
        let example = &data["reference"]["krippendorff_canonical"][example];
        let raters: Vec<_> = example["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(scores)
            .collect();
        for (key, metric) in [
            ("nominal", Metric::Nominal),
            ("ordinal", Metric::Ordinal),
            ("interval", Metric::Interval),
            ("ratio", Metric::Ratio),
        ] {
            let found = alpha(&raters, metric).unwrap().unwrap().alpha;
            close(found, &example["alpha"][key]);
            if let Some(published) = example["published"][key].as_f64() {
                assert!(
                    (found - published).abs() < 5e-4,
                    "{key} {found} {published}"
                );
            }
        }
    }
}

#[test]
fn a_flag() {
    let data = data();
    let expected = &data["reference"]["format_ok_flag"];
    let human = flags(&data["data"]["format_ok_human"]);
    let auto = flags(&data["data"]["format_ok_auto"]);
    let found = compare_flags(&human, &auto).unwrap();
    close(found.exact, &expected["exact_agreement"]);
    close(found.kappa.unwrap(), &expected["kappa"]);
    close(found.gwet_ac1.unwrap(), &expected["gwet_ac1"]);
    close(found.prevalence[0], &expected["prevalence"][0]);
    close(found.prevalence[1], &expected["prevalence"][1]);
    close(found.alpha.unwrap(), &expected["alpha_nominal"]);
    close(found.pabak, &expected["pabak"]);
}

#[test]
fn drifting_anchors() {
    let data = data();
    let expected = &data["reference"]["anchor_drift"];
    let params = &expected["params"];
    let known = numbers(&expected["base"]);
    same_count(known.len(), &params["n_anchors"]);
    let config = DriftSettings {
        anchor_sd: number(&params["sigma0_item"]),
        ewma_lambda: number(&params["ewma_lambda"]),
        ewma_limit: number(&params["ewma_L"]),
        cusum_slack: number(&params["cusum_k"]),
        cusum_limit: number(&params["cusum_h"]),
    };
    assert_eq!(config, DriftSettings::default());
    let raw = expected["sessions"].as_array().unwrap();
    let sittings: Vec<Vec<Option<f64>>> = raw
        .iter()
        .map(|scores| numbers(scores).into_iter().map(Some).collect())
        .collect();
    let points = drift(&known, &sittings, config).unwrap();
    let sessions = expected["per_session"].as_array().unwrap();
    assert_eq!(points.len(), sessions.len());
    for ((point, wanted), raw) in points.iter().zip(sessions).zip(raw) {
        let point = point.unwrap();
        close(point.mean_shift, &wanted["mean_shift"]);
        close(point.z, &wanted["z"]);
        close(point.ewma, &wanted["ewma"]);
        close(point.ewma_limit, &wanted["ewma_limit"]);
        close(point.cusum_up, &wanted["cusum_pos"]);
        close(point.cusum_down, &wanted["cusum_neg"]);
        assert_eq!(Some(point.is_ewma_alarm), wanted["alarm_ewma"].as_bool());
        assert_eq!(Some(point.is_cusum_alarm), wanted["alarm_cusum"].as_bool());
        let found = compare(&scores(&expected["base"]), &scores(raw), SCALE).unwrap();
        close(found.exact, &wanted["exact"]);
        close(
            found.kappa_quadratic.unwrap(),
            &wanted["kappa_quadratic_vs_base"],
        );
        let shifts: Vec<f64> = numbers(raw)
            .iter()
            .zip(&known)
            .map(|(s, k)| s - k)
            .collect();
        let flip = sign_flip(&shifts, Alternative::TwoSided, Draws::default()).unwrap();
        close(flip.p, &wanted["signflip_p_two_sided"]);
    }
}

#[test]
fn two_tiers() {
    let data = data();
    let expected = &data["reference"]["ppi"];
    let trusted = numbers(&expected["y_lab"]);
    let cheap = numbers(&expected["f_lab"]);
    let cheap_only = numbers(&expected["f_unlab"]);
    let estimate = |lambda| prediction_powered(&trusted, &cheap, &cheap_only, lambda, 0.95);
    for (key, lambda) in [
        ("classical", Lambda::Fixed(0.0)),
        ("ppi_lambda1", Lambda::Fixed(1.0)),
        ("ppi_plus_plus", Lambda::Tuned),
    ] {
        let found = estimate(lambda).unwrap();
        close(found.lambda, &expected[key]["lam"]);
        close(found.mean, &expected[key]["theta"]);
        close(found.se, &expected[key]["se"]);
        close_interval(found.interval_z, &expected[key]["ci95_z"]);
        close_interval(found.interval_t, &expected[key]["ci95_t"]);
    }
    let auto: Vec<f64> = cheap.iter().chain(&cheap_only).copied().collect();
    let naive = assize_stats::describe::mean(&auto).unwrap();
    close(naive, &expected["naive_auto_only"]);
    // The package ppi_py has other conventions, and the reference says how near it should be.
    let other = &expected["ppi_py_0_2_3"];
    let found = estimate(Lambda::Tuned).unwrap();
    assert!((found.mean - number(&other["theta"])).abs() < 1e-2);
    let ends = numbers(&other["ci95"]);
    assert!((found.interval_z.low - ends[0]).abs() < 3e-2);
    assert!((found.interval_z.high - ends[1]).abs() < 3e-2);
}

#[test]
fn drawn_with_known_probability() {
    let data = data();
    let expected = &data["reference"]["two_tier_ht"];
    let inclusion = numbers(&expected["pi"]);
    let places = expected["sampled_index0"].as_array().unwrap().iter();
    let drawn: Vec<Drawn> = places
        .zip(numbers(&expected["y_sampled"]))
        .map(|(index, trusted)| {
            let index = usize::try_from(index.as_u64().unwrap()).unwrap();
            Drawn {
                index,
                trusted,
                inclusion: inclusion[index],
            }
        })
        .collect();
    let lambda = number(&expected["lam"]);
    let found = inclusion_weighted(&numbers(&expected["f_all"]), &drawn, lambda).unwrap();
    close(found.mean, &expected["theta_ht"]);
    close(found.se, &expected["se_ht_finite_poisson"]);
    close(found.hajek.unwrap(), &expected["theta_hajek"]);
    close(found.unweighted.unwrap(), &expected["biased_if_pi_ignored"]);
}
