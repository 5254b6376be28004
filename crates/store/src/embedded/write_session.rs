//! The writer's connection, with caches of the ids of texts and of shared blobs.
//!
//! The caches are valid across processes, because texts and shared blobs are never deleted. A
//! failed job is rolled back and may have created some, so a failure clears the caches.

use std::collections::HashMap;
use std::path::PathBuf;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql};

use super::schema::known;
use crate::sqlite::Attempt;
use crate::writer::Session;
use crate::{Result, StoreError};

/// Values up to this length are stored once, in `texts`.
const LONGEST_SHARED_VALUE: usize = 128;
/// The maximum size of each cache; a full cache is cleared.
const CACHE_SIZE: usize = 16_384;
/// The maximum number of rows in one INSERT statement.
const ROWS_AT_ONCE: usize = 32;

/// Generates a run's id.
pub(crate) type RunIds = Box<dyn Fn() -> std::io::Result<[u8; 16]> + Send>;
/// Unix milliseconds.
pub(crate) type Clock = Box<dyn Fn() -> i64 + Send>;

/// The state that jobs work with.
pub(crate) struct WriteSession {
    pub path: PathBuf,
    pub conn: Connection,
    clock: Clock,
    run_ids: RunIds,
    texts: HashMap<Box<str>, i64>,
    blobs: HashMap<[u8; 32], i64>,
    inserts: HashMap<(&'static str, usize), String>,
}

/// A value of a param or tag, as stored in its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stored<'a> {
    Number(i64),
    Text(&'a str),
}

impl ToSql for Stored<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Number(number) => ToSqlOutput::from(*number),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

/// Whether a value is stored in `texts`; the same for readers and writers.
fn is_shared(key: i64, value: &str) -> bool {
    key != known::CELL_KEY && value.len() <= LONGEST_SHARED_VALUE
}

/// The stored form of a value to search for; `None` if no run can have it.
pub(crate) fn lookup<'a>(
    conn: &Connection,
    key: i64,
    value: &'a str,
) -> Attempt<Option<Stored<'a>>> {
    if is_shared(key, value) {
        Ok(text_find(conn, value)?.map(Stored::Number))
    } else {
        Ok(Some(Stored::Text(value)))
    }
}

/// The id of a text.
pub(crate) fn text_find(conn: &Connection, text: &str) -> Attempt<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM texts WHERE text = ?1")?;
    Ok(find.query_row([text], |row| row.get(0)).optional()?)
}

impl Session for WriteSession {
    fn conn(&self) -> &Connection {
        &self.conn
    }

    fn forget(&mut self) {
        self.texts.clear();
        self.blobs.clear();
    }
}

impl WriteSession {
    pub fn new(path: PathBuf, conn: Connection, clock: Clock, run_ids: RunIds) -> Self {
        Self {
            path,
            conn,
            clock,
            run_ids,
            texts: HashMap::new(),
            blobs: HashMap::new(),
            inserts: HashMap::new(),
        }
    }

    pub fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    pub fn run_id_make(&self) -> Result<[u8; 16]> {
        (self.run_ids)().map_err(|error| StoreError::Unusable {
            path: self.path.display().to_string(),
            reason: format!("the system's random number generator failed ({error})"),
        })
    }

    /// The id of a text, which is added if it is new.
    pub fn text(&mut self, text: &str) -> Attempt<i64> {
        if let Some(id) = self.texts.get(text) {
            return Ok(*id);
        }
        let id = match text_find(&self.conn, text)? {
            Some(id) => id,
            None => self
                .conn
                .prepare_cached("INSERT INTO texts (text) VALUES (?1)")?
                .insert([text])?,
        };
        if self.texts.len() >= CACHE_SIZE {
            self.texts.clear();
        }
        self.texts.insert(text.into(), id);
        Ok(id)
    }

    /// The stored form of a value.
    pub fn value<'a>(&mut self, key: i64, value: &'a str) -> Attempt<Stored<'a>> {
        if is_shared(key, value) {
            Ok(Stored::Number(self.text(value)?))
        } else {
            Ok(Stored::Text(value))
        }
    }

    /// Stores content that other runs may share, once.
    pub fn blob_shared(&mut self, sha256: &[u8; 32], content: &[u8]) -> Attempt<i64> {
        if let Some(id) = self.blobs.get(sha256) {
            return Ok(*id);
        }
        let found = self
            .conn
            .prepare_cached("SELECT id FROM blobs WHERE sha256 = ?1 AND sha256 IS NOT NULL")?
            .query_row([sha256], |row| row.get(0))
            .optional()?;
        let id = match found {
            Some(id) => id,
            None => self
                .conn
                .prepare_cached("INSERT INTO blobs (sha256, content) VALUES (?1, ?2)")?
                .insert((sha256, content))?,
        };
        if self.blobs.len() >= CACHE_SIZE {
            self.blobs.clear();
        }
        self.blobs.insert(*sha256, id);
        Ok(id)
    }

    /// Stores content that belongs to one run.
    pub fn blob_own(&self, content: &[u8]) -> Attempt<i64> {
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO blobs (content) VALUES (?1)")?;
        Ok(insert.insert([content])?)
    }

    /// Inserts rows into a table with as few statements as possible. `columns` is the number of
    /// values of a row; `value` binds the values of one row, starting at the given position.
    pub fn insert_rows<R>(
        &mut self,
        table: &'static str,
        columns: usize,
        rows: &[R],
        bind: impl Fn(&mut rusqlite::Statement<'_>, usize, &R) -> rusqlite::Result<()>,
    ) -> Attempt<()> {
        for chunk in rows.chunks(ROWS_AT_ONCE) {
            let sql = self
                .inserts
                .entry((table, chunk.len()))
                .or_insert_with(|| insert_sql(table, columns, chunk.len()));
            let mut statement = self.conn.prepare_cached(sql)?;
            for (position, row) in chunk.iter().enumerate() {
                bind(&mut statement, position * columns + 1, row)?;
            }
            statement.raw_execute()?;
        }
        Ok(())
    }
}

/// `OR FAIL`, because a failed job is rolled back as a whole. Otherwise SQLite would prepare to
/// roll back each statement separately, which is slow.
fn insert_sql(table: &str, columns: usize, rows: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(", "));
    format!(
        "INSERT OR FAIL INTO {table} VALUES {}",
        vec![row; rows].join(", ")
    )
}
