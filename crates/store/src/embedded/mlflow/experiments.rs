//! The experiment methods of the MLflow API.
//!
//! Deleting an experiment also deletes its active runs. They are marked as `buried` (which clients
//! see as `deleted`), so that restoring the experiment restores exactly these runs.

use assize_domain::ledger;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::conditions::{Sql, text_test};
use crate::StoreError;
use crate::embedded::write_session::WriteSession;
use crate::mlflow::filter::{Field, Subject, parse, parse_order};
use crate::mlflow::limits::{self, shown};
use crate::mlflow::{Entry, Experiment, Page, Search, View};
use crate::sqlite::Attempt;

const SELECT: &str = "SELECT e.experiment_id, e.name, e.artifact_location, e.lifecycle_stage,
                             e.creation_time, e.last_update_time FROM experiments e";

pub(super) fn stage(text: &str) -> &'static str {
    if text == "active" {
        "active"
    } else {
        "deleted"
    }
}

/// The artifact location of an experiment.
pub(super) fn location(experiment: i64, given: Option<String>) -> String {
    given.unwrap_or_else(|| format!("mlflow-artifacts:/{experiment}"))
}

/// Parses the id of an experiment.
pub(super) fn number(experiment_id: &str) -> Attempt<i64> {
    experiment_id.parse().map_err(|_| {
        StoreError::Invalid(format!(
            "Invalid experiment ID '{}'. Experiment ID must be a valid integer.",
            shown(experiment_id)
        ))
        .into()
    })
}

/// The ids of experiments as a JSON list, so that one parameter holds them.
pub(super) fn id_list(experiment_ids: &[String]) -> Attempt<String> {
    let numbers = experiment_ids.iter().map(|id| Ok(number(id)?.to_string()));
    let numbers = numbers.collect::<Attempt<Vec<_>>>()?;
    Ok(format!("[{}]", numbers.join(",")))
}

fn row(row: &Row<'_>) -> rusqlite::Result<(i64, Experiment)> {
    let id: i64 = row.get(0)?;
    Ok((
        id,
        Experiment {
            experiment_id: id.to_string(),
            name: row.get(1)?,
            artifact_location: location(id, row.get(2)?),
            lifecycle_stage: stage(&row.get::<_, String>(3)?),
            creation_time: row.get(4)?,
            last_update_time: row.get(5)?,
            workspace: "default",
            tags: Vec::new(),
        },
    ))
}

fn with_tags(conn: &Connection, (id, mut found): (i64, Experiment)) -> Attempt<Experiment> {
    let mut list = conn.prepare_cached(
        "SELECT key, value FROM experiment_tags WHERE experiment = ?1 ORDER BY key",
    )?;
    let tags = list.query_map([id], |row| {
        Ok(Entry {
            key: row.get(0)?,
            value: row.get(1)?,
        })
    })?;
    found.tags = tags.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

fn no_experiment(id: &str) -> StoreError {
    StoreError::NotFound(format!("No Experiment with id={} exists", shown(id)))
}

pub(super) fn get(conn: &Connection, id: &str) -> Attempt<Experiment> {
    let number = number(id)?;
    let found = conn
        .prepare_cached(&format!("{SELECT} WHERE e.experiment_id = ?1"))?
        .query_row([number], row)
        .optional()?;
    with_tags(conn, found.ok_or_else(|| no_experiment(id))?)
}

pub(in crate::embedded) fn get_by_name(conn: &Connection, name: &str) -> Attempt<Experiment> {
    let found = conn
        .prepare_cached(&format!("{SELECT} WHERE e.name = ?1"))?
        .query_row([name], row)
        .optional()?;
    let found = found.ok_or_else(|| {
        StoreError::NotFound(format!(
            "Could not find experiment with name '{}'",
            shown(name)
        ))
    })?;
    with_tags(conn, found)
}

/// An experiment that is not deleted.
pub(super) fn living(conn: &Connection, id: &str) -> Attempt<i64> {
    let number = number(id)?;
    let stage: Option<String> = conn
        .prepare_cached("SELECT lifecycle_stage FROM experiments WHERE experiment_id = ?1")?
        .query_row([number], |row| row.get(0))
        .optional()?;
    match stage.as_deref() {
        Some("active") => Ok(number),
        Some(_) => Err(StoreError::Invalid(format!(
            "The experiment {number} must be in the 'active' state. Current state is deleted."
        ))
        .into()),
        None => Err(no_experiment(id).into()),
    }
}

pub(super) fn create(
    session: &WriteSession,
    name: &str,
    location: Option<&str>,
    tags: &[Entry],
) -> Attempt<String> {
    let taken: Option<String> = session
        .conn
        .prepare_cached("SELECT lifecycle_stage FROM experiments WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    if let Some(stage) = taken {
        let hint = match stage.as_str() {
            "active" => "",
            _ => " It is deleted: restore it, or use another name.",
        };
        return Err(StoreError::AlreadyExists(format!(
            "Experiment(name={}) already exists.{hint}",
            shown(name)
        ))
        .into());
    }
    let id = session
        .conn
        .prepare_cached(
            "INSERT INTO experiments (name, artifact_location, creation_time, last_update_time)
             VALUES (?1, ?2, ?3, ?3)",
        )?
        .insert((name, location, session.now_ms()))?;
    for tag in tags {
        tag_set(session, id, tag)?;
    }
    Ok(id.to_string())
}

pub(in crate::embedded) fn tag_set(
    session: &WriteSession,
    experiment: i64,
    tag: &Entry,
) -> Attempt<()> {
    if ledger::is_entry_key(&tag.key) {
        ledger_check(session, experiment, tag)?;
    }
    session
        .conn
        .prepare_cached(
            "INSERT INTO experiment_tags (experiment, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (experiment, key) DO UPDATE SET value = excluded.value",
        )?
        .execute((experiment, &tag.key, &tag.value))?;
    Ok(())
}

/// Rejects a tag that is not a valid entry of the ledger, or that would change one.
fn ledger_check(session: &WriteSession, experiment: i64, tag: &Entry) -> Attempt<()> {
    if let Err(error) = ledger::parse_tag(&tag.key, &tag.value) {
        return Err(StoreError::Invalid(format!(
            "the tag '{}' must hold an entry of the ledger ({}): choose another name",
            shown(&tag.key),
            error.reason
        ))
        .into());
    }
    let existing: Option<String> = session
        .conn
        .prepare_cached("SELECT value FROM experiment_tags WHERE experiment = ?1 AND key = ?2")?
        .query_row((experiment, &tag.key), |row| row.get(0))
        .optional()?;
    match existing {
        Some(existing) if existing != tag.value => Err(ledger_is_permanent(&tag.key)),
        _ => Ok(()),
    }
}

fn ledger_is_permanent(key: &str) -> crate::sqlite::Fault {
    let key = shown(key);
    StoreError::Invalid(format!(
        "the tag '{key}' is an entry of the ledger, which is never changed or deleted"
    ))
    .into()
}

pub(super) fn tag(session: &WriteSession, id: &str, tag: &Entry, is_kept: bool) -> Attempt<()> {
    let experiment = living(&session.conn, id)?;
    if is_kept {
        return tag_set(session, experiment, tag);
    }
    if ledger::is_entry_key(&tag.key) {
        return Err(ledger_is_permanent(&tag.key));
    }
    let deleted = session
        .conn
        .prepare_cached("DELETE FROM experiment_tags WHERE experiment = ?1 AND key = ?2")?
        .execute((experiment, &tag.key))?;
    if deleted == 0 {
        return Err(StoreError::NotFound(format!(
            "No tag with name: {} in experiment with id {experiment}",
            tag.key
        ))
        .into());
    }
    Ok(())
}

pub(super) fn rename(session: &WriteSession, id: &str, name: &str) -> Attempt<()> {
    let experiment = living(&session.conn, id)?;
    let taken: Option<i64> = session
        .conn
        .prepare_cached("SELECT experiment_id FROM experiments WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    if taken.is_some_and(|it| it != experiment) {
        return Err(StoreError::Conflict(format!(
            "there is another experiment named '{}' already",
            shown(name)
        ))
        .into());
    }
    session
        .conn
        .prepare_cached(
            "UPDATE experiments SET name = ?2, last_update_time = ?3 WHERE experiment_id = ?1",
        )?
        .execute((experiment, name, session.now_ms()))?;
    Ok(())
}

pub(super) fn set_deleted(session: &WriteSession, id: &str, deleted: bool) -> Attempt<()> {
    let experiment = number(id)?;
    let (from, to, runs_from, runs_to) = if deleted {
        ("active", "deleted", "active", "buried")
    } else {
        ("deleted", "active", "buried", "active")
    };
    let changed = session
        .conn
        .prepare_cached(
            "UPDATE experiments SET lifecycle_stage = ?3, last_update_time = ?4
             WHERE experiment_id = ?1 AND lifecycle_stage = ?2",
        )?
        .execute((experiment, from, to, session.now_ms()))?;
    if changed == 0 {
        return Err(no_experiment(id).into());
    }
    session
        .conn
        .prepare_cached(
            "UPDATE runs SET lifecycle_stage = ?3 WHERE experiment = ?1 AND lifecycle_stage = ?2",
        )?
        .execute((experiment, runs_from, runs_to))?;
    Ok(())
}

pub(super) fn search(conn: &Connection, search: &Search) -> Attempt<Page<Experiment>> {
    limits::list("order_by", search.order_by.len(), limits::ORDERS)?;
    let mut sql = Sql::new(match search.view {
        View::Active => "e.lifecycle_stage = 'active'",
        View::Deleted => "e.lifecycle_stage <> 'active'",
        View::All => "1",
    });
    for comparison in parse(&search.filter)? {
        let condition = Subject::Experiments.condition(comparison)?;
        match &condition.field {
            Field::Tag(key) => {
                sql.entry_test(
                    "experiment_tags",
                    "x.experiment = e.experiment_id",
                    key,
                    &condition.test,
                );
            }
            Field::Number(column) => sql.number_test(&format!("e.{column}"), &condition.test),
            _ => text_test(&mut sql, "e.name", &condition.test),
        }
    }
    let mut orders = Vec::new();
    for clause in &search.order_by {
        let order = parse_order(clause)?;
        let (Field::Number(column) | Field::Text(column)) = Subject::Experiments.order(&order)?
        else {
            let message = "experiments are ordered by name, creation_time, last_update_time or \
                           experiment_id";
            return Err(StoreError::Invalid(message.to_owned()).into());
        };
        orders.push(format!(
            "e.{column}{}",
            if order.descending { " DESC" } else { "" }
        ));
    }
    if orders.is_empty() {
        orders.push("e.creation_time DESC".to_owned());
    }
    orders.push("e.experiment_id DESC".to_owned());
    let text = format!(
        "{SELECT} WHERE {} ORDER BY {} LIMIT ? OFFSET ?",
        sql.conditions(),
        orders.join(", ")
    );
    let mut values = sql.values;
    values.extend(limits_of(search));
    let mut list = conn.prepare_cached(&text)?;
    let found = list.query_map(params_from_iter(values), row)?;
    let found: Vec<_> = found.collect::<rusqlite::Result<_>>()?;
    let items = found.into_iter().map(|it| with_tags(conn, it));
    Ok(page(items.collect::<Attempt<_>>()?, search.slice))
}

/// One more than requested, to find out whether there is another page.
pub(super) fn limits_of(search: &Search) -> [Value; 2] {
    let offset = i64::try_from(search.slice.offset).unwrap_or(i64::MAX);
    [
        Value::Integer(i64::from(search.slice.max_results) + 1),
        Value::Integer(offset),
    ]
}

/// Removes the additional row again.
pub(super) fn page<T>(mut items: Vec<T>, slice: crate::mlflow::Slice) -> Page<T> {
    let limit = usize::try_from(slice.max_results).unwrap_or(usize::MAX);
    let is_cut = items.len() > limit;
    items.truncate(limit);
    Page {
        items,
        next_offset: is_cut.then(|| slice.offset + u64::from(slice.max_results)),
    }
}
