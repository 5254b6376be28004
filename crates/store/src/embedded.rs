//! The embedded tracking store: one SQLite file with MLflow's data model.
//!
//! Writing goes through one thread with group commit ([`writer`]); reading through a few
//! connections of its own, each call on one consistent snapshot. Any number of processes may
//! use the file at once. A cell is recorded once because a unique index says so, and a
//! sitting is committed whole because it is one transaction.
//!
//! [`mlflow`] is the same tables for anybody's runs, by MLflow's verbs. Nothing here knows HTTP.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

use assize_domain::promotion::Promotion;
use assize_domain::rubric::Rubric;
use assize_domain::run::CellRecord;
use assize_domain::scenario::Split;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::VerdictFile;
use rusqlite::Connection;

pub(crate) use self::cells::is_shareable;
use self::sittings::Given;
use crate::queue::{
    Closing, Handed, HeldRun, LeaseRequest, Leased, Reopening, RubricUse, SittingRecord,
};
use crate::rules::Changed;
use crate::sqlite::{self, Attempt};
use crate::{
    Additions, BoardRun, Committed, ExperimentSummary, Give, Imported, ImportedRun, JudgingCounts,
    KnownCell, PendingQuery, PendingRun, Recorded, Result, Run, RunPage, RunQuery, Tracking,
    WholeRun,
};

mod aside;
mod board;
mod cells;
mod copies;
mod experiments;
mod import;
mod leases;
pub mod mlflow;
mod pending;
mod promotions;
mod records;
mod reopen;
mod rows;
mod runs;
mod schema;
mod session;
mod sittings;
mod writer;

/// Connections that are kept for the next reader.
const IDLE_READERS: usize = 4;
/// Verdict files that go to the writer together, and how many such batches may wait.
const FILES_TOGETHER: usize = 64;
const BATCHES_WAITING: usize = 2;

/// Runs, verdicts and sittings in one file.
pub struct EmbeddedStore {
    path: PathBuf,
    uri: String,
    readers: Mutex<Vec<Connection>>,
    /// Only ever asks whether anybody has written.
    watcher: Mutex<Option<Connection>>,
    /// Dropped last: the last connection to leave tidies the write-ahead log up.
    writer: writer::Writer,
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// An id for a run from the operating system's source of randomness.
pub fn random_run_id() -> std::io::Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(id)
}

impl EmbeddedStore {
    /// Opens the database, makes it (and its folder) where there is none, and brings its
    /// layout up to date. `now_ms` is the wall clock in Unix milliseconds; `run_ids` makes
    /// ids for runs, usually [`random_run_id`].
    pub fn open(
        path: &Path,
        now_ms: impl Fn() -> i64 + Send + 'static,
        run_ids: impl Fn() -> std::io::Result<[u8; 16]> + Send + 'static,
    ) -> Result<Self> {
        let conn = sqlite::open(path, &schema::LAYOUT)?;
        tune_writer(&conn).map_err(|error| sqlite::explain(path, error))?;
        let session =
            session::Session::new(path.to_owned(), conn, Box::new(now_ms), Box::new(run_ids));
        Ok(Self {
            path: path.to_owned(),
            uri: format!("sqlite:{}", path.display()),
            readers: Mutex::new(Vec::new()),
            watcher: Mutex::new(None),
            writer: writer::Writer::start(path.to_owned(), session)?,
        })
    }

    /// The experiment whose board somebody will most likely ask for next.
    pub fn latest_collected(&self) -> Result<Option<String>> {
        board::board_latest(self)
    }

    /// The same tables by MLflow's verbs.
    pub fn mlflow(&self) -> mlflow::Mlflow<'_> {
        mlflow::Mlflow { store: self }
    }

    /// A number that is another one whenever anything in the file has been changed since, by
    /// whatever process. It costs microseconds, so what is derived from runs can be kept.
    pub fn changes(&self) -> Result<i64> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = (|| {
            let conn = match watcher.take() {
                Some(conn) => conn,
                None => reader(&self.path)?,
            };
            let changes = conn
                .prepare_cached("PRAGMA data_version")?
                .query_row([], |row| row.get(0))?;
            *watcher = Some(conn);
            Ok(changes)
        })();
        asked.map_err(|fault: sqlite::Fault| fault.at(&self.path))
    }

    /// Whether a sitting of a judge with this name is open, over any experiment.
    pub fn judge_sits(&self, name: &str) -> Result<bool> {
        self.read(|conn| records::judge_sits(conn, name))
    }

    /// Reads on one snapshot.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Result<T> {
        self.try_read(work).map_err(|fault| fault.at(&self.path))
    }

    fn try_read<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Attempt<T> {
        let idle = self.idle().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => reader(&self.path)?,
        };
        let snapshot = conn.unchecked_transaction()?;
        let outcome = work(&snapshot);
        snapshot.finish()?;
        let mut readers = self.idle();
        if readers.len() < IDLE_READERS {
            readers.push(conn);
        }
        outcome
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tune_writer(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "wal_autocheckpoint", 8_192)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)
}

fn reader(path: &Path) -> Attempt<Connection> {
    let conn = sqlite::connect(path)?;
    conn.pragma_update(None, "query_only", "ON")?;
    conn.pragma_update(None, "cache_size", -2_048)?;
    Ok(conn)
}

impl Tracking for EmbeddedStore {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>> {
        self.read(experiments::experiment_list)
    }

    fn cells_known(
        &self,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<KnownCell>>> {
        self.read(|conn| cells::cells_known(conn, experiment, cell_keys))
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        let experiment = experiment.to_owned();
        let prepared = cells::prepare(cells);
        self.writer
            .write(move |session| cells::cells_record(session, &experiment, &prepared))
    }

    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        let experiment = experiment.to_owned();
        let incoming = import::prepare(runs);
        self.writer
            .write(move |session| import::runs_import(session, &experiment, &incoming))
    }

    fn run_whole(&self, run_id: &str) -> Result<WholeRun> {
        self.read(|conn| copies::run_whole(conn, run_id))
    }

    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()> {
        let (run_id, additions) = (run_id.to_owned(), additions.clone());
        self.writer
            .write(move |session| copies::run_add(session, &run_id, &additions))
    }

    fn experiment_tags(&self, experiment: &str) -> Result<Vec<(String, String)>> {
        self.read(|conn| copies::experiment_tags(conn, experiment))
    }

    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()> {
        let (experiment, tags) = (experiment.to_owned(), tags.to_vec());
        self.writer
            .write(move |session| copies::experiment_tags_add(session, &experiment, &tags))
    }

    fn logged_model_count(&self, experiment: &str) -> Result<u64> {
        self.read(|conn| copies::logged_model_count(conn, experiment))
    }

    fn sitting_import(&self, record: &SittingRecord) -> Result<bool> {
        let record = record.clone();
        self.writer
            .write(move |session| import::sitting_import(session, &record))
    }

    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage> {
        self.read(|conn| runs::run_list(conn, experiment, query))
    }

    fn run_get(&self, run_id: &str) -> Result<Run> {
        self.read(|conn| rows::run_read(conn, rows::run_find(conn, run_id)?.id))
    }

    fn run_delete(&self, run_ids: &[String]) -> Result<()> {
        let run_ids = run_ids.to_vec();
        self.writer
            .write(move |session| runs::run_delete(session, &run_ids))
    }

    fn artifact_get(&self, run_id: &str, path: &str) -> Result<Option<String>> {
        let contents = self.artifacts_get(run_id, &[path])?;
        Ok(contents.into_iter().next().flatten())
    }

    fn artifact_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>> {
        self.read(|conn| {
            let run = rows::run_find(conn, run_id)?;
            let number = session::text_find(conn, path)?.unwrap_or_default();
            rows::artifact_bytes(conn, &run, number)
        })
    }

    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()> {
        self.mlflow()
            .artifact_write(run_id, path, std::io::Cursor::new(content))
    }

    fn artifacts_get(&self, run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>> {
        self.read(|conn| {
            let run = rows::run_find(conn, run_id)?;
            let contents = paths.iter().map(|path| {
                let known = schema::artifact_number(path);
                match known.map_or_else(|| session::text_find(conn, path), |it| Ok(Some(it)))? {
                    Some(number) => rows::artifact_text(conn, &run, path, number),
                    None => Ok(None),
                }
            });
            contents.collect()
        })
    }

    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()> {
        let experiment = self.read(|conn| experiments::experiment_need(conn, experiment))?;
        let mut after = 0;
        loop {
            let page =
                self.read(|conn| pending::pending_page(conn, experiment, query, &mut after))?;
            if page.is_empty() {
                return Ok(());
            }
            page.into_iter().try_for_each(&mut *visit)?;
        }
    }

    fn judging_counts(&self, experiment: &str) -> Result<JudgingCounts> {
        self.read(|conn| pending::judging_counts(conn, experiment))
    }

    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>> {
        self.read(|conn| pending::rubric_list(conn, experiment))
    }

    fn sitting_open(&self, sitting: &Sitting) -> Result<()> {
        let sitting = sitting.clone();
        self.writer
            .write(move |session| records::sitting_open(session, &sitting))
    }

    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>> {
        self.read(|conn| records::sitting_get(conn, id))
    }

    fn sitting_record(&self, id: &str) -> Result<Option<SittingRecord>> {
        self.read(|conn| records::sitting_record(conn, id))
    }

    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>> {
        self.read(|conn| records::sitting_list(conn, experiment))
    }

    fn lease_next(&self, request: &LeaseRequest) -> Result<Leased> {
        let request = request.clone();
        self.writer
            .write(move |session| leases::lease_next(session, &request))
    }

    fn lease_held(&self, sitting: &str) -> Result<Vec<HeldRun>> {
        self.read(|conn| leases::lease_held(conn, sitting))
    }

    fn sitting_submit(&self, handed: &Handed) -> Result<Committed> {
        let handed = handed.clone();
        self.writer
            .write(move |session| leases::sitting_submit(session, &handed))
    }

    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()> {
        let (id, closing) = (id.to_owned(), closing.clone());
        self.writer
            .write(move |session| records::sitting_close(session, &id, &closing))
    }

    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64> {
        let reopening = reopening.clone();
        self.writer
            .write(move |session| reopen::runs_reopen(session, &reopening))
    }

    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>> {
        self.read(|conn| {
            let run = rows::run_find(conn, run_id)?;
            let files = rows::verdicts_read(conn, &run)?;
            Ok(files.into_iter().map(|(_, file)| file).collect())
        })
    }

    fn sitting_commit_each(&self, rubric: &Rubric, give: Give<'_>) -> Result<Committed> {
        let rubric = rubric.clone();
        let (sender, files) = sync_channel(BATCHES_WAITING);
        let answer = self.writer.start_write(move |session| {
            sittings::sitting_commit_each(session, &files, &rubric, Changed::Refuse)
        });
        let mut batch = Vec::with_capacity(FILES_TOGETHER);
        let given = give(&mut |run_id, file| {
            batch.push((run_id.to_owned(), file));
            if batch.len() < FILES_TOGETHER {
                return true;
            }
            let full = std::mem::replace(&mut batch, Vec::with_capacity(FILES_TOGETHER));
            sender.send(Given::Files(full)).is_ok()
        });
        // Only the last word makes the writer keep what it was given.
        if given.is_ok() {
            let _ = sender.send(Given::Files(batch));
            let _ = sender.send(Given::All);
        }
        drop(sender);
        let committed = answer.wait();
        given.and(committed)
    }

    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()> {
        board::board_each(self, experiment, split, visit)
    }

    fn champion_get(&self, task: &str) -> Result<Option<Promotion>> {
        self.read(|conn| promotions::champion_get(conn, task))
    }

    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>> {
        self.read(|conn| promotions::promotion_list(conn, task))
    }

    fn promotion_record(&self, promotion: &Promotion) -> Result<u32> {
        let promotion = promotion.clone();
        self.writer
            .write(move |session| promotions::promotion_record(session, &promotion))
    }
}
