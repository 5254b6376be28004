//! The registry: registered models (including prompts) with tags and aliases.
//!
//! Promotions use the same tables. Prompts and versions in the promotion history cannot be deleted
//! or renamed here, and the alias `champion` is moved by `assize promote` only.

use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::conditions::{Sql, text_test};
use super::experiments::{limits_of, page};
use super::versions;
use crate::StoreError;
use crate::embedded::write_session::WriteSession;
use crate::mlflow::filter::{Field, Operator, Subject, parse};
use crate::mlflow::limits::{self, shown};
use crate::mlflow::{Alias, Entry, Page, RegisteredModel, Search};
use crate::sqlite::Attempt;

/// The alias that promotions move.
const CHAMPION: &str = "champion";
pub(super) const IS_PROMPT: &str = "mlflow.prompt.is_prompt";

pub(super) fn no_model(name: &str) -> StoreError {
    StoreError::NotFound(format!(
        "Registered Model with name={} not found",
        shown(name)
    ))
}

/// The id of a registered model, or an error.
pub(super) fn model_need(conn: &Connection, name: &str) -> Attempt<i64> {
    let mut find = conn.prepare_cached("SELECT id FROM registered_models WHERE name = ?1")?;
    let found = find.query_row([name], |row| row.get(0)).optional()?;
    found.ok_or_else(|| no_model(name).into())
}

pub(super) fn touch(session: &WriteSession, model: i64) -> Attempt<()> {
    session
        .conn
        .prepare_cached("UPDATE registered_models SET last_update_time = ?2 WHERE id = ?1")?
        .execute((model, session.now_ms()))?;
    Ok(())
}

/// Rejects a change that would break the promotion history.
fn reject_if_promoted(conn: &Connection, model: i64, what: &str) -> Attempt<()> {
    let promoted: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM promotions WHERE model = ?1)")?
        .query_row([model], |row| row.get(0))?;
    if promoted {
        return Err(StoreError::Invalid(format!(
            "{what}, because the promotion history refers to it: use `assize promote`"
        ))
        .into());
    }
    Ok(())
}

/// The same, also for a history that `assize promote` keeps over this API in a run that this tag
/// names. That command moves the alias through this API too, so moving it cannot be rejected.
fn reject_if_in_history(conn: &Connection, model: i64, what: &str) -> Attempt<()> {
    let promoted: bool = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM registered_model_tags
                            WHERE model = ?1 AND key = 'assize.history')",
        )?
        .query_row([model], |row| row.get(0))?;
    if promoted {
        return Err(StoreError::Invalid(format!(
            "{what}, because its tag assize.history refers to promotions"
        ))
        .into());
    }
    reject_if_promoted(conn, model, what)
}

pub(super) fn create(
    session: &WriteSession,
    name: &str,
    description: &str,
    tags: &[Entry],
) -> Attempt<RegisteredModel> {
    let now_ms = session.now_ms();
    let written = session
        .conn
        .prepare_cached(
            "INSERT INTO registered_models (name, description, creation_time, last_update_time)
             VALUES (?1, ?2, ?3, ?3) ON CONFLICT (name) DO NOTHING",
        )?
        .execute((name, description, now_ms))?;
    if written == 0 {
        return Err(StoreError::AlreadyExists(format!(
            "Registered Model (name={}) already exists",
            shown(name)
        ))
        .into());
    }
    let model = session.conn.last_insert_rowid();
    for tag in tags {
        tag_put(session, model, tag)?;
    }
    read(&session.conn, model)
}

fn tag_put(session: &WriteSession, model: i64, tag: &Entry) -> Attempt<()> {
    session
        .conn
        .prepare_cached(
            "INSERT INTO registered_model_tags (model, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (model, key) DO UPDATE SET value = excluded.value",
        )?
        .execute((model, &tag.key, &tag.value))?;
    Ok(())
}

pub(super) fn tag_set(session: &WriteSession, name: &str, tag: &Entry) -> Attempt<()> {
    let model = model_need(&session.conn, name)?;
    tag_put(session, model, tag)
}

pub(super) fn tag_delete(session: &WriteSession, name: &str, key: &str) -> Attempt<()> {
    let model = model_need(&session.conn, name)?;
    if key == IS_PROMPT {
        reject_if_promoted(&session.conn, model, "this prompt cannot become a model")?;
    }
    session
        .conn
        .prepare_cached("DELETE FROM registered_model_tags WHERE model = ?1 AND key = ?2")?
        .execute((model, key))?;
    Ok(())
}

pub(super) fn update(
    session: &WriteSession,
    name: &str,
    description: &str,
) -> Attempt<RegisteredModel> {
    let model = model_need(&session.conn, name)?;
    session
        .conn
        .prepare_cached("UPDATE registered_models SET description = ?2 WHERE id = ?1")?
        .execute((model, description))?;
    touch(session, model)?;
    read(&session.conn, model)
}

pub(super) fn rename(
    session: &WriteSession,
    name: &str,
    new_name: &str,
) -> Attempt<RegisteredModel> {
    let model = model_need(&session.conn, name)?;
    reject_if_in_history(&session.conn, model, "this prompt cannot be renamed")?;
    let written = session
        .conn
        .prepare_cached("UPDATE OR IGNORE registered_models SET name = ?2 WHERE id = ?1")?
        .execute((model, new_name))?;
    if written == 0 {
        return Err(StoreError::AlreadyExists(format!(
            "Registered Model (name={}) already exists",
            shown(new_name)
        ))
        .into());
    }
    touch(session, model)?;
    read(&session.conn, model)
}

pub(super) fn delete(session: &WriteSession, name: &str) -> Attempt<()> {
    let model = model_need(&session.conn, name)?;
    reject_if_in_history(&session.conn, model, "this prompt cannot be deleted")?;
    for sql in [
        "DELETE FROM registered_model_aliases WHERE model = ?1",
        "DELETE FROM model_version_tags WHERE model = ?1",
        "DELETE FROM model_versions WHERE model = ?1",
        "DELETE FROM registered_model_tags WHERE model = ?1",
        "DELETE FROM registered_models WHERE id = ?1",
    ] {
        session.conn.prepare_cached(sql)?.execute([model])?;
    }
    Ok(())
}

/// Sets an alias of a version, or deletes it.
pub(super) fn alias(
    session: &WriteSession,
    name: &str,
    alias: &str,
    version: Option<&str>,
) -> Attempt<()> {
    let conn = &session.conn;
    let model = model_need(conn, name)?;
    if alias == CHAMPION {
        reject_if_promoted(conn, model, "the alias 'champion' cannot be changed here")?;
    }
    match version {
        Some(version) => {
            let version = versions::version_need(conn, model, name, version)?;
            conn.prepare_cached(
                "INSERT INTO registered_model_aliases (model, alias, version) VALUES (?1, ?2, ?3)
                 ON CONFLICT (model, alias) DO UPDATE SET version = excluded.version",
            )?
            .execute((model, alias, version))?;
        }
        None => {
            conn.prepare_cached(
                "DELETE FROM registered_model_aliases WHERE model = ?1 AND alias = ?2",
            )?
            .execute((model, alias))?;
        }
    }
    touch(session, model)
}

pub(super) fn get(conn: &Connection, name: &str) -> Attempt<RegisteredModel> {
    read(conn, model_need(conn, name)?)
}

fn read(conn: &Connection, model: i64) -> Attempt<RegisteredModel> {
    let mut found = conn
        .prepare_cached(
            "SELECT name, description, creation_time, last_update_time FROM registered_models
             WHERE id = ?1",
        )?
        .query_row([model], |row| {
            Ok(RegisteredModel {
                name: row.get(0)?,
                description: row.get(1)?,
                creation_timestamp: row.get(2)?,
                last_updated_timestamp: row.get(3)?,
                latest_versions: Vec::new(),
                tags: Vec::new(),
                aliases: Vec::new(),
            })
        })?;
    found.tags = conn
        .prepare_cached("SELECT key, value FROM registered_model_tags WHERE model = ?1")?
        .query_map([model], entry)?
        .collect::<rusqlite::Result<_>>()?;
    found.aliases = conn
        .prepare_cached("SELECT alias, version FROM registered_model_aliases WHERE model = ?1")?
        .query_map([model], |row| {
            Ok(Alias {
                alias: row.get(0)?,
                version: row.get::<_, i64>(1)?.to_string(),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    found.latest_versions = versions::latest(conn, model)?.into_iter().collect();
    Ok(found)
}

pub(super) fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        key: row.get(0)?,
        value: row.get(1)?,
    })
}

/// Like MLflow, omits prompts unless the filter includes them.
pub(super) fn search(conn: &Connection, search: &Search) -> Attempt<Page<RegisteredModel>> {
    limits::list("order_by", search.order_by.len(), limits::ORDERS)?;
    let mut sql = Sql::new("1");
    let mut asks_for_prompts = false;
    for comparison in parse(&search.filter)? {
        let condition = Subject::RegisteredModels.condition(comparison)?;
        match &condition.field {
            // MLflow's client searches for models this way; they do not have this tag.
            Field::Tag(key)
                if key == IS_PROMPT && condition.test.operator == Operator::NotEqual => {}
            Field::Tag(key) => {
                asks_for_prompts |= key == IS_PROMPT;
                let join = "x.model = m.id";
                sql.entry_test("registered_model_tags", join, key, &condition.test);
            }
            _ => text_test(&mut sql, "m.name", &condition.test),
        }
    }
    if !asks_for_prompts {
        let prompt = "NOT EXISTS (SELECT 1 FROM registered_model_tags x WHERE x.model = m.id \
                      AND x.key = 'mlflow.prompt.is_prompt' AND x.value = 'true')";
        sql.push(prompt.to_owned(), []);
    }
    let mut orders = Vec::new();
    for order in Subject::RegisteredModels.orders(&search.order_by)? {
        let column = match order.0 {
            Field::Text(_) => "m.name",
            _ => "m.last_update_time",
        };
        orders.push(format!("{column}{}", if order.1 { " DESC" } else { "" }));
    }
    orders.push("m.name".to_owned());
    let text = format!(
        "SELECT m.id FROM registered_models m WHERE {} ORDER BY {} LIMIT ? OFFSET ?",
        sql.conditions(),
        orders.join(", ")
    );
    let values = sql.values.into_iter().chain(limits_of(search));
    let mut list = conn.prepare_cached(&text)?;
    let ids = list.query_map(params_from_iter(values), |row| row.get::<_, i64>(0))?;
    let ids = page(ids.collect::<rusqlite::Result<Vec<_>>>()?, search.slice);
    let models = ids.items.into_iter().map(|id| read(conn, id));
    Ok(Page {
        items: models.collect::<Attempt<_>>()?,
        next_offset: ids.next_offset,
    })
}
