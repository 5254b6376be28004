//! A lane: one host, doing what the scheduler says, one model at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assize_providers::{ModelInfo, ProviderError};

use super::feed::Feed;
use super::grid::{Cell, Grid};
use super::host::{HostEvent, HostState};
use super::pool::{Pool, Step};
use super::work::{End, Work};
use super::{CellEvent, CellStatus, Collection, Event, Observer, Summary};
use crate::guard::{Place, Tenancy};
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result};

/// How often a lane that waits for a host's answer looks whether the collection is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a host says about each model; `None` where it has not got it.
type Answer = std::result::Result<Vec<Option<ModelInfo>>, ProviderError>;

/// What every lane of a collection shares.
pub(super) struct Lane<'a> {
    pub(super) collection: &'a Collection<'a>,
    pub(super) grid: &'a Grid<'a>,
    pub(super) pool: &'a Pool<'a>,
    /// By model.
    pub(super) feeds: &'a [Feed<'a>],
    pub(super) summary: &'a Mutex<Summary>,
    /// Set by a fatal error: the other lanes stop after what they have in flight.
    pub(super) abort: &'a AtomicBool,
    pub(super) observer: Observer<'a>,
}

/// What came of loading a model.
enum Entered {
    Loaded(Tenancy),
    /// The host cannot load it.
    Refused(String),
    HostFailed(PipelineError),
}

impl Lane<'_> {
    /// Works until nothing is left to do for this host.
    pub(super) fn run(&self, host: usize) -> Result<()> {
        let result = self.steps(host);
        if result.is_err() {
            self.abort.store(true, Ordering::SeqCst);
        }
        result
    }

    fn steps(&self, host: usize) -> Result<()> {
        loop {
            if self.stopped() {
                return Err(PipelineError::Interrupted);
            }
            match self.pool.next(host) {
                Step::End => return Ok(()),
                Step::Wait(most) => self.pool.wait(most),
                Step::Probe => self.probe(host)?,
                Step::Load(model) => self.run_model(host, model)?,
            }
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.abort.load(Ordering::Relaxed) || self.collection.stop.load(Ordering::Relaxed)
    }

    pub(super) fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a cell that was not generated.
    pub(super) fn settle(
        &self,
        model: &SizedModel,
        cell: &Cell<'_>,
        status: CellStatus,
        run_id: Option<&str>,
        error: Option<&str>,
    ) {
        self.summary().count(status);
        (self.observer)(Event::Cell(CellEvent {
            model,
            prompt: &cell.variant.label,
            scenario: &cell.scenario.id,
            status,
            run_id,
            error,
            host: None,
            completion_tokens: 0,
        }));
    }

    fn tell(&self, host: usize, state: HostState, model: Option<&SizedModel>, error: Option<&str>) {
        (self.observer)(Event::Host(HostEvent {
            host: &self.pool.hosts[host].name,
            state,
            model,
            error,
            hosts: self.pool.hosts.len(),
        }));
    }

    fn run_model(&self, host: usize, number: usize) -> Result<()> {
        let feed = &self.feeds[number];
        let result = if feed.open(self)? {
            self.work(host, feed)
        } else {
            self.pool.released(host);
            Ok(())
        };
        feed.close(self);
        result
    }

    /// Loads the model, generates cells while the scheduler gives the host any, and unloads it.
    fn work(&self, host: usize, feed: &Feed<'_>) -> Result<()> {
        let model = feed.model;
        self.tell(host, HostState::Loading, Some(model), None);
        let tenancy = match self.enter(host, model)? {
            Entered::Loaded(tenancy) => tenancy,
            Entered::Refused(reason) => return self.refused(host, feed, &reason),
            Entered::HostFailed(error) => return self.host_failed(host, error),
        };
        let id = model.id.to_string();
        *self.summary().model_loads.entry(id).or_default() += 1;
        let load_ms = tenancy.load_ms;
        (self.observer)(Event::Loaded { model, load_ms });
        self.tell(host, HostState::Working, Some(model), None);
        self.pool.loaded(host, load_ms);
        let worked = Work::new(self, host, feed).run();
        if let Ok(End::HostFailed(error)) = &worked {
            // Its cells are free before the attempt to unload, which may take long.
            self.pool.failed(host, error);
        }
        // Whatever happened, the model is unloaded and seen to be gone.
        let left = tenancy.leave();
        match worked? {
            End::HostFailed(error) => {
                self.tell(host, HostState::Failed, None, Some(&error.to_string()));
                return Ok(());
            }
            End::Refused(reason) if left.is_ok() => return self.refused(host, feed, &reason),
            End::Refused(_) | End::Stopped => {}
        }
        match left {
            Ok(()) => {
                self.pool.released(host);
                self.tell(host, HostState::Waiting, None, None);
                Ok(())
            }
            Err(error) if self.is_fatal(host, &error) => Err(error),
            Err(error) => {
                self.tell(host, HostState::Failed, None, Some(&error.to_string()));
                self.pool.not_unloaded(host, error);
                Ok(())
            }
        }
    }

    fn enter(&self, host: usize, model: &SizedModel) -> Result<Entered> {
        let (collection, options) = (self.collection, self.collection.options);
        let place = Place {
            num_ctx: options.values.num_ctx,
            candidates: options.values.n_tips,
            stopped: &|| self.stopped(),
        };
        let provider = &self.pool.hosts[host].provider;
        let (name, digest) = (&model.id.name, &model.info.digest);
        let entered = collection
            .guard
            .enter(provider, name, digest, &place, |holder| {
                let on = &format!("{holder}, which uses this host's memory");
                (self.observer)(Event::Waiting { model, on });
            });
        match entered {
            Ok(tenancy) => Ok(Entered::Loaded(tenancy)),
            Err(PipelineError::Provider(error)) if !concerns_host(&error) => {
                Ok(Entered::Refused(error.to_string()))
            }
            Err(error @ (PipelineError::Provider(_) | PipelineError::Occupied { .. })) => {
                Ok(Entered::HostFailed(error))
            }
            Err(error) => Err(error),
        }
    }

    /// The host is left out for now. A host that somebody has to look after stops the collection if
    /// no other one is there.
    fn host_failed(&self, host: usize, error: PipelineError) -> Result<()> {
        if self.is_fatal(host, &error) {
            return Err(error);
        }
        self.pool.failed(host, &error);
        self.tell(host, HostState::Failed, None, Some(&error.to_string()));
        Ok(())
    }

    fn is_fatal(&self, host: usize, error: &PipelineError) -> bool {
        let is_unreachable = matches!(
            error,
            PipelineError::Provider(ProviderError::Unreachable { .. })
        );
        !is_unreachable && !self.pool.has_other_up(host)
    }

    /// The host cannot run the model. If no other can either, its cells fail.
    fn refused(&self, host: usize, feed: &Feed<'_>, reason: &str) -> Result<()> {
        self.tell(host, HostState::Waiting, None, Some(reason));
        if self.pool.refused(host, feed.number) {
            return Ok(());
        }
        feed.fail_all(self, reason)
    }

    /// Asks a host that failed whether it answers, and what it has.
    fn probe(&self, host: usize) -> Result<()> {
        let Some(answer) = self.asked(host) else {
            return Ok(());
        };
        let Ok(found) = answer else {
            self.pool.missed(host);
            return Ok(());
        };
        let mut others = Vec::new();
        let mut has = Vec::new();
        for (model, info) in self.pool.models.iter().zip(found) {
            let is_same = |it: &ModelInfo| it.digest == model.info.digest;
            if info.as_ref().is_some_and(|it| !is_same(it)) {
                others.push(model.id.to_string());
            }
            has.push(info.filter(is_same).map(|it| it.provenance));
        }
        self.pool.recovered(host, &has);
        let warning = (!others.is_empty()).then(|| {
            format!(
                "its {} has another digest than on the other hosts and is not used: pull it again there",
                others.join(", ")
            )
        });
        self.tell(host, HostState::Recovered, None, warning.as_deref());
        for model in self.pool.without_host() {
            let reason = "no host that answers has the model";
            self.feeds[model].fail_all(self, reason)?;
        }
        Ok(())
    }

    /// What the host says about each model that it may have; `None` if the collection is over before
    /// it answers. A host that does not answer must not keep the collection from ending, so it is
    /// asked in a thread that nobody has to wait for.
    fn asked(&self, host: usize) -> Option<Answer> {
        let provider = Arc::clone(&self.pool.hosts[host].provider);
        let may_have = |model: &SizedModel| {
            let unasked = model.unasked.iter().map(|it| &it.provider);
            let mut own = model.providers.iter().chain(unasked);
            own.any(|it| Arc::ptr_eq(it, &provider))
        };
        let models = self.pool.models.iter();
        let names: Vec<Option<String>> = models
            .map(|model| may_have(model).then(|| model.id.name.clone()))
            .collect();
        let (sender, answer) = channel();
        std::thread::spawn(move || {
            let describe = |name: Option<String>| match name.map(|it| provider.describe(&it)) {
                Some(Ok(info)) => Ok(Some(info)),
                None | Some(Err(ProviderError::ModelNotFound { .. })) => Ok(None),
                Some(Err(error)) => Err(error),
            };
            let _ = sender.send(names.into_iter().map(describe).collect());
        });
        loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if self.stopped() || self.pool.is_over() => {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "asking it failed by an internal error".to_owned();
                    let host = self.pool.hosts[host].name.clone();
                    return Some(Err(ProviderError::Unreachable { host, reason }));
                }
            }
        }
    }
}

/// Whether an error at loading is the host's for every model.
const fn concerns_host(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::NotFreed { .. } | ProviderError::Unreachable { .. }
    )
}
