//! Whether the profile's features are worth their dimensions: `egreedy-v2` against `egreedy-v1` on
//! the built-in personas.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use assize_policy::simulate::{Comparison, Entrant, Plan, Variant, run};
use assize_policy::{PersonaSet, Policy, PolicyKind, PolicySettings};

fn comparison(seed: u64, profile_matters: bool) -> Comparison {
    let set = PersonaSet::built_in().unwrap();
    let entrant = |kind| Entrant::new(Policy::new(kind, PolicySettings::defaults(kind)).unwrap());
    let entrants = [PolicyKind::EgreedyV1, PolicyKind::EgreedyV2].map(entrant);
    let plan = Plan {
        personas: &set,
        entrants: &entrants,
        steps: 800,
        seeds: 20,
        seed,
        warm_up: 200,
        variant: Variant::Base,
        threads: 2,
    };
    let found = run(&plan).unwrap();
    let include = |name: &str| {
        let persona = set.personas.iter().find(|it| it.name == name).unwrap();
        persona.profile_matters() == profile_matters
    };
    let comparison = found.compare("egreedy-v2", "egreedy-v1", 0.975, |it| include(&it.persona));
    comparison.unwrap()
}

#[test]
fn version_2_beats_version_1_where_profiles_matter() {
    for seed in [1, 2] {
        let found = comparison(seed, true);
        assert_eq!(found.personas.len(), 8);
        assert!(found.lower_bound > 0.0, "{found:?}");
        assert!(found.worst().unwrap().difference > 0.0, "{found:?}");
    }
}

#[test]
fn version_2_wins_nothing_where_profiles_do_not_matter() {
    for seed in [1, 2] {
        let found = comparison(seed, false);
        assert_eq!(found.personas.len(), 8);
        assert!(found.lower_bound <= 0.0, "{found:?}");
        assert!(found.high < 0.005, "{found:?}");
        // What five useless dimensions cost.
        assert!(found.low > -0.01, "{found:?}");
        for persona in found.personas.iter().filter(|it| it.family == "private") {
            assert!(persona.difference.abs() < 1e-12, "{persona:?}");
        }
    }
}
