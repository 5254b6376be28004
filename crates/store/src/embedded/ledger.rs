//! The ledger: tags of the experiment that triggers protect.
//!
//! Clients of the MLflow API write the same tags, so the ledger of an experiment is the same for
//! commands that use this file and for those that use a server on it.

use assize_domain::ledger::{self, Entry};
use rusqlite::Connection;

use super::EmbeddedStore;
use super::experiments::{experiment_need, experiment_touch};
use super::mlflow::experiments::tag_set;
use super::write_session::WriteSession;
use crate::rules::ledger_unreadable;
use crate::sqlite::Attempt;
use crate::{Ledger, Result, mlflow};

impl Ledger for EmbeddedStore {
    fn ledger_list(&self, experiment: &str) -> Result<Vec<Entry>> {
        self.read(|conn| ledger_list(conn, experiment))
    }

    fn ledger_append(&self, experiment: &str, entry: &Entry) -> Result<()> {
        let (experiment, entry) = (experiment.to_owned(), entry.clone());
        self.writer
            .write(move |session| ledger_append(session, &experiment, &entry))
    }
}

/// The entries of an experiment, in the order of time.
pub(crate) fn ledger_list(conn: &Connection, experiment: &str) -> Attempt<Vec<Entry>> {
    let id = experiment_need(conn, experiment)?;
    let mut list =
        conn.prepare_cached("SELECT key, value FROM experiment_tags WHERE experiment = ?1")?;
    let tags = list.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let tags: Vec<(String, String)> = tags.collect::<rusqlite::Result<_>>()?;
    let entries = ledger::from_tags(tags.iter().map(|(key, value)| (&**key, &**value)));
    Ok(entries.map_err(|error| ledger_unreadable(experiment, &error))?)
}

/// Adds an entry.
pub(crate) fn ledger_append(
    session: &WriteSession,
    experiment: &str,
    entry: &Entry,
) -> Attempt<()> {
    experiment_need(&session.conn, experiment)?;
    let id = experiment_touch(session, experiment)?;
    let (key, value) = entry.tag();
    tag_set(session, id, &mlflow::Entry { key, value })
}
