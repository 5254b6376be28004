use std::path::Path;

use assize_domain::task::TaskDefaults;
use assize_policy::{PolicyKind, PolicySettings};
use assize_server::ShadowConfig;
use toml::{Table, Value};

use super::layers::flatten;
use super::*;

fn layers() -> Layers {
    Layers::new(&TaskDefaults::default()).expect("sound defaults")
}

#[test]
fn the_defaults_are_valid() {
    let settings = layers().finish().expect("valid");
    assert_eq!(
        (
            settings.options.n_tips,
            settings.options.seed,
            settings.options.max_model_b
        ),
        (5, 42, 4.0)
    );
}

#[test]
fn later_layers_win_and_problems_name_their_origin() {
    let mut layers = layers();
    layers.set("n_tips", Value::Integer(3), "assize.toml");
    layers.flag("n_tips", Some(0));
    layers.set("temperature", Value::Integer(-1), "ASSIZE_TEMPERATURE");
    let error = layers.finish().expect_err("two problems");
    assert_eq!(
        error.0,
        [
            "--n-tips is 0: use 1 to 1000",
            "temperature (from ASSIZE_TEMPERATURE) is -1: use 0 to 10"
        ]
    );
}

#[test]
fn wrong_types_are_named() {
    let mut layers = layers();
    layers.set("n_tips", Value::from("many"), "assize.toml");
    let error = layers.finish().expect_err("a type");
    assert!(
        error.0[0].starts_with("n_tips (from assize.toml) is 'many': use a whole number"),
        "{}",
        error.0[0]
    );
}

#[test]
fn lists_come_as_commas_or_lists() {
    let mut layers = layers();
    layers.flag("models", Some("a, b,a".to_owned()));
    assert_eq!(layers.finish().expect("valid").options.models, ["a", "b"]);
}

#[test]
fn the_gate_s_defaults_are_those_of_the_code() {
    let settings = layers().finish().expect("valid");
    assert_eq!(settings.gate, Thresholds::default());
}

#[test]
fn tables_are_set_key_by_key() {
    let mut layers = layers();
    let table: Table = "[gate]\nmargin = 1\nrequire = \"expert\"\nbias = -1"
        .parse()
        .expect("TOML");
    for (key, value) in flatten(table) {
        layers.set(&key, value, "assize.toml");
    }
    let error = layers.finish().expect_err("a bias below zero");
    assert_eq!(
        error.0,
        ["gate.bias (from assize.toml) is -1: use 0 or more points"]
    );
}

#[test]
fn settings_that_are_unset_by_default_can_be_set() {
    let mut set = layers();
    set.set("gate.margin", Value::Integer(1), "assize.toml");
    let gate = set.finish().expect("valid").gate;
    assert_eq!((gate.margin, gate.scenario_floor), (Some(1.0), None));

    let mut wrong = layers();
    wrong.set("gate.margin", Value::from("much"), "assize.toml");
    wrong.set("gate.level", Value::Float(2.0), "assize.toml");
    let error = wrong.finish().expect_err("two problems");
    assert_eq!(error.0.len(), 2, "{error}");
    assert!(
        error.0[0].starts_with("gate.margin (from assize.toml) is 'much'"),
        "{error}"
    );
}

#[test]
fn the_policies_defaults_are_those_of_the_code() {
    let policy = layers().finish().expect("valid").policy;
    for kind in PolicyKind::ALL {
        assert_eq!(policy.of(kind), PolicySettings::defaults(kind), "{kind}");
    }
    let config = policy.config(Path::new("x"));
    let shadow = ShadowConfig {
        name: "egreedy-v2-shadow".to_owned(),
        policy: PolicyKind::EgreedyV2,
        enabled: false,
    };
    assert_eq!(config.shadows, [shadow]);
    assert_eq!(config.active, PolicyKind::EgreedyV1);
}

#[test]
fn policies_and_shadows_are_set_by_the_file_and_the_environment() {
    let mut set = layers();
    let table: Table = "[policy.linucb]\nepsilon = 0\n[policy.shadows]\n\
                        mine = { policy = \"linucb\", enabled = true }"
        .parse()
        .expect("TOML");
    for (key, value) in flatten(table) {
        set.set(&key, value, "assize.toml");
    }
    let policy = set.finish().expect("valid").policy;
    assert!(policy.of(PolicyKind::LinUcb).epsilon.abs() < 1e-15);
    let names: Vec<(String, bool)> = policy
        .config(Path::new(""))
        .shadows
        .into_iter()
        .map(|it| (it.name, it.enabled))
        .collect();
    assert_eq!(
        names,
        [
            ("egreedy-v2-shadow".to_owned(), false),
            ("mine".to_owned(), true)
        ]
    );

    let mut wrong = layers();
    wrong.set("policy.linucb.gamma", Value::Float(0.0), "assize.toml");
    wrong.set("policy.active", Value::from("best"), "ASSIZE_POLICY_ACTIVE");
    let error = wrong.finish().expect_err("two problems");
    assert_eq!(
        error.0,
        [
            "policy.active (from ASSIZE_POLICY_ACTIVE) is 'best': use one of egreedy-v1, \
             egreedy-v2, linucb",
            "policy.linucb.gamma (from assize.toml) is 0: use a number in (0, 1]"
        ]
    );
}
