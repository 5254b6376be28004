//! The list of a server's experiments, which also shows whether it is the server that was copied.
//!
//! The time when an experiment was created never changes, and every MLflow server creates its
//! experiment 0 when its database is made.

use rusqlite::Connection;

use crate::following::FollowedExperiment;
use crate::sqlite::Attempt;

/// Whether no experiment has the id of one that was created at another time.
pub(super) fn is_same_server(conn: &Connection, all: &[FollowedExperiment]) -> Attempt<bool> {
    let mut find = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM experiments
         WHERE experiment_id = ?1 AND creation_time NOT IN (0, ?2))",
    )?;
    for it in all.iter().filter(|it| it.created_ms != 0) {
        if find.query_row((it.id, it.created_ms), |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Texts and shared blobs stay, because writers cache their ids. Triggers that protect histories
/// are removed and then created again.
pub(super) fn clear(conn: &Connection) -> Attempt<()> {
    let mut list = conn.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?;
    let triggers = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let triggers: Vec<(String, String)> = triggers.collect::<rusqlite::Result<_>>()?;
    let mut list = conn.prepare(
        "SELECT name FROM sqlite_schema
         WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT IN ('texts', 'blobs')",
    )?;
    let tables = list.query_map([], |row| row.get(0))?;
    let tables: Vec<String> = tables.collect::<rusqlite::Result<_>>()?;
    conn.pragma_update(None, "defer_foreign_keys", "ON")?;
    for (name, _) in &triggers {
        conn.execute_batch(&format!("DROP TRIGGER {name}"))?;
    }
    for table in &tables {
        conn.execute_batch(&format!("DELETE FROM {table}"))?;
    }
    conn.execute_batch("DELETE FROM blobs WHERE sha256 IS NULL")?;
    for (_, sql) in &triggers {
        conn.execute_batch(sql)?;
    }
    Ok(())
}

pub(super) fn experiments_write(conn: &Connection, all: &[FollowedExperiment]) -> Attempt<()> {
    conn.execute("UPDATE experiments SET lifecycle_stage = 'deleted'", [])?;
    for it in all {
        // Names are unique: an experiment that was renamed or deleted gives its name up.
        conn.prepare_cached(
            "UPDATE experiments SET name = name || ' (' || experiment_id || ')'
             WHERE name = ?1 AND experiment_id <> ?2",
        )?
        .execute((&it.name, it.id))?;
        conn.prepare_cached(
            "INSERT INTO experiments (experiment_id, name, creation_time, last_update_time)
             VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (experiment_id) DO UPDATE SET name = excluded.name,
                 lifecycle_stage = 'active', creation_time = excluded.creation_time,
                 last_update_time = max(last_update_time, excluded.last_update_time)",
        )?
        .execute((it.id, &it.name, it.created_ms, it.updated_ms))?;
        conn.prepare_cached(
            "DELETE FROM experiment_tags WHERE experiment = ?1 AND key NOT GLOB 'assize.ledger.*'",
        )?
        .execute([it.id])?;
        for (key, value) in &it.tags {
            conn.prepare_cached(
                "INSERT INTO experiment_tags (experiment, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO NOTHING",
            )?
            .execute((it.id, key, value))?;
        }
    }
    Ok(())
}
