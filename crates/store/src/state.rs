//! The local state of this machine, for any tracking URI: `DIR/state.db`.
//!
//! It holds which models Assize loaded into which host (so that a restart after a crash recognises
//! them), the [`journal`] of cells that a tracking server has not acknowledged yet, and the
//! [`tokens`] and [`jobs`] of `assize serve`, what it keeps about the team's server ([`team`]), and
//! the events of prompt loops ([`optimise`]). Each
//! has separate tables, created by a migration.
//! Nothing here is shared between machines, and the only run data is what still has to be
//! delivered.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::Result;
use crate::sqlite::{self, Layout};

pub mod jobs;
pub mod journal;
pub mod optimise;
pub mod team;
pub mod tokens;

const LAYOUT: Layout = Layout {
    application_id: 0x4173_7a73,
    what: "the local state of Assize",
    migrations: &[
        V1,
        V2,
        tokens::TABLES,
        jobs::TABLES,
        optimise::TABLES,
        team::TABLES,
    ],
};

const V1: &str = "
CREATE TABLE loaded_models (
    host TEXT NOT NULL,
    model TEXT NOT NULL,
    digest TEXT NOT NULL,
    ours_until_ms INTEGER NOT NULL,
    PRIMARY KEY (host, model)
) WITHOUT ROWID;
";

/// The journal: cells in the order in which they were generated, and texts that many of them share.
/// An id is never reused, so removing a delivered entry never removes a newer one.
const V2: &str = "
CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    place TEXT NOT NULL,
    experiment TEXT NOT NULL,
    cell_key TEXT NOT NULL,
    failed INTEGER NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (place, experiment, cell_key)
);
CREATE TABLE journal_texts (
    sha256 TEXT PRIMARY KEY,
    content TEXT NOT NULL
) WITHOUT ROWID;
";

/// A model that Assize loaded into a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModel {
    pub model: String,
    pub digest: String,
    /// Unix milliseconds. The host unloads the model at this time, so a model that is resident
    /// later was loaded by another program.
    pub ours_until_ms: i64,
}

/// The local state.
pub struct State {
    path: PathBuf,
    conn: Mutex<Connection>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Opens `DIR/state.db`; creates it and the folder if they do not exist. Only the owner can
    /// read it, because it holds the hashes of tokens.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("state.db");
        sqlite::make_private(&path)?;
        let conn = sqlite::open(&path, &LAYOUT)?;
        Ok(Self {
            path,
            conn: Mutex::new(conn),
        })
    }

    /// Records that Assize loaded a model, or extended how long it is kept.
    pub fn loaded_put(
        &self,
        host: &str,
        model: &str,
        digest: &str,
        ours_until_ms: i64,
    ) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached(
                "INSERT INTO loaded_models (host, model, digest, ours_until_ms)
                 VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (host, model) DO UPDATE
                 SET digest = excluded.digest, ours_until_ms = excluded.ours_until_ms",
            )?
            .execute((host, model, digest, ours_until_ms))?;
            Ok(())
        })
    }

    /// The models that Assize loaded into a host, by name.
    pub fn loaded_list(&self, host: &str) -> Result<Vec<LoadedModel>> {
        self.with(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT model, digest, ours_until_ms FROM loaded_models
                 WHERE host = ?1 ORDER BY model",
            )?;
            let models = list.query_map([host], |row| {
                Ok(LoadedModel {
                    model: row.get(0)?,
                    digest: row.get(1)?,
                    ours_until_ms: row.get(2)?,
                })
            })?;
            models.collect()
        })
    }

    /// Removes the record of a model; does nothing if there is none.
    pub fn loaded_remove(&self, host: &str, model: &str) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached("DELETE FROM loaded_models WHERE host = ?1 AND model = ?2")?
                .execute((host, model))?;
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let conn = self.conn.lock().unwrap_or_else(PoisonError::into_inner);
        work(&conn).map_err(|error| sqlite::explain(&self.path, error))
    }

    /// Runs the change in a transaction.
    fn change<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.with(|conn| {
            let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            let outcome = work(&transaction)?;
            transaction.commit()?;
            Ok(outcome)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_remembered_by_host() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("deep/.assize");
        let state = State::open(&folder).unwrap();
        state.loaded_put("here", "b", "d1", 10).unwrap();
        state.loaded_put("here", "a", "d2", 20).unwrap();
        state.loaded_put("there", "b", "d3", 30).unwrap();
        drop(state);

        let state = State::open(&folder).unwrap();
        state.loaded_put("here", "b", "d4", 40).unwrap();
        let model = |model: &str, digest: &str, ours_until_ms| LoadedModel {
            model: model.to_owned(),
            digest: digest.to_owned(),
            ours_until_ms,
        };
        assert_eq!(
            state.loaded_list("here").unwrap(),
            [model("a", "d2", 20), model("b", "d4", 40)]
        );
        state.loaded_remove("here", "b").unwrap();
        state.loaded_remove("here", "never").unwrap();
        assert_eq!(state.loaded_list("here").unwrap(), [model("a", "d2", 20)]);
        assert_eq!(state.loaded_list("there").unwrap(), [model("b", "d3", 30)]);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.loaded_put("here", "a", "d", 10).unwrap();
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(files.len(), 3, "the file, its log and the log's index");
        for file in files {
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
        }
    }

    #[test]
    fn the_two_kinds_of_file_are_not_confused() {
        let dir = tempfile::tempdir().unwrap();
        drop(State::open(dir.path()).unwrap());
        let path = dir.path().join("state.db");
        let error = sqlite::open(
            &path,
            &Layout {
                application_id: 1,
                ..LAYOUT
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains("another program"), "{error}");
    }
}
