//! Creating, changing, deleting and restoring runs.

use assize_domain::run::RunStatus;
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::experiments::living;
use super::names::name_of;
use super::{entries, read};
use crate::StoreError;
use crate::embedded::board::row_write;
use crate::embedded::rows::status_number;
use crate::embedded::write_session::WriteSession;
use crate::mlflow::limits::shown;
use crate::mlflow::{Entry, LoggedRun, NewRun, RUN_NAME_TAG, RunChange, RunInfo};
use crate::sqlite::Attempt;

/// A run with its id in the database.
pub(super) struct RunState {
    pub id: i64,
    pub experiment: i64,
    pub active: bool,
}

/// The bytes of an id of 32 hex digits.
pub(super) fn id_bytes(run_id: &str) -> Option<[u8; 16]> {
    if run_id.len() != 32 || !run_id.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (position, byte) in bytes.iter_mut().enumerate() {
        let pair = run_id.get(position * 2..position * 2 + 2)?;
        if pair.starts_with('+') {
            return None;
        }
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

/// Any run, including deleted ones.
pub(super) fn find(conn: &Connection, run_id: &str) -> Attempt<RunState> {
    let found = match id_bytes(run_id) {
        Some(bytes) => conn
            .prepare_cached(
                "SELECT id, experiment, lifecycle_stage = 'active' FROM runs WHERE run_id = ?1",
            )?
            .query_row([bytes], |row| {
                Ok(RunState {
                    id: row.get(0)?,
                    experiment: row.get(1)?,
                    active: row.get(2)?,
                })
            })
            .optional()?,
        None => None,
    };
    found.ok_or_else(|| {
        StoreError::NotFound(format!("Run with id={} not found", shown(run_id))).into()
    })
}

/// A run that is not deleted, so that it can be written to.
pub(super) fn active_run(conn: &Connection, run_id: &str) -> Attempt<RunState> {
    let run = find(conn, run_id)?;
    if !run.active {
        return Err(StoreError::Invalid(format!(
            "The run {run_id} must be in the 'active' state. Current state is deleted."
        ))
        .into());
    }
    Ok(run)
}

fn touch(session: &WriteSession, experiment: i64) -> Attempt<()> {
    session
        .conn
        .prepare_cached("UPDATE experiments SET last_update_time = ?2 WHERE experiment_id = ?1")?
        .execute((experiment, session.now_ms()))?;
    Ok(())
}

pub(super) fn create(session: &mut WriteSession, new: &NewRun) -> Attempt<LoggedRun> {
    let experiment = living(&session.conn, &new.experiment_id)?;
    let run_id = session.run_id_make()?;
    let given = new.name.as_deref().filter(|it| !it.is_empty());
    let tagged = new.tags.iter().find(|tag| tag.key == RUN_NAME_TAG);
    let tagged = tagged.map(|tag| tag.value.as_str());
    if let (Some(name), Some(tag)) = (given, tagged)
        && name != tag
    {
        return Err(StoreError::Invalid(format!(
            "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different \
             values (run_name='{}', mlflow.runName='{}').",
            shown(name),
            shown(tag)
        ))
        .into());
    }
    let name = given
        .or(tagged)
        .map_or_else(|| name_of(run_id), str::to_owned);
    let run = session
        .conn
        .prepare_cached(
            "INSERT INTO runs (run_id, experiment, name, status, start_time, user_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .insert((
            run_id,
            experiment,
            name,
            status_number(RunStatus::Running),
            new.start_time.unwrap_or_else(|| session.now_ms()),
            &new.user_id,
        ))?;
    let tags: Vec<&Entry> = new.tags.iter().collect();
    entries::tags_set(session, run, &tags)?;
    touch(session, experiment)?;
    read::run(&session.conn, run)
}

pub(in crate::embedded) fn update(
    session: &WriteSession,
    run_id: &str,
    change: &RunChange,
) -> Attempt<RunInfo> {
    let run = active_run(&session.conn, run_id)?;
    session
        .conn
        .prepare_cached(
            "UPDATE runs SET name = coalesce(?2, name), status = coalesce(?3, status),
                             end_time = coalesce(?4, end_time) WHERE id = ?1",
        )?
        .execute((
            run.id,
            change.name.as_deref().filter(|it| !it.is_empty()),
            change.status.map(status_number),
            change.end_time,
        ))?;
    if change.status.is_some() {
        row_write(&session.conn, run.id)?;
    }
    touch(session, run.experiment)?;
    read::info(&session.conn, run.id)
}

pub(super) fn set_deleted(session: &WriteSession, run_id: &str, deleted: bool) -> Attempt<()> {
    let run = find(&session.conn, run_id)?;
    if run.active != deleted {
        return Ok(());
    }
    let stage = if deleted { "deleted" } else { "active" };
    let changed = session
        .conn
        .prepare_cached("UPDATE runs SET lifecycle_stage = ?2 WHERE id = ?1")?
        .execute((run.id, stage));
    match changed {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(StoreError::Conflict(format!(
                "the run {run_id} cannot be restored: its cell has been collected again, so \
                 delete that run first"
            ))
            .into())
        }
        Err(error) => Err(error.into()),
        Ok(_) => touch(session, run.experiment),
    }
}
