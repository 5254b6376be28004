//! Committing what sittings found.
//!
//! A verdict file is written once and never changed. What a run's metrics and tags say is
//! derived from its files, leaving out those that are set aside.

use std::sync::mpsc::Receiver;

use assize_domain::rubric::Rubric;
use assize_domain::run::artifact;
use assize_domain::sitting::ANCHORS;
use assize_domain::verdict::{Summary, Verdict, VerdictFile, summarise};
use rusqlite::Connection;

use super::cells::metric_columns;
use super::records::anchor_verdicts;
use super::rows::{
    RunKey, candidates_read, corrupt, entry, run_find, set_aside, verdicts_counting, verdicts_read,
};
use super::schema::known;
use super::session::Session;
use crate::sqlite::Attempt;
use crate::{Committed, StoreError};

/// What to do about other scores for a case that the same sitting has judged already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Refuse,
    /// Keep them as a later part, which counts instead.
    Revise,
}

/// Writes verdict files and brings the runs' metrics and tags up to date, all or none.
pub(crate) fn sitting_commit(
    session: &mut Session,
    files: &[(String, VerdictFile)],
    rubric: &Rubric,
    changed: Changed,
) -> Attempt<Committed> {
    let mut commit = Commit::new(rubric, changed);
    for (run_id, file) in files {
        commit.take(session, run_id, file)?;
    }
    Ok(commit.committed)
}

/// What a caller hands to the writer, one by one.
pub(crate) enum Given {
    File(String, Box<VerdictFile>),
    /// That was everything; without it nothing is kept.
    All,
}

/// [`sitting_commit`] for files that come one by one.
pub(crate) fn sitting_commit_each(
    session: &mut Session,
    files: &Receiver<Given>,
    rubric: &Rubric,
    changed: Changed,
) -> Attempt<Committed> {
    let mut commit = Commit::new(rubric, changed);
    while let Ok(given) = files.recv() {
        match given {
            Given::File(run_id, file) => commit.take(session, &run_id, &file)?,
            Given::All => return Ok(commit.committed),
        }
    }
    let message = "the verdicts ended before they were complete: nothing was written";
    Err(StoreError::Conflict(message.to_owned()).into())
}

/// A commit in the making.
struct Commit<'a> {
    rubric: &'a Rubric,
    changed: Changed,
    committed: Committed,
}

impl<'a> Commit<'a> {
    fn new(rubric: &'a Rubric, changed: Changed) -> Self {
        Self {
            rubric,
            changed,
            committed: Committed::default(),
        }
    }

    fn take(&mut self, session: &mut Session, run_id: &str, file: &VerdictFile) -> Attempt<()> {
        if run_id == ANCHORS {
            return anchors_commit(session, file, self.changed);
        }
        let run = run_find(&session.conn, run_id)?;
        if file_commit(session, &run, file, self.rubric, self.changed)? {
            self.committed.runs_written += 1;
        } else {
            self.committed.runs_unchanged += 1;
        }
        Ok(())
    }
}

/// Keeps verdicts on a sitting's anchors with the sitting.
fn anchors_commit(session: &Session, file: &VerdictFile, changed: Changed) -> Attempt<()> {
    let kept = anchor_verdicts(&session.conn, &file.sitting)?;
    let parts = kept.len();
    let fresh = fresh(&kept, file, changed, "its anchors")?;
    if fresh.is_empty() {
        return Ok(());
    }
    let part = VerdictFile {
        verdicts: fresh,
        ..file.clone()
    };
    let text = serde_json::to_string(&part).map_err(|error| {
        StoreError::Conflict(format!("verdicts on anchors cannot be kept: {error}"))
    })?;
    session
        .conn
        .prepare_cached("INSERT INTO anchor_verdicts (sitting, part, file) VALUES (?1, ?2, ?3)")?
        .execute((
            &file.sitting,
            i64::try_from(parts).unwrap_or(i64::MAX),
            text,
        ))?;
    Ok(())
}

/// Whether there was anything new in the file.
fn file_commit(
    session: &mut Session,
    run: &RunKey,
    file: &VerdictFile,
    rubric: &Rubric,
    changed: Changed,
) -> Attempt<bool> {
    check_counts(session, run, file, rubric)?;
    let (paths, kept): (Vec<String>, Vec<VerdictFile>) =
        verdicts_read(&session.conn, run)?.into_iter().unzip();
    let candidates = candidates_read(&session.conn, run)?.unwrap_or_default();
    let judgeable = |index: u32| {
        candidates
            .iter()
            .any(|candidate| candidate.index == index && candidate.text.is_some())
    };
    if let Some(verdict) = file.verdicts.iter().find(|it| !judgeable(it.candidate)) {
        let message = format!(
            "run {} has no candidate {} with a text to judge: check the file",
            run.run_id, verdict.candidate
        );
        return Err(StoreError::Conflict(message).into());
    }
    let fresh = fresh(&kept, file, changed, &format!("run {}", run.run_id))?;
    if fresh.is_empty() {
        return Ok(false);
    }
    let part = VerdictFile {
        verdicts: fresh,
        ..file.clone()
    };
    let path = free_path(&paths, &file.sitting);
    file_keep(session, run, &path, &part)?;
    let judgeable = candidates.iter().filter(|it| it.text.is_some()).count();
    let files = verdicts_counting(&session.conn, run)?;
    summary_keep(session, run.id, &summarise(&files, rubric, judgeable))?;
    Ok(true)
}

/// Refuses verdicts that could never count.
fn check_counts(
    session: &Session,
    run: &RunKey,
    file: &VerdictFile,
    rubric: &Rubric,
) -> Attempt<()> {
    let current = entry(&session.conn, "tags", run.id, known::RUBRIC_SHA256)?;
    let current = current.unwrap_or_else(|| rubric.sha256.clone());
    if file.rubric.sha256 != rubric.sha256 || file.rubric.sha256 != current {
        let message = format!(
            "the verdicts for run {} are under another version of the rubric '{}' than the run: \
             it was reopened, so export the cases again",
            run.run_id, file.rubric.id
        );
        return Err(StoreError::Conflict(message).into());
    }
    if set_aside(&session.conn, run.id)?.contains(&file.sitting) {
        let message = format!(
            "what sitting {} finds about run {} no longer counts, because it was quarantined or \
             the run was reopened since: export the cases again",
            file.sitting, run.run_id
        );
        return Err(StoreError::Conflict(message).into());
    }
    Ok(())
}

/// The verdicts of a file that its sitting has not given yet, word for word.
fn fresh(
    kept: &[VerdictFile],
    file: &VerdictFile,
    changed: Changed,
    what: &str,
) -> Result<Vec<Verdict>, StoreError> {
    let mut fresh = Vec::new();
    for verdict in &file.verdicts {
        match latest(kept, &file.sitting, verdict.candidate) {
            Some(same) if same.scores == verdict.scores && same.rationale == verdict.rationale => {}
            Some(_) if changed == Changed::Refuse => {
                return Err(StoreError::Conflict(format!(
                    "sitting {} has judged candidate {} of {what} already, with other scores or \
                     another rationale: verdicts are never overwritten, so apply the file as it \
                     was applied first, or correct it with `assize judge amend`",
                    file.sitting, verdict.candidate
                )));
            }
            _ => fresh.push(verdict.clone()),
        }
    }
    Ok(fresh)
}

fn latest<'a>(kept: &'a [VerdictFile], sitting: &str, candidate: u32) -> Option<&'a Verdict> {
    kept.iter()
        .rev()
        .filter(|file| file.sitting == sitting)
        .flat_map(|file| &file.verdicts)
        .find(|verdict| verdict.candidate == candidate)
}

/// `verdicts/SITTING.json`, or the next part of it.
pub(crate) fn free_path(taken: &[String], sitting: &str) -> String {
    let folder = artifact::VERDICTS;
    let mut path = format!("{folder}{sitting}.json");
    let mut part = 1;
    while taken.contains(&path) {
        part += 1;
        path = format!("{folder}{sitting}.{part}.json");
    }
    path
}

pub(crate) fn file_keep(
    session: &mut Session,
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
    Ok(())
}

/// Brings a run's metrics and tags up to date with few statements: mostly everything is new.
pub(crate) fn summary_keep(session: &mut Session, run: i64, summary: &Summary) -> Attempt<()> {
    let now_ms = session.now_ms();
    let known = metrics_known(&session.conn, run)?;
    let mut fresh = Vec::with_capacity(summary.metrics.len());
    for (name, value) in &summary.metrics {
        let key = session.text(name)?;
        if known.contains(&key) {
            metric_log(&session.conn, run, key, *value, now_ms)?;
        } else {
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
    for (name, value) in &summary.tags {
        tag_keep(session, run, name, value)?;
    }
    session
        .conn
        .prepare_cached(
            "UPDATE experiments SET last_update_time = ?2
             WHERE experiment_id = (SELECT experiment FROM runs WHERE id = ?1)",
        )?
        .execute((run, now_ms))?;
    Ok(())
}

fn metrics_known(conn: &Connection, run: i64) -> Attempt<Vec<i64>> {
    let mut list = conn.prepare_cached("SELECT key FROM latest_metrics WHERE run = ?1")?;
    let keys = list.query_map([run], |row| row.get(0))?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// Gives a run a tag, in place of an earlier one of that name.
pub(crate) fn tag_keep(session: &mut Session, run: i64, name: &str, value: &str) -> Attempt<()> {
    let key = session.text(name)?;
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

/// Makes a value the latest one; another value before it moves into the history. The time
/// always advances, because the latest point of a step is the one with the latest time.
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
