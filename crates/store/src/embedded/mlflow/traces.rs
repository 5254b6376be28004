//! Traces, their tags, files and assessments, as clients sent them.
//!
//! Records are JSON that this module does not look into: whoever serves them knows their
//! shape. It only keeps them findable, and each assessment with its trace.

use rusqlite::{Connection, OptionalExtension};

use super::experiments::{living, page};
use super::registry::entry;
use crate::StoreError;
use crate::embedded::session::Session;
use crate::mlflow::limits::shown;
use crate::mlflow::{Entry, Page, Slice, Trace};
use crate::sqlite::Attempt;

fn no_trace(trace_id: &str) -> StoreError {
    StoreError::NotFound(format!("Trace with ID '{}' not found", shown(trace_id)))
}

/// Keeps a trace; the same id again replaces what is known of it.
pub(super) fn start(
    session: &Session,
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

fn tag_put(session: &Session, trace_id: &str, tag: &Entry) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "INSERT INTO trace_tags (trace_id, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (trace_id, key) DO UPDATE SET value = excluded.value",
        )?
        .execute((trace_id, &tag.key, &tag.value))?;
    Ok(())
}

/// Sets a tag of a trace, or takes it away. The tags of a run's own trace are kept too.
pub(super) fn tag(session: &Session, trace_id: &str, tag: &Entry, is_kept: bool) -> Attempt<()> {
    if is_kept {
        return tag_put(session, trace_id, tag);
    }
    let deleted = session
        .conn
        .prepare_cached("DELETE FROM trace_tags WHERE trace_id = ?1 AND key = ?2")?
        .execute((trace_id, &tag.key))?;
    if deleted == 0 {
        let message = format!("the trace '{}' has no tag '{}'", shown(trace_id), tag.key);
        return Err(StoreError::NotFound(message).into());
    }
    Ok(())
}

/// What is kept for a trace; a run's own trace has no record of its own.
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
    Ok(Trace {
        trace_id: trace_id.to_owned(),
        info,
        tags,
        assessments,
    })
}

/// The traces that clients logged into these experiments, latest first.
pub(super) fn search(
    conn: &Connection,
    experiment_ids: &[String],
    slice: Slice,
) -> Attempt<Page<Trace>> {
    let mut ids: Vec<(i64, String)> = Vec::new();
    let most =
        i64::from(slice.max_results) + i64::try_from(slice.offset).unwrap_or(i64::MAX / 2) + 1;
    for id in experiment_ids {
        let mut list = conn.prepare_cached(
            "SELECT request_time, trace_id FROM traces WHERE experiment = ?1
             ORDER BY request_time DESC LIMIT ?2",
        )?;
        let found = list.query_map((super::experiments::number(id)?, most), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        ids.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    ids.sort_by(|a, b| b.cmp(a));
    let from = usize::try_from(slice.offset)
        .unwrap_or(usize::MAX)
        .min(ids.len());
    let part = page(ids.split_off(from), slice);
    let traces = part.items.iter().map(|(_, id)| get(conn, id));
    Ok(Page {
        items: traces.collect::<Attempt<_>>()?,
        next_offset: part.next_offset,
    })
}

pub(super) fn assessment_put(
    session: &Session,
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
    session: &Session,
    trace_id: &str,
    assessment_id: &str,
) -> Attempt<()> {
    let deleted = session
        .conn
        .prepare_cached("DELETE FROM assessments WHERE trace_id = ?1 AND assessment_id = ?2")?
        .execute((trace_id, assessment_id))?;
    if deleted == 0 {
        let message = format!(
            "Assessment with ID '{}' not found for trace '{}'",
            shown(assessment_id),
            shown(trace_id)
        );
        return Err(StoreError::NotFound(message).into());
    }
    Ok(())
}

pub(super) fn file_write(
    session: &Session,
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
