//! The records of sittings, and their state.

use std::sync::mpsc::sync_channel;

use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::VerdictFile;
use rusqlite::{Connection, OptionalExtension, Row};

use super::EmbeddedStore;
use super::commit::{CommitMessage, anchors_keep, sitting_commit_each};
use super::set_aside::{set_aside_add, set_aside_remove};
use super::write_session::WriteSession;
use crate::queue::{Closing, SittingRecord};
use crate::rules::Changed;
use crate::sqlite::Attempt;
use crate::{Committed, FileSource, Result, Sittings, StoreError};

/// The number of verdict files in a batch for the writer, and of batches in its queue.
const FILES_TOGETHER: usize = 64;
const BATCHES_WAITING: usize = 2;

impl Sittings for EmbeddedStore {
    fn sitting_open(&self, sitting: &Sitting) -> Result<()> {
        let sitting = sitting.clone();
        self.writer
            .write(move |session| sitting_open(session, &sitting))
    }

    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>> {
        self.read(|conn| sitting_get(conn, id))
    }

    fn sitting_record_get(&self, id: &str) -> Result<Option<SittingRecord>> {
        self.read(|conn| sitting_record_get(conn, id))
    }

    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>> {
        self.read(|conn| sitting_list(conn, experiment))
    }

    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()> {
        let (id, closing) = (id.to_owned(), closing.clone());
        self.writer
            .write(move |session| sitting_close(session, &id, &closing))
    }

    fn sitting_commit_each(&self, rubric: &Rubric, give: FileSource<'_>) -> Result<Committed> {
        let rubric = rubric.clone();
        let (sender, files) = sync_channel(BATCHES_WAITING);
        let answer = self.writer.start_write(move |session| {
            sitting_commit_each(session, &files, &rubric, Changed::Refuse)
        });
        let mut batch = Vec::with_capacity(FILES_TOGETHER);
        let given = give(&mut |run_id, file| {
            batch.push((run_id.to_owned(), file));
            if batch.len() < FILES_TOGETHER {
                return true;
            }
            let full = std::mem::replace(&mut batch, Vec::with_capacity(FILES_TOGETHER));
            sender.send(CommitMessage::Files(full)).is_ok()
        });
        // The writer commits only after it receives the final message.
        if given.is_ok() {
            let _ = sender.send(CommitMessage::Files(batch));
            let _ = sender.send(CommitMessage::All);
        }
        drop(sender);
        let committed = answer.wait();
        given.and(committed)
    }
}

/// Stores the record of a sitting. Storing the same record again changes nothing.
pub(crate) fn sitting_open(session: &WriteSession, sitting: &Sitting) -> Attempt<()> {
    if let Some(known) = sitting_get(&session.conn, &sitting.id)? {
        if known == *sitting {
            return Ok(());
        }
        let message = format!(
            "there is another sitting '{}' already: open this one under another id",
            sitting.id
        );
        return Err(StoreError::Conflict(message).into());
    }
    let record = serde_json::to_string(sitting).map_err(|error| {
        StoreError::Internal(format!(
            "sitting '{}' cannot be stored: {error}",
            sitting.id
        ))
    })?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO sittings (id, experiment, tier, opened_at, record)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            &sitting.id,
            &sitting.experiment,
            sitting.tier.as_str(),
            &sitting.opened_at,
            record,
        ))?;
    Ok(())
}

/// Writes a sitting as the server has it that this file copies. What the state means for runs is
/// copied with the runs.
pub(crate) fn sitting_mirror(session: &WriteSession, theirs: &SittingRecord) -> Attempt<()> {
    let id = &theirs.sitting.id;
    let ours = sitting_record_get(&session.conn, id)?;
    if ours.as_ref() == Some(theirs) {
        return Ok(());
    }
    let anchors_known = ours.map_or(0, |it| it.anchor_files.len());
    sitting_open(session, &theirs.sitting)?;
    let judge = theirs.judge.as_ref().map(serde_json::to_string);
    let judge = judge.transpose().map_err(|error| {
        StoreError::Internal(format!(
            "the judge of sitting {id} cannot be stored: {error}"
        ))
    })?;
    session
        .conn
        .prepare_cached(
            "UPDATE sittings SET state = ?2, closed_at = ?3, judge = ?4, drift = ?5,
                 lives_until = ?6 WHERE id = ?1",
        )?
        .execute((
            id,
            theirs.state.as_str(),
            &theirs.closed_at,
            judge,
            &theirs.drift,
            theirs.lives_until_ms,
        ))?;
    // Verdicts on anchors are only ever added.
    let fresh = theirs.anchor_files.iter().enumerate().skip(anchors_known);
    for (part, file) in fresh {
        anchors_keep(session, i64::try_from(part).unwrap_or(i64::MAX), file)?;
    }
    Ok(())
}

/// The record of a sitting.
pub(crate) fn sitting_get(conn: &Connection, id: &str) -> Attempt<Option<Sitting>> {
    let record: Option<String> = conn
        .prepare_cached("SELECT record FROM sittings WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(record) = record else {
        return Ok(None);
    };
    let sitting = serde_json::from_str(&record).map_err(|error| StoreError::Unreadable {
        what: format!("the record of sitting '{id}'"),
        reason: error.to_string(),
    })?;
    Ok(Some(sitting))
}

/// The columns of a record, in the order in which [`read`] reads them.
const COLUMNS: &str = "record, state, closed_at, judge, drift, lives_until";

/// A sitting with its current state.
pub(crate) fn sitting_record_get(conn: &Connection, id: &str) -> Attempt<Option<SittingRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM sittings WHERE id = ?1");
    let mut find = conn.prepare_cached(&sql)?;
    let mut rows = find.query([id])?;
    match rows.next()? {
        Some(row) => Ok(Some(read(conn, row)?)),
        None => Ok(None),
    }
}

/// All sittings of an experiment, oldest first.
pub(crate) fn sitting_list(conn: &Connection, experiment: &str) -> Attempt<Vec<SittingRecord>> {
    let sql =
        format!("SELECT {COLUMNS} FROM sittings WHERE experiment = ?1 ORDER BY opened_at, id");
    let mut list = conn.prepare_cached(&sql)?;
    let mut rows = list.query([experiment])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(read(conn, row)?);
    }
    Ok(records)
}

/// Whether a judge with this name has an open sitting.
pub(crate) fn judge_has_open_sitting(conn: &Connection, name: &str) -> Attempt<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sittings
               WHERE state = 'open'
                 AND coalesce(judge ->> '$.name', record ->> '$.judge.name') = ?1)";
    Ok(conn
        .prepare_cached(sql)?
        .query_row([name], |row| row.get(0))?)
}

fn read(conn: &Connection, row: &Row<'_>) -> Attempt<SittingRecord> {
    let unreadable = |what: &str, reason: &dyn ToString| StoreError::Unreadable {
        what: format!("{what} of a sitting"),
        reason: reason.to_string(),
    };
    let sitting: Sitting =
        serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)
            .map_err(|error| unreadable("the record", &error))?;
    let state: String = row.get(1)?;
    let judge: Option<String> = row.get(3)?;
    let judge = judge
        .map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| unreadable("the judge", &error))?;
    Ok(SittingRecord {
        state: state
            .parse()
            .map_err(|error: String| unreadable("the state", &error))?,
        closed_at: row.get(2)?,
        judge: judge.or_else(|| sitting.judge.clone()),
        drift: row.get(4)?,
        lives_until_ms: row.get(5)?,
        anchor_files: anchor_verdicts(conn, &sitting.id)?,
        sitting,
    })
}

/// The verdicts of a sitting on its anchors, in order.
pub(crate) fn anchor_verdicts(conn: &Connection, sitting: &str) -> Attempt<Vec<VerdictFile>> {
    let mut list =
        conn.prepare_cached("SELECT file FROM anchor_verdicts WHERE sitting = ?1 ORDER BY part")?;
    let mut rows = list.query([sitting])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        let file = serde_json::from_str(text).map_err(|error| StoreError::Unreadable {
            what: format!("a file of anchor verdicts of sitting {sitting}"),
            reason: error.to_string(),
        })?;
        files.push(file);
    }
    Ok(files)
}

/// The record of a sitting, or an error.
pub(crate) fn sitting_need(conn: &Connection, id: &str) -> Attempt<SittingRecord> {
    let record = sitting_record_get(conn, id)?;
    record.ok_or_else(|| StoreError::NoSitting { id: id.to_owned() }.into())
}

/// Changes the state of a sitting, and with it whether its verdicts count.
pub(crate) fn sitting_close(
    session: &mut WriteSession,
    id: &str,
    closing: &Closing,
) -> Attempt<()> {
    let record = sitting_need(&session.conn, id)?;
    let judge = closing.judge.as_ref().map(serde_json::to_string);
    let judge = judge.transpose().map_err(|error| {
        StoreError::Internal(format!(
            "the judge of sitting {id} cannot be stored: {error}"
        ))
    })?;
    session
        .conn
        .prepare_cached(
            "UPDATE sittings SET state = ?2, closed_at = coalesce(closed_at, ?3),
                 judge = coalesce(?4, judge), drift = coalesce(?5, drift) WHERE id = ?1",
        )?
        .execute((
            id,
            closing.state.as_str(),
            &closing.at,
            judge,
            &closing.drift,
        ))?;
    let was = record.state == SittingState::Quarantined;
    let is = closing.state == SittingState::Quarantined;
    match (was, is) {
        (false, true) => set_aside_add(session, &record.sitting),
        (true, false) => set_aside_remove(session, &record.sitting),
        _ => Ok(()),
    }
}
