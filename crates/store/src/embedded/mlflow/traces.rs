//! Traces with their tags, files and assessments, as clients sent them.
//!
//! Records are JSON that this module does not parse: the server knows their format. This module
//! makes them searchable and links each assessment to its trace.

use rusqlite::{Connection, OptionalExtension, Row};

use super::experiments::living;
use super::registry::entry;
use super::runs::id_bytes;
use crate::StoreError;
use crate::embedded::schema::known::ARTIFACT_CANDIDATES;
use crate::embedded::write_session::WriteSession;
use crate::mlflow::limits::shown;
use crate::mlflow::{Entry, Trace, TraceDeletion, TraceList};
use crate::sqlite::Attempt;

fn no_trace(trace_id: &str) -> StoreError {
    StoreError::NotFound(format!("Trace with ID '{}' not found.", shown(trace_id)))
}

/// Stores a trace; the same id again replaces the stored data.
pub(super) fn start(
    session: &WriteSession,
    experiment_id: &str,
    (trace_id, request_time_ms): (&str, i64),
    info: &str,
    tags: &[Entry],
) -> Attempt<()> {
    let experiment = living(&session.conn, experiment_id)?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO traces (trace_id, experiment, request_time, info) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (trace_id) DO UPDATE
             SET experiment = ?2, request_time = ?3, info = ?4",
        )?
        .execute((trace_id, experiment, request_time_ms, info))?;
    for entry in tags {
        tag_put(session, trace_id, entry)?;
    }
    Ok(())
}

fn tag_put(session: &WriteSession, trace_id: &str, tag: &Entry) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "INSERT INTO trace_tags (trace_id, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (trace_id, key) DO UPDATE SET value = excluded.value",
        )?
        .execute((trace_id, &tag.key, &tag.value))?;
    Ok(())
}

/// Sets a tag of a trace, or deletes it. Tags of the trace of a collected run are stored, too.
pub(super) fn tag(
    session: &WriteSession,
    trace_id: &str,
    tag: &Entry,
    is_kept: bool,
) -> Attempt<()> {
    if is_kept {
        return tag_put(session, trace_id, tag);
    }
    let deleted = session
        .conn
        .prepare_cached("DELETE FROM trace_tags WHERE trace_id = ?1 AND key = ?2")?
        .execute((trace_id, &tag.key))?;
    if deleted == 0 {
        let message = format!(
            "No trace tag with key '{}' for trace with ID '{}'",
            tag.key,
            shown(trace_id)
        );
        return Err(StoreError::NotFound(message).into());
    }
    Ok(())
}

/// The stored data of a trace; the trace of a collected run has no stored record.
pub(super) fn get(conn: &Connection, trace_id: &str) -> Attempt<Trace> {
    let info = conn
        .prepare_cached("SELECT info FROM traces WHERE trace_id = ?1")?
        .query_row([trace_id], |row| row.get(0))
        .optional()?;
    let tags = conn
        .prepare_cached("SELECT key, value FROM trace_tags WHERE trace_id = ?1")?
        .query_map([trace_id], entry)?
        .collect::<rusqlite::Result<_>>()?;
    let assessments = conn
        .prepare_cached("SELECT record FROM assessments WHERE trace_id = ?1 ORDER BY number")?
        .query_map([trace_id], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let texts = |sql: &str| -> Attempt<Vec<String>> {
        let mut list = conn.prepare_cached(sql)?;
        let rows = list.query_map([trace_id], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    };
    Ok(Trace {
        trace_id: trace_id.to_owned(),
        info,
        tags,
        assessments,
        runs: texts("SELECT run_id FROM trace_runs WHERE trace_id = ?1")?,
        prompts: texts("SELECT prompt FROM trace_prompts WHERE trace_id = ?1")?,
    })
}

/// Times and ids of traces in order of time, then of id: logged ones and those of collected runs.
pub(super) fn list(conn: &Connection, ask: &TraceList<'_>) -> Attempt<Vec<(i64, String)>> {
    let direction = if ask.is_latest_first { "DESC" } else { "ASC" };
    let mut logged = conn.prepare_cached(&format!(
        "SELECT request_time, trace_id FROM traces WHERE experiment = ?1
         ORDER BY request_time {direction}, trace_id LIMIT ?2"
    ))?;
    // Two statements, so that a search for one run uses its index.
    let of_run = match ask.run_id {
        Some(_) => {
            "r.run_id IN (SELECT ?3 UNION SELECT unhex(substr(t.trace_id, 4)) FROM trace_runs t
                          WHERE t.run_id = lower(hex(?3)))"
        }
        None => "?3 IS NULL",
    };
    let mut collected = conn.prepare_cached(&format!(
        "SELECT r.start_time, 'tr-' || lower(hex(r.run_id)) FROM runs r
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active'
           AND {of_run}
           AND EXISTS (SELECT 1 FROM artifacts a
                       WHERE a.run = r.id AND a.path = {ARTIFACT_CANDIDATES})
           AND NOT EXISTS (SELECT 1 FROM traces t
                           WHERE t.trace_id = 'tr-' || lower(hex(r.run_id)))
         ORDER BY r.start_time {direction}, r.run_id LIMIT ?2"
    ))?;
    let run_id = ask
        .run_id
        .map(|it| id_bytes(it).map_or_else(Vec::new, Vec::from));
    let mut found: Vec<(i64, String)> = Vec::new();
    for id in ask.experiment_ids {
        let experiment = super::experiments::number(id)?;
        let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let rows = logged.query_map((experiment, ask.most), pair)?;
        found.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
        let rows = collected.query_map((experiment, ask.most, &run_id), pair)?;
        found.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    found.sort_unstable_by(|one, other| {
        let by_time = one.0.cmp(&other.0);
        let by_time = if ask.is_latest_first {
            by_time.reverse()
        } else {
            by_time
        };
        by_time.then_with(|| one.1.cmp(&other.1))
    });
    found.truncate(usize::try_from(ask.most).unwrap_or(usize::MAX));
    Ok(found)
}

pub(super) fn assessment_put(
    session: &WriteSession,
    trace_id: &str,
    assessment_id: &str,
    record: &str,
) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "INSERT INTO assessments (trace_id, assessment_id, record) VALUES (?1, ?2, ?3)
             ON CONFLICT (assessment_id) DO UPDATE SET record = excluded.record",
        )?
        .execute((trace_id, assessment_id, record))?;
    Ok(())
}

pub(super) fn assessment_delete(
    session: &WriteSession,
    trace_id: &str,
    assessment_id: &str,
) -> Attempt<()> {
    session
        .conn
        .prepare_cached("DELETE FROM assessments WHERE trace_id = ?1 AND assessment_id = ?2")?
        .execute((trace_id, assessment_id))?;
    Ok(())
}

/// Links traces to a run. Linking twice changes nothing.
pub(super) fn runs_link(session: &WriteSession, trace_ids: &[String], run_id: &str) -> Attempt<()> {
    for trace_id in trace_ids {
        session
            .conn
            .prepare_cached("INSERT OR IGNORE INTO trace_runs (trace_id, run_id) VALUES (?1, ?2)")?
            .execute((trace_id, run_id))?;
    }
    Ok(())
}

/// Links prompt versions (`NAME/VERSION`) to a trace. Linking twice changes nothing.
pub(super) fn prompts_link(
    session: &WriteSession,
    trace_id: &str,
    prompts: &[String],
) -> Attempt<()> {
    for prompt in prompts {
        session
            .conn
            .prepare_cached(
                "INSERT OR IGNORE INTO trace_prompts (trace_id, prompt) VALUES (?1, ?2)",
            )?
            .execute((trace_id, prompt))?;
    }
    Ok(())
}

/// Deletes logged traces with all that belongs to them, and counts them. The trace of a collected
/// run belongs to its run and stays.
pub(super) fn delete(
    session: &WriteSession,
    experiment_id: &str,
    which: &TraceDeletion,
) -> Attempt<u64> {
    let experiment = super::experiments::number(experiment_id)?;
    let conn = &session.conn;
    let id = |row: &Row<'_>| row.get::<_, String>(0);
    let found: Vec<String> = match which {
        TraceDeletion::Ids(trace_ids) => conn
            .prepare_cached(
                "SELECT trace_id FROM traces WHERE experiment = ?1
                 AND trace_id IN (SELECT value FROM json_each(?2))",
            )?
            .query_map((experiment, serde_json::json!(trace_ids).to_string()), id)?
            .collect::<rusqlite::Result<_>>()?,
        TraceDeletion::Until(until_ms, most) => conn
            .prepare_cached(
                "SELECT trace_id FROM traces WHERE experiment = ?1 AND request_time <= ?2
                 ORDER BY request_time, trace_id LIMIT ?3",
            )?
            .query_map((experiment, until_ms, most.map_or(-1, i64::from)), id)?
            .collect::<rusqlite::Result<_>>()?,
    };
    for trace_id in &found {
        for table in [
            "traces",
            "trace_tags",
            "trace_files",
            "assessments",
            "trace_runs",
            "trace_prompts",
        ] {
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE trace_id = ?1"))?
                .execute([trace_id])?;
        }
    }
    Ok(u64::try_from(found.len()).unwrap_or(u64::MAX))
}

pub(super) fn file_write(
    session: &WriteSession,
    trace_id: &str,
    path: &str,
    content: &[u8],
) -> Attempt<()> {
    let known: bool = session
        .conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM traces WHERE trace_id = ?1)")?
        .query_row([trace_id], |row| row.get(0))?;
    if !known {
        return Err(no_trace(trace_id).into());
    }
    session
        .conn
        .prepare_cached(
            "INSERT INTO trace_files (trace_id, path, content) VALUES (?1, ?2, ?3)
             ON CONFLICT (trace_id, path) DO UPDATE SET content = excluded.content",
        )?
        .execute((trace_id, path, content))?;
    Ok(())
}

pub(super) fn file_read(conn: &Connection, trace_id: &str, path: &str) -> Attempt<Vec<u8>> {
    let mut find =
        conn.prepare_cached("SELECT content FROM trace_files WHERE trace_id = ?1 AND path = ?2")?;
    let found = find
        .query_row((trace_id, path), |row| row.get(0))
        .optional()?;
    found.ok_or_else(|| {
        StoreError::NotFound(format!(
            "the trace '{}' has no file '{}'",
            shown(trace_id),
            shown(path)
        ))
        .into()
    })
}
