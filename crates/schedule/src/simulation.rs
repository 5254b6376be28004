//! A discrete simulation of a pool that drives the real [`Scheduler`] in virtual time.
//!
//! Hosts load, generate, unload, fail and come back as the caller says; nothing waits for a clock. The
//! simulated collector behaves as the real one: it asks before each cell, unloads a model when the
//! scheduler stops a host, reports lost cells when a host fails, probes when it is told to, and asks
//! again every [`ASK_EVERY_S`] seconds where a host has to wait.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::{HostSetup, ModelSetup, Next, Scheduler};

/// How often a host that has to wait asks again.
pub const ASK_EVERY_S: f64 = 0.25;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct World {
    pub hosts: Vec<SimulatedHost>,
    pub models: Vec<ModelSetup>,
    /// Cells in flight on each host.
    pub slots: u32,
    pub unload_s: f64,
    /// A cell takes its host's time, more or less by at most this share of it.
    pub jitter: f64,
    pub seed: u64,
}

/// A host with its true times, by model.
#[derive(Debug, Clone)]
pub struct SimulatedHost {
    pub setup: HostSetup,
    pub load_s: Vec<f64>,
    /// From the start of a cell to its end, with all slots in use.
    pub cell_s: Vec<f64>,
    /// (from, to) in seconds: what is in flight is lost and nothing is answered.
    pub outages: Vec<(f64, f64)>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// When the last cell was settled and the last model unloaded.
    pub end_s: f64,
    /// Settled cells, by model.
    pub settled: Vec<u64>,
    /// (host, model) in the order of the loads.
    pub loads: Vec<(usize, usize)>,
    /// Settled cells, by host.
    pub cells: Vec<u64>,
    /// Seconds of loading, generating and unloading, by host.
    pub busy_s: Vec<f64>,
    /// The most models that one memory held at once.
    pub most_models_in_a_memory: usize,
    /// Nothing more was expected of any host.
    pub is_stuck: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Ask,
    Loaded { load_s: f64 },
    CellDone { started: f64 },
    Unloaded,
    Probe,
    OutageBegins,
}

/// An event of a host; events of an earlier epoch of the host are void.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scheduled {
    at: f64,
    number: u64,
    host: usize,
    epoch: u32,
    event: Event,
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at
            .total_cmp(&other.at)
            .then(self.number.cmp(&other.number))
    }
}

#[derive(Debug, Default, Clone)]
struct HostState {
    holds: Option<usize>,
    in_flight: Vec<f64>,
    epoch: u32,
    since: f64,
}

/// Simulates until everything is settled, or nothing more is expected.
pub fn run(world: &World) -> Outcome {
    let setups: Vec<HostSetup> = world.hosts.iter().map(|it| it.setup).collect();
    run_with(world, Scheduler::new(&setups, &world.models, world.slots))
}

/// The same with a scheduler that knows more than the priors.
pub fn run_with(world: &World, scheduler: Scheduler) -> Outcome {
    let hosts = world.hosts.len();
    let mut simulation = Simulation {
        world,
        scheduler,
        queue: BinaryHeap::new(),
        hosts: vec![HostState::default(); hosts],
        now: 0.0,
        number: 0,
        random: world.seed,
        outcome: Outcome {
            settled: vec![0; world.models.len()],
            cells: vec![0; hosts],
            busy_s: vec![0.0; hosts],
            ..Outcome::default()
        },
    };
    for (host, it) in world.hosts.iter().enumerate() {
        simulation.at(0.0, host, Event::Ask);
        for (from, _) in &it.outages {
            simulation.at(*from, host, Event::OutageBegins);
        }
    }
    simulation.run();
    simulation.outcome
}

struct Simulation<'a> {
    world: &'a World,
    scheduler: Scheduler,
    queue: BinaryHeap<Reverse<Scheduled>>,
    hosts: Vec<HostState>,
    now: f64,
    number: u64,
    random: u64,
    outcome: Outcome,
}

impl Simulation<'_> {
    fn at(&mut self, at: f64, host: usize, event: Event) {
        self.number += 1;
        self.queue.push(Reverse(Scheduled {
            at,
            number: self.number,
            host,
            epoch: self.hosts[host].epoch,
            event,
        }));
    }

    fn run(&mut self) {
        while let Some(Reverse(next)) = self.queue.pop() {
            let is_void = next.epoch != self.hosts[next.host].epoch;
            if is_void && next.event != Event::OutageBegins {
                continue;
            }
            let is_over =
                self.scheduler.is_done() && self.hosts.iter().all(|it| it.holds.is_none());
            if is_over || self.outcome.is_stuck {
                return;
            }
            self.now = next.at;
            self.handle(next.host, next.event);
            self.outcome.is_stuck = self.scheduler.is_stuck();
        }
    }

    fn handle(&mut self, host: usize, event: Event) {
        match event {
            Event::Ask => self.ask(host),
            Event::Loaded { load_s } => {
                self.scheduler.loaded(host, load_s);
                self.fill_slots(host);
            }
            Event::CellDone { started } => {
                self.scheduler.finished(host, started, self.now);
                let state = &mut self.hosts[host];
                state
                    .in_flight
                    .retain(|it| it.to_bits() != started.to_bits());
                if let Some(model) = state.holds {
                    self.outcome.settled[model] += 1;
                }
                self.outcome.cells[host] += 1;
                self.fill_slots(host);
            }
            Event::Unloaded => {
                self.leave(host);
                self.scheduler.released(host);
                self.ask(host);
            }
            Event::Probe if self.is_out(host) => {
                self.scheduler.failed(host, self.now);
                self.ask(host);
            }
            Event::Probe => {
                self.scheduler.recovered(host);
                self.ask(host);
            }
            Event::OutageBegins if self.hosts[host].holds.is_some() => self.fail(host),
            Event::OutageBegins => {}
        }
    }

    fn is_out(&self, host: usize) -> bool {
        let mut outages = self.world.hosts[host].outages.iter();
        outages.any(|(from, to)| (*from..*to).contains(&self.now))
    }

    fn ask(&mut self, host: usize) {
        match self.scheduler.next(host, self.now) {
            Next::Done => {}
            Next::Wait => self.at(self.now + ASK_EVERY_S, host, Event::Ask),
            Next::Probe(at) => self.at(at, host, Event::Probe),
            Next::Load(model) => {
                self.hosts[host].holds = Some(model);
                self.hosts[host].since = self.now;
                if self.is_out(host) {
                    self.fail(host);
                    return;
                }
                self.outcome.loads.push((host, model));
                let memory = self.world.hosts[host].setup.memory;
                let same = self.hosts.iter().zip(&self.world.hosts);
                let held =
                    same.filter(|(it, host)| host.setup.memory == memory && it.holds.is_some());
                self.outcome.most_models_in_a_memory =
                    self.outcome.most_models_in_a_memory.max(held.count());
                let load_s = self.world.hosts[host].load_s[model];
                self.at(self.now + load_s, host, Event::Loaded { load_s });
            }
        }
    }

    fn fill_slots(&mut self, host: usize) {
        let Some(model) = self.hosts[host].holds else {
            return;
        };
        let slots = self.world.slots as usize;
        while self.hosts[host].in_flight.len() < slots {
            // Times of two cells that begin together differ, because they identify the cells.
            let started = self.now + self.hosts[host].in_flight.len() as f64 * 1e-9;
            if !self.scheduler.take(host, started) {
                break;
            }
            self.hosts[host].in_flight.push(started);
            let seconds = self.world.hosts[host].cell_s[model] * self.factor();
            self.at(self.now + seconds, host, Event::CellDone { started });
        }
        if self.hosts[host].in_flight.is_empty() {
            self.at(self.now + self.world.unload_s, host, Event::Unloaded);
        }
    }

    /// The host answers nothing: what it did is lost.
    fn fail(&mut self, host: usize) {
        for started in std::mem::take(&mut self.hosts[host].in_flight) {
            self.scheduler.lost(host, started);
        }
        self.leave(host);
        self.hosts[host].epoch += 1;
        self.scheduler.failed(host, self.now);
        self.ask(host);
    }

    fn leave(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        if state.holds.take().is_some() {
            self.outcome.busy_s[host] += self.now - state.since;
            self.outcome.end_s = self.now;
        }
    }

    /// 1 ± `jitter`, by the generator `SplitMix64`.
    fn factor(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        1.0 + self.world.jitter * (2.0 * unit - 1.0)
    }
}
