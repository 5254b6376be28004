//! Promotions: versions of a task's prompts, the alias `champion`, and the history.
//!
//! The tables are those of MLflow's registry (a prompt is a registered model with a tag), so that
//! the registry API can serve them. The table `promotions` is append-only: triggers reject changes
//! and deletions.

use assize_domain::promotion::{
    ALIAS, CHALLENGER, Nominee, PROMPT_TAGS, Promotion, nominee_tags, version_tags,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::EmbeddedStore;
use super::write_session::WriteSession;
use crate::rules::superseded;
use crate::sqlite::Attempt;
use crate::{Promotions, Result, StoreError};

impl Promotions for EmbeddedStore {
    fn champion_get(&self, task: &str) -> Result<Option<Promotion>> {
        self.read(|conn| champion_get(conn, task))
    }

    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>> {
        self.read(|conn| promotion_list(conn, task))
    }

    fn promotion_record(&self, promotion: &Promotion) -> Result<u32> {
        let promotion = promotion.clone();
        self.writer
            .write(move |session| promotion_record(session, &promotion))
    }

    fn nominee_record(&self, nominee: &Nominee) -> Result<u32> {
        let nominee = nominee.clone();
        self.writer
            .write(move |session| nominee_record(session, &nominee))
    }

    fn nominee_withdraw(&self, task: &str, version: u32) -> Result<()> {
        let task = task.to_owned();
        self.writer
            .write(move |session| nominee_withdraw(session, &task, version))
    }
}

/// The history of a task, oldest first.
pub(crate) fn promotion_list(conn: &Connection, task: &str) -> Attempt<Vec<Promotion>> {
    let mut list = conn.prepare_cached(
        "SELECT p.version, p.record FROM promotions p
         JOIN registered_models m ON m.id = p.model
         WHERE m.name = ?1 ORDER BY p.number",
    )?;
    let rows = list.query_map([task], columns)?;
    rows.map(|row| promotion_read(task, row?)).collect()
}

/// The latest entry of a task's history.
pub(crate) fn champion_get(conn: &Connection, task: &str) -> Attempt<Option<Promotion>> {
    let mut find = conn.prepare_cached(
        "SELECT p.version, p.record FROM promotions p
         JOIN registered_models m ON m.id = p.model
         WHERE m.name = ?1 ORDER BY p.number DESC LIMIT 1",
    )?;
    let row = find.query_row([task], columns).optional()?;
    row.map(|row| promotion_read(task, row)).transpose()
}

/// Adds an entry and moves the alias, unless another promotion came first. Returns the version.
pub(crate) fn promotion_record(session: &WriteSession, promotion: &Promotion) -> Attempt<u32> {
    let latest = champion_get(&session.conn, &promotion.task)?;
    if latest.as_ref().map_or(0, |it| it.number) + 1 != promotion.number {
        return Err(superseded(promotion, latest.as_ref()).into());
    }
    let model = prompt_touch(session, &promotion.task)?;
    let version = version_touch(session, model, &promotion.champion.prompt_sha256)?;
    entry_insert(session, model, version, promotion)?;
    Ok(version)
}

/// Adds the entry itself, describes its version, and moves the alias.
fn entry_insert(
    session: &WriteSession,
    model: i64,
    version: u32,
    promotion: &Promotion,
) -> Attempt<()> {
    tags_set(session, model, version, promotion)?;
    alias_set(session, model, ALIAS, version)?;
    let record = serde_json::to_string(promotion).map_err(|error| {
        StoreError::Internal(format!("the promotion cannot be stored: {error}"))
    })?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO promotions (model, number, version, record) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((model, promotion.number, version, record))?;
    Ok(())
}

/// Adds the entries of a server's history that this copy lacks, with the server's versions.
pub(crate) fn promotions_mirror(
    session: &WriteSession,
    task: &str,
    theirs: &[Promotion],
) -> Attempt<()> {
    let ours = promotion_list(&session.conn, task)?;
    if !theirs.starts_with(&ours) {
        let message = format!(
            "the promotion history of '{task}' on the server is not a continuation of the one in \
             {}: remove this file, so that it is made again",
            session.path.display()
        );
        return Err(StoreError::Conflict(message).into());
    }
    for promotion in theirs.iter().skip(ours.len()) {
        let model = prompt_touch(session, task)?;
        let now_ms = session.now_ms();
        let (version, sha256) = (promotion.version, &promotion.champion.prompt_sha256);
        session
            .conn
            .prepare_cached(
                "INSERT INTO model_versions
                     (model, version, sha256, source, creation_time, last_update_time)
                 VALUES (?1, ?2, ?3, 'dummy-source', ?4, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute((model, version, sha256, now_ms))?;
        entry_insert(session, model, version, promotion)?;
    }
    Ok(())
}

/// Registers a nominated version and moves the alias `challenger`. Tags that the version has already,
/// for example because it was a champion, are kept.
pub(crate) fn nominee_record(session: &WriteSession, nominee: &Nominee) -> Attempt<u32> {
    let model = prompt_touch(session, &nominee.task)?;
    let version = version_touch(session, model, &nominee.prompt_sha256)?;
    session
        .conn
        .prepare_cached(
            "UPDATE model_versions SET description = ?3
             WHERE model = ?1 AND version = ?2 AND description = ''",
        )?
        .execute((model, version, &nominee.commit_message))?;
    let mut insert = session.conn.prepare_cached(
        "INSERT INTO model_version_tags (model, version, key, value) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )?;
    for (key, value) in nominee_tags(nominee) {
        insert.execute((model, version, key, value))?;
    }
    alias_set(session, model, CHALLENGER, version)?;
    Ok(version)
}

fn nominee_withdraw(session: &WriteSession, task: &str, version: u32) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "DELETE FROM registered_model_aliases
             WHERE alias = ?1 AND version = ?2 AND model = (SELECT id FROM registered_models WHERE name = ?3)",
        )?
        .execute((CHALLENGER, version, task))?;
    Ok(())
}

fn alias_set(session: &WriteSession, model: i64, alias: &str, version: u32) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "INSERT INTO registered_model_aliases (model, alias, version) VALUES (?1, ?2, ?3)
             ON CONFLICT (model, alias) DO UPDATE SET version = excluded.version",
        )?
        .execute((model, alias, version))?;
    Ok(())
}

fn columns(row: &Row<'_>) -> rusqlite::Result<(u32, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn promotion_read(task: &str, (version, record): (u32, String)) -> Attempt<Promotion> {
    let read = serde_json::from_str::<Promotion>(&record);
    let promotion = read.map_err(|error| StoreError::Unreadable {
        what: format!("an entry in the promotion history of '{task}'"),
        reason: error.to_string(),
    })?;
    Ok(Promotion {
        version,
        ..promotion
    })
}

/// The registered prompt of a task, created if it does not exist.
fn prompt_touch(session: &WriteSession, task: &str) -> Attempt<i64> {
    let now_ms = session.now_ms();
    let model = session
        .conn
        .prepare_cached(
            "INSERT INTO registered_models (name, creation_time, last_update_time)
             VALUES (?1, ?2, ?2)
             ON CONFLICT (name) DO UPDATE SET last_update_time = ?2
             RETURNING id",
        )?
        .query_row((task, now_ms), |row| row.get(0))?;
    for (key, value) in PROMPT_TAGS {
        session
            .conn
            .prepare_cached(
                "INSERT INTO registered_model_tags (model, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO NOTHING",
            )?
            .execute((model, key, value))?;
    }
    Ok(model)
}

/// The version with this content, created if it does not exist.
fn version_touch(session: &WriteSession, model: i64, sha256: &str) -> Attempt<u32> {
    let now_ms = session.now_ms();
    Ok(session
        .conn
        .prepare_cached(
            "INSERT INTO model_versions
                 (model, version, sha256, source, creation_time, last_update_time)
             SELECT ?1, coalesce(max(version), 0) + 1, ?2, 'dummy-source', ?3, ?3
             FROM model_versions WHERE model = ?1
             ON CONFLICT (model, sha256) DO UPDATE SET last_update_time = ?3
             RETURNING version",
        )?
        .query_row((model, sha256, now_ms), |row| row.get(0))?)
}

fn tags_set(
    session: &WriteSession,
    model: i64,
    version: u32,
    promotion: &Promotion,
) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "DELETE FROM model_version_tags
             WHERE model = ?1 AND version = ?2 AND key LIKE 'assize.%'",
        )?
        .execute((model, version))?;
    let mut insert = session.conn.prepare_cached(
        "INSERT INTO model_version_tags (model, version, key, value) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (model, version, key) DO UPDATE SET value = excluded.value",
    )?;
    for (key, value) in version_tags(promotion) {
        insert.execute((model, version, key, value))?;
    }
    Ok(())
}
