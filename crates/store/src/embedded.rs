//! The embedded tracking store: one SQLite file with MLflow's data model.
//!
//! One thread writes, with group commit ([`writer`]). Readers use separate connections, each call
//! on one consistent snapshot. Any number of processes may use the file at once. A unique index
//! ensures that a cell is recorded once, and a sitting is committed in one transaction.
//!
//! Each role of the store ([`crate::Tracking`]) is implemented in a separate module. The trait's
//! method opens a snapshot or a write; a function of the same name, which other modules may call
//! too, does the work inside it.
//!
//! [`mlflow`] is MLflow's API over the same tables, including runs logged by other MLflow clients.
//! This module has no HTTP code.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

pub(crate) use self::cells::is_shareable;
use crate::sqlite::{self, Attempt};
use crate::{Result, Tracking};

mod board;
mod cells;
mod commit;
mod copying;
mod experiments;
mod import;
mod leases;
mod ledger;
pub mod mlflow;
mod promotions;
mod queue;
mod reopen;
mod rows;
mod runs;
mod schema;
mod set_aside;
mod sittings;
mod write_session;
mod writer;

/// The maximum number of idle connections for readers.
const IDLE_READERS: usize = 4;

/// Runs, verdicts and sittings in one file.
pub struct EmbeddedStore {
    path: PathBuf,
    uri: String,
    readers: Mutex<Vec<Connection>>,
    /// Used only to detect changes of the file.
    watcher: Mutex<Option<Connection>>,
    /// Dropped last, because the last connection to close cleans up the write-ahead log.
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
    /// Opens the database, creates it (and its folder) if it does not exist, and migrates it to the
    /// current layout. `now_ms` is the wall clock in Unix milliseconds; `run_ids` generates ids for
    /// runs, usually [`random_run_id`].
    pub fn open(
        path: &Path,
        now_ms: impl Fn() -> i64 + Send + 'static,
        run_ids: impl Fn() -> std::io::Result<[u8; 16]> + Send + 'static,
    ) -> Result<Self> {
        let conn = sqlite::open(path, &schema::LAYOUT)?;
        tune_writer(&conn).map_err(|error| sqlite::explain(path, error))?;
        let session = write_session::WriteSession::new(
            path.to_owned(),
            conn,
            Box::new(now_ms),
            Box::new(run_ids),
        );
        Ok(Self {
            path: path.to_owned(),
            uri: format!("sqlite:{}", path.display()),
            readers: Mutex::new(Vec::new()),
            watcher: Mutex::new(None),
            writer: writer::Writer::start(path.to_owned(), session)?,
        })
    }

    /// The experiment that was collected last, whose board will most likely be requested next.
    pub fn latest_collected(&self) -> Result<Option<String>> {
        board::board_latest(self)
    }

    /// MLflow's API over the same tables.
    pub fn mlflow(&self) -> mlflow::Mlflow<'_> {
        mlflow::Mlflow { store: self }
    }

    /// A number that changes whenever any process has changed the file. Reading it takes
    /// microseconds, so values derived from runs can be cached.
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

    /// Whether a judge with this name has an open sitting, in any experiment.
    pub fn judge_has_open_sitting(&self, name: &str) -> Result<bool> {
        self.read(|conn| sittings::judge_has_open_sitting(conn, name))
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
}
