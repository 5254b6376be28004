//! The embedded tracking store: one SQLite file with MLflow's data model.
//!
//! Writing goes through one thread with group commit ([`writer`]); reading through a few
//! connections of its own, each call on one consistent snapshot. Any number of processes may
//! use the file at once. A cell is recorded once because a unique index says so, and a
//! sitting is committed whole because it is one transaction.
//!
//! Each role of the store ([`crate::Tracking`]) is implemented in a module of its own. The
//! trait's method opens a snapshot or a write; a function of the same name, which other modules
//! may call too, does the work inside it.
//!
//! [`mlflow`] is the same tables for anybody's runs, by MLflow's verbs. Nothing here knows HTTP.

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

/// Connections that are kept for the next reader.
const IDLE_READERS: usize = 4;

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
        self.read(|conn| sittings::judge_sits(conn, name))
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
