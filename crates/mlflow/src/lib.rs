//! Tracking on an MLflow server, over its REST API.
//!
//! The same verbs as the embedded store ([`assize_store::Tracking`]), kept by other means,
//! because the server has no transactions over several runs:
//!
//! - A cell's run is made first and finished last; a run of ours that is not finished is a
//!   delivery that was cut off, invisible to readers and completed by the next one.
//! - Of two runs of one cell readers take the first, by start time and id.
//! - A verdict file is an artifact that a write-once param names with its hash; the param and
//!   what the run says about itself are written in one request, or, where a sitting is applied
//!   whole, count from the moment when the sitting's run gets its commit mark.
//! - A lease is a write-once param with an epoch: of two that write it one is refused.
//! - Sittings and promotion histories are runs of an experiment of their own
//!   ([`SITTINGS`]).
//!
//! This crate deliberately knows no SQL and no other API of MLflow's than REST.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use assize_domain::promotion::Promotion;
use assize_domain::rubric::Rubric;
use assize_domain::run::CellRecord;
use assize_domain::scenario::Split;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::VerdictFile;
use assize_store::queue::{
    Closing, Handed, HeldRun, LeaseRequest, Leased, Reopening, RubricUse, SittingRecord,
};
use assize_store::{
    Additions, BoardRun, Committed, ExperimentSummary, Give, Imported, ImportedRun, JudgingCounts,
    KnownCell, PendingQuery, PendingRun, Recorded, Result, Run, RunPage, RunQuery, Tracking,
    WholeRun,
};

mod address;
mod artifacts;
mod aside;
mod board;
mod cells;
mod commit;
mod copies;
mod experiments;
mod import;
mod leases;
mod limits;
mod parallel;
mod pending;
mod registry;
mod rest;
mod runs;
mod sittings;
mod verdicts;
mod wire;

pub use rest::Config;

/// The experiment whose runs are sittings and promotion histories.
pub const SITTINGS: &str = "assize-sittings";

/// A tracking URI without what opens doors.
pub fn shown_uri(uri: &str) -> String {
    address::Address::shown(uri)
}

type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// Runs, verdicts, sittings and promotions on an MLflow server.
pub struct MlflowStore {
    rest: rest::Rest,
    artifacts: artifacts::Artifacts,
    clock: Clock,
    /// Ids by name.
    experiments: Mutex<HashMap<String, String>>,
    /// By the id of the experiment.
    cells: Mutex<HashMap<String, cells::Index>>,
    sittings: Mutex<HashMap<String, Arc<Sitting>>>,
    /// Contents that many runs share, by their hash.
    texts: Mutex<HashMap<String, Arc<str>>>,
    waiting: Mutex<HashMap<String, leases::Seen>>,
    /// Runs whose files were read just now.
    recent: Mutex<VecDeque<(Instant, Arc<wire::Tracked>)>>,
    is_assize: OnceLock<bool>,
}

impl fmt::Debug for MlflowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlflowStore")
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl MlflowStore {
    /// A store on this server, which is not asked for anything yet. `now_ms` is the wall
    /// clock in Unix milliseconds.
    pub fn open(config: &Config, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Result<Self> {
        Ok(Self {
            rest: rest::Rest::new(config)?,
            artifacts: artifacts::Artifacts::default(),
            clock: Box::new(now_ms),
            experiments: Mutex::default(),
            cells: Mutex::default(),
            sittings: Mutex::default(),
            texts: Mutex::default(),
            waiting: Mutex::default(),
            recent: Mutex::default(),
            is_assize: OnceLock::new(),
        })
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }
}

/// What is behind a lock, even where a thread died with it: nothing here is left half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracking for MlflowStore {
    fn uri(&self) -> &str {
        self.rest.uri()
    }

    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>> {
        self.experiments_sum_up()
    }

    fn cells_known(
        &self,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<KnownCell>>> {
        self.cells_look_up(experiment, cell_keys)
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        self.cells_deliver(experiment, cells)
    }

    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        self.import(experiment, runs)
    }

    fn run_whole(&self, run_id: &str) -> Result<WholeRun> {
        self.whole(run_id)
    }

    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()> {
        self.add(&self.run_load(run_id)?, additions)
    }

    fn experiment_tags(&self, experiment: &str) -> Result<Vec<(String, String)>> {
        self.tags_of_experiment(experiment)
    }

    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()> {
        self.experiment_tag(experiment, tags)
    }

    fn logged_model_count(&self, experiment: &str) -> Result<u64> {
        self.models_count(experiment)
    }

    fn sitting_import(&self, record: &SittingRecord) -> Result<bool> {
        self.sitting_take_in(record)
    }

    fn runs_tidy(&self, experiment: &str) -> Result<u64> {
        self.cells_tidy(experiment)
    }

    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage> {
        self.run_page(experiment, query)
    }

    fn run_get(&self, run_id: &str) -> Result<Run> {
        let run = self.run_find(run_id)?;
        let mut artifacts = self.artifacts.list(&self.rest, &run)?;
        artifacts.retain(|path| path != limits::FILE);
        Ok(Run {
            artifacts,
            ..self.run_shown(run)?
        })
    }

    fn run_delete(&self, run_ids: &[String]) -> Result<()> {
        self.runs_delete(run_ids)
    }

    fn artifact_get(&self, run_id: &str, path: &str) -> Result<Option<String>> {
        self.artifact_read(run_id, path)
    }

    fn artifact_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>> {
        let run = self.run_recent(run_id)?;
        self.artifacts.get(&self.rest, &run, path)
    }

    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()> {
        self.file_put(&*self.run_recent(run_id)?, path, &content)
    }

    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()> {
        self.pending_visit(experiment, query, visit)
    }

    fn judging_counts(&self, experiment: &str) -> Result<JudgingCounts> {
        self.judging_count(experiment)
    }

    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>> {
        self.rubric_uses(experiment)
    }

    fn sitting_open(&self, sitting: &Sitting) -> Result<()> {
        self.sitting_keep(sitting)
    }

    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>> {
        let found = self.sitting_run(id)?;
        let sitting = found.map(|run| self.sitting_read(id, &run)).transpose()?;
        Ok(sitting.map(|sitting| Sitting::clone(&sitting)))
    }

    fn sitting_record(&self, id: &str) -> Result<Option<SittingRecord>> {
        let found = self.sitting_run(id)?;
        found.map(|run| self.record_read(id, &run)).transpose()
    }

    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>> {
        self.sittings_of(experiment)
    }

    fn lease_next(&self, request: &LeaseRequest) -> Result<Leased> {
        self.lease_scenarios(request)
    }

    fn lease_held(&self, sitting: &str) -> Result<Vec<HeldRun>> {
        self.leases_of(sitting)
    }

    fn sitting_submit(&self, handed: &Handed) -> Result<Committed> {
        self.submit(handed)
    }

    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()> {
        self.sitting_end(id, closing)
    }

    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64> {
        self.reopen(reopening)
    }

    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>> {
        let run = self.run_find(run_id)?;
        let files = self.verdicts_read(&run, &verdicts::Marks::new(self))?;
        Ok(files.into_iter().map(|(_, file)| file).collect())
    }

    fn sitting_commit_each(&self, rubric: &Rubric, give: Give<'_>) -> Result<Committed> {
        self.commit_whole(rubric, give)
    }

    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()> {
        self.board_visit(experiment, split, visit)
    }

    fn champion_get(&self, task: &str) -> Result<Option<Promotion>> {
        self.champion(task)
    }

    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>> {
        self.promotions(task)
    }

    fn promotion_record(&self, promotion: &Promotion) -> Result<u32> {
        self.promote(promotion)
    }
}
