//! The file as a copy of a tracking server's runs, with the server's ids.
//!
//! The server decides; nothing here is merged. A run that changed is written as the server has it,
//! and a run that the server does not have is removed. Of several runs of one cell the copy holds
//! the one that readers of the server use: a finished one before a failed one, then the first by
//! start time and id. The table `mirrored` holds the version of every run that was seen, also of
//! those that no reader sees, and when it was read, so that what was read earlier never replaces
//! what was read later.

use std::collections::{HashMap, HashSet};

use assize_domain::hash::hex;
use assize_domain::judge::Tier;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use rusqlite::{Connection, OptionalExtension};

use self::server::{clear, experiments_write, is_same_server};
use super::cells::{self, Prepared};
use super::promotions::promotions_mirror;
use super::rows::{entry, status_number, status_of};
use super::schema::known;
use super::sittings::sitting_mirror;
use super::write_session::WriteSession;
use super::{EmbeddedStore, experiments};
use crate::following::{Followed, FollowedExperiment, FollowedRun, RunFile, RunVersion};
use crate::sqlite::Attempt;
use crate::{Result, StoreError};

mod server;

pub(crate) const TABLES: &str = "
CREATE TABLE mirrored (
    run_id BLOB PRIMARY KEY,
    experiment INTEGER NOT NULL,
    version INTEGER NOT NULL,
    read_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX mirrored_by_experiment ON mirrored (experiment);
";

impl EmbeddedStore {
    /// The versions of all runs that were seen.
    pub fn mirror_versions(&self) -> Result<HashMap<String, i64>> {
        self.read(|conn| {
            let mut list = conn.prepare_cached("SELECT run_id, version FROM mirrored")?;
            let rows =
                list.query_map([], |row| Ok((hex(&row.get::<_, Vec<u8>>(0)?), row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Writes the list of experiments; those that are not in it count as deleted. Returns `false`
    /// and writes nothing if these are experiments of another server than the one that was copied.
    pub fn mirror_experiments(&self, all: Vec<FollowedExperiment>) -> Result<bool> {
        self.writer.write(move |session| {
            let is_same = is_same_server(&session.conn, &all)?;
            if is_same {
                experiments_write(&session.conn, &all)?;
            }
            Ok(is_same)
        })
    }

    /// Removes everything that was copied, including histories that are otherwise never changed.
    pub fn mirror_clear(&self) -> Result<()> {
        self.writer.write(|session| clear(&session.conn))
    }

    /// Writes what was read from the server at this time, by this machine's clock.
    pub fn mirror_apply(&self, followed: Followed, read_ms: i64) -> Result<()> {
        self.writer
            .write(move |session| apply(session, &followed, read_ms))
    }

    /// Removes the runs of an experiment that were last read before this time and are not among
    /// these. Returns how many.
    pub fn mirror_remove_missing(
        &self,
        experiment: i64,
        before_ms: i64,
        seen: HashSet<String>,
    ) -> Result<usize> {
        self.writer
            .write(move |session| remove_missing(session, experiment, before_ms, &seen))
    }

    /// Stores files of runs that were read from the server, in one transaction.
    pub fn mirror_files_put(&self, files: Vec<RunFile>) -> Result<()> {
        self.writer.write(move |session| {
            let mut files = files.iter();
            files.try_for_each(|it| file_put(session, &it.run_id, &it.path, &it.content))
        })
    }

    /// Runs to judge whose candidates are not in the copy yet, newest first.
    pub fn mirror_runs_without_candidates(&self) -> Result<Vec<String>> {
        self.read(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT r.run_id FROM runs r JOIN tags t ON t.run = r.id AND t.key = ?1
                 WHERE r.lifecycle_stage = 'active' AND r.status = ?2 AND NOT EXISTS (
                     SELECT 1 FROM artifacts a WHERE a.run = r.id AND a.path = ?3)
                 ORDER BY r.id DESC",
            )?;
            let wanted = (
                known::JUDGE_PENDING,
                status_number(RunStatus::Finished),
                known::ARTIFACT_CANDIDATES,
            );
            let rows = list.query_map(wanted, |row| Ok(hex(&row.get::<_, Vec<u8>>(0)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The sittings that hold a slot of each run of an experiment, as far as the copy knows.
    pub fn mirror_lease_holders(
        &self,
        experiment: &str,
        tier: Tier,
    ) -> Result<HashMap<String, Vec<String>>> {
        self.read(|conn| {
            let experiment = experiments::experiment_need(conn, experiment)?;
            let mut list = conn.prepare_cached(
                "SELECT r.run_id, l.sitting FROM leases l JOIN runs r ON r.id = l.run
                 WHERE r.experiment = ?1 AND l.tier = ?2",
            )?;
            let mut rows = list.query((experiment, tier.as_str()))?;
            let mut holders: HashMap<String, Vec<String>> = HashMap::new();
            while let Some(row) = rows.next()? {
                let run_id = hex(&row.get::<_, Vec<u8>>(0)?);
                holders.entry(run_id).or_default().push(row.get(1)?);
            }
            Ok(holders)
        })
    }
}

fn apply(session: &mut WriteSession, followed: &Followed, read_ms: i64) -> Attempt<()> {
    let runs: HashMap<&str, &FollowedRun> = followed
        .runs
        .iter()
        .map(|it| (it.run.run_id.as_str(), it))
        .collect();
    for it in &followed.changed {
        if !version_put(&session.conn, it, read_ms)? {
            continue;
        }
        match runs.get(it.run_id.as_str()) {
            Some(run) => run_put(session, run)?,
            None => run_drop(&session.conn, &it.run_id)?,
        }
    }
    for record in &followed.sittings {
        sitting_mirror(session, record)?;
    }
    for (task, list) in &followed.promotions {
        promotions_mirror(session, task, list)?;
    }
    Ok(())
}

/// Stores the version of a run, unless a later reading is there already.
fn version_put(conn: &Connection, it: &RunVersion, read_ms: i64) -> Attempt<bool> {
    let written = conn
        .prepare_cached(
            "INSERT INTO mirrored (run_id, experiment, version, read_ms)
             VALUES (unhex(?1), ?2, ?3, ?4)
             ON CONFLICT (run_id) DO UPDATE SET experiment = excluded.experiment,
                 version = excluded.version, read_ms = excluded.read_ms
             WHERE read_ms <= excluded.read_ms",
        )?
        .execute((&it.run_id, it.experiment_id, it.version, read_ms))?;
    Ok(written > 0)
}

/// A run of the copy.
struct Copied {
    id: i64,
    run_id: String,
    status: RunStatus,
    start_time_ms: i64,
}

fn run_find(conn: &Connection, run_id: &str) -> Attempt<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM runs WHERE run_id = unhex(?1)")?;
    Ok(find.query_row([run_id], |row| row.get(0)).optional()?)
}

/// Another run of the same cell.
fn rival(conn: &Connection, run: &FollowedRun, cell_key: &str) -> Attempt<Option<Copied>> {
    let mut find = conn.prepare_cached(
        "SELECT id, run_id, status, start_time FROM runs
         WHERE experiment = ?1 AND cell_key = ?2 AND cell_key IS NOT NULL
             AND lifecycle_stage = 'active' AND run_id <> unhex(?3)",
    )?;
    let found = find.query_row((run.experiment_id, cell_key, &run.run.run_id), |row| {
        Ok(Copied {
            id: row.get(0)?,
            run_id: hex(&row.get::<_, Vec<u8>>(1)?),
            status: status_of(row.get(2)?),
            start_time_ms: row.get(3)?,
        })
    });
    Ok(found.optional()?)
}

fn run_put(session: &mut WriteSession, run: &FollowedRun) -> Attempt<()> {
    let cell = prepared(run)?;
    // The experiment may be newer than the list of experiments.
    session
        .conn
        .prepare_cached(
            "INSERT INTO experiments (experiment_id, name, creation_time, last_update_time)
             VALUES (?1, ?2, 0, 0) ON CONFLICT DO NOTHING",
        )?
        .execute((run.experiment_id, &run.run.experiment))?;
    let cell_key = Some(cell.record.cell_key.as_str()).filter(|it| !it.is_empty());
    if let Some(cell_key) = cell_key
        && let Some(other) = rival(&session.conn, run, cell_key)?
    {
        let place = |status: RunStatus, start_ms: i64, run_id: &str| {
            (status != RunStatus::Finished, start_ms, run_id.to_owned())
        };
        let theirs = place(run.run.status, run.run.start_time_ms, &run.run.run_id);
        if place(other.status, other.start_time_ms, &other.run_id) < theirs {
            return run_drop(&session.conn, &run.run.run_id);
        }
        row_remove(&session.conn, other.id)?;
    }
    let id = match run_find(&session.conn, &run.run.run_id)? {
        Some(id) => {
            run_empty(&session.conn, id, run)?;
            id
        }
        None => session
            .conn
            .prepare_cached(
                "INSERT INTO runs (run_id, experiment, name, status, start_time)
                 VALUES (unhex(?1), ?2, '', 0, 0)",
            )?
            .insert((&run.run.run_id, run.experiment_id))?,
    };
    session
        .conn
        .prepare_cached(
            "UPDATE runs SET experiment = ?2, name = ?3, status = ?4, start_time = ?5,
                 end_time = ?6, cell_key = ?7, lifecycle_stage = 'active' WHERE id = ?1",
        )?
        .execute((
            id,
            run.experiment_id,
            &run.run.name,
            status_number(run.run.status),
            run.run.start_time_ms,
            run.run.end_time_ms,
            cell_key,
        ))?;
    cells::fill(session, id, &cell)?;
    leases_put(&session.conn, id, run)?;
    let changed_ms = run.run.end_time_ms.unwrap_or(run.run.start_time_ms);
    session
        .conn
        .prepare_cached(
            "UPDATE experiments SET last_update_time = max(last_update_time, ?2)
             WHERE experiment_id = ?1",
        )?
        .execute((run.experiment_id, changed_ms))?;
    Ok(())
}

fn leases_put(conn: &Connection, id: i64, run: &FollowedRun) -> Attempt<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO leases (run, tier, slot, epoch, sitting) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for it in &run.leases {
        insert.execute((id, it.tier.as_str(), it.slot, it.epoch, &it.sitting))?;
    }
    Ok(())
}

/// The run as a record whose files are its verdict files.
fn prepared(run: &FollowedRun) -> Attempt<Prepared> {
    let Some(read) = cells::prepare(std::slice::from_ref(&record(run))).pop() else {
        return Err(StoreError::Internal("a run was not prepared".to_owned()).into());
    };
    Ok(read)
}

fn record(followed: &FollowedRun) -> CellRecord {
    let run = &followed.run;
    let shared = |(key, value): &(String, String)| (key.as_str().into(), value.as_str().into());
    let cell_key = run.tags.iter().find(|(key, _)| key == tag::CELL_KEY);
    CellRecord {
        cell_key: cell_key.map(|(_, key)| key.clone()).unwrap_or_default(),
        name: run.name.clone(),
        status: run.status,
        start_time_ms: run.start_time_ms,
        end_time_ms: run.end_time_ms.unwrap_or(run.start_time_ms),
        params: run.params.iter().map(shared).collect(),
        tags: run.tags.iter().map(shared).collect(),
        metrics: run
            .metrics
            .iter()
            .map(|(key, value)| (key.clone().into(), *value))
            .collect(),
        artifacts: followed
            .verdict_files
            .iter()
            .map(|(path, text)| (path.clone().into(), text.as_str().into()))
            .collect(),
    }
}

/// Removes what is written again. Files are kept except for verdict files, the candidates, whose
/// computed flags can change, and the rubric if it has changed: all others never change.
fn run_empty(conn: &Connection, id: i64, run: &FollowedRun) -> Attempt<()> {
    let mut tags = run.run.tags.iter();
    let rubric = tags.find(|(key, _)| key == tag::RUBRIC_SHA256);
    let kept = entry(conn, "tags", id, known::RUBRIC_SHA256)?;
    let rubric_stays = kept.as_ref() == rubric.map(|(_, sha256)| sha256);
    for table in [
        "params",
        "tags",
        "latest_metrics",
        "earlier_metrics",
        "leases",
    ] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([id])?;
    }
    let paths = "(SELECT id FROM texts WHERE text GLOB ?2 || '*')";
    let prefixes = [
        (artifact::VERDICTS, false),
        (artifact::CANDIDATES, false),
        (artifact::RUBRIC, rubric_stays),
    ];
    for (prefix, _) in prefixes.into_iter().filter(|(_, stays)| !stays) {
        conn.prepare_cached(&format!(
            "DELETE FROM blobs WHERE sha256 IS NULL AND id IN
                 (SELECT blob FROM artifacts WHERE run = ?1 AND path IN {paths})"
        ))?
        .execute((id, prefix))?;
        conn.prepare_cached(&format!(
            "DELETE FROM artifacts WHERE run = ?1 AND path IN {paths}"
        ))?
        .execute((id, prefix))?;
    }
    Ok(())
}

/// Removes a run that no reader of the server sees. If it was the run of a cell, another run of
/// the cell may take its place, so the runs of the experiment that are not shown are read again.
fn run_drop(conn: &Connection, run_id: &str) -> Attempt<()> {
    let Some(id) = run_find(conn, run_id)? else {
        return Ok(());
    };
    conn.prepare_cached(
        "UPDATE mirrored SET version = 0 WHERE run_id <> unhex(?2)
             AND experiment = (SELECT experiment FROM runs WHERE id = ?1)
             AND run_id NOT IN (SELECT run_id FROM runs)",
    )?
    .execute((id, run_id))?;
    row_remove(conn, id)
}

fn row_remove(conn: &Connection, id: i64) -> Attempt<()> {
    conn.prepare_cached(
        "DELETE FROM blobs WHERE sha256 IS NULL
         AND id IN (SELECT blob FROM artifacts WHERE run = ?1)",
    )?
    .execute([id])?;
    for table in [
        "params",
        "tags",
        "latest_metrics",
        "earlier_metrics",
        "leases",
        "artifacts",
    ] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([id])?;
    }
    conn.prepare_cached("DELETE FROM runs WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

fn remove_missing(
    session: &WriteSession,
    experiment: i64,
    before_ms: i64,
    seen: &HashSet<String>,
) -> Attempt<usize> {
    let conn = &session.conn;
    let mut list =
        conn.prepare_cached("SELECT run_id FROM mirrored WHERE experiment = ?1 AND read_ms < ?2")?;
    let rows = list.query_map((experiment, before_ms), |row| {
        Ok(hex(&row.get::<_, Vec<u8>>(0)?))
    })?;
    let mut gone: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
    gone.retain(|run_id| !seen.contains(run_id));
    for run_id in &gone {
        run_drop(conn, run_id)?;
        conn.prepare_cached("DELETE FROM mirrored WHERE run_id = unhex(?1)")?
            .execute([run_id])?;
    }
    Ok(gone.len())
}

fn file_put(session: &mut WriteSession, run_id: &str, path: &str, content: &[u8]) -> Attempt<()> {
    let Some(run) = run_find(&session.conn, run_id)? else {
        return Ok(());
    };
    let blob = if cells::is_shareable(path) {
        session.blob_shared(&assize_domain::hash::sha256(content), content)?
    } else {
        session.blob_own(content)?
    };
    let path = session.text(path)?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO artifacts (run, path, blob) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute((run, path, blob))?;
    Ok(())
}

#[cfg(test)]
mod tests;
