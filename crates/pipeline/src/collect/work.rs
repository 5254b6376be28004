//! One model's work on one host, while it is loaded there.
//!
//! As many threads as requests are in flight take cells and generate them; one thread records what they made, in groups. A cell
//! whose host went away is given back. A cell that failed for its own reasons is recorded as failed,
//! with one exception: while a host has not made a single cell of the model and another host could,
//! failed cells are held back. If none follows that succeeds, the model and not the cells is at fault
//! on this host, and the others get them. A cell that took too long is tried once on another host.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use assize_providers::ProviderError;

use super::cell::{CellGenerator, GeneratedCell, HostFault};
use super::feed::Feed;
use super::lane::Lane;
use super::{CellEvent, CellStatus, Event, requests_in_flight};
use crate::{PipelineError, Result};

/// After so many cells in a row whose credentials were refused, the rest is left for the next collect.
const DENIED_LIMIT: u32 = 3;
/// How many cells are recorded at once at most.
const GROUP: usize = 128;
/// After so many cells in a row that failed, a host that has made none of the model counts as unable
/// to run it, and so does one that says that it lacks the model.
const MOST_FAILED: usize = 3;

/// Why a host stopped with a model.
pub(super) enum End {
    /// There is nothing more for it to do, or the collection stops.
    Stopped,
    HostFailed(PipelineError),
    /// The host cannot run the model.
    Refused(String),
}

pub(super) struct Work<'l> {
    lane: &'l Lane<'l>,
    host: usize,
    feed: &'l Feed<'l>,
    generator: CellGenerator<'l>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// Cells in a row whose credentials were refused.
    denied: u32,
    has_succeeded: bool,
    /// Cells in a row for which the host said that it lacks the model.
    missing: usize,
    held_back: Vec<HeldBack>,
    end: Option<End>,
}

/// A failed cell of which it is not yet known whether the host is at fault.
struct HeldBack {
    position: usize,
    started: f64,
    made: GeneratedCell,
}

impl<'l> Work<'l> {
    pub(super) fn new(lane: &'l Lane<'l>, host: usize, feed: &'l Feed<'l>) -> Self {
        let address = lane.pool.hosts[host].provider.address();
        let provenance = lane.pool.provenance(host, feed.number);
        let (collection, grid) = (lane.collection, lane.grid);
        Self {
            generator: CellGenerator::new(
                collection,
                grid,
                feed.model,
                address.as_deref(),
                &provenance,
            ),
            lane,
            host,
            feed,
            progress: Mutex::default(),
        }
    }

    pub(super) fn run(self) -> Result<End> {
        let provider = &self.lane.pool.hosts[self.host].provider;
        let jobs = requests_in_flight(self.lane.collection.options, provider.as_ref());
        let (to_recorder, from_workers) = sync_channel::<GeneratedCell>(GROUP);
        let written = std::thread::scope(|scope| {
            let this = &self;
            let recorder = scope.spawn(move || this.record(&from_workers));
            let workers: Vec<_> = (0..jobs)
                .map(|_| {
                    let made = to_recorder.clone();
                    scope.spawn(move || this.generate(&made))
                })
                .collect();
            let mut result = Ok(());
            for worker in workers {
                let ended = worker
                    .join()
                    .unwrap_or_else(|_| Err(PipelineError::worker_panicked()));
                result = result.and(ended);
            }
            self.decide_held_back(&to_recorder);
            drop(to_recorder);
            let written = recorder
                .join()
                .unwrap_or_else(|_| Err(PipelineError::worker_panicked()));
            // The recorder's error explains the workers', which only see a closed channel.
            written.and(result)
        });
        written?;
        let progress = self.progress.into_inner();
        let end = progress.unwrap_or_else(PoisonError::into_inner).end;
        Ok(end.unwrap_or(End::Stopped))
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generate(&self, made: &SyncSender<GeneratedCell>) -> Result<()> {
        let (pool, provider) = (self.lane.pool, &self.lane.pool.hosts[self.host].provider);
        // Cells that were not begun are left for the next collect.
        while !self.lane.stopped() {
            let Some(started) = pool.take(self.host) else {
                return Ok(());
            };
            let Some(position) = self.feed.take() else {
                pool.nothing_left(self.host, started);
                return Ok(());
            };
            let cell = self.lane.grid.cell(self.feed.model, position)?;
            let cell = self.generator.generate(provider.as_ref(), &cell);
            if let Some(error) = self.host_error(position, &cell) {
                pool.lost(self.host, started);
                self.progress().end = Some(End::HostFailed(error.into()));
                return Ok(());
            }
            let denial = cell.denied.then(|| cell.error.clone()).flatten();
            if !self.keep(position, started, cell, made) {
                return Ok(());
            }
            self.count_denial(denial)?;
        }
        Ok(())
    }

    /// Why the cell is to be generated again by another host, or later; it has been given back then.
    fn host_error(&self, position: usize, cell: &GeneratedCell) -> Option<ProviderError> {
        // A cell is given back before the scheduler counts it.
        match cell.host_fault.as_ref()? {
            HostFault::Unreachable(error) => {
                self.feed.give_back(position);
                Some(error.clone())
            }
            HostFault::TimedOut(error) => {
                let has_other = self.lane.pool.has_other_host(self.host, self.feed.number);
                let is_free = has_other && self.feed.give_back_late(position);
                is_free.then(|| error.clone())
            }
            HostFault::ModelMissing => None,
        }
    }

    /// An error after a few cells in a row whose credentials were refused.
    fn count_denial(&self, denial: Option<String>) -> Result<()> {
        let mut progress = self.progress();
        let Some(error) = denial else {
            progress.denied = 0;
            return Ok(());
        };
        progress.denied += 1;
        if progress.denied < DENIED_LIMIT {
            return Ok(());
        }
        let provider = &self.lane.pool.hosts[self.host].provider;
        Err(PipelineError::Service(format!(
            "{error}. {DENIED_LIMIT} cells in a row were refused like this, and the rest was not tried: check the \
             credentials ({}), then run the same command again to continue",
            provider.credentials()
        )))
    }

    fn give_back(&self, position: usize, started: f64) {
        self.feed.give_back(position);
        self.lane.pool.lost(self.host, started);
    }

    /// Records a cell or holds it back; `false` if the host is to stop.
    fn keep(
        &self,
        position: usize,
        started: f64,
        cell: GeneratedCell,
        made: &SyncSender<GeneratedCell>,
    ) -> bool {
        let (pool, number) = (self.lane.pool, self.feed.number);
        let Some(error) = cell.error.clone() else {
            pool.finished(self.host, number, started);
            let held_back = {
                let mut progress = self.progress();
                progress.has_succeeded = true;
                progress.missing = 0;
                std::mem::take(&mut progress.held_back)
            };
            return self.fail(held_back, made) && made.send(cell).is_ok();
        };
        let mut progress = self.progress();
        let is_missing = matches!(cell.host_fault, Some(HostFault::ModelMissing));
        progress.missing = if is_missing { progress.missing + 1 } else { 0 };
        let is_doubtful = !progress.has_succeeded && pool.has_other_host(self.host, number);
        let is_unable = if is_doubtful {
            progress.held_back.push(HeldBack {
                position,
                started,
                made: cell,
            });
            progress.held_back.len() >= MOST_FAILED
        } else {
            pool.dropped(self.host, started);
            if made.send(cell).is_err() {
                return false;
            }
            progress.missing >= MOST_FAILED
        };
        if is_unable {
            progress.end = Some(End::Refused(error));
        }
        !is_unable
    }

    /// Records these cells as failed; `false` if nobody records any more.
    fn fail(&self, cells: Vec<HeldBack>, made: &SyncSender<GeneratedCell>) -> bool {
        cells.into_iter().all(|it| {
            self.lane.pool.dropped(self.host, it.started);
            made.send(it.made).is_ok()
        })
    }

    /// The host has not made a cell: another one gets what failed here, while there is one.
    fn decide_held_back(&self, made: &SyncSender<GeneratedCell>) {
        let held_back = std::mem::take(&mut self.progress().held_back);
        let Some(last) = held_back.last() else {
            return;
        };
        if !self.lane.pool.has_other_host(self.host, self.feed.number) {
            self.fail(held_back, made);
            return;
        }
        let error = last.made.error.clone().unwrap_or_default();
        for it in held_back {
            self.give_back(it.position, it.started);
        }
        self.progress().end.get_or_insert(End::Refused(error));
    }

    /// Records what the workers made, as many at once as are there.
    fn record(&self, from_workers: &Receiver<GeneratedCell>) -> Result<()> {
        while let Ok(first) = from_workers.recv() {
            let mut group = vec![first];
            group.extend(from_workers.try_iter().take(GROUP - 1));
            if let Err(error) = self.record_group(&group) {
                self.lane
                    .abort
                    .store(true, std::sync::atomic::Ordering::SeqCst);
                return Err(error);
            }
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
                    if let Some((candidates, reason)) = &made.unscored {
                        summary.unscored_candidates += candidates;
                        summary
                            .unscored_reason
                            .get_or_insert_with(|| reason.clone());
                    }
                }
            }
            self.lane.pool.recorded(self.host);
            (self.lane.observer)(Event::Cell(CellEvent {
                model: self.feed.model,
                prompt: &made.prompt,
                scenario: &made.scenario,
                status,
                run_id: recorded.run_id.as_deref(),
                error: made.error.as_deref(),
                host: Some(&self.lane.pool.hosts[self.host].name),
                completion_tokens: made.completion_tokens,
            }));
        }
        Ok(())
    }
}
