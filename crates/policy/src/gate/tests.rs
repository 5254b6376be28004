use super::{
    Effort, GateEvidence, GateReport, GateThresholds, ShadowTraffic, assess, entrants,
    simulate_base, simulate_sensitivity,
};
use crate::persona::PersonaSet;
use crate::simulate::{Comparison, PersonaDifference, Variant};
use crate::{Policy, PolicyKind, PolicySettings};
use assize_domain::promotion::Outcome;

const ENOUGH: ShadowTraffic = ShadowTraffic {
    decisions: 1000,
    users: 50,
};

fn comparison(variant: Variant, differences: &[f64]) -> Comparison {
    let persona = |(index, difference): (usize, &f64)| PersonaDifference {
        persona: format!("persona-{index}"),
        family: format!("family-{}", index % 4),
        is_held_out: index % 4 == 0,
        difference: *difference,
        se: 0.001,
    };
    Comparison {
        candidate: "egreedy-v2".to_owned(),
        baseline: "egreedy-v1".to_owned(),
        variant,
        steps: 1000,
        seeds: 20,
        mean: differences.iter().sum::<f64>() / differences.len() as f64,
        se: 0.0,
        lower_bound: 0.0,
        low: 0.0,
        high: 0.0,
        confidence: 0.5,
        personas: differences.iter().enumerate().map(persona).collect(),
    }
}

const WIN: [f64; 8] = [0.03, 0.02, 0.04, 0.03, 0.05, 0.02, 0.03, 0.04];

fn evidence() -> GateEvidence {
    GateEvidence {
        base: comparison(Variant::Base, &WIN),
        sensitivity: Variant::SENSITIVITY.map(|it| comparison(it, &WIN)).into(),
        shadow: ENOUGH,
    }
}

fn failures(evidence: &GateEvidence) -> Vec<String> {
    let report = assess(evidence, &GateThresholds::default()).unwrap();
    let failures: Vec<String> = report.failures().map(|it| it.name.clone()).collect();
    assert_eq!(report.passed, failures.is_empty());
    assert!(report.failures().all(|it| it.why.is_some()));
    failures
}

#[test]
fn a_clear_win_passes() {
    assert!(failures(&evidence()).is_empty());
    let report = assess(&evidence(), &GateThresholds::default()).unwrap();
    let names: Vec<&str> = report.checks.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "personas",
        "seeds",
        "lower_bound",
        "held_out",
        "harm",
        "sensitivity.drift",
        "sensitivity.delayed-reward",
        "sensitivity.cold-start",
        "sensitivity.misspecified-reward",
        "shadow_decisions",
        "shadow_users",
    ];
    assert_eq!(names, expected);
}

#[test]
fn each_check_can_fail_alone() {
    let with = |change: fn(&mut GateEvidence)| {
        let mut evidence = evidence();
        change(&mut evidence);
        failures(&evidence)
    };
    let alone = |change, name: &str| assert_eq!(with(change), [name]);
    alone(|it| it.base.seeds = 19, "seeds");
    alone(|it| it.shadow.decisions = 999, "shadow_decisions");
    alone(|it| it.shadow.users = 49, "shadow_users");
    alone(|it| drop(it.base.personas.pop()), "personas");
    alone(
        |it| drop(it.sensitivity.remove(2)),
        "sensitivity.cold-start",
    );
    let drifting = |it: &mut GateEvidence| {
        it.sensitivity[0] = comparison(Variant::Drift, &[-0.03, -0.02, -0.03, -0.02]);
    };
    alone(drifting, "sensitivity.drift");
    // Positive on average, but not by more than the spread of the personas.
    let noisy = |it: &mut GateEvidence| {
        let differences = [0.1, -0.015, 0.1, -0.015, 0.1, -0.015, -0.01, -0.015];
        it.base = comparison(Variant::Base, &differences);
    };
    alone(noisy, "lower_bound");
    let harm = |it: &mut GateEvidence| {
        let mut differences = [0.05; 16];
        differences[3] = -0.021;
        it.base = comparison(Variant::Base, &differences);
    };
    alone(harm, "harm");
    let tuned = |it: &mut GateEvidence| {
        let mut differences = [0.06; 16];
        for held_out in differences.iter_mut().step_by(4) {
            *held_out = -0.001;
        }
        it.base = comparison(Variant::Base, &differences);
    };
    alone(tuned, "held_out");
}

#[test]
fn an_exact_tie_is_no_win() {
    let mut evidence = evidence();
    evidence.base = comparison(Variant::Base, &[0.0; 8]);
    assert_eq!(failures(&evidence), ["lower_bound", "held_out"]);
}

#[test]
fn without_held_out_families_that_check_does_not_apply() {
    let mut evidence = evidence();
    for persona in &mut evidence.base.personas {
        persona.is_held_out = false;
    }
    let report = assess(&evidence, &GateThresholds::default()).unwrap();
    let check = report.checks.iter().find(|it| it.name == "held_out");
    assert_eq!(check.unwrap().outcome, Outcome::NotApplicable);
    assert!(report.passed);
}

#[test]
fn thresholds_are_set_and_checked() {
    let strict = GateThresholds {
        least_shadow_decisions: 5000,
        ..GateThresholds::default()
    };
    assert!(!assess(&evidence(), &strict).unwrap().passed);
    for bad in [0.4, 1.0, f64::NAN] {
        let thresholds = GateThresholds {
            confidence: bad,
            ..GateThresholds::default()
        };
        assert!(assess(&evidence(), &thresholds).is_err());
    }
}

#[test]
fn a_report_is_json_with_the_fields_of_other_gates() {
    let report = assess(&evidence(), &GateThresholds::default()).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let check = &json["checks"][2];
    assert_eq!(check["quantity"], "reward");
    assert_eq!(check["relation"], ">");
    assert_eq!(check["outcome"], "passed");
    assert_eq!(serde_json::from_value::<GateReport>(json).unwrap(), report);
}

fn simulated(incumbent: &Policy, candidate: &Policy, effort: &Effort) -> GateReport {
    let personas = PersonaSet::built_in().unwrap();
    let [incumbent, candidate] = entrants(incumbent, candidate);
    let base = simulate_base(&personas, &incumbent, &candidate, effort).unwrap();
    let sensitivity = simulate_sensitivity(&personas, &incumbent, &candidate, effort).unwrap();
    let evidence = GateEvidence {
        base,
        sensitivity,
        shadow: ENOUGH,
    };
    assess(&evidence, &GateThresholds::default()).unwrap()
}

fn policy(kind: PolicyKind, change: impl FnOnce(&mut PolicySettings)) -> Policy {
    let mut settings = PolicySettings::defaults(kind);
    change(&mut settings);
    Policy::new(kind, settings).unwrap()
}

const EFFORT: Effort = Effort {
    steps: 300,
    seeds: 20,
    seed: 11,
    warm_up: 200,
    threads: 2,
};

#[test]
fn version_2_earns_the_place_of_version_1() {
    let v1 = policy(PolicyKind::EgreedyV1, |_| {});
    let v2 = policy(PolicyKind::EgreedyV2, |_| {});
    let report = simulated(&v1, &v2, &EFFORT);
    assert!(report.passed, "{report:?}");
    let back = simulated(&v2, &v1, &EFFORT);
    let failed: Vec<&str> = back.failures().map(|it| it.name.as_str()).collect();
    assert!(
        failed.contains(&"lower_bound") && failed.contains(&"harm"),
        "{back:?}"
    );
}

#[test]
fn a_deliberately_bad_policy_is_refused() {
    let incumbent = policy(PolicyKind::EgreedyV1, |_| {});
    let random = policy(PolicyKind::EgreedyV2, |it| it.epsilon = 1.0);
    let rigid = policy(PolicyKind::EgreedyV2, |it| it.lambda = 1e6);
    for bad in [random, rigid] {
        let report = simulated(&incumbent, &bad, &EFFORT);
        let failed: Vec<&str> = report.failures().map(|it| it.name.as_str()).collect();
        for expected in [
            "lower_bound",
            "held_out",
            "harm",
            "sensitivity.delayed-reward",
        ] {
            assert!(failed.contains(&expected), "{expected}: {failed:?}");
        }
    }
}
