use super::{Context, FeatureVersion, Profile, check_features};
use crate::PolicyError;

const V1: FeatureVersion = FeatureVersion::V1;
const V2: FeatureVersion = FeatureVersion::V2;

fn context() -> Context {
    Context {
        hour: Some(6.0),
        weekend: Some(true),
        open_tasks: Some(5.0),
        urgency: Some(0.25),
    }
}

fn profile() -> Profile {
    Profile {
        completion_rate: Some(0.4),
        dismiss_rate: Some(0.1),
        mean_dwell_s: Some(150.0),
        preferred_hour: Some(12.0),
        tip_volume: Some(1000.0),
    }
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (index, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() < 1e-15, "feature {index}: {f} {e}");
    }
}

fn at_hour(hour: f64, preferred: f64) -> f64 {
    let context = Context {
        hour: Some(hour),
        ..Context::default()
    };
    let profile = Profile {
        preferred_hour: Some(preferred),
        ..Profile::default()
    };
    V2.features(&context, Some(&profile), None).unwrap()[10]
}

#[test]
fn version_1_has_seven_features_in_a_fixed_order() {
    let found = V1.features(&context(), Some(&profile()), Some(0.75));
    close(&found.unwrap(), &[1.0, 1.0, 0.0, 1.0, 0.25, 0.25, 0.75]);
    assert_eq!(V1.names().len(), V1.dimension());
}

#[test]
fn version_2_appends_five_features_of_the_profile() {
    let found = V2.features(&context(), Some(&profile()), Some(0.75));
    let expected = [
        1.0, 1.0, 0.0, 1.0, 0.25, 0.25, 0.75, 0.4, 0.1, 0.25, 0.0, 1.0,
    ];
    close(&found.unwrap(), &expected);
    assert_eq!(V2.names().len(), V2.dimension());
}

#[test]
fn hours_are_a_circle() {
    for (hour, sin, cos) in [
        (0.0, 0.0, 1.0),
        (6.0, 1.0, 0.0),
        (12.0, 0.0, -1.0),
        (18.0, -1.0, 0.0),
    ] {
        let context = Context {
            hour: Some(hour),
            ..Context::default()
        };
        let x = V1.features(&context, None, None).unwrap();
        assert!(
            (x[1] - sin).abs() < 1e-15 && (x[2] - cos).abs() < 1e-15,
            "{hour}"
        );
    }
}

#[test]
fn weekend_is_one_or_zero() {
    for (weekend, expected) in [(None, 0.0), (Some(false), 0.0), (Some(true), 1.0)] {
        let context = Context {
            weekend,
            ..Context::default()
        };
        close(
            &V1.features(&context, None, None).unwrap()[3..4],
            &[expected],
        );
    }
}

#[test]
fn load_is_clipped_at_twenty_tasks() {
    for (open_tasks, expected) in [(0.0, 0.0), (10.0, 0.5), (20.0, 1.0), (5000.0, 1.0)] {
        let context = Context {
            open_tasks: Some(open_tasks),
            ..Context::default()
        };
        close(
            &V1.features(&context, None, None).unwrap()[4..5],
            &[expected],
        );
    }
}

#[test]
fn dwell_is_clipped_at_ten_minutes() {
    for (mean_dwell_s, expected) in [(0.0, 0.0), (60.0, 0.1), (600.0, 1.0), (86_400.0, 1.0)] {
        let profile = Profile {
            mean_dwell_s: Some(mean_dwell_s),
            ..Profile::default()
        };
        let x = V2.features(&Context::default(), Some(&profile), None);
        close(&x.unwrap()[9..10], &[expected]);
    }
}

#[test]
fn volume_is_logarithmic_and_clipped_at_a_thousand() {
    let ln_1001 = 1001.0_f64.ln();
    for (tip_volume, expected) in [
        (0.0, 0.0),
        (1.0, 2.0_f64.ln() / ln_1001),
        (30.0, 31.0_f64.ln() / ln_1001),
        (1000.0, 1.0),
        (1e9, 1.0),
    ] {
        let profile = Profile {
            tip_volume: Some(tip_volume),
            ..Profile::default()
        };
        let x = V2.features(&Context::default(), Some(&profile), None);
        close(&x.unwrap()[11..12], &[expected]);
    }
}

#[test]
fn alignment_does_not_break_at_midnight() {
    let apart_by_one = at_hour(13.0, 12.0);
    assert!((at_hour(23.5, 0.5) - apart_by_one).abs() < 1e-15);
    assert!((at_hour(0.5, 23.5) - apart_by_one).abs() < 1e-15);
    assert!((at_hour(0.0, 23.999_999) - 1.0).abs() < 1e-9);
    assert!((at_hour(3.0, 3.0) - 1.0).abs() < 1e-15);
    assert!((at_hour(3.0, 15.0) + 1.0).abs() < 1e-15);
    assert!(at_hour(21.0, 3.0).abs() < 1e-15);
}

#[test]
fn alignment_needs_both_hours() {
    let only_preferred = V2.features(&Context::default(), Some(&profile()), None);
    close(&only_preferred.unwrap()[10..11], &[0.0]);
    let only_hour = V2.features(&context(), Some(&Profile::default()), None);
    close(&only_hour.unwrap()[10..11], &[0.0]);
}

#[test]
fn a_missing_or_empty_profile_leaves_version_1_and_zeros() {
    let v1 = V1.features(&context(), None, Some(0.5)).unwrap();
    for profile in [None, Some(&Profile::default())] {
        let v2 = V2.features(&context(), profile, Some(0.5)).unwrap();
        close(&v2[..7], &v1);
        close(&v2[7..], &[0.0; 5]);
    }
}

#[test]
fn nothing_known_is_the_intercept_alone() {
    let x = V2.features(&Context::default(), None, None).unwrap();
    close(&x[..1], &[1.0]);
    close(&x[1..], &[0.0; 11]);
}

type Set = fn(&mut Context, &mut Profile, f64);
const FIELDS: [(&str, Set, [f64; 2], [f64; 2]); 8] = [
    (
        "context.hour",
        |c, _, v| c.hour = Some(v),
        [0.0, 23.999],
        [-0.1, 24.0],
    ),
    (
        "context.open_tasks",
        |c, _, v| c.open_tasks = Some(v),
        [0.0, 1e6],
        [-1.0, -1e-9],
    ),
    (
        "context.urgency",
        |c, _, v| c.urgency = Some(v),
        [0.0, 1.0],
        [-0.1, 1.1],
    ),
    (
        "profile_features.completion_rate",
        |_, p, v| p.completion_rate = Some(v),
        [0.0, 1.0],
        [-0.1, 1.1],
    ),
    (
        "profile_features.dismiss_rate",
        |_, p, v| p.dismiss_rate = Some(v),
        [0.0, 1.0],
        [-0.1, 1.1],
    ),
    (
        "profile_features.mean_dwell_s",
        |_, p, v| p.mean_dwell_s = Some(v),
        [0.0, 1e6],
        [-1.0, -1e-9],
    ),
    (
        "profile_features.preferred_hour",
        |_, p, v| p.preferred_hour = Some(v),
        [0.0, 23.999],
        [-0.1, 24.0],
    ),
    (
        "profile_features.tip_volume",
        |_, p, v| p.tip_volume = Some(v),
        [0.0, 1e6],
        [-1.0, -1e-9],
    ),
];

#[test]
fn every_field_has_a_range_and_its_error_names_the_field() {
    for (name, set, allowed, refused) in FIELDS {
        for version in [V1, V2] {
            let with = |value| {
                let (mut context, mut profile) = (context(), profile());
                set(&mut context, &mut profile, value);
                version.features(&context, Some(&profile), None)
            };
            for value in allowed {
                assert!(with(value).is_ok(), "{name} {value}");
            }
            for bad in refused {
                match with(bad) {
                    Err(PolicyError::OutOfRange { field, value, .. }) => {
                        assert_eq!((field, value.to_bits()), (name, bad.to_bits()));
                    }
                    other => panic!("{name} {bad}: {other:?}"),
                }
            }
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert_eq!(with(bad), Err(PolicyError::NotFinite { field: name }));
            }
        }
    }
}

#[test]
fn task_match_has_a_range() {
    let base = V1.prepare(&context(), None).unwrap();
    assert!(base.with_task_match(Some(1.0)).is_ok());
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(base.with_task_match(Some(bad)).is_err(), "{bad}");
    }
}

#[test]
fn callers_features_must_be_finite_and_scaled() {
    assert!(check_features(&[1.0, -1000.0, 0.0]).is_ok());
    for bad in [f64::NAN, f64::NEG_INFINITY, 1e300] {
        let error = check_features(&[1.0, bad]);
        assert!(
            matches!(error, Err(PolicyError::Feature { index: 1, .. })),
            "{bad}"
        );
    }
}

#[test]
fn json_names_are_the_public_ones_and_unknown_keys_are_ignored() {
    let context: Context = serde_json::from_str(
        r#"{"hour": 9, "weekend": true, "open_tasks": 3, "urgency": 0.5, "weather": "rain"}"#,
    )
    .unwrap();
    assert_eq!(
        context,
        Context {
            hour: Some(9.0),
            weekend: Some(true),
            open_tasks: Some(3.0),
            urgency: Some(0.5)
        }
    );
    let profile: Profile = serde_json::from_str(
        r#"{"completion_rate": 0.5, "dismiss_rate": null, "mean_dwell_s": 3, "preferred_hour": 7,
            "tip_volume": 12, "name": "x"}"#,
    )
    .unwrap();
    assert_eq!(
        profile,
        Profile {
            completion_rate: Some(0.5),
            dismiss_rate: None,
            mean_dwell_s: Some(3.0),
            preferred_hour: Some(7.0),
            tip_volume: Some(12.0)
        }
    );
}

#[test]
fn versions_are_numbers() {
    assert_eq!(serde_json::to_string(&V2).unwrap(), "2");
    assert_eq!(serde_json::from_str::<FeatureVersion>("1").unwrap(), V1);
    assert!(serde_json::from_str::<FeatureVersion>("3").is_err());
}
