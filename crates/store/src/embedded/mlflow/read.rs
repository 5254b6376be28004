//! Reading runs in MLflow's format, many at a time.
//!
//! Rows hold ids of texts, and runs share most texts, so each text is looked up once.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::experiments::{id_list, location, stage};
use super::logged_models::uses;
use super::runs::find;
use crate::StoreError;
use crate::embedded::rows::{metric_value, status_of};
use crate::embedded::write_session::text_find;
use crate::mlflow::{
    DatasetInput, DatasetSummary, Entry, HistorySample, LoggedRun, ModelUse, Page, Point,
    RUN_NAME_TAG, RunData, RunInfo, RunInputs, RunOutputs, RunPoint, Slice,
};
use crate::sqlite::{Attempt, Fault};
use assize_domain::hash::hex;

pub(in crate::embedded) fn run(conn: &Connection, id: i64) -> Attempt<LoggedRun> {
    Texts::new(conn)?.run(id)
}

/// Visits runs until the visitor returns `false`.
pub(super) fn runs_each(
    conn: &Connection,
    ids: &[i64],
    visit: &mut dyn FnMut(LoggedRun) -> bool,
) -> Attempt<()> {
    let mut texts = Texts::new(conn)?;
    for id in ids {
        if !visit(texts.run(*id)?) {
            break;
        }
    }
    Ok(())
}

pub(super) fn info(conn: &Connection, id: i64) -> Attempt<RunInfo> {
    let mut find = conn.prepare_cached(
        "SELECT r.run_id, r.name, r.experiment, r.user_id, r.status, r.start_time, r.end_time,
                r.lifecycle_stage, e.artifact_location
         FROM runs r JOIN experiments e ON e.experiment_id = r.experiment WHERE r.id = ?1",
    )?;
    Ok(find.query_row([id], info_row)?)
}

fn info_row(row: &Row<'_>) -> rusqlite::Result<RunInfo> {
    let run_id = hex(&row.get::<_, [u8; 16]>(0)?);
    let experiment: i64 = row.get(2)?;
    let root = location(experiment, row.get(8)?);
    Ok(RunInfo {
        artifact_uri: format!("{}/{run_id}/artifacts", root.trim_end_matches('/')),
        run_uuid: run_id.clone(),
        run_id,
        run_name: row.get(1)?,
        experiment_id: experiment.to_string(),
        user_id: row.get(3)?,
        status: status_of(row.get(4)?),
        start_time: row.get(5)?,
        end_time: row.get(6)?,
        lifecycle_stage: stage(&row.get::<_, String>(7)?),
    })
}

/// A cache of texts by id.
struct Texts<'a> {
    conn: &'a Connection,
    seen: HashMap<i64, String>,
    /// Whether any run has datasets, and models.
    has_datasets: bool,
    has_models: bool,
}

impl<'a> Texts<'a> {
    fn new(conn: &'a Connection) -> Attempt<Self> {
        let mut any = conn.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM inputs), EXISTS (SELECT 1 FROM run_models)",
        )?;
        let (has_datasets, has_models) = any.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self {
            conn,
            seen: HashMap::new(),
            has_datasets,
            has_models,
        })
    }

    fn text(&mut self, number: i64) -> rusqlite::Result<String> {
        if let Some(text) = self.seen.get(&number) {
            return Ok(text.clone());
        }
        let text: String = self
            .conn
            .prepare_cached("SELECT text FROM texts WHERE id = ?1")?
            .query_row([number], |row| row.get(0))?;
        self.seen.insert(number, text.clone());
        Ok(text)
    }

    fn run(&mut self, id: i64) -> Attempt<LoggedRun> {
        let info = info(self.conn, id)?;
        let mut tags = self.entries("SELECT key, value FROM tags WHERE run = ?1", id)?;
        tags.push(Entry {
            key: RUN_NAME_TAG.to_owned(),
            value: info.run_name.clone(),
        });
        Ok(LoggedRun {
            info,
            data: RunData {
                metrics: self.metrics(id)?,
                params: self.entries("SELECT key, value FROM params WHERE run = ?1", id)?,
                tags,
            },
            inputs: RunInputs {
                dataset_inputs: self.datasets(id)?,
                model_inputs: self.models(id, false)?,
            },
            outputs: RunOutputs {
                model_outputs: self.models(id, true)?,
            },
        })
    }

    fn entries(&mut self, sql: &str, id: i64) -> Attempt<Vec<Entry>> {
        let conn = self.conn;
        let mut list = conn.prepare_cached(sql)?;
        let mut rows = list.query([id])?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            let value = match row.get_ref(1)? {
                ValueRef::Integer(number) => self.text(number)?,
                _ => row.get(1)?,
            };
            entries.push(Entry {
                key: self.text(row.get(0)?)?,
                value,
            });
        }
        Ok(entries)
    }

    fn models(&self, id: i64, is_output: bool) -> Attempt<Vec<ModelUse>> {
        if self.has_models {
            uses(self.conn, id, is_output)
        } else {
            Ok(Vec::new())
        }
    }

    fn datasets(&self, id: i64) -> Attempt<Vec<DatasetInput>> {
        let mut datasets = Vec::new();
        if !self.has_datasets {
            return Ok(datasets);
        }
        let mut list = self.conn.prepare_cached(
            "SELECT record FROM inputs WHERE run = ?1 ORDER BY position, name, digest",
        )?;
        let records = list.query_map([id], |row| row.get::<_, String>(0))?;
        for record in records {
            // Assize itself wrote this JSON, so it parses.
            if let Ok(input) = serde_json::from_str::<DatasetInput>(&record?) {
                datasets.push(input);
            }
        }
        Ok(datasets)
    }

    fn metrics(&mut self, id: i64) -> Attempt<Vec<Point>> {
        let conn = self.conn;
        let mut list = conn.prepare_cached(
            "SELECT key, value, is_nan, timestamp, step FROM latest_metrics WHERE run = ?1",
        )?;
        let mut rows = list.query([id])?;
        let mut points = Vec::new();
        while let Some(row) = rows.next()? {
            points.push(Point {
                key: self.text(row.get(0)?)?,
                value: metric_value(row, 1)?,
                timestamp: row.get(3)?,
                step: row.get(4)?,
            });
        }
        Ok(points)
    }
}

/// All points of a metric, by time, step and value.
pub(super) fn history(
    conn: &Connection,
    run_id: &str,
    key: &str,
    slice: Slice,
) -> Attempt<Page<Point>> {
    let Some((run, number)) = metric_of(conn, run_id, key)? else {
        return Ok(Page {
            items: Vec::new(),
            next_offset: None,
        });
    };
    let mut list = conn.prepare_cached(
        "SELECT value, is_nan, timestamp, step FROM latest_metrics WHERE run = ?1 AND key = ?2
         UNION ALL
         SELECT value, is_nan, timestamp, step FROM earlier_metrics WHERE run = ?1 AND key = ?2
         ORDER BY timestamp, step, value LIMIT ?3 OFFSET ?4",
    )?;
    let limit = i64::from(slice.max_results) + 1;
    let offset = i64::try_from(slice.offset).unwrap_or(i64::MAX);
    let points = list.query_map((run, number, limit, offset), |row| {
        Ok(Point {
            key: key.to_owned(),
            value: metric_value(row, 0)?,
            timestamp: row.get(2)?,
            step: row.get(3)?,
        })
    })?;
    Ok(super::experiments::page(
        points.collect::<rusqlite::Result<_>>()?,
        slice,
    ))
}

/// The ids of a run and of a metric's name. Like MLflow, an unknown run has no points.
fn metric_of(conn: &Connection, run_id: &str, key: &str) -> Attempt<Option<(i64, i64)>> {
    let run = match find(conn, run_id) {
        Ok(run) => run.id,
        Err(Fault::Store(StoreError::NotFound(_))) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(text_find(conn, key)?.map(|number| (run, number)))
}

/// Evenly spread points of a metric, by step, time and value: the first one of each part of the
/// history, and of the last part its last one.
pub(super) fn history_sample(
    conn: &Connection,
    run_id: &str,
    key: &str,
    sample: HistorySample,
) -> Attempt<Vec<RunPoint>> {
    let Some((run, number)) = metric_of(conn, run_id, key)? else {
        return Ok(Vec::new());
    };
    let (first, last) = sample.steps.unwrap_or((i64::MIN, i64::MAX));
    let mut select = conn.prepare_cached(
        "WITH points AS (
             SELECT value, is_nan, timestamp, step FROM latest_metrics
             WHERE run = ?1 AND key = ?2 AND step BETWEEN ?3 AND ?4
             UNION ALL
             SELECT value, is_nan, timestamp, step FROM earlier_metrics
             WHERE run = ?1 AND key = ?2 AND step BETWEEN ?3 AND ?4),
         parts AS (
             SELECT *, ntile(?5) OVER (ORDER BY step, timestamp, value, is_nan) AS part,
                    row_number() OVER (ORDER BY step DESC, timestamp DESC, value DESC, is_nan DESC)
                        AS from_end
             FROM points),
         ranked AS (
             SELECT *, row_number() OVER (PARTITION BY part
                                          ORDER BY step, timestamp, value, is_nan) AS place
             FROM parts)
         SELECT value, is_nan, timestamp, step FROM ranked
         WHERE from_end = 1 OR (place = 1 AND part < (SELECT max(part) FROM parts))
         ORDER BY step, timestamp, value, is_nan",
    )?;
    let points = select.query_map((run, number, first, last, sample.max_results), |row| {
        Ok(RunPoint {
            run_id: run_id.to_owned(),
            point: Point {
                key: key.to_owned(),
                value: metric_value(row, 0)?,
                timestamp: row.get(2)?,
                step: row.get(3)?,
            },
        })
    })?;
    Ok(points.collect::<rusqlite::Result<_>>()?)
}

/// The datasets of experiments, each with the contexts in which runs used it.
pub(super) fn dataset_summaries(
    conn: &Connection,
    experiment_ids: &[String],
    most: u32,
) -> Attempt<Vec<DatasetSummary>> {
    let mut list = conn.prepare_cached(
        "SELECT DISTINCT r.experiment, i.name, i.digest, i.context FROM inputs i
         JOIN runs r ON r.id = i.run
         WHERE r.experiment IN (SELECT value FROM json_each(?1))
         ORDER BY r.experiment, i.name, i.digest, i.context LIMIT ?2",
    )?;
    let found = list.query_map((id_list(experiment_ids)?, most), |row| {
        Ok(DatasetSummary {
            experiment_id: row.get::<_, i64>(0)?.to_string(),
            name: row.get(1)?,
            digest: row.get(2)?,
            context: row.get(3)?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
