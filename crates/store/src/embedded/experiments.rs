//! Experiments: finding, creating and listing them.

use rusqlite::{Connection, OptionalExtension};

use super::schema::known;
use super::write_session::WriteSession;
use crate::sqlite::Attempt;
use crate::{ExperimentSummary, StoreError, rules};

/// The id of an experiment, or an error.
pub(crate) fn experiment_need(conn: &Connection, name: &str) -> Attempt<i64> {
    match experiment_find(conn, name)? {
        Some(id) => Ok(id),
        None => Err(no_experiment(conn, name)?.into()),
    }
}

/// The id of an experiment, if there is one.
pub(crate) fn experiment_find(conn: &Connection, name: &str) -> Attempt<Option<i64>> {
    let mut find = conn.prepare_cached(
        "SELECT experiment_id FROM experiments WHERE name = ?1 AND lifecycle_stage = 'active'",
    )?;
    Ok(find.query_row([name], |row| row.get(0)).optional()?)
}

/// The id of an experiment. Creates it if it does not exist, and updates its last-change time.
pub(crate) fn experiment_touch(session: &WriteSession, name: &str) -> Attempt<i64> {
    let now_ms = session.now_ms();
    let touched = session
        .conn
        .prepare_cached(
            "INSERT INTO experiments (name, creation_time, last_update_time) VALUES (?1, ?2, ?2)
             ON CONFLICT (name) DO UPDATE SET last_update_time = ?2
             WHERE lifecycle_stage = 'active'
             RETURNING experiment_id",
        )?
        .query_row((name, now_ms), |row| row.get(0))
        .optional()?;
    touched.ok_or_else(|| {
        let message =
            format!("the experiment '{name}' has been deleted: restore it, or choose another name");
        StoreError::Conflict(message).into()
    })
}

fn no_experiment(conn: &Connection, name: &str) -> Attempt<StoreError> {
    let known = experiment_list(conn)?.into_iter().map(|it| it.name);
    Ok(rules::no_experiment(name, known.collect()))
}

/// Experiments that hold runs with the tag `judge_pending`, by name.
pub(crate) fn experiment_list(conn: &Connection) -> Attempt<Vec<ExperimentSummary>> {
    let sql = format!(
        "SELECT e.name, e.experiment_id, count(*),
                sum(t.value = {yes} AND r.status = 3), sum(t.value = {no} AND r.status = 3), e.last_update_time
         FROM experiments e
         JOIN runs r ON r.experiment = e.experiment_id AND r.lifecycle_stage = 'active'
         JOIN tags t ON t.run = r.id AND t.key = {pending}
         WHERE e.lifecycle_stage = 'active'
         GROUP BY e.experiment_id ORDER BY e.name",
        yes = known::TRUE,
        no = known::FALSE,
        pending = known::JUDGE_PENDING,
    );
    let mut list = conn.prepare_cached(&sql)?;
    let experiments = list.query_map([], |row| {
        Ok(ExperimentSummary {
            name: row.get(0)?,
            experiment_id: row.get::<_, i64>(1)?.to_string(),
            runs: count(row.get(2)?),
            pending: count(row.get(3)?),
            judged: count(row.get(4)?),
            last_updated: row.get(5)?,
        })
    })?;
    Ok(experiments.collect::<rusqlite::Result<_>>()?)
}

/// SQLite's counts are signed; they are never negative.
pub(crate) fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
