//! How often the gate promotes a policy that equals the incumbent: two copies of one policy with
//! different exploration draws, over many gates with other seeds.
//!
//! `cargo run --release -p assize-policy --example false_promotions [gates] [steps]`

#![expect(clippy::print_stdout, reason = "an example reports on stdout")]

use assize_policy::gate::{
    Effort, GateEvidence, GateThresholds, ShadowTraffic, assess, entrants, simulate_base,
    simulate_sensitivity,
};
use assize_policy::{PersonaSet, Policy, PolicyKind, PolicySettings};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let gates: u64 = arguments.next().map_or(Ok(200), |it| it.parse())?;
    let steps: usize = arguments.next().map_or(Ok(1000), |it| it.parse())?;
    for kind in PolicyKind::ALL {
        let mut wins = 0;
        let mut promoted = 0;
        for seed in 0..gates {
            let [won, passed] = gate(kind, seed, steps)?;
            wins += u64::from(won);
            promoted += u64::from(passed);
        }
        let percent = |count: u64| 100.0 * count as f64 / gates as f64;
        println!(
            "{kind} against itself: {gates} gates, lower bound above 0 in {wins} ({:.1} %), \
             promoted {promoted} ({:.1} %)",
            percent(wins),
            percent(promoted)
        );
    }
    Ok(())
}

/// Whether the lower bound is above 0, and whether the whole gate passes.
fn gate(kind: PolicyKind, seed: u64, steps: usize) -> Result<[bool; 2], Box<dyn Error>> {
    let personas = PersonaSet::built_in()?;
    let policy = Policy::new(kind, PolicySettings::defaults(kind))?;
    let [incumbent, mut candidate] = entrants(&policy, &policy);
    candidate.stream = 1;
    let effort = Effort {
        steps,
        seed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..Effort::default()
    };
    let base = simulate_base(&personas, &incumbent, &candidate, &effort)?;
    if base.lower_bound <= 0.0 {
        return Ok([false, false]);
    }
    let evidence = GateEvidence {
        sensitivity: simulate_sensitivity(&personas, &incumbent, &candidate, &effort)?,
        base,
        shadow: ShadowTraffic {
            decisions: u64::MAX,
            users: u64::MAX,
        },
    };
    let report = assess(&evidence, &GateThresholds::default())?;
    Ok([true, report.passed])
}
