//! The gate on evidence made by hand: it passes, and each check fails alone.

use assize_stats::bootstrap::bootstrap_mean_exact;
use assize_stats::two_tier::Both;
use serde_json::Value;

use super::*;

/// Four challengers, of which the first is two points ahead; judges who agree.
fn sound() -> Evidence {
    let incumbent = [10.0, 11.0, 9.0, 12.0, 10.5, 8.0, 9.5, 11.5];
    let ahead = [2.0, 2.5, 1.5, 2.0, 3.0, 2.0, 1.0, 2.0];
    let tier = |tier| TierEvidence {
        tier,
        means: vec![
            incumbent.map(Some).to_vec(),
            incumbent
                .iter()
                .zip(ahead)
                .map(|(it, more)| Some(it + more))
                .collect(),
            rolled(&incumbent, 1),
            rolled(&incumbent, 3),
            rolled(&incumbent, 4),
        ],
        cells: [Vec::new(), Vec::new()],
        judged_apart: Some(0.0),
        flags: vec![
            flag("format_ok", 2.0, 0.9, 0.9),
            flag("overlong", -1.0, 0.1, 0.1),
        ],
        missing_cells: 0,
    };
    let levels = || (0..40).map(|item| Some(1 + item % 5)).collect();
    Evidence {
        candidate: 1,
        champion: None,
        incumbent: 0,
        scenarios: (1..=8).map(|n| format!("s{n}")).collect(),
        tiers: vec![tier(Tier::Expert), tier(Tier::Auto)],
        criteria: vec![DoubleScored {
            criterion: "tone".to_owned(),
            expert: levels(),
            auto: levels(),
        }],
        criteria_scenarios: (0..40).map(|item| item / 5).collect(),
        two_tiers: [Vec::new(), Vec::new()],
        confirmation: Some(Confirmation {
            differences: ahead.to_vec(),
            scenarios: 8,
            missing_cells: 0,
            scale: 1.0,
            flags: vec![flag("overlong", -1.0, 0.1, 0.1)],
            judged_apart: Some(0.0),
            comparability: Comparability::default(),
        }),
        composite_range: (2.0, 17.0),
        segments: vec![Segments {
            field: "slot".to_owned(),
            values: vec!["day".to_owned(), "night".to_owned()],
            value_of: (0..8).map(|place| Some(place % 2)).collect(),
        }],
        comparability: Comparability::default(),
        unjudged_pairs: 0,
        is_computed: false,
        seed: 42,
        family: None,
        log_latency_ratios: vec![0.1; 8],
        log_cost_ratios: Vec::new(),
    }
}

/// Fills in the cells from the means: five candidates with a spread of one point.
fn with_cells(evidence: &Evidence) -> Evidence {
    let mut evidence = evidence.clone();
    let pairs = [evidence.candidate, evidence.incumbent];
    let cell = |mean: &Option<f64>| {
        mean.filter(|mean| mean.is_finite()).map(|mean| Cell {
            rows: 5,
            mean,
            squared_deviations: 4.0,
        })
    };
    for tier in &mut evidence.tiers {
        tier.cells = pairs.map(|pair| tier.means[pair].iter().map(cell).collect());
    }
    if evidence.two_tiers[0].is_empty() && evidence.tiers.len() == 2 {
        evidence.two_tiers = pairs.map(|pair| double_scored(&evidence, pair, 5));
    }
    evidence
}

/// The cells of a pair with so many candidates that both tiers judged.
fn double_scored(evidence: &Evidence, pair: usize, items: usize) -> Vec<Option<TierCell>> {
    let [expert, auto] = [0, 1].map(|tier: usize| &evidence.tiers[tier].means[pair]);
    let cell = |(trusted, cheap): (&Option<f64>, &Option<f64>)| {
        let (trusted, cheap) = ((*trusted)?, (*cheap)?);
        Some(TierCell {
            cheap,
            both: Some(Both {
                items,
                trusted,
                cheap,
            }),
        })
    };
    expert.iter().zip(auto).map(cell).collect()
}

fn rolled(scores: &[f64; 8], by: usize) -> Vec<Option<f64>> {
    let mut scores = *scores;
    scores.rotate_left(by);
    scores.map(Some).to_vec()
}

fn flag(name: &str, weight: f64, candidate: f64, incumbent: f64) -> FlagShares {
    FlagShares {
        name: name.to_owned(),
        weight,
        candidate: Some(candidate),
        incumbent: Some(incumbent),
    }
}

fn failures(evidence: &Evidence, thresholds: &Thresholds) -> Vec<String> {
    let ruling = gate(&with_cells(evidence), thresholds);
    let failed: Vec<String> = ruling
        .checks
        .iter()
        .filter(|check| check.outcome == Outcome::Failed)
        .map(|check| check.name.clone())
        .collect();
    assert_eq!(ruling.passed, failed.is_empty(), "{:#?}", ruling.checks);
    failed
}

fn outcome(evidence: &Evidence, thresholds: &Thresholds, name: &str) -> Outcome {
    let ruling = gate(&with_cells(evidence), thresholds);
    let found = ruling.checks.iter().find(|check| check.name == name);
    found.map(|check| check.outcome).expect("the check")
}

/// Changes the sound evidence and expects exactly these checks to fail.
#[track_caller]
fn check(change: impl FnOnce(&mut Evidence), expected: &[&str]) {
    let mut evidence = sound();
    change(&mut evidence);
    assert_eq!(failures(&evidence, &Thresholds::default()), expected);
}

fn set_differences(evidence: &mut Evidence, differences: [f64; 8]) {
    for tier in &mut evidence.tiers {
        tier.means[1] = tier.means[0]
            .iter()
            .zip(differences)
            .map(|(it, more)| it.map(|it| it + more))
            .collect();
    }
}

#[test]
fn sound_evidence_passes_every_check() {
    let ruling = gate(&with_cells(&sound()), &Thresholds::default());
    assert!(ruling.passed, "{:#?}", ruling.checks);
    let names: Vec<&str> = ruling.checks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "p_adjusted",
            "lower_bound",
            "margin",
            "family",
            "judged_alike",
            "same_settings",
            "failed_candidates",
            "worst_scenario",
            "worst_segment",
            "flag.format_ok",
            "flag.overlong",
            "rank.expert",
            "rank.auto",
            "double_scored",
            "judge_bias",
            "missing_cells",
            "confirmation",
            "confirmation.margin",
            "confirmation.flag.overlong"
        ]
    );
    assert!(ruling.checks.iter().all(|it| it.outcome == Outcome::Passed));
}

#[test]
fn each_check_fails_alone() {
    // Alone it would be significant; over four challengers it is not.
    check(
        |it| set_differences(it, [2.0, 1.6, -0.9, 2.0, -0.4, 1.8, 1.4, -0.3]),
        &["p_adjusted"],
    );
    check(
        |it| set_differences(it, [0.4, 0.5, 0.3, 0.4, 0.6, 0.4, 0.2, 0.4]),
        &["margin"],
    );
    check(
        |it| set_differences(it, [4.0, 4.5, 5.0, 4.0, 4.5, 5.0, 4.0, -3.1]),
        &["worst_scenario"],
    );
    check(
        |it| set_differences(it, [4.0, -1.3, 4.5, -1.2, 4.2, -1.4, 4.1, -1.2]),
        &["p_adjusted", "lower_bound", "worst_segment"],
    );
}

#[test]
fn pairs_that_were_not_treated_alike_fail() {
    check(|it| it.tiers[0].judged_apart = Some(0.2), &["judged_alike"]);
    check(
        |it| it.comparability.settings = vec!["temperature 0.2".to_owned()],
        &["same_settings"],
    );
    check(
        |it| it.comparability.lost = [0.0, 0.2],
        &["failed_candidates"],
    );
    // The candidate's lost candidates count against it, so its mean falls as well.
    check(
        |it| it.comparability.lost = [0.25, 0.0],
        &[
            "p_adjusted",
            "lower_bound",
            "margin",
            "failed_candidates",
            "rank.expert",
            "rank.auto",
        ],
    );
    // The candidate was chosen among pairs that this tier never saw.
    check(
        |it| {
            it.unjudged_pairs = 10;
            it.confirmation = None;
        },
        &["family"],
    );
    check(|it| it.unjudged_pairs = 10, &[]);
}

#[test]
fn flags_judges_cells_and_confirmation_fail_alone() {
    check(
        |it| it.tiers[0].flags[0].candidate = Some(0.79),
        &["flag.format_ok"],
    );
    check(
        |it| it.tiers[0].flags[1].candidate = Some(0.21),
        &["flag.overlong"],
    );
    check(
        |it| it.tiers[1].means[1] = it.tiers[1].means[0].clone(),
        &["rank.auto", "judge_bias"],
    );
    check(
        |it| it.two_tiers = [1, 0].map(|pair| double_scored(it, pair, 1)),
        &["double_scored"],
    );
    // A bias towards both pairs cancels; one towards the candidate does not.
    let shifted = |it: &mut Evidence, pairs: &[usize]| {
        for pair in pairs {
            for mean in it.tiers[1].means[*pair].iter_mut().flatten() {
                *mean += 0.6;
            }
        }
    };
    check(|it| shifted(it, &[0, 1]), &[]);
    check(|it| shifted(it, &[1]), &["judge_bias"]);
    check(|it| it.tiers[0].missing_cells = 1, &["missing_cells"]);
    let confirmation = |differences: &[f64], scenarios, missing_cells| Confirmation {
        differences: differences.to_vec(),
        scenarios,
        missing_cells,
        scale: 1.0,
        flags: Vec::new(),
        judged_apart: Some(0.0),
        comparability: Comparability::default(),
    };
    let flat = [1.0, -1.0, 0.5, -0.5, 1.0, -1.0, 0.2, -0.1];
    for found in [
        confirmation(&[2.0; 7], 8, 1),
        confirmation(&[], 8, 16),
        confirmation(&[2.0; 4], 4, 0),
    ] {
        check(|it| it.confirmation = Some(found), &["confirmation"]);
    }
    check(
        |it| it.confirmation = Some(confirmation(&flat, 8, 0)),
        &["confirmation", "confirmation.margin"],
    );
    check(
        |it| it.confirmation = Some(confirmation(&[0.4; 8], 8, 0)),
        &["confirmation.margin"],
    );
    check(
        |it| {
            let found = it.confirmation.as_mut().expect("a split");
            found.flags[0].candidate = Some(0.5);
        },
        &["confirmation.flag.overlong"],
    );
}

#[test]
fn the_confirmation_stays_sealed_until_the_rest_passes() {
    let mut evidence = sound();
    evidence.tiers[0].missing_cells = 1;
    let thresholds = Thresholds::default();
    assert_eq!(
        outcome(&evidence, &thresholds, "confirmation"),
        Outcome::Sealed
    );
    evidence.confirmation = None;
    assert_eq!(
        outcome(&evidence, &thresholds, "confirmation"),
        Outcome::NotApplicable
    );
}

#[test]
fn an_automatic_tier_that_decides_alone_must_be_unbiased_for_certain() {
    let mut evidence = sound();
    let shifts = [0.9, -0.9, 0.8, -0.8, 0.9, -0.9, 0.7, -0.7];
    for (mean, shift) in evidence.tiers[1].means[1].iter_mut().flatten().zip(shifts) {
        *mean += shift;
    }
    let mut thresholds = Thresholds::default();
    assert_eq!(
        outcome(&evidence, &thresholds, "judge_bias"),
        Outcome::Passed
    );
    thresholds.require = vec![Tier::Auto];
    assert_eq!(
        outcome(&evidence, &thresholds, "judge_bias"),
        Outcome::Failed
    );
}

#[test]
fn only_required_tiers_are_asked() {
    let mut evidence = sound();
    evidence.tiers.truncate(1);
    evidence.criteria.clear();
    let expert = Thresholds {
        require: vec![Tier::Expert],
        ..Thresholds::default()
    };
    assert!(failures(&evidence, &expert).is_empty());
    assert_eq!(
        failures(&evidence, &Thresholds::default()),
        ["rank.auto", "double_scored"]
    );
}

#[test]
fn nothing_to_look_at_fails_and_never_panics() {
    for evidence in [
        Evidence::default(),
        Evidence {
            tiers: vec![TierEvidence {
                tier: Tier::Expert,
                means: vec![vec![None, Some(f64::NAN)], vec![Some(1.0), Some(2.0)]],
                cells: [Vec::new(), Vec::new()],
                judged_apart: None,
                flags: vec![flag("dull", 0.0, 0.0, 1.0)],
                missing_cells: 0,
            }],
            ..sound()
        },
    ] {
        let failed = failures(&evidence, &Thresholds::default());
        assert!(failed.contains(&"p_adjusted".to_owned()), "{failed:?}");
        assert!(failed.contains(&"margin".to_owned()), "{failed:?}");
    }
}

#[test]
fn equal_differences_are_confirmed_by_their_sign() {
    let mut evidence = sound();
    let thresholds = Thresholds::default();
    for (difference, expected) in [(2.0, Outcome::Passed), (0.0, Outcome::Failed)] {
        evidence.confirmation = Some(Confirmation {
            differences: vec![difference; 8],
            scenarios: 8,
            missing_cells: 0,
            scale: 1.0,
            flags: Vec::new(),
            judged_apart: Some(0.0),
            comparability: Comparability::default(),
        });
        assert_eq!(outcome(&evidence, &thresholds, "confirmation"), expected);
    }
}

/// The reference data: m2/p0 leads the incumbent m1/p0, and a percentile bootstrap believes it.
#[test]
fn m2_p0_is_rejected_where_a_percentile_bootstrap_would_have_promoted_it() {
    let text = include_str!("../../../../stats/tests/data/leaderboard.json");
    let data: Value = serde_json::from_str(text).expect("JSON");
    let pairs = &data["reference"]["per_arm"];
    let names = ["m1/p0", "m1/p1", "m1/p2", "m2/p0", "m2/p1", "m2/p2"];
    let means: Vec<Vec<Option<f64>>> = names
        .iter()
        .map(|name| {
            let means = pairs[name]["scenario_means"].as_array().expect("means");
            means.iter().map(Value::as_f64).collect()
        })
        .collect();
    let rate = |name: &str, flag: &str| pairs[name][format!("{flag}_rate")].as_f64();
    let shares = |name: &str, weight| FlagShares {
        name: name.to_owned(),
        weight,
        candidate: rate("m2/p0", name),
        incumbent: rate("m1/p0", name),
    };
    let mut evidence = sound();
    evidence.candidate = 3;
    evidence.confirmation = None;
    for tier in &mut evidence.tiers {
        tier.means.clone_from(&means);
        tier.flags = vec![shares("format_ok", 2.0), shares("overlong", -1.0)];
    }
    let differences = evidence.differences(&evidence.tiers[0]);
    let differences: Vec<f64> = differences.into_iter().flatten().collect();
    let bootstrap = bootstrap_mean_exact(&differences, 0.95).expect("an interval");
    assert!(bootstrap.interval.low > 0.0, "{bootstrap:?}");
    let failed = failures(&evidence, &Thresholds::default());
    assert!(failed.contains(&"p_adjusted".to_owned()), "{failed:?}");
}

#[test]
fn speed_and_price_count_only_where_a_margin_is_set() {
    let margins = |latency, cost| Thresholds {
        latency_margin: latency,
        cost_margin: cost,
        ..Thresholds::default()
    };
    let evidence = with_cells(&sound());
    assert!(gate(&evidence, &margins(None, None)).passed);
    // The candidate is 10.5 % slower in every scenario.
    assert!(gate(&evidence, &margins(Some(0.2), None)).passed);
    assert_eq!(failures(&evidence, &margins(Some(0.1), None)), ["latency"]);
    // No cost is known, so that it cannot be shown to be within any margin.
    assert_eq!(failures(&evidence, &margins(None, Some(0.5))), ["cost"]);
    let mut noisy = with_cells(&sound());
    noisy.log_cost_ratios = vec![0.6, -0.6, 0.5, -0.5, 0.7, -0.7, 0.4, -0.4];
    // As dear on average, but that is not shown well enough for a margin of a tenth.
    assert_eq!(failures(&noisy, &margins(None, Some(0.1))), ["cost"]);
    assert!(gate(&noisy, &margins(None, Some(0.6))).passed);
}
