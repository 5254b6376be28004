//! Collect: generate what is missing of a grid, and track it.
//!
//! The grid is ordered by model, so that each model is loaded once, and within a model by
//! prompt, so that scenarios of one prompt version share a prefix. Cells are rendered, generated
//! and recorded one by one; of the missing ones only their places are kept.
//!
//! Hosts work side by side, a lane each ([`lane`]). A scheduler ([`pool`]) says which model a host
//! loads and when it stops, so that loads are few and the slowest host does not decide the end; the
//! missing cells of a model are shared by all hosts that work on it ([`feed`]), under one lock for
//! all collectors. A host enters the guard only when a cell is really missing; then some threads
//! generate (`jobs`, or as many as an engine that batches wants), and one records what they made, in
//! groups ([`work`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use assize_domain::job::JobKind;
use assize_domain::model::ModelId;
use assize_domain::options::{Options, Place};
use assize_domain::task::Task;
use assize_http::redacted;
use assize_providers::Provider;
use assize_store::{Cells, Tracking};

use crate::guard::Guard;
use crate::journal::Journal;
use crate::size_gate::{Rejected, SizedModel};
use crate::{Clock, PipelineError, Result};

pub mod adaptive;
mod cell;
mod feed;
pub mod grid;
mod host;
mod lane;
mod pool;
pub mod preview;
mod request;
pub(crate) mod variant;
mod work;

pub use host::{HostEvent, HostState, HostSummary};
pub use pool::{Speeds, plan};

use feed::Feed;
use grid::{Grid, Subset};
use pool::Pool;

/// What to collect.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectOptions {
    /// Every option by its value; models and prompts are filled in where none are named.
    pub values: Options,
    /// The same as `values.models`, parsed.
    pub models: Vec<ModelId>,
    /// Whether weak pairs are dropped on the way.
    pub adaptive: bool,
    /// (I, N), from 1: this process does the I-th of N parts.
    pub shard: Option<(u32, u32)>,
    /// What is recorded with every run: each option, without credentials.
    pub params: Vec<(String, String)>,
}

/// What is recorded with every run: the options of collect, without credentials. A text that is
/// empty is left out.
pub fn recorded_params(
    values: &Options,
    tracking_uri: &str,
    shard: Option<(u32, u32)>,
) -> Vec<(String, String)> {
    let (this, of) = shard.unwrap_or((1, 1));
    let own = [
        ("mlflow_url", tracking_uri.to_owned()),
        ("shard", format!("{this}/{of}")),
    ];
    let options = values.texts().into_iter();
    let options = options
        .filter(|(spec, text)| JobKind::Collect.is_in(spec.flags) && !text.is_empty())
        .map(|(spec, text)| match spec.place {
            Place::Url => {
                let urls: Vec<String> = text.split(',').map(redacted).collect();
                (spec.key, urls.join(","))
            }
            Place::No | Place::File => (spec.key, text),
        });
    let all = options.chain(own);
    all.map(|(key, text)| (key.to_owned(), text)).collect()
}

/// Everything a collection works with.
#[derive(Debug)]
pub struct Collection<'a> {
    pub task: &'a Task,
    /// Where the task's files are ([`crate::task_files::source_of`]).
    pub task_source: &'a str,
    pub options: &'a CollectOptions,
    /// The models that the size gate admitted, in the user's order.
    pub models: Vec<SizedModel>,
    pub rejected: Vec<Rejected>,
    /// Only this part of the grid.
    pub only: Option<Subset>,
    pub store: &'a dyn Tracking,
    /// Where cells are recorded: the store, or the journal before it.
    pub cells: &'a dyn Cells,
    /// The journal, where there is one; what waits in it is delivered at the end.
    pub journal: Option<&'a Journal>,
    pub guard: &'a Guard,
    /// What was measured by earlier parts of the same collection.
    pub speeds: &'a Speeds,
    /// Folder for the locks on (experiment, model).
    pub locks: PathBuf,
    pub clock: Clock,
    /// Set by Ctrl-C: finish what is in flight, unload, keep everything.
    pub stop: &'a AtomicBool,
    pub version: &'a str,
}

/// What happens while a collection runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A host turns to a model with this many cells (of this shard) for the first time.
    ModelStarted {
        model: &'a SizedModel,
        cells: u64,
    },
    /// Somebody else holds what we need.
    Waiting {
        model: &'a SizedModel,
        on: &'a str,
    },
    Loaded {
        model: &'a SizedModel,
        load_ms: f64,
    },
    Cell(CellEvent<'a>),
    Host(HostEvent<'a>),
    /// All cells of the model are settled and it is unloaded.
    ModelFinished {
        model: &'a SizedModel,
    },
}

/// One settled cell.
#[derive(Debug)]
pub struct CellEvent<'a> {
    pub model: &'a SizedModel,
    pub prompt: &'a str,
    pub scenario: &'a str,
    pub status: CellStatus,
    /// `None` where nothing is tracked, or not yet: see [`Summary::undelivered`].
    pub run_id: Option<&'a str>,
    pub error: Option<&'a str>,
    /// Where it was generated now.
    pub host: Option<&'a str>,
    pub completion_tokens: u64,
}

/// What became of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellStatus {
    Collected,
    Skipped,
    Failed,
}

/// How a collection ended.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    pub cells: u64,
    pub collected: u64,
    pub skipped: u64,
    pub failed: u64,
    /// Candidates that failed within collected cells.
    pub failed_candidates: u64,
    /// Candidates of collected cells that lack a computed score, because computing it failed.
    #[serde(default)]
    pub unscored_candidates: u64,
    /// Why, of the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unscored_reason: Option<String>,
    /// Models that the size gate rejected.
    pub rejected_models: Vec<String>,
    /// The same with their sizes and the reasons.
    pub rejections: Vec<Rejected>,
    /// Cells that wait in this machine's journal for an unreachable tracking server.
    pub undelivered: u64,
    /// Loads in this process, for models that had work.
    pub model_loads: BTreeMap<String, u64>,
    pub seconds: f64,
    /// What each host did, in the user's order.
    #[serde(default)]
    pub hosts: Vec<HostSummary>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// What an adaptive collection came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<adaptive::Outcome>,
}

impl Summary {
    /// Of a collection that has not done anything yet.
    fn new(rejections: &[Rejected]) -> Self {
        Self {
            rejected_models: rejections.iter().map(|it| it.model.clone()).collect(),
            rejections: rejections.to_vec(),
            ..Self::default()
        }
    }

    /// Adds what another part of the same collection did.
    fn add(&mut self, other: Self) {
        self.cells += other.cells;
        self.collected += other.collected;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.failed_candidates += other.failed_candidates;
        self.unscored_candidates += other.unscored_candidates;
        self.unscored_reason = self.unscored_reason.take().or(other.unscored_reason);
        self.undelivered = other.undelivered;
        for (model, loads) in other.model_loads {
            *self.model_loads.entry(model).or_default() += loads;
        }
        for later in other.hosts {
            let mut hosts = self.hosts.iter_mut();
            match hosts.find(|it| it.host == later.host) {
                Some(known) => known.add(later),
                None => self.hosts.push(later),
            }
        }
        self.seconds += other.seconds;
        self.interrupted |= other.interrupted;
    }

    fn count(&mut self, status: CellStatus) {
        self.cells += 1;
        match status {
            CellStatus::Collected => self.collected += 1,
            CellStatus::Skipped => self.skipped += 1,
            CellStatus::Failed => self.failed += 1,
        }
    }
}

/// Cells that are generated at the same time: as many as the user said, and at least as many as keep an
/// engine busy that decodes them as one batch.
pub(crate) fn requests_in_flight(options: &CollectOptions, provider: &dyn Provider) -> u32 {
    let wanted = provider.requests_wanted(options.values.n_tips);
    options.values.jobs.max(wanted).max(1)
}

/// Where events go; called from several threads.
pub type Observer<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// Collects what is missing. An error beside the summary means that the collection had to stop
/// early; what was recorded until then is kept, and the same call again continues.
pub fn run(
    collection: &Collection<'_>,
    observer: Observer<'_>,
) -> (Summary, Option<PipelineError>) {
    let started = Instant::now();
    let summary = Mutex::new(Summary::new(&collection.rejected));
    let result = run_lanes(collection, &summary, observer);
    let mut summary = summary.into_inner().unwrap_or_default();
    let stopped = || collection.stop.load(Ordering::Relaxed);
    let delivered = collection.journal.map(|it| it.deliver(&stopped));
    let result = match delivered.transpose() {
        Ok(delivery) => {
            let delivery = delivery.unwrap_or_default();
            summary.undelivered = delivery.waiting;
            result
        }
        Err(error) => result.and(Err(error.into())),
    };
    summary.seconds = started.elapsed().as_secs_f64();
    summary.interrupted = collection.stop.load(Ordering::Relaxed);
    let error = result
        .err()
        .filter(|error| !matches!(error, PipelineError::Interrupted));
    (summary, error)
}

fn run_lanes(
    collection: &Collection<'_>,
    summary: &Mutex<Summary>,
    observer: Observer<'_>,
) -> Result<()> {
    let grid = Grid::new(collection.task, collection.options)?.within(collection.only.as_ref());
    for model in &collection.models {
        grid.check(model)?;
    }
    let counts: Vec<u64> = collection.models.iter().map(|it| grid.count(it)).collect();
    let pool = Pool::new(collection, &counts);
    let feeds: Vec<Feed<'_>> = collection
        .models
        .iter()
        .enumerate()
        .map(|(number, model)| Feed::new(model, number))
        .collect();
    let abort = AtomicBool::new(false);
    let lane = lane::Lane {
        collection,
        grid: &grid,
        pool: &pool,
        feeds: &feeds,
        summary,
        abort: &abort,
        observer,
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let lane = &lane;
        let lanes: Vec<_> = (0..pool.hosts.len())
            .map(|host| scope.spawn(move || lane.run(host)))
            .collect();
        lanes
            .into_iter()
            .map(|it| {
                it.join()
                    .unwrap_or_else(|_| Err(PipelineError::worker_panicked()))
            })
            .collect()
    });
    let (hosts, ended) = pool.end();
    summary
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .hosts = hosts;
    // A lane that was told to stop only follows the one that knows why.
    let (told, reasons): (Vec<_>, Vec<_>) = results
        .into_iter()
        .filter_map(Result::err)
        .partition(|error| matches!(error, PipelineError::Interrupted));
    let reasons = reasons.into_iter().chain(ended.err());
    reasons.chain(told).next().map_or(Ok(()), Err)
}
