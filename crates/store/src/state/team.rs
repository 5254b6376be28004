//! What `assize serve` keeps about the team's tracking server: when its copy was read, and verdicts
//! that the server has not acknowledged.
//!
//! Verdicts are stored here while the server is unreachable, in the order in which they were
//! submitted, and are removed after the server has acknowledged them. Sending the same verdicts
//! again changes nothing, so they count once, whatever happens in between. Verdicts that the server
//! refuses stay, with the reason.

use assize_domain::rubric::Rubric;
use assize_domain::verdict::VerdictFile;
use rusqlite::OptionalExtension as _;
use rusqlite::types::Type;

use super::State;
use crate::Result;
use crate::queue::VerdictSubmission;

pub(super) const TABLES: &str = "
CREATE TABLE server_copies (
    place TEXT PRIMARY KEY,
    read_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE undelivered_verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    place TEXT NOT NULL,
    sitting TEXT NOT NULL,
    cases INTEGER NOT NULL,
    files TEXT NOT NULL,
    rubric TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    refused TEXT
);
";

/// Verdicts that are to be delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct UndeliveredVerdicts {
    pub id: i64,
    pub submission: VerdictSubmission,
}

/// Verdicts that the server has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedVerdicts {
    pub sitting: String,
    pub cases: u64,
    pub reason: String,
}

impl State {
    /// When the copy of a server was last known to be current; `None` if it was never complete.
    pub fn copy_read_ms(&self, place: &str) -> Result<Option<i64>> {
        self.with(|conn| {
            conn.prepare_cached("SELECT read_ms FROM server_copies WHERE place = ?1")?
                .query_row([place], |row| row.get(0))
                .optional()
        })
    }

    /// Records that the copy of a server was current at this time.
    pub fn copy_read_put(&self, place: &str, read_ms: i64) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached(
                "INSERT INTO server_copies (place, read_ms) VALUES (?1, ?2)
                 ON CONFLICT (place) DO UPDATE SET read_ms = excluded.read_ms",
            )?
            .execute((place, read_ms))?;
            Ok(())
        })
    }

    /// Forgets that there was a copy of a server.
    pub fn copy_read_remove(&self, place: &str) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached("DELETE FROM server_copies WHERE place = ?1")?
                .execute([place])?;
            Ok(())
        })
    }

    /// Stores verdicts for later delivery.
    pub fn verdicts_put(&self, place: &str, submission: &VerdictSubmission) -> Result<()> {
        let cases: usize = submission.files.iter().map(|it| it.1.verdicts.len()).sum();
        self.change(|conn| {
            let files = serde_json::to_string(&submission.files)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
            conn.prepare_cached(
                "INSERT INTO undelivered_verdicts (place, sitting, cases, files, rubric, until_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((
                place,
                &submission.sitting,
                u32::try_from(cases).unwrap_or(u32::MAX),
                files,
                &submission.rubric.text,
                submission.until_ms,
            ))?;
            Ok(())
        })
    }

    /// The first verdicts that are to be delivered to a server.
    pub fn verdicts_next(&self, place: &str) -> Result<Option<UndeliveredVerdicts>> {
        self.with(|conn| {
            conn.prepare_cached(
                "SELECT id, sitting, files, rubric, until_ms FROM undelivered_verdicts
                 WHERE place = ?1 AND refused IS NULL ORDER BY id LIMIT 1",
            )?
            .query_row([place], |row| {
                let files: String = row.get(2)?;
                let files: Vec<(String, VerdictFile)> =
                    serde_json::from_str(&files).map_err(|error| unreadable(2, Box::new(error)))?;
                let rubric: String = row.get(3)?;
                let rubric = Rubric::parse("rubric.md", &rubric).map_err(|problems| {
                    let first = problems.first().map(ToString::to_string);
                    unreadable(3, first.unwrap_or_default().into())
                })?;
                Ok(UndeliveredVerdicts {
                    id: row.get(0)?,
                    submission: VerdictSubmission {
                        sitting: row.get(1)?,
                        files,
                        rubric,
                        until_ms: row.get(4)?,
                    },
                })
            })
            .optional()
        })
    }

    /// Removes verdicts that were delivered.
    pub fn verdicts_remove(&self, id: i64) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached("DELETE FROM undelivered_verdicts WHERE id = ?1")?
                .execute([id])?;
            Ok(())
        })
    }

    /// Marks verdicts as refused.
    pub fn verdicts_refuse(&self, id: i64, reason: &str) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached("UPDATE undelivered_verdicts SET refused = ?2 WHERE id = ?1")?
                .execute((id, reason))?;
            Ok(())
        })
    }

    /// The number of verdicts that are to be delivered to a server.
    pub fn verdicts_count(&self, place: &str) -> Result<u64> {
        self.with(|conn| {
            conn.prepare_cached(
                "SELECT coalesce(sum(cases), 0) FROM undelivered_verdicts
                 WHERE place = ?1 AND refused IS NULL",
            )?
            .query_row([place], |row| row.get::<_, u32>(0).map(u64::from))
        })
    }

    /// The verdicts that a server has refused, oldest first.
    pub fn verdicts_refused(&self, place: &str) -> Result<Vec<RefusedVerdicts>> {
        self.with(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT sitting, cases, refused FROM undelivered_verdicts
                 WHERE place = ?1 AND refused IS NOT NULL ORDER BY id",
            )?;
            let rows = list.query_map([place], |row| {
                Ok(RefusedVerdicts {
                    sitting: row.get(0)?,
                    cases: row.get::<_, u32>(1).map(u64::from)?,
                    reason: row.get(2)?,
                })
            })?;
            rows.collect()
        })
    }
}

fn unreadable(column: usize, error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error)
}
