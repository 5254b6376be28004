//! The scheduler in simulated pools: every cell is generated once, a memory holds at most one model,
//! loads are few, and the end is near the best that any schedule could reach with the same times.

use assize_schedule::best::earliest_end;
use assize_schedule::simulation::{Outcome, SimulatedHost, World, run};
use assize_schedule::{HostSetup, ModelSetup};
use proptest::prelude::*;

/// A pool in which host h is `slowness[h]` times as slow as a host of slowness 1.
fn world(slowness: &[f64], models: &[(u64, f64, f64)]) -> World {
    let hosts = slowness
        .iter()
        .enumerate()
        .map(|(memory, slow)| SimulatedHost {
            setup: HostSetup {
                memory,
                loads: true,
            },
            load_s: models.iter().map(|(_, load_s, _)| load_s * slow).collect(),
            cell_s: models.iter().map(|(_, _, cell_s)| cell_s * slow).collect(),
            outages: Vec::new(),
        });
    let all: Vec<usize> = (0..slowness.len()).collect();
    let models = models.iter().map(|(cells, load_s, cell_s)| ModelSetup {
        cells: *cells,
        hosts: all.clone(),
        load_s: *load_s,
        cell_s: *cell_s,
    });
    World {
        models: models.collect(),
        hosts: hosts.collect(),
        slots: 1,
        unload_s: 0.0,
        jitter: 0.0,
        seed: 7,
    }
}

fn check(world: &World, outcome: &Outcome) {
    let cells: Vec<u64> = world.models.iter().map(|it| it.cells).collect();
    assert_eq!(outcome.settled, cells, "every cell once: {outcome:?}");
    assert!(outcome.most_models_in_a_memory <= 1, "{outcome:?}");
    assert!(!outcome.is_stuck);
}

/// The pool of the end-to-end test: one host is four times as slow, one fails in the middle and
/// comes back. The scheduler knows nothing of either in advance.
#[test]
fn one_slow_host_and_one_outage_end_within_15_percent_of_the_best() {
    let slowness = [1.0, 4.0, 1.3];
    let models = [
        (60, 6.0, 1.0),
        (60, 8.0, 1.6),
        (60, 10.0, 2.4),
        (60, 14.0, 4.0),
    ];
    let mut world = world(&slowness, &models);
    world.hosts[2].outages.push((70.0, 130.0));
    let outcome = run(&world);
    check(&world, &outcome);
    let best = earliest_end(&world, &slowness);
    println!(
        "ends at {:.1} s, best {best:.1} s, loads {:?}",
        outcome.end_s, outcome.loads
    );
    assert!(
        outcome.end_s <= 1.15 * best,
        "{} s, and {best} s are possible: {outcome:?}",
        outcome.end_s
    );
    assert!(outcome.cells[2] > 20, "it was used again: {outcome:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_small_pool_ends_near_the_best(
        slowness in prop::collection::vec(0.5..6.0_f64, 2..=3),
        models in prop::collection::vec((30..150_u64, 1.0..12.0_f64, 0.5..4.0_f64), 1..=4),
        outage in prop::option::of((0.1..0.6_f64, 0.05..0.3_f64)),
    ) {
        let mut world = world(&slowness, &models);
        if let Some((from, length)) = outage {
            let whole = earliest_end(&world, &slowness);
            world.hosts[0].outages.push((from * whole, (from + length) * whole));
        }
        let outcome = run(&world);
        check(&world, &outcome);
        let best = earliest_end(&world, &slowness);
        // Nobody knows the speeds before the first cells, cells are not divisible, and a model that
        // was lost in an outage is loaded again.
        let longest_cell = world.hosts.iter().flat_map(|it| &it.cell_s).copied().fold(0.0, f64::max);
        let longest_load = world.hosts.iter().flat_map(|it| &it.load_s).copied().fold(0.0, f64::max);
        let bound = 1.15 * best + longest_cell + longest_load;
        prop_assert!(outcome.end_s <= bound, "{} s; best {best}: {outcome:?}", outcome.end_s);
        let divisions = slowness.len() - 1;
        let failures = if outage.is_some() { 2 } else { 0 };
        let most = models.len() + divisions + failures + 2;
        prop_assert!(outcome.loads.len() <= most, "{} loads: {outcome:?}", outcome.loads.len());
    }

    #[test]
    fn any_pool_settles_every_cell_once(
        slowness in prop::collection::vec(0.2..20.0_f64, 1..=8),
        models in prop::collection::vec((0..40_u64, 0.0..20.0_f64, 0.1..4.0_f64), 1..=8),
        outages in prop::collection::vec((0..8_usize, 0.0..200.0_f64, 0.0..3.0_f64), 0..=3),
        memories in prop::collection::vec(0..8_usize, 8),
        slots in 1..5_u32,
        jitter in 0.0..0.9_f64,
        absent in prop::collection::vec((0..8_usize, 0..8_usize), 0..12),
    ) {
        let mut world = world(&slowness, &models);
        let hosts = world.hosts.len();
        for (host, it) in world.hosts.iter_mut().enumerate() {
            it.setup.memory = memories[host] % hosts;
        }
        for (host, from, length) in outages {
            // Shorter than the time after which nothing more is expected of a host.
            world.hosts[host % hosts].outages.push((from, from + length));
        }
        for (host, model) in absent {
            let count = world.models.len();
            let on = &mut world.models[model % count].hosts;
            if on.len() > 1 {
                on.retain(|it| *it != host % hosts);
            }
        }
        world.slots = slots;
        world.jitter = jitter;
        let outcome = run(&world);
        check(&world, &outcome);
        prop_assert_eq!(outcome.cells.iter().sum::<u64>(), outcome.settled.iter().sum::<u64>());
    }
}
