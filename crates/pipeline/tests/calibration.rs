//! A short run of the calibration (`make calibrate` is the long one): the gate keeps its error
//! rates, and the rules that people use instead do not.
//!
//! Seeds are fixed. The tolerances are three standard errors of a share over so many experiments.

use assize_pipeline::promote::Thresholds;
use assize_pipeline::promote::calibrate::{Design, Practice, Rates};

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

/// The share of false promotions before and after, where all pairs are equal.
fn practised(practice: Practice, challengers: usize, experiments: usize) -> Rates {
    let effects = vec![0.0; challengers];
    Design::default()
        .rates(
            practice,
            &effects,
            experiments,
            SEED,
            &Thresholds::default(),
        )
        .expect("rates")
}

/// Above what chance allows if the true share is 5 %.
fn most(experiments: usize) -> f64 {
    0.05 + 3.0 * (0.05 * 0.95 / experiments as f64).sqrt()
}

#[test]
fn ways_of_working_that_promote_false_winners_do_not_any_more() {
    let later = Practice::LaterJudge {
        share: 1.0,
        kinder: 0.6,
    };
    let lost = Practice::FailedCandidates { share: 0.1 };
    for (practice, challengers) in [(later, 1), (Practice::Preselection, 11), (lost, 1)] {
        let found = practised(practice, challengers, EXPERIMENTS);
        let before = found.share(found.before).0;
        assert!(before > most(EXPERIMENTS), "{practice:?}: {found:?}");
        assert_eq!(found.after, 0, "{practice:?}: {found:?}");
    }
    for practice in [Practice::RaggedCells, Practice::Adaptive, Practice::Sound] {
        let found = practised(practice, 11, EXPERIMENTS);
        for count in [found.after, found.confirmed] {
            assert!(
                found.share(count).0 <= most(EXPERIMENTS),
                "{practice:?}: {found:?}"
            );
        }
    }
}

#[test]
fn looking_often_at_the_confirmation_does_not_help() {
    for looks in [5, 13] {
        let found = practised(Practice::Peeking { looks }, 1, EXPERIMENTS);
        assert!(found.experiments > EXPERIMENTS / 2, "{found:?}");
        let before = found.share(found.before).0;
        assert!(before > most(found.experiments), "{looks}: {found:?}");
        let after = found.share(found.after).0;
        assert!(after <= most(found.experiments), "{looks}: {found:?}");
    }
}

#[test]
fn short_pairs_cost_no_power_and_more_scenarios_never_do() {
    let better = |design: &Design, practice| {
        let mut effects = vec![0.0; 11];
        effects[0] = 1.0;
        let found = design
            .rates(practice, &effects, 300, SEED, &Thresholds::default())
            .expect("rates");
        (found.share(found.before).0, found.share(found.after).0)
    };
    let design = |scenarios| Design {
        scenarios,
        ..Design::default()
    };
    let (before, after) = better(&design(24), Practice::RaggedCells);
    assert!(after > before + 0.1, "{before} {after}");
    let (few_before, few) = better(&design(24), Practice::Sound);
    let (many_before, many) = better(&design(96), Practice::Sound);
    assert!(many >= few - 0.02, "{few} {many}");
    assert!(
        many_before < few_before,
        "the raw minimum: {few_before} {many_before}"
    );
}
