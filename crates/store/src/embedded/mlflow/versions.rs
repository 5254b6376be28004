//! Versions of registered models.

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params_from_iter};

use super::conditions::{Sql, text_test};
use super::experiments::{limits_of, page};
use super::logged_models;
use super::registry::{IS_PROMPT, entry, model_need, touch};
use crate::StoreError;
use crate::embedded::write_session::WriteSession;
use crate::mlflow::filter::{Field, Operator, Subject, parse};
use crate::mlflow::limits::{self, shown};
use crate::mlflow::{Entry, ModelVersion, NewVersion, Page, Search};
use crate::sqlite::Attempt;

fn no_version(name: &str, version: &str) -> StoreError {
    StoreError::NotFound(format!(
        "Model Version (name={}, version={}) not found",
        shown(name),
        shown(version)
    ))
}

/// The id of a version, or an error.
pub(super) fn version_need(
    conn: &Connection,
    model: i64,
    name: &str,
    version: &str,
) -> Attempt<i64> {
    let number: i64 = version.parse().map_err(|_| {
        StoreError::Invalid(format!(
            "Parameter 'version' must be an integer, got '{}'.",
            shown(version)
        ))
    })?;
    let mut find = conn
        .prepare_cached("SELECT version FROM model_versions WHERE model = ?1 AND version = ?2")?;
    let found = find
        .query_row((model, number), |row| row.get(0))
        .optional()?;
    found.ok_or_else(|| no_version(name, version).into())
}

fn need(conn: &Connection, name: &str, version: &str) -> Attempt<(i64, i64)> {
    let model = model_need(conn, name)?;
    Ok((model, version_need(conn, model, name, version)?))
}

pub(super) fn create(session: &WriteSession, new: &NewVersion) -> Attempt<ModelVersion> {
    let model = model_need(&session.conn, &new.name)?;
    let now_ms = session.now_ms();
    let mut run_id = new.run_id.clone();
    if run_id.is_empty() && !new.model_id.is_empty() {
        run_id = logged_models::source_run(&session.conn, &new.model_id)?;
    }
    // A version number is never reused, even after the last version was deleted.
    let version: i64 = session
        .conn
        .prepare_cached(
            "UPDATE registered_models
             SET next_version = 1 + max(next_version, coalesce(
                 (SELECT max(version) + 1 FROM model_versions WHERE model = id), 1)),
                 last_update_time = ?2
             WHERE id = ?1 RETURNING next_version - 1",
        )?
        .query_row((model, now_ms), |row| row.get(0))?;
    session
        .conn
        .prepare_cached(
            "INSERT INTO model_versions (model, version, source, description, run_id, run_link,
                                         creation_time, last_update_time, model_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)",
        )?
        .execute((
            model,
            version,
            &new.source,
            &new.description,
            run_id,
            &new.run_link,
            now_ms,
            &new.model_id,
        ))?;
    for tag in &new.tags {
        tag_put(session, model, version, tag)?;
    }
    if !new.model_id.is_empty() {
        logged_models::version_add(session, &new.model_id, &new.name, version)?;
    }
    read(&session.conn, model, version)
}

fn tag_put(session: &WriteSession, model: i64, version: i64, tag: &Entry) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "INSERT INTO model_version_tags (model, version, key, value) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (model, version, key) DO UPDATE SET value = excluded.value",
        )?
        .execute((model, version, &tag.key, &tag.value))?;
    Ok(())
}

/// Whether a promotion refers to the version's content.
fn is_promoted(conn: &Connection, model: i64, version: i64) -> Attempt<bool> {
    let mut find = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM promotions WHERE model = ?1 AND version = ?2)",
    )?;
    Ok(find.query_row((model, version), |row| row.get(0))?)
}

/// Sets a tag of a version, or deletes it. Tags that a promotion recorded cannot be changed.
pub(super) fn tag(
    session: &WriteSession,
    name: &str,
    version: &str,
    tag: &Entry,
    is_kept: bool,
) -> Attempt<()> {
    let (model, number) = need(&session.conn, name, version)?;
    if tag.key.starts_with("mlflow.prompt.") && is_promoted(&session.conn, model, number)? {
        return Err(StoreError::Invalid(format!(
            "version {number} of '{}' has been promoted, so its text cannot be changed: register a new version",
            shown(name)
        ))
        .into());
    }
    if is_kept {
        return tag_put(session, model, number, tag);
    }
    session
        .conn
        .prepare_cached(
            "DELETE FROM model_version_tags WHERE model = ?1 AND version = ?2 AND key = ?3",
        )?
        .execute((model, number, &tag.key))?;
    Ok(())
}

pub(super) fn update(
    session: &WriteSession,
    name: &str,
    version: &str,
    description: &str,
) -> Attempt<ModelVersion> {
    let (model, number) = need(&session.conn, name, version)?;
    session
        .conn
        .prepare_cached(
            "UPDATE model_versions SET description = ?3, last_update_time = ?4
             WHERE model = ?1 AND version = ?2",
        )?
        .execute((model, number, description, session.now_ms()))?;
    read(&session.conn, model, number)
}

pub(super) fn delete(session: &WriteSession, name: &str, version: &str) -> Attempt<()> {
    let (model, number) = need(&session.conn, name, version)?;
    for sql in [
        "DELETE FROM registered_model_aliases WHERE model = ?1 AND version = ?2",
        "DELETE FROM model_version_tags WHERE model = ?1 AND version = ?2",
        "DELETE FROM model_versions WHERE model = ?1 AND version = ?2",
    ] {
        let deleted = session.conn.prepare_cached(sql)?.execute((model, number));
        match deleted {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                return Err(StoreError::Invalid(format!(
                    "version {number} of '{}' cannot be deleted, because the promotion history refers to it",
                    shown(name)
                ))
                .into());
            }
            other => other?,
        };
    }
    touch(session, model)
}

pub(super) fn get(conn: &Connection, name: &str, version: &str) -> Attempt<ModelVersion> {
    let (model, number) = need(conn, name, version)?;
    read(conn, model, number)
}

pub(super) fn by_alias(conn: &Connection, name: &str, alias: &str) -> Attempt<ModelVersion> {
    let model = model_need(conn, name)?;
    // MLflow's client uses this name for the latest version.
    if alias == "latest" {
        return latest(conn, model)?.ok_or_else(|| no_version(name, alias).into());
    }
    let found: Option<i64> = conn
        .prepare_cached(
            "SELECT version FROM registered_model_aliases WHERE model = ?1 AND alias = ?2",
        )?
        .query_row((model, alias), |row| row.get(0))
        .optional()?;
    let version = found.ok_or_else(|| {
        StoreError::Invalid(format!(
            "Registered model alias {} not found.",
            shown(alias)
        ))
    })?;
    read(conn, model, version)
}

pub(super) fn latest(conn: &Connection, model: i64) -> Attempt<Option<ModelVersion>> {
    let version: Option<i64> = conn
        .prepare_cached("SELECT max(version) FROM model_versions WHERE model = ?1")?
        .query_row([model], |row| row.get(0))?;
    version
        .map(|version| read(conn, model, version))
        .transpose()
}

fn read(conn: &Connection, model: i64, version: i64) -> Attempt<ModelVersion> {
    let mut found = conn
        .prepare_cached(
            "SELECT m.name, v.version, v.source, v.description, v.run_id, v.run_link,
                    v.creation_time, v.last_update_time, v.model_id
             FROM model_versions v JOIN registered_models m ON m.id = v.model
             WHERE v.model = ?1 AND v.version = ?2",
        )?
        .query_row((model, version), row)?;
    found.tags = conn
        .prepare_cached(
            "SELECT key, value FROM model_version_tags WHERE model = ?1 AND version = ?2",
        )?
        .query_map((model, version), entry)?
        .collect::<rusqlite::Result<_>>()?;
    found.aliases = conn
        .prepare_cached(
            "SELECT alias FROM registered_model_aliases WHERE model = ?1 AND version = ?2",
        )?
        .query_map((model, version), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

fn row(row: &Row<'_>) -> rusqlite::Result<ModelVersion> {
    Ok(ModelVersion {
        name: row.get(0)?,
        version: row.get::<_, i64>(1)?.to_string(),
        source: row.get(2)?,
        description: row.get(3)?,
        run_id: row.get(4)?,
        run_link: row.get(5)?,
        creation_timestamp: row.get(6)?,
        last_updated_timestamp: row.get(7)?,
        model_id: row.get(8)?,
        current_stage: "None",
        status: "READY",
        tags: Vec::new(),
        aliases: Vec::new(),
    })
}

/// Omits versions of prompts unless the filter includes a prompt's tag.
pub(super) fn search(conn: &Connection, search: &Search) -> Attempt<Page<ModelVersion>> {
    limits::list("order_by", search.order_by.len(), limits::ORDERS)?;
    let mut sql = Sql::new("m.id = v.model");
    let mut asks_for_prompts = false;
    for comparison in parse(&search.filter)? {
        let condition = Subject::ModelVersions.condition(comparison)?;
        let test = &condition.test;
        match &condition.field {
            Field::Tag(key) if key == IS_PROMPT && test.operator == Operator::NotEqual => {}
            Field::Tag(key) => {
                asks_for_prompts |= key == IS_PROMPT;
                let join = "x.model = v.model AND x.version = v.version";
                sql.entry_test("model_version_tags", join, key, test);
            }
            Field::Number(_) => sql.number_test("v.version", test),
            Field::Text("run_id") => text_test(&mut sql, "v.run_id", test),
            Field::Text("source_path") => text_test(&mut sql, "v.source", test),
            _ => text_test(&mut sql, "m.name", test),
        }
    }
    if !asks_for_prompts {
        let prompt = "NOT EXISTS (SELECT 1 FROM registered_model_tags x WHERE x.model = m.id \
                      AND x.key = 'mlflow.prompt.is_prompt' AND x.value = 'true')";
        sql.push(prompt.to_owned(), []);
    }
    let mut orders = Vec::new();
    for order in Subject::ModelVersions.orders(&search.order_by)? {
        let column = match order.0 {
            Field::Text("name") => "m.name",
            Field::Number("version_number") => "v.version",
            Field::Number("creation_timestamp") => "v.creation_time",
            _ => "v.last_update_time",
        };
        orders.push(format!("{column}{}", if order.1 { " DESC" } else { "" }));
    }
    if orders.is_empty() {
        orders.push("v.last_update_time DESC".to_owned());
    }
    orders.push("m.name, v.version DESC".to_owned());
    let text = format!(
        "SELECT v.model, v.version FROM model_versions v, registered_models m WHERE {}
         ORDER BY {} LIMIT ? OFFSET ?",
        sql.conditions(),
        orders.join(", ")
    );
    let values = sql.values.into_iter().chain(limits_of(search));
    let mut list = conn.prepare_cached(&text)?;
    let keys = list.query_map(params_from_iter(values), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })?;
    let keys = page(keys.collect::<rusqlite::Result<Vec<_>>>()?, search.slice);
    let versions = keys
        .items
        .into_iter()
        .map(|(model, version)| read(conn, model, version));
    Ok(Page {
        items: versions.collect::<Attempt<_>>()?,
        next_offset: keys.next_offset,
    })
}
