//! Which host of a pool works on which model, and when a host stops, fails or helps another.
//!
//! [`Scheduler`] is a pure state machine: the caller reports what happened and when, and asks what a
//! host is to do. It does no I/O and has no clock, so `assize collect` and the [`simulation`] use the
//! same code. Hosts, models and memories are numbers from 0.
//!
//! - A host that has no model asks [`Scheduler::next`]. The answer follows a plan for all cells that
//!   nobody works on (module `plan`): the earliest end that the estimated times allow, with as few
//!   loads as that needs.
//! - A host that holds a model asks [`Scheduler::take`] before each cell. It goes on while the plan
//!   gives it cells of that model. Plans are made anew at every question, so a host that falls behind
//!   loses cells to others, and a second load of a model happens only if it ends earlier.
//! - Times are measured with every load and cell, and estimated where nothing was measured (module
//!   `speeds`). A cell that has run longer than the estimate counts with the time that it has run.
//! - A host that failed is left out and probed at growing intervals; its cells are free again at
//!   once. A host that answers a probe is planned with again.

pub mod best;
mod plan;
pub mod simulation;
mod speeds;

use plan::{Cost, PlannedHost, Problem};
use speeds::Table;

/// A host is probed so long after its first failure; the interval doubles with each further one.
const FIRST_PROBE_S: f64 = 0.5;
const LONGEST_PROBE_S: f64 = 30.0;
/// Nothing more is expected of a host after so many probes in a row without an answer, or so many
/// failures at work without a settled cell between them.
pub const MOST_MISSES: u32 = 3;
pub const MOST_FAILURES: u32 = 4;

/// A host of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSetup {
    /// Hosts with the same number share one memory, so only one of them works at a time.
    pub memory: usize,
    /// `false` if the host holds no weights of ours, so that loads take no time.
    pub loads: bool,
}

/// A model with cells to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSetup {
    pub cells: u64,
    /// The hosts that have it.
    pub hosts: Vec<usize>,
    /// Seconds that a load takes, before anything is measured.
    pub load_s: f64,
    /// Seconds that a cell takes, before anything is measured.
    pub cell_s: f64,
}

/// Cells of a model that a host is planned to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    pub host: usize,
    pub model: usize,
    pub cells: u64,
    /// With the load, where one is needed.
    pub seconds: f64,
}

/// What a host without a model is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Load this model and take cells.
    Load(usize),
    /// Ask again after the next event, or soon.
    Wait,
    /// Probe the host at this time, and report [`Scheduler::recovered`] or [`Scheduler::failed`].
    Probe(f64),
    /// Every cell is settled.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Idle,
    Loading { model: usize, since: f64 },
    Working { model: usize, is_stopping: bool },
    Down { probe_at: f64 },
}

#[derive(Debug, Clone)]
struct Host {
    setup: HostSetup,
    phase: Phase,
    /// When each cell in flight began.
    in_flight: Vec<f64>,
    /// Failures at work since the last settled cell.
    failures: u32,
    /// Probes that were not answered since it failed.
    misses: u32,
}

#[derive(Debug, Clone)]
struct Model {
    /// Cells that nobody works on.
    cells: u64,
    /// By host.
    is_on: Vec<bool>,
}

/// The state of a pool; see the module.
#[derive(Debug, Clone)]
pub struct Scheduler {
    hosts: Vec<Host>,
    models: Vec<Model>,
    loads: Table,
    cells: Table,
    /// Cells in flight that a host can have.
    slots: u32,
}

impl Scheduler {
    /// `slots` is the number of cells that every host has in flight.
    pub fn new(hosts: &[HostSetup], models: &[ModelSetup], slots: u32) -> Self {
        let is_on = |model: &ModelSetup| {
            let hosts = 0..hosts.len();
            hosts.map(|host| model.hosts.contains(&host)).collect()
        };
        Self {
            loads: Table::new(hosts.len(), models.iter().map(|it| it.load_s).collect()),
            cells: Table::new(hosts.len(), models.iter().map(|it| it.cell_s).collect()),
            hosts: hosts
                .iter()
                .map(|setup| Host {
                    setup: *setup,
                    phase: Phase::Idle,
                    in_flight: Vec::new(),
                    failures: 0,
                    misses: 0,
                })
                .collect(),
            models: models
                .iter()
                .map(|model| Model {
                    cells: model.cells,
                    is_on: is_on(model),
                })
                .collect(),
            slots: slots.max(1),
        }
    }

    /// Times of an earlier collection; later measurements replace them soon.
    pub fn remember(&mut self, host: usize, model: usize, load_s: f64, cell_s: f64) {
        self.loads.observe(host, model, load_s);
        self.cells.observe(host, model, cell_s);
    }

    /// Seconds of a load and of a cell, where both were measured.
    pub fn measured(&self, host: usize, model: usize) -> Option<(f64, f64)> {
        Some((
            self.loads.measured(host, model)?,
            self.cells.measured(host, model)?,
        ))
    }

    /// The plan for all cells that nobody works on, as it is now.
    pub fn plan(&self, now: f64) -> Vec<Planned> {
        let problem = self.problem(now);
        let seconds = |host: usize, model: usize, cells: u64| {
            let cost = problem.hosts[host].costs[model];
            cost.map_or(0.0, |it| it.load + it.cell * cells as f64)
        };
        let shares = problem.solve().into_iter();
        shares
            .map(|it| Planned {
                host: it.host,
                model: it.model,
                cells: it.cells,
                seconds: seconds(it.host, it.model, it.cells),
            })
            .collect()
    }

    /// What a host without a model is to do. After [`Next::Load`] it counts as loading that model.
    pub fn next(&mut self, host: usize, now: f64) -> Next {
        if self.is_done() {
            return Next::Done;
        }
        if let Phase::Down { probe_at } = self.hosts[host].phase {
            return Next::Probe(probe_at);
        }
        if self.is_memory_taken(host) {
            return Next::Wait;
        }
        let Some(model) = self.first_of_plan(host, now) else {
            return Next::Wait;
        };
        self.hosts[host].phase = Phase::Loading { model, since: now };
        Next::Load(model)
    }

    /// A model that the plan gives to no other host comes before a share of a model; the others
    /// are in the user's order.
    fn first_of_plan(&self, host: usize, now: f64) -> Option<usize> {
        let shares = self.problem(now).solve();
        let own = shares.iter().filter(|it| it.host == host);
        let hosts_of = |model: usize| shares.iter().filter(|it| it.model == model).count();
        own.map(|it| (hosts_of(it.model) > 1, it.model))
            .min()
            .map(|(_, model)| model)
    }

    fn is_memory_taken(&self, host: usize) -> bool {
        let memory = self.hosts[host].setup.memory;
        let mut others = self.hosts.iter().enumerate();
        others.any(|(other, it)| {
            other != host
                && it.setup.memory == memory
                && matches!(it.phase, Phase::Loading { .. } | Phase::Working { .. })
        })
    }

    /// The model is loaded and the host asks for cells.
    pub fn loaded(&mut self, host: usize, load_s: f64) {
        if let Phase::Loading { model, .. } = self.hosts[host].phase {
            self.loads.observe(host, model, load_s);
            self.hosts[host].phase = Phase::Working {
                model,
                is_stopping: false,
            };
        }
    }

    /// Whether the host begins one more cell of the model that it holds. After `false` it is to
    /// finish what is in flight and unload the model.
    pub fn take(&mut self, host: usize, now: f64) -> bool {
        let Phase::Working {
            model,
            is_stopping: false,
        } = self.hosts[host].phase
        else {
            return false;
        };
        if self.models[model].cells > 0 && self.goes_on(host, model, now) {
            self.models[model].cells -= 1;
            self.hosts[host].in_flight.push(now);
            return true;
        }
        self.stop(host);
        false
    }

    fn goes_on(&self, host: usize, model: usize, now: f64) -> bool {
        let is_up = |it: &Host| !matches!(it.phase, Phase::Down { .. });
        if self.hosts.iter().filter(|it| is_up(it)).count() == 1 {
            return true;
        }
        let shares = self.problem(now).solve();
        let mut own = shares.iter().filter(|it| it.host == host);
        own.any(|it| it.model == model)
    }

    /// The host takes no more cells of its model.
    fn stop(&mut self, host: usize) {
        if let Phase::Working { model, .. } = self.hosts[host].phase {
            self.hosts[host].phase = Phase::Working {
                model,
                is_stopping: true,
            };
        }
    }

    /// A cell that was taken at `started` has failed for its own reasons. How long that took says
    /// nothing about the host's speed.
    pub fn dropped(&mut self, host: usize, started: f64) {
        self.land(host, started);
    }

    /// A cell that was taken at `started` has been generated.
    pub fn finished(&mut self, host: usize, started: f64, now: f64) {
        if let Phase::Working { model, .. } = self.hosts[host].phase {
            self.cells.observe(host, model, now - started);
        }
        self.hosts[host].failures = 0;
        self.land(host, started);
    }

    /// A cell that was taken has to be generated again, because the host failed. The host takes no
    /// more cells.
    pub fn lost(&mut self, host: usize, started: f64) {
        self.give_back(host, started);
        self.stop(host);
    }

    /// A cell that was taken has not been begun.
    pub fn give_back(&mut self, host: usize, started: f64) {
        if let Phase::Working { model, .. } = self.hosts[host].phase {
            self.models[model].cells += 1;
        }
        self.land(host, started);
    }

    /// There was no cell to take after all.
    pub fn nothing_left(&mut self, host: usize, started: f64) {
        if let Phase::Working { model, .. } = self.hosts[host].phase {
            self.models[model].cells = 0;
        }
        self.land(host, started);
        self.stop(host);
    }

    fn land(&mut self, host: usize, started: f64) {
        let in_flight = &mut self.hosts[host].in_flight;
        let at = in_flight
            .iter()
            .position(|it| it.to_bits() == started.to_bits());
        if let Some(at) = at {
            in_flight.swap_remove(at);
        }
    }

    /// Cells that nobody worked on are settled, for example because they existed.
    pub fn settled(&mut self, model: usize, cells: u64) {
        let model = &mut self.models[model];
        model.cells = model.cells.saturating_sub(cells);
    }

    /// The host holds no model any more.
    pub fn released(&mut self, host: usize) {
        self.hosts[host].phase = Phase::Idle;
    }

    /// The host failed, or did not answer a probe. It holds no model any more.
    pub fn failed(&mut self, host: usize, now: f64) {
        let host = &mut self.hosts[host];
        let before = host.failures + host.misses;
        let interval = FIRST_PROBE_S * f64::from(before.min(16)).exp2();
        if matches!(host.phase, Phase::Down { .. }) {
            host.misses += 1;
        } else {
            host.failures += 1;
        }
        host.phase = Phase::Down {
            probe_at: now + interval.min(LONGEST_PROBE_S),
        };
    }

    /// The host answered a probe.
    pub fn recovered(&mut self, host: usize) {
        self.hosts[host].misses = 0;
        self.hosts[host].phase = Phase::Idle;
    }

    /// The host cannot run the model; it holds none now.
    pub fn refused(&mut self, host: usize, model: usize) {
        self.models[model].is_on[host] = false;
        self.hosts[host].phase = Phase::Idle;
    }

    /// Whether any host can run the model, now or later.
    pub fn has_host(&self, model: usize) -> bool {
        self.models[model].is_on.contains(&true)
    }

    /// Whether a host other than this one answers and can run the model.
    pub fn has_other_host(&self, host: usize, model: usize) -> bool {
        let mut others = self.hosts.iter().enumerate();
        others.any(|(other, it)| {
            let is_up = !matches!(it.phase, Phase::Down { .. });
            other != host && is_up && self.models[model].is_on[other]
        })
    }

    /// Whether every cell is settled.
    pub fn is_done(&self) -> bool {
        let is_taken = |it: &Model| it.cells == 0;
        self.models.iter().all(is_taken) && self.hosts.iter().all(|it| it.in_flight.is_empty())
    }

    /// Whether every cell of the model is settled.
    pub fn is_model_done(&self, model: usize) -> bool {
        let works_on =
            |it: &Host| matches!(it.phase, Phase::Working { model: own, .. } if own == model);
        let mut working = self.hosts.iter().filter(|it| works_on(it));
        self.models[model].cells == 0 && working.all(|it| it.in_flight.is_empty())
    }

    /// Whether a host other than this one answers.
    pub fn has_other_up(&self, host: usize) -> bool {
        let mut others = self.hosts.iter().enumerate();
        others.any(|(other, it)| other != host && !matches!(it.phase, Phase::Down { .. }))
    }

    /// Whether nothing more is expected: nobody works, and every host that could do what is left
    /// has failed too often ([`MOST_FAILURES`], [`MOST_MISSES`]).
    pub fn is_stuck(&self) -> bool {
        let is_gone = |(host, it): (usize, &Host)| match it.phase {
            Phase::Down { .. } => it.failures >= MOST_FAILURES || it.misses >= MOST_MISSES,
            Phase::Idle => !self
                .models
                .iter()
                .any(|model| model.cells > 0 && model.is_on[host]),
            Phase::Loading { .. } | Phase::Working { .. } => false,
        };
        !self.is_done() && self.hosts.iter().enumerate().all(is_gone)
    }

    fn problem(&self, now: f64) -> Problem {
        Problem {
            hosts: (0..self.hosts.len())
                .map(|host| self.planned(host, now))
                .collect(),
            cells: self.models.iter().map(|it| it.cells).collect(),
        }
    }

    fn planned(&self, host: usize, now: f64) -> PlannedHost {
        let it = &self.hosts[host];
        let holds = match it.phase {
            Phase::Loading { model, .. }
            | Phase::Working {
                model,
                is_stopping: false,
            } => Some(model),
            _ => None,
        };
        let is_down = matches!(it.phase, Phase::Down { .. });
        let cost = |model: usize| {
            let is_on = self.models[model].is_on[host] && !is_down;
            let is_held = holds == Some(model);
            is_on.then(|| self.cost(host, model, is_held, now))
        };
        PlannedHost {
            memory: it.setup.memory,
            busy_s: self.busy_s(host, now),
            holds,
            costs: (0..self.models.len()).map(cost).collect(),
        }
    }

    fn cost(&self, host: usize, model: usize, is_held: bool, now: f64) -> Cost {
        let needs_load = self.hosts[host].setup.loads && !is_held;
        let load_s = if needs_load {
            self.loads.estimate(host, model)
        } else {
            0.0
        };
        let mut latency_s = self.cells.estimate(host, model);
        if is_held {
            let oldest = self.hosts[host]
                .in_flight
                .iter()
                .copied()
                .fold(now, f64::min);
            latency_s = latency_s.max(now - oldest);
        }
        Cost {
            load: load_s,
            cell: latency_s / f64::from(self.slots),
            latency: latency_s,
        }
    }

    /// Seconds until the host can begin something new: a load in progress, and cells in flight where
    /// all slots are taken. A load that takes longer than expected is expected to take as long again.
    fn busy_s(&self, host: usize, now: f64) -> f64 {
        let it = &self.hosts[host];
        match it.phase {
            Phase::Loading { model, since } if it.setup.loads => {
                let expected = self.loads.estimate(host, model);
                let elapsed = now - since;
                if elapsed > expected {
                    elapsed
                } else {
                    expected - elapsed
                }
            }
            Phase::Working { model, is_stopping } => {
                let latency_s = self.cells.estimate(host, model);
                let left = it
                    .in_flight
                    .iter()
                    .map(|started| (started + latency_s - now).max(0.0));
                if is_stopping {
                    left.fold(0.0, f64::max)
                } else {
                    left.sum::<f64>() / f64::from(self.slots)
                }
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
