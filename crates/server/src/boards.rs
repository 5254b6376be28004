//! A cache of leaderboards and other results that are computed from whole experiments.
//!
//! The API and the panel share it. A board of a hundred thousand runs takes a fraction of a second
//! to compute; until the store changes, the cached board is returned within microseconds.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use assize_domain::leaderboard::Leaderboard;
use assize_pipeline::compare::{Cells, CompareOptions, Compared, CurrentScenarios, compare_cells};
use assize_pipeline::judge::status::{Status, status};
use assize_pipeline::{PipelineError, seal};
use assize_store::ExperimentSummary;
use axum::body::Bytes;

use crate::App;
use crate::change_cache::ChangeCache;
use crate::http::run_blocking;

/// The number of cached boards. A board is small compared with its runs.
const CAPACITY: usize = 64;

/// A board with its JSON.
#[derive(Debug)]
pub(crate) struct CachedBoard {
    pub board: Leaderboard,
    pub cells: Cells,
    pub json: Bytes,
}

/// The caches, and the worker that computes their values.
#[derive(Debug)]
pub(crate) struct Boards {
    computed: ChangeCache<CompareOptions, CachedBoard>,
    experiments: ChangeCache<(), Vec<ExperimentSummary>>,
    statuses: ChangeCache<String, Status>,
    worker: Worker,
}

impl Boards {
    /// Creates empty caches and starts the worker.
    pub fn start() -> io::Result<Self> {
        Ok(Self {
            computed: ChangeCache::new(CAPACITY),
            experiments: ChangeCache::new(1),
            statuses: ChangeCache::new(CAPACITY),
            worker: Worker::start()?,
        })
    }

    /// The board: from the cache if it is current, otherwise computed on a blocking thread.
    pub async fn get(
        app: &App,
        options: CompareOptions,
    ) -> Result<Arc<CachedBoard>, PipelineError> {
        let changes = app.store.changes()?;
        if let Some(board) = app.boards.computed.peek(&options, changes) {
            return Ok(board);
        }
        run_blocking(app, move |app| Self::get_blocking(app, &options)).await
    }

    /// [`Boards::get`], for blocking threads.
    pub fn get_blocking(
        app: &App,
        options: &CompareOptions,
    ) -> Result<Arc<CachedBoard>, PipelineError> {
        let compute = || {
            let (store, mut options) = (Arc::clone(&app.tracking), options.clone());
            let rule = app.config.thresholds.decision_rule();
            // An edited task shows on the board after the next change in the store.
            let task = app.config.task_of(store.as_ref(), &options.experiment)?;
            options.current = task.task().map(CurrentScenarios::from);
            let work = move || compare_cells(store.as_ref(), &options, rule);
            let Compared { board, cells } = app.boards.worker.run(work)??;
            let json = serde_json::to_vec(&board)
                .map_err(|error| PipelineError::Internal(error.to_string()))?;
            Ok(CachedBoard {
                board,
                cells,
                json: json.into(),
            })
        };
        app.boards
            .computed
            .get(options, || Ok(app.store.changes()?), compute)
    }

    /// The latest cached board of an experiment under the default options, and whether it is
    /// current. If it is not, a new one is computed in the background.
    pub fn get_cached(app: &App, experiment: &str) -> (Option<Arc<CachedBoard>>, bool) {
        let options = CompareOptions::usual(experiment);
        let changes = app.store.changes().unwrap_or_default();
        if let Some(board) = app.boards.computed.peek(&options, changes) {
            return (Some(board), true);
        }
        let stale = app.boards.computed.stale(&options);
        if !app.boards.computed.is_computing(&options) {
            let app = app.clone();
            // The result is ignored: a later request computes the board again and reports errors.
            drop(tokio::task::spawn_blocking(move || {
                Self::get_blocking(&app, &options).map(drop)
            }));
        }
        (stale, false)
    }

    /// Computes the board of the latest experiment in the background.
    pub fn warm_up(app: &App) {
        let app = app.clone();
        // The result is ignored: a request for the board waits for it and reports errors.
        drop(tokio::task::spawn_blocking(move || {
            if let Ok(Some(latest)) = app.store.latest_collected() {
                let _ = Self::get_blocking(&app, &CompareOptions::usual(&latest));
            }
        }));
    }

    /// The experiments with their counts.
    pub async fn experiments(app: &App) -> Result<Arc<Vec<ExperimentSummary>>, PipelineError> {
        let changes = app.store.changes()?;
        if let Some(list) = app.boards.experiments.peek(&(), changes) {
            return Ok(list);
        }
        run_blocking(app, |app| {
            app.boards.experiments.get(
                &(),
                || Ok(app.store.changes()?),
                || Ok(app.tracking.experiment_list()?),
            )
        })
        .await
    }

    /// The progress of judging in an experiment, and the reliability of its judges.
    pub async fn status(app: &App, experiment: &str) -> Result<Arc<Status>, PipelineError> {
        let experiment = experiment.to_owned();
        run_blocking(app, move |app| {
            let compute = || {
                let (store, experiment) = (Arc::clone(&app.tracking), experiment.clone());
                let work = move || {
                    let splits = seal::visible_splits(store.as_ref(), &experiment)?;
                    status(store.as_ref(), &experiment, &splits, None)
                };
                app.boards.worker.run(work)?
            };
            app.boards
                .statuses
                .get(&experiment, || Ok(app.store.changes()?), compute)
        })
        .await
    }
}

/// A single thread that computes from whole experiments, one after the other. It reuses its
/// buffers; every thread of a pool would allocate as much.
#[derive(Debug)]
struct Worker(Sender<Box<dyn FnOnce() + Send>>);

impl Worker {
    fn start() -> io::Result<Self> {
        let (sender, queue) = channel::<Box<dyn FnOnce() + Send>>();
        let thread = std::thread::Builder::new().name("assize-boards".to_owned());
        thread.spawn(move || {
            for work in queue {
                // A panic drops the result's sender, which the waiting caller notices.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
        })?;
        Ok(Self(sender))
    }

    /// Runs work on the thread and waits for its result.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PipelineError> {
        let (sender, result) = channel();
        let work = Box::new(move || {
            let _ = sender.send(work());
        });
        let sent = self.0.send(work).ok();
        sent.and_then(|()| result.recv().ok())
            .ok_or_else(PipelineError::worker_panicked)
    }
}

#[cfg(test)]
mod tests {
    use assize_domain::error_kind::ErrorKind;

    use super::*;

    #[test]
    fn a_panic_is_an_internal_error_and_the_worker_continues() {
        let worker = Worker::start().unwrap();
        let error = worker.run(|| assert_eq!(1, 2, "a bug")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(error.to_string(), "internal error: worker panicked");
        assert_eq!(worker.run(|| 7).unwrap(), 7);
    }
}
