//! Leaderboards, computed once for each state of the data.
//!
//! The JSON API and the panel show the same boards from here. A board of a hundred thousand runs
//! takes a part of a second; asking for it again takes microseconds, until something is written.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use assize_domain::leaderboard::Leaderboard;
use assize_pipeline::PipelineError;
use assize_pipeline::compare::{Cells, CompareOptions, Compared, compare_cells};
use assize_pipeline::judge::status::{Status, status};
use assize_store::{ExperimentSummary, Runs as _};
use axum::body::Bytes;

use crate::App;
use crate::change_cache::ChangeCache;
use crate::http::run_blocking;

/// Boards that are kept at most; each is small beside the runs that it stands on.
const MOST: usize = 64;
/// From here on two tiers count as disagreeing; as on the command line.
const DELTA: f64 = 3.0;

/// A board with its serialisation.
#[derive(Debug)]
pub(crate) struct CachedBoard {
    pub board: Leaderboard,
    pub cells: Cells,
    pub json: Bytes,
}

/// Everything that is derived and kept.
#[derive(Debug)]
pub(crate) struct Boards {
    computed: ChangeCache<CompareOptions, CachedBoard>,
    experiments: ChangeCache<(), Vec<ExperimentSummary>>,
    statuses: ChangeCache<String, Status>,
    worker: Worker,
}

impl Boards {
    /// Starts the thread that computes.
    pub fn start() -> io::Result<Self> {
        Ok(Self {
            computed: ChangeCache::new(MOST),
            experiments: ChangeCache::new(1),
            statuses: ChangeCache::new(MOST),
            worker: Worker::start()?,
        })
    }

    /// The board. Answers at once where it is known, else computes it on a thread that may block.
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

    /// [`Boards::get`], for threads that may block.
    pub fn get_blocking(
        app: &App,
        options: &CompareOptions,
    ) -> Result<Arc<CachedBoard>, PipelineError> {
        let compute = || {
            let (asked, options) = (Arc::clone(&app.store), options.clone());
            let rule = app.config.thresholds.decision_rule();
            let work = move || compare_cells(asked.as_ref(), &options, rule);
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

    /// The usual board of an experiment as it was known last. Where it is not known or has
    /// changed, it is computed in the background for the next one who asks, and the answer says
    /// that it is not the last word.
    pub fn glance(app: &App, experiment: &str) -> (Option<Arc<CachedBoard>>, bool) {
        let options = CompareOptions::usual(experiment);
        let changes = app.store.changes().unwrap_or_default();
        if let Some(board) = app.boards.computed.peek(&options, changes) {
            return (Some(board), true);
        }
        let known = app.boards.computed.stale(&options);
        if !app.boards.computed.is_computing(&options) {
            let app = app.clone();
            // Nobody waits: who wants the board asks again, and is told what is wrong with it.
            drop(tokio::task::spawn_blocking(move || {
                Self::get_blocking(&app, &options).map(drop)
            }));
        }
        (known, false)
    }

    /// Begins with the board that somebody will most likely ask for first.
    pub fn warm_up(app: &App) {
        let app = app.clone();
        // Nobody waits: whoever asks for the board joins, and is told what is wrong with it.
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
                || Ok(app.store.experiment_list()?),
            )
        })
        .await
    }

    /// How far judging has come in an experiment, and how far its judges can be trusted.
    pub async fn status(app: &App, experiment: &str) -> Result<Arc<Status>, PipelineError> {
        let experiment = experiment.to_owned();
        run_blocking(app, move |app| {
            let compute = || {
                let (asked, experiment) = (Arc::clone(&app.store), experiment.clone());
                let work = move || status(asked.as_ref(), &experiment, DELTA);
                app.boards.worker.run(work)?
            };
            app.boards
                .statuses
                .get(&experiment, || Ok(app.store.changes()?), compute)
        })
        .await
    }
}

/// The one thread that reads whole experiments, one after the other. What it needed for one it
/// has at hand for the next; each thread of a pool would keep as much for itself.
#[derive(Debug)]
struct Worker(Sender<Box<dyn FnOnce() + Send>>);

impl Worker {
    fn start() -> io::Result<Self> {
        let (work, waiting) = channel::<Box<dyn FnOnce() + Send>>();
        let thread = std::thread::Builder::new().name("assize-boards".to_owned());
        thread.spawn(move || {
            for work in waiting {
                // Whoever waits for it learns that there is no answer.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
        })?;
        Ok(Self(work))
    }

    /// Has work done, and waits for it.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PipelineError> {
        let (answer, answered) = channel();
        let work = Box::new(move || {
            let _ = answer.send(work());
        });
        let sent = self.0.send(work).ok();
        sent.and_then(|()| answered.recv().ok())
            .ok_or_else(PipelineError::worker_panicked)
    }
}

#[cfg(test)]
mod tests {
    use assize_domain::error_kind::ErrorKind;

    use super::*;

    #[test]
    fn a_panic_of_the_worker_is_an_internal_error_and_the_next_work_is_done() {
        let worker = Worker::start().unwrap();
        let error = worker.run(|| assert_eq!(1, 2, "a bug")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(error.to_string(), "internal error: worker panicked");
        assert_eq!(worker.run(|| 7).unwrap(), 7);
    }
}
