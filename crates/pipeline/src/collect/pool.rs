//! The hosts of a collection, and the scheduler that says what each of them does next.
//!
//! [`assize_schedule::Scheduler`] decides; here it gets a clock, a lock for the threads of all hosts,
//! the times of earlier cells, and the names that users know. Hosts whose weights occupy the same
//! memory ([`memory_of`]) have one number there, so the embedded engine and servers on this machine
//! take turns.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_providers::Provider;
use assize_schedule::{HostSetup, ModelSetup, Next, Planned, Scheduler};
use assize_store::Runs;

use super::host::HostSummary;
use super::{CollectOptions, Collection};
use crate::estimate;
use crate::guard::memory_of;
use crate::size_gate::{SizedModel, UnaskedHost};
use crate::{PipelineError, Result};

/// How often a host that has to wait asks again.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Before anything is measured: what a load takes beside reading the weights, and how fast they are read.
const LOAD_BASE_S: f64 = 1.0;
const LOAD_BYTES_PER_S: f64 = 1e9;
/// Before anything is measured, of a model of which nothing is known.
const UNKNOWN_CELL_S: f64 = 1.0;

/// Seconds of loads and cells by (host, model), kept between the parts of a collection.
#[derive(Debug, Default)]
pub struct Speeds(Mutex<BTreeMap<(String, String), (f64, f64)>>);

/// A host (or a provider that loads nothing) with the provider that talks to it.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) provider: Arc<dyn Provider>,
}

/// What a host is to do.
pub(super) enum Step {
    /// Load this model and take its cells.
    Load(usize),
    Wait(Duration),
    /// Ask the host whether it answers again.
    Probe,
    /// There is nothing left to do, or nobody who could do it.
    End,
}

/// All hosts and models of a collection.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) hosts: Vec<Host>,
    pub(super) models: &'a [SizedModel],
    speeds: &'a Speeds,
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    scheduler: Scheduler,
    /// No two times are the same, because they identify cells.
    last_s: f64,
    hosts: Vec<HostRecord>,
}

#[derive(Debug, Default)]
struct HostRecord {
    summary: HostSummary,
    busy_since_s: Option<f64>,
    /// By model; `None` where the host has not been asked.
    provenances: Vec<Option<String>>,
    /// Why the last model could not be seen to be gone.
    not_unloaded: Option<PipelineError>,
}

impl<'a> Pool<'a> {
    /// `cells` are the cells of each model that may be missing.
    pub(super) fn new(collection: &'a Collection<'_>, cells: &[u64]) -> Self {
        let models = collection.models.as_slice();
        let hosts = hosts(models);
        let store: Option<&dyn Runs> = (hosts.len() > 1).then_some(collection.store);
        let scheduler = scheduler(&hosts, models, cells, collection.options, store, |host| {
            memory_of(host, &collection.guard.machine)
        });
        let records = hosts.iter().map(|host| HostRecord {
            summary: HostSummary {
                host: host.name.clone(),
                ..HostSummary::default()
            },
            provenances: models.iter().map(|it| provenance(it, host)).collect(),
            ..HostRecord::default()
        });
        let records = records.collect();
        let pool = Self {
            speeds: collection.speeds,
            models,
            started: Instant::now(),
            state: Mutex::new(State {
                scheduler,
                last_s: 0.0,
                hosts: records,
            }),
            changed: Condvar::new(),
            hosts,
        };
        pool.begin();
        pool
    }

    fn begin(&self) {
        let mut state = self.state();
        let known = self.speeds.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (host, it) in self.hosts.iter().enumerate() {
            for (model, sized) in self.models.iter().enumerate() {
                if let Some((load_s, cell_s)) = known.get(&(it.name.clone(), sized.id.to_string()))
                {
                    state.scheduler.remember(host, model, *load_s, *cell_s);
                }
            }
            if let Some(unasked) = unasked(self.models, it) {
                state.fail(host, 0.0, &unasked.reason);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state at a time of its own, and wakes hosts that wait for a change.
    fn change<T>(&self, change: impl FnOnce(&mut State, f64) -> T) -> T {
        let mut state = self.state();
        let now = self.started.elapsed().as_secs_f64();
        state.last_s = now.max(state.last_s + 1e-9);
        let now = state.last_s;
        let result = change(&mut state, now);
        self.changed.notify_all();
        result
    }

    pub(super) fn next(&self, host: usize) -> Step {
        self.change(|state, now| {
            if state.scheduler.is_stuck() {
                return Step::End;
            }
            match state.scheduler.next(host, now) {
                Next::Done => Step::End,
                Next::Wait => Step::Wait(ASK_EVERY),
                Next::Probe(at) if at <= now => Step::Probe,
                Next::Probe(at) => Step::Wait(Duration::from_secs_f64(at - now).min(ASK_EVERY)),
                Next::Load(model) => {
                    state.hosts[host].busy_since_s = Some(now);
                    Step::Load(model)
                }
            }
        })
    }

    /// Waits for a change, or so long.
    pub(super) fn wait(&self, most: Duration) {
        drop(self.changed.wait_timeout(self.state(), most));
    }

    /// The model is loaded, which took so long.
    pub(super) fn loaded(&self, host: usize, load_ms: f64) {
        self.change(|state, _| {
            state.hosts[host].summary.loads += 1;
            state.hosts[host].summary.error = None;
            state.hosts[host].not_unloaded = None;
            state.scheduler.loaded(host, load_ms / 1000.0);
        });
    }

    /// When the host began one more cell; `None` if it is to stop.
    pub(super) fn take(&self, host: usize) -> Option<f64> {
        self.change(|state, now| state.scheduler.take(host, now).then_some(now))
    }

    pub(super) fn finished(&self, host: usize, model: usize, started: f64) {
        let measured = self.change(|state, now| {
            state.scheduler.finished(host, started, now);
            state.scheduler.measured(host, model)
        });
        if let Some(measured) = measured {
            let key = (
                self.hosts[host].name.clone(),
                self.models[model].id.to_string(),
            );
            let mut speeds = self.speeds.0.lock().unwrap_or_else(PoisonError::into_inner);
            speeds.insert(key, measured);
        }
    }

    /// A cell failed for its own reasons.
    pub(super) fn dropped(&self, host: usize, started: f64) {
        self.change(|state, _| state.scheduler.dropped(host, started));
    }

    /// A cell has to be generated again.
    pub(super) fn lost(&self, host: usize, started: f64) {
        self.change(|state, _| state.scheduler.lost(host, started));
    }

    pub(super) fn nothing_left(&self, host: usize, started: f64) {
        self.change(|state, _| state.scheduler.nothing_left(host, started));
    }

    /// Cells that nobody worked on are settled.
    pub(super) fn settled(&self, model: usize, cells: u64) {
        self.change(|state, _| state.scheduler.settled(model, cells));
    }

    /// A cell that the host generated is recorded.
    pub(super) fn recorded(&self, host: usize) {
        self.state().hosts[host].summary.cells += 1;
    }

    /// The host holds no model any more.
    pub(super) fn released(&self, host: usize) {
        self.change(|state, now| {
            state.rest(host, now);
            state.scheduler.released(host);
        });
    }

    /// The host failed at work or did not answer a probe.
    pub(super) fn failed(&self, host: usize, error: &PipelineError) {
        let reason = error.to_string();
        self.change(|state, now| state.fail(host, now, &reason));
    }

    /// The host did not answer a probe.
    pub(super) fn missed(&self, host: usize) {
        self.change(|state, now| state.scheduler.failed(host, now));
    }

    /// The model could not be seen to be gone from the host.
    pub(super) fn not_unloaded(&self, host: usize, error: PipelineError) {
        self.failed(host, &error);
        self.state().hosts[host].not_unloaded = Some(error);
    }

    /// The host answers again and has these models, with their provenance.
    pub(super) fn recovered(&self, host: usize, has: &[Option<String>]) {
        self.change(|state, _| {
            for (model, provenance) in has.iter().enumerate() {
                if provenance.is_none() {
                    state.scheduler.refused(host, model);
                }
            }
            state.hosts[host].provenances = has.to_vec();
            state.hosts[host].summary.error = None;
            state.scheduler.recovered(host);
        });
    }

    /// The host cannot run the model; it holds none now. Whether another host may.
    pub(super) fn refused(&self, host: usize, model: usize) -> bool {
        self.change(|state, now| {
            state.rest(host, now);
            state.scheduler.refused(host, model);
            state.scheduler.has_host(model)
        })
    }

    /// Models with cells that no host can run.
    pub(super) fn without_host(&self) -> Vec<usize> {
        let state = self.state();
        let models = 0..self.models.len();
        models
            .filter(|it| !state.scheduler.has_host(*it) && !state.scheduler.is_model_done(*it))
            .collect()
    }

    /// Whether nothing is left to do, or nobody could do it.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.scheduler.is_done() || state.scheduler.is_stuck()
    }

    pub(super) fn has_other_up(&self, host: usize) -> bool {
        self.state().scheduler.has_other_up(host)
    }

    pub(super) fn has_other_host(&self, host: usize, model: usize) -> bool {
        self.state().scheduler.has_other_host(host, model)
    }

    /// Engine and build of a model on a host.
    pub(super) fn provenance(&self, host: usize, model: usize) -> String {
        let known = self.state().hosts[host].provenances[model].clone();
        known.unwrap_or_else(|| self.models[model].info.provenance.clone())
    }

    /// What every host did, and why the collection could not be completed, if it could not.
    pub(super) fn end(self) -> (Vec<HostSummary>, Result<()>) {
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let is_stuck = state.scheduler.is_stuck();
        let mut not_unloaded = None;
        let mut summaries = Vec::new();
        for host in state.hosts {
            not_unloaded = not_unloaded.or(host.not_unloaded);
            summaries.push(host.summary);
        }
        let result = match not_unloaded {
            Some(error) => Err(error),
            None if is_stuck => {
                let mut reasons: Vec<&str> = Vec::new();
                reasons.extend(summaries.iter().filter_map(|it| it.error.as_deref()));
                Err(PipelineError::Service(format!(
                    "{}; run the same command again to continue",
                    reasons.join("; ")
                )))
            }
            None => Ok(()),
        };
        (summaries, result)
    }
}

impl State {
    fn fail(&mut self, host: usize, now: f64, reason: &str) {
        self.rest(host, now);
        self.hosts[host].summary.failures += 1;
        self.hosts[host].summary.error = Some(reason.to_owned());
        self.scheduler.failed(host, now);
    }

    fn rest(&mut self, host: usize, now: f64) {
        if let Some(since) = self.hosts[host].busy_since_s.take() {
            self.hosts[host].summary.seconds += now - since;
        }
    }
}

/// What each host would do, before anything is measured: (host, model, cells), and in how many seconds.
pub fn plan(
    models: &[SizedModel],
    missing: &[u64],
    options: &CollectOptions,
    store: Option<&dyn Runs>,
    memory_of: impl Fn(&str) -> String,
) -> (Vec<(String, String, u64)>, f64) {
    let hosts = hosts(models);
    let mut scheduler = scheduler(&hosts, models, missing, options, store, memory_of);
    for (number, host) in hosts.iter().enumerate() {
        if unasked(models, host).is_some() {
            scheduler.failed(number, 0.0);
        }
    }
    let shares = scheduler.plan(0.0);
    let end_of = |host: usize| {
        let own = shares.iter().filter(|it| it.host == host);
        own.map(|it| it.seconds).sum::<f64>()
    };
    let end_s = (0..hosts.len()).map(end_of).fold(0.0, f64::max);
    let words = |it: &Planned| {
        let (host, model) = (&hosts[it.host].name, models[it.model].id.to_string());
        (host.clone(), model, it.cells)
    };
    (shares.iter().map(words).collect(), end_s)
}

fn scheduler(
    hosts: &[Host],
    models: &[SizedModel],
    cells: &[u64],
    options: &CollectOptions,
    store: Option<&dyn Runs>,
    memory_of: impl Fn(&str) -> String,
) -> Scheduler {
    let mut memories: Vec<String> = Vec::new();
    let mut setups = Vec::new();
    for (place, host) in hosts.iter().enumerate() {
        let held = host.provider.host();
        let memory = held.as_deref().map(&memory_of);
        let memory = memory.unwrap_or_else(|| format!("no weights: {place}"));
        let known = memories.iter().position(|it| *it == memory);
        setups.push(HostSetup {
            memory: known.unwrap_or(memories.len()),
            loads: held.is_some(),
        });
        if known.is_none() {
            memories.push(memory);
        }
    }
    let may_have = |model: &SizedModel, host: &Host| {
        let unasked = model.unasked.iter().map(|it| &it.provider);
        let mut providers = model.providers.iter().chain(unasked);
        providers.any(|it| Arc::ptr_eq(it, &host.provider))
    };
    let models: Vec<ModelSetup> = models
        .iter()
        .zip(cells)
        .map(|(model, cells)| ModelSetup {
            cells: *cells,
            hosts: (0..hosts.len())
                .filter(|host| may_have(model, &hosts[*host]))
                .collect(),
            load_s: load_s(model),
            cell_s: estimate::cell_s(options, model, store).unwrap_or(UNKNOWN_CELL_S),
        })
        .collect();
    Scheduler::new(&setups, &models, options.values.jobs)
}

fn load_s(model: &SizedModel) -> f64 {
    let bytes = model
        .info
        .size_bytes
        .unwrap_or(model.parameter_count.unwrap_or_default() / 2);
    LOAD_BASE_S + bytes as f64 / LOAD_BYTES_PER_S
}

/// The hosts that the models can run on, each once, in the user's order.
fn hosts(models: &[SizedModel]) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for model in models {
        let unasked = model.unasked.iter().map(|it| &it.provider);
        for provider in model.providers.iter().chain(unasked) {
            let mut known = hosts.iter();
            if known.any(|host| Arc::ptr_eq(&host.provider, provider)) {
                continue;
            }
            let name = provider.address();
            hosts.push(Host {
                name: name.unwrap_or_else(|| model.id.provider.prefix().to_owned()),
                provider: Arc::clone(provider),
            });
        }
    }
    hosts
}

/// Why a host could not be asked about a model.
fn unasked<'a>(models: &'a [SizedModel], host: &Host) -> Option<&'a UnaskedHost> {
    let mut unasked = models.iter().flat_map(|it| &it.unasked);
    unasked.find(|it| Arc::ptr_eq(&it.provider, &host.provider))
}

fn provenance(model: &SizedModel, host: &Host) -> Option<String> {
    let mut providers = model.providers.iter();
    let place = providers.position(|it| Arc::ptr_eq(it, &host.provider))?;
    model.provenances.get(place).cloned()
}
