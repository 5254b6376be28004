//! Copying runs: reading a run completely, and adding missing data to one.

use rusqlite::Connection;

use super::board::row_write;
use super::experiments::{count, experiment_find, experiment_touch};
use super::mlflow::{entries, experiments, runs};
use super::rows::{metric_value, run_find, run_read};
use super::write_session::WriteSession;
use super::{EmbeddedStore, import};
use crate::mlflow::{Batch, Entry, Point, RunChange};
use crate::queue::SittingRecord;
use crate::sqlite::Attempt;
use crate::{Additions, Copying, Imported, ImportedRun, Result, WholeRun};

impl Copying for EmbeddedStore {
    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        let experiment = experiment.to_owned();
        let incoming = import::prepare(runs);
        self.writer
            .write(move |session| import::runs_import(session, &experiment, &incoming))
    }

    fn run_get_whole(&self, run_id: &str) -> Result<WholeRun> {
        self.read(|conn| run_get_whole(conn, run_id))
    }

    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()> {
        let (run_id, additions) = (run_id.to_owned(), additions.clone());
        self.writer
            .write(move |session| run_add(session, &run_id, &additions))
    }

    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()> {
        self.mlflow()
            .artifact_write(run_id, path, std::io::Cursor::new(content))
    }

    fn experiment_tags_get(&self, experiment: &str) -> Result<Vec<(String, String)>> {
        self.read(|conn| experiment_tags_get(conn, experiment))
    }

    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()> {
        let (experiment, tags) = (experiment.to_owned(), tags.to_vec());
        self.writer
            .write(move |session| experiment_tags_add(session, &experiment, &tags))
    }

    fn logged_model_count(&self, experiment: &str) -> Result<u64> {
        self.read(|conn| logged_model_count(conn, experiment))
    }

    fn sitting_import(&self, record: &SittingRecord) -> Result<bool> {
        let record = record.clone();
        self.writer
            .write(move |session| import::sitting_import(session, &record))
    }

    /// A unique index keeps cells unique.
    fn runs_tidy(&self, _experiment: &str) -> Result<u64> {
        Ok(0)
    }
}

/// A run with all its data except the contents of its files.
pub(crate) fn run_get_whole(conn: &Connection, run_id: &str) -> Attempt<WholeRun> {
    let id = run_find(conn, run_id)?.id;
    let logged = super::mlflow::read::run(conn, id)?;
    Ok(WholeRun {
        run: run_read(conn, id)?,
        points: points(conn, id)?,
        datasets: logged.inputs.dataset_inputs,
        files: files(conn, id)?,
    })
}

fn points(conn: &Connection, run: i64) -> Attempt<Vec<Point>> {
    let mut list = conn.prepare_cached(
        "SELECT k.text, x.value, x.is_nan, x.timestamp, x.step FROM
             (SELECT key, value, is_nan, timestamp, step FROM latest_metrics WHERE run = ?1
              UNION ALL
              SELECT key, value, is_nan, timestamp, step FROM earlier_metrics WHERE run = ?1) x
         JOIN texts k ON k.id = x.key ORDER BY x.step, x.timestamp, x.value",
    )?;
    let points = list.query_map([run], |row| {
        Ok(Point {
            key: row.get(0)?,
            value: metric_value(row, 1)?,
            timestamp: row.get(3)?,
            step: row.get(4)?,
        })
    })?;
    Ok(points.collect::<rusqlite::Result<_>>()?)
}

fn files(conn: &Connection, run: i64) -> Attempt<Vec<(String, u64)>> {
    let mut list = conn.prepare_cached(
        "SELECT p.text, length(b.content) FROM artifacts a
         JOIN texts p ON p.id = a.path JOIN blobs b ON b.id = a.blob
         WHERE a.run = ?1 ORDER BY p.text",
    )?;
    let files = list.query_map([run], |row| Ok((row.get(0)?, count(row.get(1)?))))?;
    Ok(files.collect::<rusqlite::Result<_>>()?)
}

/// Adds missing data to a run.
pub(crate) fn run_add(
    session: &mut WriteSession,
    run_id: &str,
    additions: &Additions,
) -> Attempt<()> {
    let batch = Batch {
        metrics: additions.points.clone(),
        params: additions.params.clone(),
        tags: additions.tags.clone(),
        ..Batch::default()
    };
    entries::log(session, run_id, &batch)?;
    entries::inputs_log(session, run_id, &additions.datasets, &[])?;
    if let Some((status, end_time)) = additions.end {
        let change = RunChange {
            status: Some(status),
            end_time,
            name: None,
        };
        runs::update(session, run_id, &change)?;
    }
    Ok(())
}

/// Adds data to a new run that the record of a cell cannot hold.
pub(crate) fn run_complete(
    session: &mut WriteSession,
    run_id: &str,
    theirs: &ImportedRun,
) -> Attempt<()> {
    let additions = Additions {
        points: theirs.points.clone(),
        datasets: theirs.datasets.clone(),
        ..Additions::default()
    };
    run_add(session, run_id, &additions)?;
    let run = run_find(&session.conn, run_id)?.id;
    if theirs.end_time_ms.is_none() {
        session
            .conn
            .prepare_cached("UPDATE runs SET end_time = NULL WHERE id = ?1")?
            .execute([run])?;
    }
    row_write(&session.conn, run)
}

/// The tags of an experiment; empty if it does not exist.
pub(crate) fn experiment_tags_get(conn: &Connection, name: &str) -> Attempt<Vec<(String, String)>> {
    if experiment_find(conn, name)?.is_none() {
        return Ok(Vec::new());
    }
    let tags = experiments::get_by_name(conn, name)?.tags.into_iter();
    Ok(tags.map(|tag| (tag.key, tag.value)).collect())
}

/// Sets tags of an experiment; creates it if it does not exist.
pub(crate) fn experiment_tags_add(
    session: &WriteSession,
    name: &str,
    tags: &[(String, String)],
) -> Attempt<()> {
    let experiment = experiment_touch(session, name)?;
    for (key, value) in tags.iter().cloned() {
        experiments::tag_set(session, experiment, &Entry { key, value })?;
    }
    Ok(())
}

/// The number of logged models of an experiment.
pub(crate) fn logged_model_count(conn: &Connection, name: &str) -> Attempt<u64> {
    let mut find = conn.prepare_cached(
        "SELECT count(*) FROM logged_models m
         JOIN experiments e ON e.experiment_id = m.experiment
         WHERE e.name = ?1 AND m.lifecycle_stage = 'active'",
    )?;
    Ok(count(find.query_row([name], |row| row.get(0))?))
}
