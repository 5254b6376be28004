use super::{PersonaError, PersonaSet};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_built_in_set_is_valid_and_wide_enough() {
    let set = PersonaSet::built_in().unwrap();
    let mut families: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for persona in &set.personas {
        let matters = families.entry(&persona.family).or_default();
        matters.insert(persona.profile_matters());
    }
    assert!(set.personas.len() >= 8 && families.len() >= 4);
    assert!(families.values().all(|it| it.len() == 1), "{families:?}");
    // Both kinds of family are in both halves.
    for matters in [true, false] {
        for is_held_out in [true, false] {
            let found = set
                .personas
                .iter()
                .any(|it| it.profile_matters() == matters && set.is_held_out(it) == is_held_out);
            assert!(found, "{matters} {is_held_out}");
        }
    }
}

#[test]
fn a_set_survives_serialisation() {
    let set = PersonaSet::built_in().unwrap();
    let json = serde_json::to_string(&set).unwrap();
    assert_eq!(serde_json::from_str::<PersonaSet>(&json).unwrap(), set);
}

#[test]
fn mistakes_are_named() {
    let text = PersonaSet::built_in_text();
    let check = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from), "{from}");
        let error = PersonaSet::parse(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("noise = 0.1", "noise = 1.5", "persona early-bird: noise");
    check("noise = 0.1", "noise = nan", "persona early-bird: noise");
    check("noise = 0.1", "loudness = 0.1", "loudness");
    check(
        "hours = [6.5,",
        "hours = [24.0,",
        "persona early-bird: schedule",
    );
    check("urgency = [0.0, 0.8]", "urgency = [0.8, 0.0]", "urgency");
    check(
        "name = \"night-owl\"",
        "name = \"early-bird\"",
        "two personas",
    );
    check("phase_steps = 30", "phase_steps = 0", "phase_steps");
    check(
        "weekend = -0.25",
        "weekend = -25.0",
        "persona early-bird: tastes",
    );
    check("\"focus\", ", "", "one taste for each arm");
    check("held_out = [", "held_out = [\"nobody\", ", "nobody");
    check("arms = [", "arms = [[", "TOML");
}

#[test]
fn an_empty_set_is_refused() {
    let error = PersonaSet::parse("arms = [\"a\", \"b\"]\npersona = []").unwrap_err();
    assert!(matches!(error, PersonaError::Invalid { .. }));
}
