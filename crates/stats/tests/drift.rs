//! Charts of shift, slope and spread against `reference/scale_use.py`; their false alarms and what
//! they detect.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "reference/support.rs"]
#[expect(dead_code, reason = "each test file uses a part")]
mod support;

use assize_stats::drift::{
    AnchorNoise, Baseline, EwmaPoint, ScaleUsePoint, ScaleUseSettings, scale_use,
};
use assize_stats::rng::SplitMix64;
use serde_json::Value;
use support::{close, load, number, numbers, optional_numbers};

const KNOWN: [f64; 12] = [
    1.0, 2.0, 3.0, 4.0, 5.0, 2.33, 3.67, 1.67, 4.33, 2.67, 3.33, 4.67,
];

fn settings_of(case: &Value) -> ScaleUseSettings {
    let noise = &case["noise"];
    let noise = match noise[0].as_str().unwrap() {
        "known" => AnchorNoise::Known(number(&noise[1])),
        "estimated" => AnchorNoise::Estimated {
            sd: number(&noise[1]),
            df: number(&noise[2]),
        },
        _ => AnchorNoise::Earlier {
            least_sd: number(&noise[1]),
        },
    };
    let baseline = match case["baseline"].as_str().unwrap() {
        "known" => Baseline::Known,
        _ => Baseline::Earlier,
    };
    ScaleUseSettings::usual(baseline, noise)
}

#[track_caller]
fn same_chart(found: EwmaPoint, wanted: &Value, place: usize) {
    close(found.z, &wanted["z"][place]);
    close(found.ewma, &wanted["ewma"][place]);
    close(found.limit, &wanted["limits"][place]);
    assert_eq!(Some(found.is_alarm), wanted["alarms"][place].as_bool());
}

#[test]
fn every_figure_is_that_of_the_reference() {
    let data = load(include_str!("data/scale_use.json"));
    let known = numbers(&data["known"]);
    for case in data["cases"].as_array().unwrap() {
        let sittings = case["sittings"].as_array().unwrap();
        let sittings: Vec<_> = sittings.iter().map(optional_numbers).collect();
        let found = scale_use(&known, &sittings, settings_of(case)).unwrap();
        for (found, wanted) in found.iter().zip(case["points"].as_array().unwrap()) {
            let Some(found) = found else {
                assert!(wanted.is_null());
                continue;
            };
            assert_eq!(Some(found.anchors as u64), wanted["anchors"].as_u64());
            close(found.noise_sd, &wanted["sd"]);
            assert_eq!(found.noise_df, wanted["noise_df"].as_f64());
            close(found.shift.value, &wanted["shift"]);
            close(found.slope.unwrap().value, &wanted["slope"]);
            same_chart(found.shift, wanted, 0);
            same_chart(found.slope.unwrap(), wanted, 1);
            let alarm = found.spread.is_some_and(|it| it.is_alarm);
            assert_eq!(Some(alarm), wanted["alarms"][2].as_bool());
            if let Some(spread) = found.spread {
                close(spread.chi2, &wanted["chi2"]);
                close(spread.limit, &wanted["top"]);
            } else {
                assert!(wanted["chi2"].is_null());
            }
        }
    }
}

/// How a rater scores an anchor with a known score.
type Rater = fn(f64) -> f64;

/// Scores of `KNOWN` by a rater, in steps of a third (three criteria in whole numbers) or exactly.
fn sitting(rng: &mut SplitMix64, rater: Rater, sd: f64, step: Option<f64>) -> Vec<Option<f64>> {
    let mut score = |known: &f64| {
        let score = rater(*known) + sd * rng.next_normal();
        let score = step.map_or(score, |step| (score / step).round() * step);
        Some(score.clamp(1.0, 5.0))
    };
    KNOWN.iter().map(&mut score).collect()
}

/// The share of 20-sitting histories with an alarm; from sitting 10 on the rater and its noise may
/// change, and the second figure is the share with an alarm at sitting 10 or the next two.
fn alarms(
    runs: u64,
    config: impl Fn(&mut SplitMix64) -> ScaleUseSettings,
    before: (Rater, f64, Option<f64>),
    after: (Rater, f64, Option<f64>),
) -> (f64, f64) {
    let (mut any, mut soon) = (0, 0);
    for seed in 0..runs {
        let mut rng = SplitMix64::new(seed << 14);
        let config = config(&mut rng);
        let sittings: Vec<_> = (0..20)
            .map(|place| if place < 10 { before } else { after })
            .map(|(rater, sd, step)| sitting(&mut rng, rater, sd, step))
            .collect();
        let points = scale_use(&KNOWN, &sittings, config).unwrap();
        let alarm = |it: &Option<ScaleUsePoint>| it.is_some_and(|it| it.is_alarm());
        any += usize::from(points.iter().any(alarm));
        soon += usize::from(points[10..13].iter().any(alarm));
    }
    (any as f64 / runs as f64, soon as f64 / runs as f64)
}

fn known_noise(_: &mut SplitMix64) -> ScaleUseSettings {
    ScaleUseSettings::usual(Baseline::Known, AnchorNoise::Known(0.3))
}

fn own_noise(_: &mut SplitMix64) -> ScaleUseSettings {
    ScaleUseSettings::usual(Baseline::Earlier, AnchorNoise::Earlier { least_sd: 0.05 })
}

/// The noise is estimated once with 8 degrees of freedom.
fn estimated_noise(rng: &mut SplitMix64) -> ScaleUseSettings {
    let squares: f64 = (0..8).map(|_| rng.next_normal().powi(2)).sum();
    let sd = 0.3 * (squares / 8.0).sqrt();
    ScaleUseSettings::usual(Baseline::Known, AnchorNoise::Estimated { sd, df: 8.0 })
}

/// A judge on the scale, away from its ends so that the noise stays symmetric.
fn fair(known: f64) -> f64 {
    3.0 + 0.6 * (known - 3.0)
}

#[test]
fn false_alarms_over_twenty_sittings_stay_below_ten_percent() {
    let runs = 500;
    let limit = 0.10 + 2.0 * (0.1_f64 * 0.9 / runs as f64).sqrt();
    let within: Rater = |known| known.clamp(2.0, 4.0);
    let exact: (Rater, f64, Option<f64>) = (fair, 0.3, None);
    let (own, _) = alarms(runs, own_noise, exact, exact);
    assert!(own < limit, "own sittings: {own}");
    let steps: (Rater, f64, Option<f64>) = (within, 0.3, Some(1.0 / 3.0));
    let (own, _) = alarms(runs, own_noise, steps, steps);
    assert!(own < limit, "own sittings in thirds: {own}");
    for (name, config) in [
        (
            "known",
            known_noise as fn(&mut SplitMix64) -> ScaleUseSettings,
        ),
        ("estimated", estimated_noise),
    ] {
        let mut any = 0;
        for seed in 0..runs {
            let mut rng = SplitMix64::new(seed << 15);
            let config = config(&mut rng);
            let mut scores = || -> Vec<Option<f64>> {
                KNOWN
                    .iter()
                    .map(|known| Some(known + 0.3 * rng.next_normal()))
                    .collect()
            };
            let sittings: Vec<_> = (0..20).map(|_| scores()).collect();
            let points = scale_use(&KNOWN, &sittings, config).unwrap();
            any += usize::from(points.iter().flatten().any(ScaleUsePoint::is_alarm));
        }
        assert!(
            (any as f64 / runs as f64) < limit,
            "{name}: {any} of {runs}"
        );
    }
}

#[test]
fn compression_ceiling_and_noise_are_detected_soon() {
    let exact: (Rater, f64, Option<f64>) = (|known| known, 0.3, None);
    let raters: [(&str, Rater, f64); 4] = [
        ("everything is a 3", |_| 3.0, 0.0),
        ("compressed", |known| 3.0 + 0.6 * (known - 3.0), 0.3),
        ("ceiling", |known| known.min(3.5), 0.3),
        ("noisy", |known| known, 0.7),
    ];
    for (name, rater, sd) in raters {
        for (mode, settings) in [
            (
                "known",
                known_noise as fn(&mut SplitMix64) -> ScaleUseSettings,
            ),
            ("own", own_noise),
        ] {
            let (_, soon) = alarms(100, settings, exact, (rater, sd, None));
            assert!(soon > 0.8, "{name}, {mode}: {soon}");
        }
    }
}

#[test]
fn everything_is_a_3_has_slope_zero_and_alarms_at_once() {
    let known = ScaleUseSettings::usual(Baseline::Known, AnchorNoise::Known(0.3));
    let points = scale_use(&KNOWN, &[vec![Some(3.0); 12]], known).unwrap();
    let point = points[0].unwrap();
    let slope = point.slope.unwrap();
    assert!(slope.value.abs() < 1e-12 && slope.z < -10.0 && slope.is_alarm);
    assert!(point.shift.value.abs() < 0.2 && point.is_alarm());
}

#[test]
fn a_rater_that_repeats_itself_is_calm_until_it_changes() {
    let same: Vec<Option<f64>> = KNOWN.iter().map(|known| Some(0.5 * known + 1.0)).collect();
    let mut sittings = vec![same.clone(); 5];
    let mut one_off = same;
    one_off[3] = one_off[3].map(|score| score + 1.0 / 3.0);
    sittings.push(one_off);
    let noise = AnchorNoise::Earlier { least_sd: 0.15 };
    let config = ScaleUseSettings::usual(Baseline::Earlier, noise);
    let points = scale_use(&KNOWN, &sittings, config).unwrap();
    assert_eq!(points[0], None);
    assert!(points.iter().flatten().all(|it| !it.is_alarm()));
    sittings.push(KNOWN.iter().map(|known| Some(0.5 * known + 1.5)).collect());
    let points = scale_use(&KNOWN, &sittings, config).unwrap();
    assert!(points[6].unwrap().shift.is_alarm);
}

#[test]
fn more_families_mean_wider_limits_and_bad_settings_are_refused() {
    let usual = ScaleUseSettings::usual(Baseline::Known, AnchorNoise::Known(0.3));
    let sittings = [KNOWN.map(Some).to_vec()];
    let limit = |settings| scale_use(&KNOWN, &sittings, settings).unwrap()[0].unwrap();
    let wide = limit(ScaleUseSettings {
        families: 4,
        ..usual
    });
    assert!(wide.shift.limit > limit(usual).shift.limit);
    assert!(wide.spread.unwrap().limit > limit(usual).spread.unwrap().limit);
    let refused = |settings| scale_use(&KNOWN, &sittings, settings).is_err();
    assert!(refused(ScaleUseSettings {
        families: 0,
        ..usual
    }));
    assert!(refused(ScaleUseSettings {
        ewma_lambda: 0.0,
        ..usual
    }));
    assert!(refused(ScaleUseSettings {
        false_alarms: 1.0,
        ..usual
    }));
    assert!(refused(ScaleUseSettings {
        noise: AnchorNoise::Known(0.0),
        ..usual
    }));
    let noise = AnchorNoise::Estimated { sd: 0.3, df: 0.0 };
    assert!(refused(ScaleUseSettings { noise, ..usual }));
    assert!(scale_use(&KNOWN, &[vec![None]], usual).is_err());
    let flat = scale_use(&[3.0; 4], &[vec![Some(3.1); 4]], usual).unwrap()[0].unwrap();
    assert!(flat.slope.is_none() && flat.spread.unwrap().df == 3);
    let gap = scale_use(&KNOWN, &[vec![None; 12]], usual).unwrap();
    assert_eq!(gap, [None]);
}
