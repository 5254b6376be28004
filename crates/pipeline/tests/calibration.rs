//! A short run of the calibration (`make calibrate` is the long one): the gate keeps its error
//! rates, and the rules that people use instead do not.
//!
//! Seeds are fixed. The tolerances are three standard errors of a share over so many experiments.

use assize_pipeline::promote::Thresholds;
use assize_pipeline::promote::calibrate::Design;

const EXPERIMENTS: usize = 500;
const SEED: u64 = 7;

fn share(count: usize) -> f64 {
    count as f64 / EXPERIMENTS as f64
}

/// Three standard errors of a share that is truly `p`.
fn tolerance(p: f64) -> f64 {
    3.0 * (p * (1.0 - p) / EXPERIMENTS as f64).sqrt()
}

/// Pairs of different models, for which power is stated.
fn apart() -> Design {
    Design {
        prompts: 1,
        ..Design::default()
    }
}

#[test]
fn the_interval_covers() {
    let found = apart().coverage(EXPERIMENTS, SEED).expect("coverage");
    let paired = share(found.paired);
    assert!(paired > 0.94 - tolerance(0.94), "{paired}");
    assert!(paired < 0.965 + tolerance(0.965), "{paired}");
    let bootstrap = share(found.bootstrap);
    assert!(bootstrap < 0.89 + tolerance(0.89), "{bootstrap}");
}

#[test]
fn equal_challengers_are_rarely_promoted() {
    for challengers in [5, 11, 23] {
        let effects = vec![0.0; challengers];
        let found = Design::default()
            .promotions(&effects, EXPERIMENTS, SEED, &Thresholds::default())
            .expect("promotions");
        let most = 0.05 + tolerance(0.05);
        assert!(share(found.max_t) <= most, "{found:?}");
        assert!(found.gate <= found.max_t, "{found:?}");
        assert!(found.confirmed <= found.gate, "{found:?}");
        // The same experiments under the rules that the gate replaces.
        assert!(share(found.top) > 0.75, "{found:?}");
        assert!(share(found.bootstrap) > most, "{found:?}");
    }
}

#[test]
fn what_is_stated_to_be_found_is_found() {
    let design = apart();
    let effect = design.detectable_effect().expect("an effect");
    let found = design
        .promotions(&[effect], EXPERIMENTS, SEED, &Thresholds::default())
        .expect("promotions");
    let power = share(found.lower_bound);
    assert!((power - 0.8).abs() < 0.02 + tolerance(0.8), "{found:?}");
}
