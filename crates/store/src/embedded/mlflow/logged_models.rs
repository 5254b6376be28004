//! Logged models: creating, changing and reading them.

use assize_domain::hash::hex;
use rusqlite::{Connection, OptionalExtension, Row};

use super::experiments::{living, location};
use super::names::name_of;
use super::registry::entry;
use super::runs::active_run;
use crate::StoreError;
use crate::embedded::cells::metric_columns;
use crate::embedded::rows::metric_value;
use crate::embedded::write_session::WriteSession;
use crate::mlflow::limits::shown;
use crate::mlflow::{
    Entry, LoggedModel, LoggedModelData, LoggedModelInfo, ModelPoint, ModelStatus, ModelUse,
    NewLoggedModel, Point,
};
use crate::sqlite::Attempt;

/// The tag that lists the registered versions that were made of a model.
const VERSIONS_TAG: &str = "mlflow.modelVersions";

fn no_model(model_id: &str) -> StoreError {
    StoreError::NotFound(format!(
        "Logged model with ID '{}' not found.",
        shown(model_id)
    ))
}

/// The id of a logged model that is not deleted.
pub(super) fn need(conn: &Connection, model_id: &str) -> Attempt<i64> {
    let mut find = conn.prepare_cached(
        "SELECT id FROM logged_models WHERE model_id = ?1 AND lifecycle_stage = 'active'",
    )?;
    let found = find.query_row([model_id], |row| row.get(0)).optional()?;
    found.ok_or_else(|| no_model(model_id).into())
}

pub(super) fn create(session: &WriteSession, new: &NewLoggedModel) -> Attempt<LoggedModel> {
    let experiment = living(&session.conn, &new.experiment_id)?;
    let id = session.run_id_make()?;
    let model = session
        .conn
        .prepare_cached(
            "INSERT INTO logged_models (model_id, experiment, name, model_type, source_run_id,
                                        status, creation_time, last_update_time)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        )?
        .insert((
            format!("m-{}", hex(&id)),
            experiment,
            new.name.clone().unwrap_or_else(|| name_of(id)),
            &new.model_type,
            &new.source_run_id,
            status_number(ModelStatus::Pending),
            session.now_ms(),
        ))?;
    params_put(session, model, &new.params)?;
    tags_put(session, model, &new.tags)?;
    read(&session.conn, model)
}

/// The number of a status in the protocol.
pub(super) fn status_number(status: ModelStatus) -> i64 {
    let at = ModelStatus::ALL.iter().position(|it| *it == status);
    at.map_or(0, |at| i64::try_from(at).unwrap_or(0))
}

/// Params are write-once; writing the same value again changes nothing.
fn params_put(session: &WriteSession, model: i64, params: &[Entry]) -> Attempt<()> {
    for param in params {
        session
            .conn
            .prepare_cached(
                "INSERT INTO logged_model_params (model, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO NOTHING",
            )?
            .execute((model, &param.key, &param.value))?;
        let kept: String = session
            .conn
            .prepare_cached("SELECT value FROM logged_model_params WHERE model = ?1 AND key = ?2")?
            .query_row((model, &param.key), |row| row.get(0))?;
        if kept != param.value {
            return Err(StoreError::Invalid(format!(
                "the model's param '{}' is '{}' already, and params are write-once",
                param.key,
                shown(&kept)
            ))
            .into());
        }
    }
    Ok(())
}

fn tags_put(session: &WriteSession, model: i64, tags: &[Entry]) -> Attempt<()> {
    for tag in tags {
        session
            .conn
            .prepare_cached(
                "INSERT INTO logged_model_tags (model, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (model, key) DO UPDATE SET value = excluded.value",
            )?
            .execute((model, &tag.key, &tag.value))?;
    }
    Ok(())
}

/// Adds a registered version to the tag that lists them, as MLflow does.
pub(super) fn version_add(
    session: &WriteSession,
    model_id: &str,
    name: &str,
    version: i64,
) -> Attempt<()> {
    let model = need(&session.conn, model_id)?;
    let kept: Option<String> = session
        .conn
        .prepare_cached("SELECT value FROM logged_model_tags WHERE model = ?1 AND key = ?2")?
        .query_row((model, VERSIONS_TAG), |row| row.get(0))
        .optional()?;
    let name = serde_json::Value::from(name);
    let entry = format!("{{\"name\": {name}, \"version\": {version}}}");
    let value = match kept.as_deref().and_then(|it| it.strip_suffix(']')) {
        Some(list) if list != "[" => format!("{list}, {entry}]"),
        _ => format!("[{entry}]"),
    };
    let tag = Entry {
        key: VERSIONS_TAG.to_owned(),
        value,
    };
    tags_put(session, model, &[tag])
}

/// The run that created a model.
pub(super) fn source_run(conn: &Connection, model_id: &str) -> Attempt<String> {
    let mut find = conn.prepare_cached("SELECT source_run_id FROM logged_models WHERE id = ?1")?;
    Ok(find.query_row([need(conn, model_id)?], |row| row.get(0))?)
}

pub(super) fn params_log(session: &WriteSession, model_id: &str, params: &[Entry]) -> Attempt<()> {
    params_put(session, need(&session.conn, model_id)?, params)
}

pub(super) fn tags_set(session: &WriteSession, model_id: &str, tags: &[Entry]) -> Attempt<()> {
    tags_put(session, need(&session.conn, model_id)?, tags)
}

pub(super) fn tag_delete(session: &WriteSession, model_id: &str, key: &str) -> Attempt<()> {
    let model = need(&session.conn, model_id)?;
    let deleted = session
        .conn
        .prepare_cached("DELETE FROM logged_model_tags WHERE model = ?1 AND key = ?2")?
        .execute((model, key))?;
    if deleted == 0 {
        return Err(StoreError::NotFound(format!(
            "No tag with key '{}' found for model with ID '{model_id}'.",
            shown(key)
        ))
        .into());
    }
    Ok(())
}

pub(super) fn finalize(
    session: &WriteSession,
    model_id: &str,
    status: ModelStatus,
) -> Attempt<LoggedModel> {
    let model = need(&session.conn, model_id)?;
    session
        .conn
        .prepare_cached(
            "UPDATE logged_models SET status = ?2, last_update_time = ?3 WHERE id = ?1",
        )?
        .execute((model, status_number(status), session.now_ms()))?;
    read(&session.conn, model)
}

/// Marks a model as deleted; its data stays in the file.
pub(super) fn delete(session: &WriteSession, model_id: &str) -> Attempt<()> {
    let model = need(&session.conn, model_id)?;
    session
        .conn
        .prepare_cached(
            "UPDATE logged_models SET lifecycle_stage = 'deleted', last_update_time = ?2
             WHERE id = ?1",
        )?
        .execute((model, session.now_ms()))?;
    Ok(())
}

pub(super) fn get(conn: &Connection, model_id: &str, also_deleted: bool) -> Attempt<LoggedModel> {
    if !also_deleted {
        return read(conn, need(conn, model_id)?);
    }
    let mut find = conn.prepare_cached("SELECT id FROM logged_models WHERE model_id = ?1")?;
    let found = find.query_row([model_id], |row| row.get(0)).optional()?;
    read(conn, found.ok_or_else(|| no_model(model_id))?)
}

pub(super) fn read(conn: &Connection, model: i64) -> Attempt<LoggedModel> {
    let mut info = conn
        .prepare_cached(
            "SELECT m.model_id, m.experiment, m.name, e.artifact_location, m.creation_time,
                    m.last_update_time, m.model_type, m.source_run_id, m.status
             FROM logged_models m JOIN experiments e ON e.experiment_id = m.experiment
             WHERE m.id = ?1",
        )?
        .query_row([model], info_row)?;
    let entries = |sql: &str| -> Attempt<Vec<Entry>> {
        let mut list = conn.prepare_cached(sql)?;
        let rows = list.query_map([model], entry)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    };
    info.tags = entries("SELECT key, value FROM logged_model_tags WHERE model = ?1")?;
    let params = entries("SELECT key, value FROM logged_model_params WHERE model = ?1")?;
    let metrics = points(conn, model, &info.model_id)?;
    Ok(LoggedModel {
        info,
        data: LoggedModelData { params, metrics },
    })
}

fn info_row(row: &Row<'_>) -> rusqlite::Result<LoggedModelInfo> {
    let model_id: String = row.get(0)?;
    let experiment: i64 = row.get(1)?;
    let root = location(experiment, row.get(3)?);
    let status = usize::try_from(row.get::<_, i64>(8)?).unwrap_or(0);
    Ok(LoggedModelInfo {
        experiment_id: experiment.to_string(),
        artifact_uri: format!("{}/models/{model_id}/artifacts", root.trim_end_matches('/')),
        model_id,
        name: row.get(2)?,
        creation_timestamp_ms: row.get(4)?,
        last_updated_timestamp_ms: row.get(5)?,
        model_type: row.get(6)?,
        source_run_id: row.get(7)?,
        status: ModelStatus::ALL
            .get(status)
            .copied()
            .unwrap_or(ModelStatus::Unspecified),
        tags: Vec::new(),
    })
}

fn points(conn: &Connection, model: i64, model_id: &str) -> Attempt<Vec<ModelPoint>> {
    let mut list = conn.prepare_cached(
        "SELECT key, value, is_nan, timestamp, step, run_id, dataset_name, dataset_digest
         FROM logged_model_metrics WHERE model = ?1",
    )?;
    let rows = list.query_map([model], |row| {
        Ok(ModelPoint {
            point: Point {
                key: row.get(0)?,
                value: metric_value(row, 1)?,
                timestamp: row.get(3)?,
                step: row.get(4)?,
            },
            run_id: row.get(5)?,
            dataset_name: row.get(6)?,
            dataset_digest: row.get(7)?,
            model_id: model_id.to_owned(),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Stores points of a run's metrics with the models that they refer to.
pub(super) fn points_log(
    session: &WriteSession,
    run_id: &str,
    points: &[ModelPoint],
) -> Attempt<()> {
    for logged in points {
        let model = need(&session.conn, &logged.model_id)?;
        let (value, is_nan) = metric_columns(logged.point.value);
        session
            .conn
            .prepare_cached(
                "INSERT INTO logged_model_metrics (model, key, timestamp, step, run_id,
                                                   dataset_name, dataset_digest, value, is_nan)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
            )?
            .execute((
                model,
                &logged.point.key,
                logged.point.timestamp,
                logged.point.step,
                run_id.to_ascii_lowercase(),
                &logged.dataset_name,
                &logged.dataset_digest,
                value,
                is_nan,
            ))?;
    }
    Ok(())
}

/// Records the input and output models of a run.
pub(super) fn uses_log(
    session: &WriteSession,
    run_id: &str,
    uses: &[ModelUse],
    is_output: bool,
) -> Attempt<()> {
    let run = active_run(&session.conn, run_id)?.id;
    for model in uses {
        need(&session.conn, &model.model_id)?;
        session
            .conn
            .prepare_cached(
                "INSERT INTO run_models (run, is_output, model_id, step) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (run, is_output, model_id) DO UPDATE SET step = excluded.step",
            )?
            .execute((run, is_output, &model.model_id, model.step))?;
    }
    Ok(())
}

/// The input and output models of a run, in the order of logging.
pub(super) fn uses(conn: &Connection, run: i64, is_output: bool) -> Attempt<Vec<ModelUse>> {
    let mut list = conn.prepare_cached(
        "SELECT model_id, step FROM run_models WHERE run = ?1 AND is_output = ?2 ORDER BY rowid",
    )?;
    let rows = list.query_map((run, is_output), |row| {
        Ok(ModelUse {
            model_id: row.get(0)?,
            step: row.get(1)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
