//! The embedded tracking store: one SQLite file with MLflow's data model.
//!
//! One thread writes, with group commit ([`crate::writer`]). Readers use separate connections, each call
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
use std::time::Duration;

use rusqlite::Connection;

pub(crate) use self::cells::is_shareable;
pub(crate) use self::write_session::WriteSession;
use self::write_session::{Clock, RunIds};
use crate::readers::Readers;
use crate::sqlite::{self, Access, Attempt};
use crate::writer::{Target, Writer};
use crate::{Result, Tracking};

mod board;
mod cells;
mod commit;
mod copying;
mod experiments;
mod import;
mod leases;
mod ledger;
mod mirror;
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

/// The maximum number of jobs in a commit.
const GROUP: usize = 64;

/// Runs, verdicts and sittings in one file.
pub struct EmbeddedStore {
    path: PathBuf,
    uri: String,
    readers: Readers,
    /// Used only to detect changes of the file.
    watcher: Mutex<Option<Connection>>,
    /// Dropped last, because the last connection to close cleans up the write-ahead log.
    writer: Writer<WriteSession>,
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
    /// runs, usually [`random_run_id`]. A file that is read-only can be read; writing fails.
    pub fn open(
        path: &Path,
        now_ms: impl Fn() -> i64 + Send + 'static,
        run_ids: impl Fn() -> std::io::Result<[u8; 16]> + Send + 'static,
    ) -> Result<Self> {
        let (writer, access) = start_writer(path, Box::new(now_ms), Box::new(run_ids))?;
        Ok(Self {
            path: path.to_owned(),
            uri: format!("sqlite:{}", path.display()),
            readers: Readers::with_access(path, access),
            watcher: Mutex::new(None),
            writer,
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
                None => self.readers.connect()?,
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
        self.readers.read(work)
    }
}

/// Opens the file and starts the thread that writes to it, if that is possible.
pub(crate) fn start_writer(
    path: &Path,
    now_ms: Clock,
    run_ids: RunIds,
) -> Result<(Writer<WriteSession>, Access)> {
    let (conn, access) = sqlite::open_or_read(path, &schema::LAYOUT)?;
    tune_writer(&conn).map_err(|error| sqlite::explain(path, error))?;
    let target = Target {
        path: path.to_owned(),
        layout: &schema::LAYOUT,
        group: GROUP,
        spacing: Duration::ZERO,
        thread: "assize-store",
    };
    let writer = Writer::start(
        target,
        WriteSession::new(path.to_owned(), conn, now_ms, run_ids),
    )?;
    Ok((writer, access))
}

fn tune_writer(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "wal_autocheckpoint", 8_192)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)
}

impl Tracking for EmbeddedStore {
    fn uri(&self) -> &str {
        &self.uri
    }
}
