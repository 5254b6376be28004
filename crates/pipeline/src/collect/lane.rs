//! A lane: one host, working through models one at a time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};

use assize_providers::{Provider, ProviderError};

use super::cell::{CellGenerator, GeneratedCell};
use super::grid::{Cell, Grid};
use super::{CellEvent, CellStatus, Collection, Event, Observer, Summary};
use crate::guard::{Place, Tenancy};
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result, lock};

/// How many cells are looked up in the store at once, and recorded at once at most.
const GROUP: usize = 128;
/// After so many cells in a row that failed because the host is gone, the rest is left for
/// the next collect.
const HOST_DOWN_LIMIT: u32 = 3;

/// A host (or a provider that loads nothing) with the provider that talks to it.
pub struct Host {
    provider: Arc<dyn Provider>,
}

/// The hosts that the models can run on, each once.
pub fn hosts(models: &[SizedModel]) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for provider in models.iter().flat_map(|model| &model.providers) {
        if !hosts
            .iter()
            .any(|host| Arc::ptr_eq(&host.provider, provider))
        {
            hosts.push(Host {
                provider: Arc::clone(provider),
            });
        }
    }
    hosts
}

/// What every lane of a collection shares.
pub struct Lane<'a> {
    pub collection: &'a Collection<'a>,
    pub grid: &'a Grid<'a>,
    /// Models that no lane has taken yet.
    pub plan: &'a Mutex<Vec<&'a SizedModel>>,
    pub summary: &'a Mutex<Summary>,
    pub abort: &'a AtomicBool,
    pub observer: Observer<'a>,
}

impl<'a> Lane<'a> {
    /// Takes models until none is left for this host.
    pub fn run(&self, host: &Host) -> Result<()> {
        while let Some(model) = self.take(host) {
            if self.stopped() {
                return Err(PipelineError::Interrupted);
            }
            let result = self.run_model(host, model);
            if result.is_err() {
                self.abort.store(true, Ordering::SeqCst);
            }
            result?;
        }
        Ok(())
    }

    fn take(&self, host: &Host) -> Option<&'a SizedModel> {
        let mut plan = self.plan.lock().ok()?;
        let next = plan.iter().position(|model| {
            model
                .providers
                .iter()
                .any(|it| Arc::ptr_eq(it, &host.provider))
        })?;
        Some(plan.remove(next))
    }

    fn stopped(&self) -> bool {
        self.abort.load(Ordering::Relaxed) || self.collection.stop.load(Ordering::Relaxed)
    }

    fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn run_model(&self, host: &Host, model: &'a SizedModel) -> Result<()> {
        let cells = self.grid.count(model);
        if cells == 0 {
            return Ok(());
        }
        (self.observer)(Event::ModelStarted { model, cells });
        let experiment = &self.collection.options.values.experiment;
        let what = format!(
            "cells of {} {experiment} {}",
            self.collection.store.uri(),
            model.id
        );
        let _cells_lock = lock::acquire(&self.collection.locks, &what, &|| self.stopped(), || {
            (self.observer)(Event::Waiting {
                model,
                on: "another collect that works on the same cells",
            });
        })?;
        let work = Work {
            lane: self,
            host,
            model,
            generator: CellGenerator::new(self.collection, self.grid, model),
            residency: Mutex::new(Residency::NotTried),
            gone: AtomicU32::new(0),
        };
        let result = work.run();
        // Whatever happened, the model is unloaded and seen to be gone.
        let residency = work
            .residency
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let left = if let Residency::Loaded(tenancy) = residency {
            tenancy.leave()
        } else {
            Ok(())
        };
        // A failure says more than what follows from it, but an interruption hides nothing.
        if let Ok(()) | Err(PipelineError::Interrupted) = result {
            left?;
        }
        result?;
        (self.observer)(Event::ModelFinished { model });
        Ok(())
    }
}

/// Whether the model is loaded.
enum Residency {
    NotTried,
    Loaded(Tenancy),
    Refused(String),
}

/// One model's work on one host.
struct Work<'a, 'l> {
    lane: &'l Lane<'a>,
    host: &'l Host,
    model: &'a SizedModel,
    generator: CellGenerator<'a>,
    residency: Mutex<Residency>,
    /// Cells in a row that failed because the host is gone.
    gone: AtomicU32,
}

impl<'a> Work<'a, '_> {
    /// Finds missing cells here, generates them in `jobs` threads, records them in another.
    fn run(&self) -> Result<()> {
        let jobs = self.lane.collection.options.values.jobs.max(1) as usize;
        let (to_workers, from_finder) = sync_channel::<Cell<'a>>(jobs * 2);
        let (to_recorder, from_workers) = sync_channel::<GeneratedCell>(GROUP);
        let from_finder = Arc::new(Mutex::new(from_finder));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let (cells, made) = (Arc::clone(&from_finder), to_recorder.clone());
                scope.spawn(move || self.generate(&cells, &made));
            }
            drop((to_recorder, from_finder));
            let recorder = scope.spawn(move || self.record(&from_workers));
            let found = self.find_missing(&to_workers);
            drop(to_workers);
            let written = recorder
                .join()
                .unwrap_or_else(|_| Err(PipelineError::worker_panicked()));
            // The recorder's error explains the finder's, which only sees a closed channel.
            written.and(found)
        })
    }

    fn find_missing(&self, to_workers: &SyncSender<Cell<'a>>) -> Result<()> {
        let mut cells = self.lane.grid.cells(self.model);
        loop {
            let group = cells.by_ref().take(GROUP).collect::<Result<Vec<_>>>()?;
            if group.is_empty() {
                return Ok(());
            }
            let keys: Vec<String> = group.iter().map(|cell| cell.key.clone()).collect();
            let collection = self.lane.collection;
            let experiment = &collection.options.values.experiment;
            let known = collection.cells.cells_known(experiment, &keys)?;
            for (cell, known) in group.into_iter().zip(known) {
                if let Some(known) = known.filter(|known| !known.failed) {
                    self.skip(&cell, known.run_id.as_deref());
                    continue;
                }
                if self.lane.stopped() {
                    return Err(PipelineError::Interrupted);
                }
                if let Some(error) = self.enter_once()? {
                    self.fail(&cell, &error);
                    continue;
                }
                if to_workers.send(cell).is_err() {
                    return Err(PipelineError::Interrupted);
                }
            }
        }
    }

    fn skip(&self, cell: &Cell<'_>, run_id: Option<&str>) {
        self.settle(cell, CellStatus::Skipped, run_id, None);
    }

    /// A cell of a model that cannot be loaded; nothing is recorded of it.
    fn fail(&self, cell: &Cell<'_>, error: &str) {
        self.settle(cell, CellStatus::Failed, None, Some(error));
    }

    fn settle(
        &self,
        cell: &Cell<'_>,
        status: CellStatus,
        run_id: Option<&str>,
        error: Option<&str>,
    ) {
        self.lane.summary().count(status);
        (self.lane.observer)(Event::Cell(CellEvent {
            model: self.model,
            prompt: &cell.prompt.name,
            scenario: &cell.scenario.id,
            status,
            run_id,
            error,
            completion_tokens: 0,
        }));
    }

    /// Loads the model at the first missing cell. Answers the reason where it cannot be
    /// loaded but other models may go on; errors stop the collection.
    fn enter_once(&self) -> Result<Option<String>> {
        let mut residency = self
            .residency
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*residency {
            Residency::Loaded(_) => return Ok(None),
            Residency::Refused(reason) => return Ok(Some(reason.clone())),
            Residency::NotTried => {}
        }
        let (collection, model) = (self.lane.collection, self.model);
        let options = collection.options;
        let place = Place {
            num_ctx: options.values.num_ctx,
            candidates: options.values.n_tips,
            stopped: &|| self.lane.stopped(),
        };
        let entered = collection.guard.enter(
            &self.host.provider,
            &model.id.name,
            &model.info.digest,
            &place,
            || {
                let on = "another Assize process that holds a model in this host's memory";
                (self.lane.observer)(Event::Waiting { model, on });
            },
        );
        let tenancy = match entered {
            Ok(tenancy) => tenancy,
            // A host that is stuck or gone is so for every model.
            Err(PipelineError::Provider(error))
                if !matches!(
                    error,
                    ProviderError::NotFreed { .. } | ProviderError::Unreachable { .. }
                ) =>
            {
                let reason = error.to_string();
                *residency = Residency::Refused(reason.clone());
                return Ok(Some(reason));
            }
            Err(error) => return Err(error),
        };
        *self
            .lane
            .summary()
            .model_loads
            .entry(model.id.to_string())
            .or_default() += 1;
        (self.lane.observer)(Event::Loaded {
            model,
            load_ms: tenancy.load_ms,
        });
        *residency = Residency::Loaded(tenancy);
        Ok(None)
    }

    fn generate(&self, cells: &Mutex<Receiver<Cell<'a>>>, made: &SyncSender<GeneratedCell>) {
        loop {
            let next = cells.lock().map(|receiver| receiver.recv());
            let Ok(Ok(cell)) = next else {
                return;
            };
            // Cells that were queued but not begun are left for the next collect.
            if self.lane.stopped() || self.gone.load(Ordering::Relaxed) >= HOST_DOWN_LIMIT {
                continue;
            }
            let cell = self.generator.generate(self.host.provider.as_ref(), &cell);
            if cell.host_down {
                self.gone.fetch_add(1, Ordering::Relaxed);
            } else {
                self.gone.store(0, Ordering::Relaxed);
            }
            if made.send(cell).is_err() {
                return;
            }
        }
    }

    /// Records what the workers made, as many at once as are there.
    fn record(&self, from_workers: &Receiver<GeneratedCell>) -> Result<()> {
        while let Ok(first) = from_workers.recv() {
            let mut group = vec![first];
            group.extend(from_workers.try_iter().take(GROUP - 1));
            if let Err(error) = self.record_group(&group) {
                self.lane.abort.store(true, Ordering::SeqCst);
                return Err(error);
            }
        }
        if self.gone.load(Ordering::Relaxed) >= HOST_DOWN_LIMIT {
            return Err(PipelineError::Provider(ProviderError::Unreachable {
                host: self
                    .host
                    .provider
                    .host()
                    .unwrap_or_else(|| self.model.id.to_string()),
                reason: format!(
                    "{HOST_DOWN_LIMIT} cells in a row failed; run the same command again to continue"
                ),
            }));
        }
        Ok(())
    }

    fn record_group(&self, group: &[GeneratedCell]) -> Result<()> {
        let collection = self.lane.collection;
        let records: Vec<_> = group.iter().map(|made| made.record.clone()).collect();
        let recorded = collection
            .cells
            .cells_record(&collection.options.values.experiment, &records)?;
        for (made, recorded) in group.iter().zip(recorded) {
            let status = match (&made.error, recorded.written) {
                (Some(_), _) => CellStatus::Failed,
                (None, true) => CellStatus::Collected,
                // Another process was faster; its run counts and ours was not written.
                (None, false) => CellStatus::Skipped,
            };
            {
                let mut summary = self.lane.summary();
                summary.count(status);
                if status == CellStatus::Collected {
                    summary.failed_candidates += made.failed_candidates;
                }
            }
            (self.lane.observer)(Event::Cell(CellEvent {
                model: self.model,
                prompt: &made.prompt,
                scenario: &made.scenario,
                status,
                run_id: recorded.run_id.as_deref(),
                error: made.error.as_deref(),
                completion_tokens: made.completion_tokens,
            }));
        }
        Ok(())
    }
}
