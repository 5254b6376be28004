//! Connections for readers of a file: each call reads on one consistent snapshot.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::Result;
use crate::sqlite::{self, Access, Attempt};

/// The maximum number of idle connections.
const IDLE: usize = 4;

pub(crate) struct Readers {
    path: PathBuf,
    access: Access,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// For a file that [`sqlite::open`] has prepared.
    pub fn new(path: &Path) -> Self {
        Self::with_access(path, Access::ReadWrite)
    }

    /// For a file that [`sqlite::open_or_read`] has opened.
    pub fn with_access(path: &Path, access: Access) -> Self {
        Self {
            path: path.to_owned(),
            access,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Reads on one snapshot.
    pub fn read<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Result<T> {
        self.read_one(|conn| {
            let snapshot = conn.unchecked_transaction()?;
            let outcome = work(&snapshot);
            snapshot.finish()?;
            outcome
        })
    }

    /// Reads with a single statement, which needs no transaction for a consistent result.
    pub fn read_one<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Result<T> {
        self.with(work).map_err(|fault| fault.at(&self.path))
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Attempt<T> {
        let idle = self.idle().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.connect()?,
        };
        let outcome = work(&conn);
        let mut readers = self.idle();
        // A connection that is still in a transaction would read an old snapshot.
        if readers.len() < IDLE && conn.is_autocommit() {
            readers.push(conn);
        }
        outcome
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens another connection for reading.
    pub fn connect(&self) -> Attempt<Connection> {
        let conn = sqlite::connect_as(&self.path, self.access)?;
        conn.pragma_update(None, "query_only", "ON")?;
        conn.pragma_update(None, "cache_size", -2_048)?;
        Ok(conn)
    }
}
