//! Committing the verdicts of sittings.
//!
//! A verdict file is immutable. A run's metrics and tags are derived from its files, without those
//! that are set aside.

use std::sync::mpsc::Receiver;

use assize_domain::rubric::Rubric;
use assize_domain::sitting::ANCHORS;
use assize_domain::verdict::{Summary, VerdictFile, summarise};
use rusqlite::Connection;

use super::board::{row_append, row_outdate};
use super::cells::metric_columns;
use super::rows::{RunKey, corrupt, judgeable_read, run_find, set_aside, verdicts_read};
use super::schema::known;
use super::sittings::anchor_verdicts;
use super::write_session::{Stored, WriteSession};
use crate::rules::{self, Changed, free_path, keep_new};
use crate::sqlite::Attempt;
use crate::{Committed, StoreError};

/// Writes verdict files and updates the runs' metrics and tags, all or none.
pub(crate) fn sitting_commit(
    session: &mut WriteSession,
    files: &[(String, VerdictFile)],
    rubric: &Rubric,
    changed: Changed,
) -> Attempt<Committed> {
    let mut commit = Commit::new(rubric, changed);
    for (run_id, file) in files {
        commit.take(session, run_id, file.clone())?;
    }
    commit.finish(session)
}

/// A message from the caller's thread to the writer.
pub(crate) enum CommitMessage {
    /// A batch of files by run, because waking the other thread for each file would be slow.
    Files(Vec<(String, VerdictFile)>),
    /// The end of the files. Without this message nothing is committed.
    All,
}

/// [`sitting_commit`] for files that arrive in batches.
pub(crate) fn sitting_commit_each(
    session: &mut WriteSession,
    files: &Receiver<CommitMessage>,
    rubric: &Rubric,
    changed: Changed,
) -> Attempt<Committed> {
    let mut commit = Commit::new(rubric, changed);
    while let Ok(given) = files.recv() {
        match given {
            CommitMessage::Files(files) => {
                for (run_id, file) in files {
                    commit.take(session, &run_id, file)?;
                }
            }
            CommitMessage::All => return commit.finish(session),
        }
    }
    let message = "the list of verdicts was incomplete: nothing was written";
    Err(StoreError::Conflict(message.to_owned()).into())
}

/// Used in place of a text's id for a value that is stored in its column.
const IN_PLACE: i64 = 0;

/// A commit in progress.
struct Commit<'a> {
    rubric: &'a Rubric,
    changed: Changed,
    committed: Committed,
    last_written: Option<i64>,
}

impl<'a> Commit<'a> {
    fn new(rubric: &'a Rubric, changed: Changed) -> Self {
        Self {
            rubric,
            changed,
            committed: Committed::default(),
            last_written: None,
        }
    }

    /// A sitting belongs to one experiment, so any of its runs identifies it.
    fn finish(self, session: &WriteSession) -> Attempt<Committed> {
        if let Some(run) = self.last_written {
            experiment_changed(session, run)?;
        }
        Ok(self.committed)
    }

    fn take(&mut self, session: &mut WriteSession, run_id: &str, file: VerdictFile) -> Attempt<()> {
        if run_id == ANCHORS {
            return anchors_commit(session, file, self.changed);
        }
        let run = run_find(&session.conn, run_id)?;
        if file_commit(session, &run, file, self.rubric, self.changed)? {
            self.committed.runs_written += 1;
            self.last_written = Some(run.id);
        } else {
            self.committed.runs_unchanged += 1;
        }
        Ok(())
    }
}

/// Stores verdicts on a sitting's anchors with the sitting.
fn anchors_commit(session: &WriteSession, mut file: VerdictFile, changed: Changed) -> Attempt<()> {
    let kept = anchor_verdicts(&session.conn, &file.sitting)?;
    let parts = kept.len();
    keep_new(&kept, &mut file, changed, || "its anchors".to_owned())?;
    if file.verdicts.is_empty() {
        return Ok(());
    }
    anchors_keep(session, i64::try_from(parts).unwrap_or(i64::MAX), &file)
}

/// Writes one part of the verdicts on a sitting's anchors.
pub(crate) fn anchors_keep(session: &WriteSession, part: i64, file: &VerdictFile) -> Attempt<()> {
    let text = serde_json::to_string(file).map_err(|error| {
        StoreError::Internal(format!("verdicts on anchors cannot be stored: {error}"))
    })?;
    session
        .conn
        .prepare_cached("INSERT INTO anchor_verdicts (sitting, part, file) VALUES (?1, ?2, ?3)")?
        .execute((&file.sitting, part, text))?;
    Ok(())
}

/// Returns whether the file contained new verdicts.
pub(crate) fn file_commit(
    session: &mut WriteSession,
    run: &RunKey,
    mut file: VerdictFile,
    rubric: &Rubric,
    changed: Changed,
) -> Attempt<bool> {
    let tags = tags_known(&session.conn, run.id)?;
    let aside = if number_of(&tags, known::SET_ASIDE).is_some() {
        set_aside(&session.conn, run.id)?
    } else {
        Vec::new()
    };
    let wanted = session.text(&rubric.sha256)?;
    let current = number_of(&tags, known::RUBRIC_SHA256);
    // Another id means another text; which one does not matter.
    let current = current.map(|it| {
        if it == wanted {
            rubric.sha256.as_str()
        } else {
            ""
        }
    });
    let (paths, mut kept): (Vec<String>, Vec<VerdictFile>) =
        verdicts_read(&session.conn, run)?.into_iter().unzip();
    let judgeable = judgeable_read(&session.conn, run)?;
    rules::verdicts_check(&run.run_id, &file, rubric, current, &aside, &judgeable)?;
    keep_new(&kept, &mut file, changed, || format!("run {}", run.run_id))?;
    if file.verdicts.is_empty() {
        return Ok(false);
    }
    let path = free_path(|path| paths.iter().any(|it| it == path), &file.sitting);
    file_keep(session, run, &path, &file)?;
    kept.push(file);
    kept.retain(|file| !aside.contains(&file.sitting));
    let summary = summarise(&kept, rubric, judgeable.len());
    summary_keep(session, run.id, &summary, &tags)?;
    Ok(true)
}

pub(crate) fn file_keep(
    session: &mut WriteSession,
    run: &RunKey,
    path: &str,
    file: &VerdictFile,
) -> Attempt<()> {
    let content = serde_json::to_vec(file).map_err(|error| corrupt(run, path, &error))?;
    let blob = session.blob_own(&content)?;
    let path = session.text(path)?;
    session
        .conn
        .prepare_cached("INSERT INTO artifacts (run, path, blob) VALUES (?1, ?2, ?3)")?
        .execute((run.id, path, blob))?;
    row_append(&session.conn, run, file)
}

/// The tags of a run: the ids of their keys and values; [`IN_PLACE`] for a value that is not in
/// `texts`.
pub(crate) fn tags_known(conn: &Connection, run: i64) -> Attempt<Vec<(i64, i64)>> {
    let mut list = conn.prepare_cached("SELECT key, value FROM tags WHERE run = ?1")?;
    let tags = list.query_map([run], |row| {
        Ok((row.get(0)?, row.get_ref(1)?.as_i64().unwrap_or(IN_PLACE)))
    })?;
    Ok(tags.collect::<rusqlite::Result<_>>()?)
}

fn number_of(tags: &[(i64, i64)], key: i64) -> Option<i64> {
    tags.iter().find(|(known, _)| *known == key).map(|it| it.1)
}

/// Updates a run's metrics and tags with few statements, because most of them are new. `tags` are
/// the existing ones.
pub(crate) fn summary_keep(
    session: &mut WriteSession,
    run: i64,
    summary: &Summary,
    tags: &[(i64, i64)],
) -> Attempt<()> {
    let now_ms = session.now_ms();
    let known = metrics_known(&session.conn, run)?;
    let mut fresh = Vec::with_capacity(summary.metrics.len());
    for (name, value) in &summary.metrics {
        let key = session.text(name)?;
        if known.contains(&key) {
            metric_log(&session.conn, run, key, *value, now_ms)?;
        } else {
            row_outdate(&session.conn, run, key)?;
            fresh.push((key, metric_columns(*value)));
        }
    }
    session.insert_rows("latest_metrics", 6, &fresh, |statement, at, row| {
        let (key, (value, is_nan)) = row;
        statement.raw_bind_parameter(at, run)?;
        statement.raw_bind_parameter(at + 1, key)?;
        statement.raw_bind_parameter(at + 2, value)?;
        statement.raw_bind_parameter(at + 3, is_nan)?;
        statement.raw_bind_parameter(at + 4, now_ms)?;
        statement.raw_bind_parameter(at + 5, 0)
    })?;
    let mut fresh = Vec::with_capacity(summary.tags.len());
    for (name, value) in &summary.tags {
        let key = session.text(name)?;
        let value = session.value(key, value)?;
        match number_of(tags, key) {
            Some(same) if value == Stored::Number(same) => {}
            Some(_) => tag_change(&session.conn, run, key, value)?,
            None => fresh.push((key, value)),
        }
    }
    session.insert_rows("tags", 3, &fresh, |statement, at, (key, value)| {
        statement.raw_bind_parameter(at, run)?;
        statement.raw_bind_parameter(at + 1, key)?;
        statement.raw_bind_parameter(at + 2, value)
    })
}

/// Updates the last-change time of a run's experiment.
pub(crate) fn experiment_changed(session: &WriteSession, run: i64) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "UPDATE experiments SET last_update_time = ?2
             WHERE experiment_id = (SELECT experiment FROM runs WHERE id = ?1)",
        )?
        .execute((run, session.now_ms()))?;
    Ok(())
}

fn metrics_known(conn: &Connection, run: i64) -> Attempt<Vec<i64>> {
    let mut list = conn.prepare_cached("SELECT key FROM latest_metrics WHERE run = ?1")?;
    let keys = list.query_map([run], |row| row.get(0))?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// Sets a tag of a run, replacing an earlier value.
pub(crate) fn tag_keep(
    session: &mut WriteSession,
    run: i64,
    name: &str,
    value: &str,
) -> Attempt<()> {
    let key = session.text(name)?;
    row_outdate(&session.conn, run, key)?;
    let value = session.value(key, value)?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO tags (run, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (run, key) DO UPDATE SET value = excluded.value
             WHERE value <> excluded.value",
        )?
        .execute((run, key, value))?;
    Ok(())
}

/// Changes the value of an existing tag.
fn tag_change(conn: &Connection, run: i64, key: i64, value: Stored<'_>) -> Attempt<()> {
    conn.prepare_cached("UPDATE tags SET value = ?3 WHERE run = ?1 AND key = ?2")?
        .execute((run, key, value))?;
    Ok(())
}

/// Makes a value the latest one; a different previous value moves into the history. The time always
/// advances, because the latest point of a step is the one with the latest time.
fn metric_log(conn: &Connection, run: i64, key: i64, value: f64, now_ms: i64) -> Attempt<()> {
    let (value, is_nan) = metric_columns(value);
    conn.prepare_cached(
        "INSERT INTO earlier_metrics (run, key, timestamp, step, value, is_nan)
         SELECT run, key, timestamp, step, value, is_nan FROM latest_metrics
         WHERE run = ?1 AND key = ?2 AND (value, is_nan) <> (?3, ?4)
         ON CONFLICT DO NOTHING",
    )?
    .execute((run, key, value, is_nan))?;
    conn.prepare_cached(
        "INSERT INTO latest_metrics (run, key, value, is_nan, timestamp, step)
         VALUES (?1, ?2, ?3, ?4, ?5, 0)
         ON CONFLICT (run, key) DO UPDATE
         SET value = ?3, is_nan = ?4, timestamp = max(?5, timestamp + 1)
         WHERE (value, is_nan) <> (?3, ?4)",
    )?
    .execute((run, key, value, is_nan, now_ms))?;
    Ok(())
}
