//! Sittings: their records, and committing what they found.

use assize_domain::rubric::Rubric;
use assize_domain::run::artifact;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::{Summary, Verdict, VerdictFile, summarise};
use rusqlite::{Connection, OptionalExtension};

use super::cells::metric_columns;
use super::rows::{RunKey, candidates_read, corrupt, run_find, verdicts_read};
use super::session::Session;
use crate::sqlite::Attempt;
use crate::{Committed, StoreError};

/// Keeps the record of a sitting. The same record again changes nothing.
pub(crate) fn sitting_open(session: &Session, sitting: &Sitting) -> Attempt<()> {
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
        StoreError::Conflict(format!("sitting '{}' cannot be kept: {error}", sitting.id))
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

/// The record of a sitting.
pub(crate) fn sitting_get(conn: &Connection, id: &str) -> Attempt<Option<Sitting>> {
    let record: Option<String> = conn
        .prepare_cached("SELECT record FROM sittings WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(record) = record else {
        return Ok(None);
    };
    let sitting = serde_json::from_str(&record).map_err(|error| {
        StoreError::Conflict(format!(
            "the record of sitting '{id}' cannot be read ({error}): export the cases again"
        ))
    })?;
    Ok(Some(sitting))
}

/// Writes verdict files and brings the runs' metrics and tags up to date, all or none.
pub(crate) fn sitting_commit(
    session: &mut Session,
    files: &[(String, VerdictFile)],
    rubric: &Rubric,
) -> Attempt<Committed> {
    let mut committed = Committed::default();
    for (run_id, file) in files {
        let run = run_find(&session.conn, run_id)?;
        if file_commit(session, &run, file, rubric)? {
            committed.runs_written += 1;
        } else {
            committed.runs_unchanged += 1;
        }
    }
    Ok(committed)
}

/// Whether there was anything new in the file.
fn file_commit(
    session: &mut Session,
    run: &RunKey,
    file: &VerdictFile,
    rubric: &Rubric,
) -> Attempt<bool> {
    if file.rubric.sha256 != rubric.sha256 {
        let message = format!(
            "the verdicts for run {} are under another version of the rubric '{}': export the \
             cases again",
            run.run_id, file.rubric.id
        );
        return Err(StoreError::Conflict(message).into());
    }
    let kept = verdicts_read(&session.conn, run)?;
    let candidates = candidates_read(&session.conn, run)?.unwrap_or_default();
    let judgeable = |index: u32| {
        candidates
            .iter()
            .any(|candidate| candidate.index == index && candidate.text.is_some())
    };
    let mut fresh = Vec::new();
    for verdict in &file.verdicts {
        if !judgeable(verdict.candidate) {
            let message = format!(
                "run {} has no candidate {} with a text to judge: check the file",
                run.run_id, verdict.candidate
            );
            return Err(StoreError::Conflict(message).into());
        }
        match earlier(&kept, &file.sitting, verdict.candidate) {
            None => fresh.push(verdict.clone()),
            Some(same) if same.scores == verdict.scores && same.rationale == verdict.rationale => {}
            Some(_) => return Err(changed(run, file, verdict).into()),
        }
    }
    if fresh.is_empty() {
        return Ok(false);
    }
    let part = VerdictFile {
        verdicts: fresh,
        ..file.clone()
    };
    let path = free_path(&kept, &file.sitting);
    file_keep(session, run, &path, &part)?;
    let files: Vec<VerdictFile> = kept
        .into_iter()
        .map(|(_, file)| file)
        .chain([part])
        .collect();
    let judgeable = candidates.iter().filter(|it| it.text.is_some()).count();
    summary_keep(session, run.id, &summarise(&files, rubric, judgeable))?;
    Ok(true)
}

fn earlier<'a>(
    kept: &'a [(String, VerdictFile)],
    sitting: &str,
    candidate: u32,
) -> Option<&'a Verdict> {
    kept.iter()
        .filter(|(_, file)| file.sitting == sitting)
        .flat_map(|(_, file)| &file.verdicts)
        .find(|verdict| verdict.candidate == candidate)
}

fn changed(run: &RunKey, file: &VerdictFile, verdict: &Verdict) -> StoreError {
    StoreError::Conflict(format!(
        "sitting {} has judged candidate {} of run {} already, with other scores or another \
         rationale: verdicts are never overwritten, so apply the file as it was applied first",
        file.sitting, verdict.candidate, run.run_id
    ))
}

/// `verdicts/SITTING.json`, or the next part of it.
fn free_path(kept: &[(String, VerdictFile)], sitting: &str) -> String {
    let folder = artifact::VERDICTS;
    let mut path = format!("{folder}{sitting}.json");
    let mut part = 1;
    while kept.iter().any(|(taken, _)| *taken == path) {
        part += 1;
        path = format!("{folder}{sitting}.{part}.json");
    }
    path
}

fn file_keep(session: &mut Session, run: &RunKey, path: &str, file: &VerdictFile) -> Attempt<()> {
    let content = serde_json::to_vec(file).map_err(|error| corrupt(run, path, &error))?;
    let blob = session.blob_own(&content)?;
    let path = session.text(path)?;
    session
        .conn
        .prepare_cached("INSERT INTO artifacts (run, path, blob) VALUES (?1, ?2, ?3)")?
        .execute((run.id, path, blob))?;
    Ok(())
}

fn summary_keep(session: &mut Session, run: i64, summary: &Summary) -> Attempt<()> {
    let now_ms = session.now_ms();
    for (name, value) in &summary.metrics {
        let key = session.text(name)?;
        metric_log(&session.conn, run, key, *value, now_ms)?;
    }
    for (name, value) in &summary.tags {
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
