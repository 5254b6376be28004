//! Writing params, tags, metrics and inputs of a run.

use std::collections::HashSet;

use assize_domain::run::tag::CELL_KEY;

use super::logged_models;
use super::runs::active_run;
use crate::StoreError;
use crate::embedded::board::row_outdate;
use crate::embedded::cells::metric_columns;
use crate::embedded::commit::tag_keep;
use crate::embedded::rows::entry;
use crate::embedded::write_session::{WriteSession, text_find};
use crate::mlflow::limits::{self, shown};
use crate::mlflow::{
    Batch, DATASET_CONTEXT_TAG, DatasetInput, Entry, ModelUse, Point, RUN_NAME_TAG,
};
use crate::sqlite::Attempt;

/// The tag in which older clients look for the models of a run.
const MODEL_HISTORY_TAG: &str = "mlflow.log-model.history";

/// Logs all of a batch or nothing.
pub(in crate::embedded) fn log(
    session: &mut WriteSession,
    run_id: &str,
    batch: &Batch,
) -> Attempt<()> {
    let run = active_run(&session.conn, run_id)?.id;
    params_log(session, (run, run_id), batch)?;
    let tags: Vec<&Entry> = batch.tags.iter().collect();
    tags_set(session, run, &tags)?;
    for point in &batch.metrics {
        point_log(session, run, point)?;
    }
    logged_models::points_log(session, run_id, &batch.model_metrics)
}

/// Params are write-once; writing the same value again changes nothing.
fn params_log(
    session: &mut WriteSession,
    (run, run_id): (i64, &str),
    batch: &Batch,
) -> Attempt<()> {
    let mut seen = HashSet::new();
    let mut twice = batch.params.iter().filter(|it| !seen.insert(&it.key));
    if let Some(param) = twice.next() {
        return Err(StoreError::Invalid(format!(
            "Duplicate parameter keys have been submitted: ['{}']. Please ensure the request \
             contains only one param value per param key.",
            param.key
        ))
        .into());
    }
    let mut changes = Vec::new();
    for param in &batch.params {
        let key = session.text(&param.key)?;
        let value = session.value(key, &param.value)?;
        let written = session
            .conn
            .prepare_cached(
                "INSERT INTO params (run, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?
            .execute((run, key, value))?;
        if written > 0 {
            row_outdate(&session.conn, run, key)?;
            continue;
        }
        let kept = entry(&session.conn, "params", run, key)?.unwrap_or_default();
        if kept != param.value {
            changes.push((param, kept));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    Err(param_changed(run_id, &changes, batch.is_single).into())
}

/// The error of params that have another value already.
fn param_changed(run_id: &str, changes: &[(&Entry, String)], is_single: bool) -> StoreError {
    if let ([(param, kept)], true) = (changes, is_single) {
        return StoreError::Invalid(format!(
            "Changing param values is not allowed. Param with key='{}' was already logged with \
             value='{kept}' for run ID='{run_id}'. Attempted logging new value '{}'.",
            param.key, param.value
        ));
    }
    let listed = changes.iter().map(|(param, kept)| {
        let (key, new) = (&param.key, &param.value);
        format!("{{'key': '{key}', 'old_value': '{kept}', 'new_value': '{new}'}}")
    });
    StoreError::Invalid(format!(
        "Changing param values is not allowed. Params were already logged='[{}]' for run \
         ID='{run_id}'.",
        listed.collect::<Vec<_>>().join(", ")
    ))
}

pub(super) fn tags_set(session: &mut WriteSession, run: i64, tags: &[&Entry]) -> Attempt<()> {
    for tag in tags {
        if tag.key == RUN_NAME_TAG {
            // Like MLflow: a run keeps its name rather than have none.
            if tag.value.is_empty() {
                continue;
            }
            limits::length("the run's name", &tag.value, limits::RUN_NAME)?;
            session
                .conn
                .prepare_cached("UPDATE runs SET name = ?2 WHERE id = ?1")?
                .execute((run, &tag.value))?;
            continue;
        }
        tag_keep(session, run, &tag.key, &tag.value)?;
        if tag.key == CELL_KEY {
            session
                .conn
                .prepare_cached("UPDATE OR IGNORE runs SET cell_key = ?2 WHERE id = ?1")?
                .execute((run, &tag.value))?;
        }
    }
    Ok(())
}

/// Adds a model to the tag that older clients read.
pub(super) fn model_record(
    session: &mut WriteSession,
    run_id: &str,
    record: &serde_json::Value,
) -> Attempt<()> {
    let run = active_run(&session.conn, run_id)?.id;
    let key = session.text(MODEL_HISTORY_TAG)?;
    let kept = entry(&session.conn, "tags", run, key)?;
    let mut list: Vec<serde_json::Value> = kept
        .and_then(|it| serde_json::from_str(&it).ok())
        .unwrap_or_default();
    list.push(record.clone());
    let tag = Entry {
        key: MODEL_HISTORY_TAG.to_owned(),
        value: serde_json::Value::Array(list).to_string(),
    };
    limits::tag(&tag)?;
    tags_set(session, run, &[&tag])
}

pub(super) fn tag_delete(session: &WriteSession, run_id: &str, key: &str) -> Attempt<()> {
    let run = active_run(&session.conn, run_id)?.id;
    if key == RUN_NAME_TAG {
        let message =
            format!("{RUN_NAME_TAG} is the run's name, which cannot be deleted: change it");
        return Err(StoreError::Invalid(message).into());
    }
    let deleted = match text_find(&session.conn, key)? {
        Some(number) => session
            .conn
            .prepare_cached("DELETE FROM tags WHERE run = ?1 AND key = ?2")?
            .execute((run, number))?,
        None => 0,
    };
    if deleted == 0 {
        return Err(StoreError::NotFound(format!(
            "No tag with name: {} in run with id {run_id}",
            shown(key)
        ))
        .into());
    }
    if key == CELL_KEY {
        session
            .conn
            .prepare_cached("UPDATE runs SET cell_key = NULL WHERE id = ?1")?
            .execute([run])?;
    }
    Ok(())
}

/// The point with the greatest step, then time, then value is the latest; the others are the
/// history. Logging an existing point again changes nothing.
fn point_log(session: &mut WriteSession, run: i64, point: &Point) -> Attempt<()> {
    let key = session.text(&point.key)?;
    let (value, is_nan) = metric_columns(point.value);
    let conn = &session.conn;
    let row = (run, key, value, is_nan, point.timestamp, point.step);
    let first = conn
        .prepare_cached(
            "INSERT INTO latest_metrics (run, key, value, is_nan, timestamp, step)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )?
        .execute(row)?;
    if first > 0 {
        return row_outdate(conn, run, key);
    }
    let superseded = conn
        .prepare_cached(
            "INSERT INTO earlier_metrics (run, key, timestamp, step, value, is_nan)
             SELECT run, key, timestamp, step, value, is_nan FROM latest_metrics
             WHERE run = ?1 AND key = ?2
               AND (step, timestamp, value, is_nan) < (?6, ?5, ?3, ?4)
             ON CONFLICT DO NOTHING",
        )?
        .execute(row)?;
    let sql = if superseded > 0 {
        "UPDATE latest_metrics SET value = ?3, is_nan = ?4, timestamp = ?5, step = ?6
         WHERE run = ?1 AND key = ?2"
    } else {
        "INSERT INTO earlier_metrics (run, key, timestamp, step, value, is_nan)
         SELECT ?1, ?2, ?5, ?6, ?3, ?4 FROM latest_metrics
         WHERE run = ?1 AND key = ?2
           AND (step, timestamp, value, is_nan) > (?6, ?5, ?3, ?4)
         ON CONFLICT DO NOTHING"
    };
    conn.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

pub(in crate::embedded) fn inputs_log(
    session: &WriteSession,
    run_id: &str,
    inputs: &[DatasetInput],
    models: &[ModelUse],
) -> Attempt<()> {
    let run = active_run(&session.conn, run_id)?.id;
    logged_models::uses_log(session, run_id, models, false)?;
    for input in inputs {
        limits::dataset(input)?;
        let context = input.tags.iter().find(|tag| tag.key == DATASET_CONTEXT_TAG);
        let record = serde_json::to_string(input)
            .map_err(|error| StoreError::Invalid(format!("a dataset cannot be stored: {error}")))?;
        session
            .conn
            .prepare_cached(
                "INSERT INTO inputs (run, name, digest, context, record, position)
                 VALUES (?1, ?2, ?3, ?4, ?5, (SELECT count(*) FROM inputs WHERE run = ?1))
                 ON CONFLICT (run, name, digest) DO NOTHING",
            )?
            .execute((
                run,
                &input.dataset.name,
                &input.dataset.digest,
                context.map(|tag| &tag.value),
                record,
            ))?;
    }
    Ok(())
}
