//! The gate promotes a policy that equals the incumbent in at most 5 % of cases. A short version of
//! `examples/false_promotions.rs`: fewer and shorter gates, and only their base simulation, which
//! must be passed before the sensitivity runs can matter.

use assize_policy::gate::{Effort, entrants, simulate_base};
use assize_policy::{PersonaSet, Policy, PolicyKind, PolicySettings};

#[test]
fn equal_policies_are_rarely_promoted() {
    let personas = PersonaSet::built_in().unwrap();
    let kind = PolicyKind::EgreedyV1;
    let policy = Policy::new(kind, PolicySettings::defaults(kind)).unwrap();
    let [incumbent, mut candidate] = entrants(&policy, &policy);
    candidate.stream = 1;
    let gates = 60;
    let mut wins = 0;
    let mut sum = 0.0;
    for seed in 0..gates {
        let effort = Effort {
            steps: 60,
            seed,
            warm_up: 20,
            threads: 2,
            ..Effort::default()
        };
        let found = simulate_base(&personas, &incumbent, &candidate, &effort).unwrap();
        let held_out = found.held_out_mean().unwrap();
        wins += u32::from(found.lower_bound > 0.0 && held_out > 0.0);
        sum += found.mean;
    }
    assert!(f64::from(wins) <= 0.05 * gates as f64, "{wins} of {gates}");
    // The comparison itself favours neither side.
    assert!((sum / gates as f64).abs() < 0.002, "{sum}");
}
