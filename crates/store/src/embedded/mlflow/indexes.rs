//! Search indexes that are created on first use.
//!
//! The store is mostly written to. Indexes over every metric and tag would slow writing down by
//! half and make the file half as large again, so there are none at first. When a search first
//! sorts or filters many runs by a key, an index for that key is created. This costs one pass over
//! the table and, from then on, a row for each run that has the key. Tags and params are indexed by
//! short values only, which are stored as ids of texts.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::embedded::write_session::WriteSession;
use crate::sqlite::Attempt;

/// With fewer runs, a full scan is as fast.
pub(super) const MANY_RUNS: i64 = 5_000;
/// The maximum number of indexes, because each makes writing slower. Further keys are searched
/// without one.
const MAX_INDEXES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Index {
    Metric(i64),
    Tag(i64),
    Param(i64),
    /// Runs of an experiment by start time.
    Start,
}

impl Index {
    pub fn name(self) -> String {
        match self {
            Self::Metric(key) => format!("search_metric_{key}"),
            Self::Tag(key) => format!("search_tag_{key}"),
            Self::Param(key) => format!("search_param_{key}"),
            Self::Start => "search_start".to_owned(),
        }
    }

    fn target(self) -> String {
        match self {
            Self::Metric(key) => {
                format!("latest_metrics (is_nan, value, run) WHERE key = {key}")
            }
            Self::Tag(key) => {
                format!("tags (value, run) WHERE key = {key} AND typeof(value) = 'integer'")
            }
            Self::Param(key) => {
                format!("params (value, run) WHERE key = {key} AND typeof(value) = 'integer'")
            }
            Self::Start => "runs (experiment, start_time)".to_owned(),
        }
    }
}

/// The names of the existing indexes.
pub(super) struct ExistingIndexes(HashSet<String>);

impl ExistingIndexes {
    pub fn read(conn: &Connection) -> Attempt<Self> {
        let mut list = conn.prepare_cached(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND name GLOB 'search_*'",
        )?;
        let names = list.query_map([], |row| row.get(0))?;
        Ok(Self(names.collect::<rusqlite::Result<_>>()?))
    }

    pub fn has(&self, index: Index) -> bool {
        self.0.contains(&index.name())
    }

    pub fn has_room(&self) -> bool {
        self.0.len() < MAX_INDEXES
    }
}

pub(super) fn make(session: &WriteSession, wanted: &[Index]) -> Attempt<()> {
    for index in wanted {
        if ExistingIndexes::read(&session.conn)?.has_room() {
            session.conn.execute_batch(&format!(
                "CREATE INDEX IF NOT EXISTS {} ON {}",
                index.name(),
                index.target()
            ))?;
        }
    }
    Ok(())
}
