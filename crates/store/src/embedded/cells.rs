//! Recording cells as runs, each once.

use std::collections::HashMap;

use assize_domain::hash::hex;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use rusqlite::{Connection, OptionalExtension, Row, Statement};
use sha2::{Digest, Sha256};

use super::EmbeddedStore;
use super::board::row_write;
use super::experiments::{experiment_find, experiment_touch};
use super::rows::{RunKey, status_number, status_of};
use super::write_session::{Stored, WriteSession};
use crate::sqlite::Attempt;
use crate::{Cells, KnownCell, Recorded, Result};

const FIND: &str = "SELECT id, run_id, status FROM runs WHERE experiment = ?1 AND cell_key = ?2 \
                    AND cell_key IS NOT NULL AND lifecycle_stage = 'active'";

impl Cells for EmbeddedStore {
    fn cells_known(
        &self,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<KnownCell>>> {
        self.read(|conn| cells_known(conn, experiment, cell_keys))
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        let experiment = experiment.to_owned();
        let prepared = prepare(cells);
        self.writer
            .write(move |session| cells_record(session, &experiment, &prepared))
    }
}

/// A cell for the writer, hashed by the caller's thread.
pub(crate) struct Prepared {
    pub record: CellRecord,
    /// In the order of the artifacts; `None` for content that belongs to this run alone.
    digests: Vec<Option<[u8; 32]>>,
}

/// Hashes shared content. Texts that share memory are hashed once.
pub(crate) fn prepare(cells: &[CellRecord]) -> Vec<Prepared> {
    let mut seen: HashMap<(*const u8, usize), [u8; 32]> = HashMap::new();
    let mut digest_of = |path: &str, content: &str| {
        is_shareable(path).then(|| {
            *seen
                .entry((content.as_ptr(), content.len()))
                .or_insert_with(|| Sha256::digest(content).into())
        })
    };
    cells
        .iter()
        .map(|record| Prepared {
            digests: record
                .artifacts
                .iter()
                .map(|(path, content)| digest_of(path, content))
                .collect(),
            record: record.clone(),
        })
        .collect()
}

/// Whether other runs may hold the same content under this path.
pub(crate) fn is_shareable(path: &str) -> bool {
    path != artifact::CANDIDATES && path != artifact::RAW && !path.starts_with(artifact::VERDICTS)
}

/// A run that is recorded already.
pub(crate) struct RunRow {
    pub id: i64,
    pub run_id: [u8; 16],
    pub status: RunStatus,
}

impl RunRow {
    /// From the columns `id`, `run_id` and `status`.
    pub fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            run_id: row.get(1)?,
            status: status_of(row.get(2)?),
        })
    }

    pub fn failed(&self) -> bool {
        self.status == RunStatus::Failed
    }

    pub fn key(&self) -> RunKey {
        RunKey {
            id: self.id,
            run_id: hex(&self.run_id),
        }
    }
}

pub(crate) fn find(conn: &Connection, experiment: i64, cell_key: &str) -> Attempt<Option<RunRow>> {
    let mut find = conn.prepare_cached(FIND)?;
    let found = find.query_row((experiment, cell_key), RunRow::read);
    Ok(found.optional()?)
}

/// Which of these cells are recorded, in the order of the request.
pub(crate) fn cells_known(
    conn: &Connection,
    experiment: &str,
    cell_keys: &[String],
) -> Attempt<Vec<Option<KnownCell>>> {
    let Some(experiment) = experiment_find(conn, experiment)? else {
        return Ok(vec![None; cell_keys.len()]);
    };
    let known = cell_keys.iter().map(|cell_key| {
        let found = find(conn, experiment, cell_key)?;
        Ok(found.map(|it| KnownCell {
            run_id: Some(hex(&it.run_id)),
            failed: it.failed(),
        }))
    });
    known.collect()
}

/// Records these cells; cells that exist and did not fail are not changed.
pub(crate) fn cells_record(
    session: &mut WriteSession,
    experiment: &str,
    cells: &[Prepared],
) -> Attempt<Vec<Recorded>> {
    let experiment = experiment_touch(session, experiment)?;
    let recorded = cells.iter().map(|cell| {
        let (run_id, written) = match find(&session.conn, experiment, &cell.record.cell_key)? {
            Some(found) if !found.failed() => (found.run_id, false),
            Some(found) => {
                replace(session, found.id, cell)?;
                (found.run_id, true)
            }
            None => (create(session, experiment, cell)?, true),
        };
        Ok(Recorded {
            run_id: Some(hex(&run_id)),
            written,
        })
    });
    recorded.collect()
}

pub(crate) fn create(
    session: &mut WriteSession,
    experiment: i64,
    cell: &Prepared,
) -> Attempt<[u8; 16]> {
    let run_id = session.run_id_make()?;
    let record = &cell.record;
    let run = session
        .conn
        .prepare_cached(
            "INSERT INTO runs (run_id, experiment, name, status, start_time, end_time, cell_key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .insert((
            run_id,
            experiment,
            &record.name,
            status_number(record.status),
            record.start_time_ms,
            record.end_time_ms,
            Some(&record.cell_key).filter(|it| !it.is_empty()),
        ))?;
    fill(session, run, cell)?;
    Ok(run_id)
}

/// Replaces the content of a run that failed before.
pub(crate) fn replace(session: &mut WriteSession, run: i64, cell: &Prepared) -> Attempt<()> {
    let conn = &session.conn;
    conn.prepare_cached(
        "DELETE FROM blobs WHERE sha256 IS NULL
         AND id IN (SELECT blob FROM artifacts WHERE run = ?1)",
    )?
    .execute([run])?;
    for table in [
        "params",
        "tags",
        "latest_metrics",
        "earlier_metrics",
        "artifacts",
    ] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([run])?;
    }
    let record = &cell.record;
    conn.prepare_cached(
        "UPDATE runs SET name = ?2, status = ?3, start_time = ?4, end_time = ?5 WHERE id = ?1",
    )?
    .execute((
        run,
        &record.name,
        status_number(record.status),
        record.start_time_ms,
        record.end_time_ms,
    ))?;
    fill(session, run, cell)
}

/// Writes params, tags, metrics and files of a run that has none of these.
pub(crate) fn fill(session: &mut WriteSession, run: i64, cell: &Prepared) -> Attempt<()> {
    let record = &cell.record;
    let params = stored(session, pairs(&record.params))?;
    session.insert_rows("params", 3, &params, |it, at, row| {
        bind_entry(it, at, run, row)
    })?;
    let cell_key = Some((tag::CELL_KEY, record.cell_key.as_str()));
    let cell_key = cell_key.filter(|(_, key)| !key.is_empty());
    let tags = stored(session, cell_key.into_iter().chain(pairs(&record.tags)))?;
    session.insert_rows("tags", 3, &tags, |it, at, row| bind_entry(it, at, run, row))?;
    let mut metrics = Vec::with_capacity(record.metrics.len());
    for (name, value) in &record.metrics {
        metrics.push((session.text(name)?, *value));
    }
    first_of_each(&mut metrics);
    let timestamp = record.end_time_ms;
    session.insert_rows("latest_metrics", 6, &metrics, |it, at, (key, value)| {
        let (value, is_nan) = metric_columns(*value);
        it.raw_bind_parameter(at, run)?;
        it.raw_bind_parameter(at + 1, key)?;
        it.raw_bind_parameter(at + 2, value)?;
        it.raw_bind_parameter(at + 3, is_nan)?;
        it.raw_bind_parameter(at + 4, timestamp)?;
        it.raw_bind_parameter(at + 5, 0)
    })?;
    let mut artifacts = Vec::with_capacity(record.artifacts.len());
    for ((path, content), digest) in record.artifacts.iter().zip(&cell.digests) {
        let blob = match digest {
            Some(digest) => session.blob_shared(digest, content.as_bytes())?,
            None => session.blob_own(content.as_bytes())?,
        };
        artifacts.push((session.text(path)?, blob));
    }
    first_of_each(&mut artifacts);
    session.insert_rows("artifacts", 3, &artifacts, |it, at, (path, blob)| {
        it.raw_bind_parameter(at, run)?;
        it.raw_bind_parameter(at + 1, path)?;
        it.raw_bind_parameter(at + 2, blob)
    })?;
    row_write(&session.conn, run)
}

/// SQLite has no NaN: it is stored as zero with a flag.
pub(crate) fn metric_columns(value: f64) -> (f64, bool) {
    if value.is_nan() {
        (0.0, true)
    } else {
        (value, false)
    }
}

fn pairs<T: AsRef<str>>(entries: &[(T, T)]) -> impl Iterator<Item = (&str, &str)> {
    entries
        .iter()
        .map(|(key, value)| (key.as_ref(), value.as_ref()))
}

fn stored<'a>(
    session: &mut WriteSession,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
) -> Attempt<Vec<(i64, Stored<'a>)>> {
    let mut rows = Vec::with_capacity(entries.size_hint().0);
    for (key, value) in entries {
        let key = session.text(key)?;
        rows.push((key, session.value(key, value)?));
    }
    first_of_each(&mut rows);
    Ok(rows)
}

/// In the order of the table, with the first of several values for a key.
fn first_of_each<V>(rows: &mut Vec<(i64, V)>) {
    rows.sort_by_key(|(key, _)| *key);
    rows.dedup_by_key(|(key, _)| *key);
}

fn bind_entry(
    statement: &mut Statement<'_>,
    at: usize,
    run: i64,
    (key, value): &(i64, Stored<'_>),
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(at, run)?;
    statement.raw_bind_parameter(at + 1, key)?;
    statement.raw_bind_parameter(at + 2, value)
}
