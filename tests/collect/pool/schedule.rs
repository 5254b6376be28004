//! One slow host, and one that dies in the middle and comes back: every cell is made, and the whole
//! takes little longer than the best schedule that the recorded speeds and outages allow.

use std::thread;
use std::time::{Duration, Instant};

use assize_schedule::best::earliest_end;
use assize_schedule::simulation::{SimulatedHost, World};
use assize_schedule::{HostSetup, ModelSetup};

use super::{ALL, Pool, SIZES, counts, host, made_by, pace, scratch};
use assize_test_support::limits::whole_machine;
use assize_test_support::ollama_stand_in::OllamaStandIn;

/// Milliseconds of a completion and of a load on a host of slowness 1, by model.
const COMPLETION_MS: [f64; 3] = [250.0, 300.0, 400.0];
const LOAD_MS: f64 = 500.0;
const SLOWNESS: [f64; 3] = [1.0, 3.0, 1.25];
const SCENARIOS: usize = 12;
/// Two prompts.
const CELLS: u64 = 24;
const OUTAGE: Duration = Duration::from_secs(3);
/// A busy machine delays a measurement; only that is repeated.
const MEASUREMENTS: usize = 3;

#[test]
fn a_slow_host_and_an_outage_cost_little_more_than_they_must() {
    let _machine = whole_machine();
    let mut measured = Vec::new();
    for _ in 0..MEASUREMENTS {
        let (took_s, best_s) = collect_once();
        measured.push(format!("{took_s:.2} s, best {best_s:.2} s"));
        println!("took {took_s:.2} s, best {best_s:.2} s");
        if took_s <= 1.15 * best_s {
            return;
        }
    }
    panic!("more than 15 % above the best schedule: {measured:?}");
}

/// Collects, checks everything but the time, and returns the seconds that it took and those of the
/// best schedule.
fn collect_once() -> (f64, f64) {
    let scratch = scratch(SCENARIOS);
    let models = SIZES.map(|(name, _)| name);
    let pool = Pool::new(SLOWNESS.iter().map(|_| host(&models)).collect());
    for (host, slow) in pool.hosts.iter().zip(SLOWNESS) {
        for (model, completion_ms) in models.iter().zip(COMPLETION_MS) {
            host.set_pace(model, pace(ms(LOAD_MS * slow), ms(completion_ms * slow)));
        }
    }
    let running = pool.start(&scratch, ALL);
    let dying = &pool.hosts[2];
    dying.wait_for_completions(6);
    dying.go_down();
    thread::sleep(OUTAGE);
    dying.come_back();
    let back = Instant::now();
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(counts(&summary), [3 * CELLS, 3 * CELLS, 0, 0], "{outcome}");
    assert_eq!(made_by(&scratch).len() as u64, 3 * CELLS);
    pool.check_memories();
    assert!(
        summary["hosts"][2]["failures"].as_u64() >= Some(1),
        "{summary}"
    );
    assert!(summary["hosts"][2]["error"].is_null(), "{summary}");
    let used_again = dying
        .spells()
        .iter()
        .any(|it| it.from > back && !it.is_load);
    assert!(
        used_again,
        "the host that came back is used again: {outcome}"
    );
    let took_s = summary["seconds"].as_f64().expect("seconds");
    (took_s, best_s(&pool.hosts))
}

/// The end of the best schedule with the speeds and outages that the hosts recorded.
fn best_s(hosts: &[OllamaStandIn]) -> f64 {
    let spells = hosts.iter().flat_map(OllamaStandIn::spells);
    let begin = spells.map(|it| it.from).min().expect("something was done");
    let slowness: Vec<f64> = hosts.iter().map(recorded_slowness).collect();
    let since = |at: Instant| at.duration_since(begin).as_secs_f64();
    let world = World {
        hosts: hosts
            .iter()
            .zip(&slowness)
            .enumerate()
            .map(|(memory, (host, slow))| SimulatedHost {
                setup: HostSetup {
                    memory,
                    loads: true,
                },
                load_s: vec![LOAD_MS / 1000.0 * slow; SIZES.len()],
                cell_s: COMPLETION_MS.iter().map(|it| it / 1000.0 * slow).collect(),
                outages: host
                    .outages()
                    .iter()
                    .map(|(from, to)| (since(*from), since(to.expect("it came back"))))
                    .collect(),
            })
            .collect(),
        models: COMPLETION_MS
            .iter()
            .map(|it| ModelSetup {
                cells: CELLS,
                hosts: (0..hosts.len()).collect(),
                load_s: LOAD_MS / 1000.0,
                cell_s: it / 1000.0,
            })
            .collect(),
        slots: 1,
        unload_s: 0.0,
        jitter: 0.0,
        seed: 0,
    };
    earliest_end(&world, &slowness)
}

/// How much longer than on a host of slowness 1 its completions took.
fn recorded_slowness(host: &OllamaStandIn) -> f64 {
    let (mut took, mut nominal) = (0.0, 0.0);
    for spell in host.spells().iter().filter(|it| !it.is_load) {
        let mut models = SIZES.iter();
        let model = models.position(|(name, _)| *name == spell.model);
        took += spell.to.duration_since(spell.from).as_secs_f64();
        nominal += COMPLETION_MS[model.expect("one of ours")] / 1000.0;
    }
    assert!(nominal > 0.0, "every host works");
    took / nominal
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole milliseconds"
)]
fn ms(value: f64) -> u64 {
    value.round() as u64
}
