//! Recording decisions.

use rusqlite::{Connection, ErrorCode};

use super::records::{Decision, DecisionId, features_encode};
use super::tallies::{Change, hour_add, hour_of, source_add};
use super::{PolicySession, PolicyStore};
use crate::sqlite::Attempt;
use crate::{Result, StoreError};

/// A decision as it is stored.
struct Row {
    id: DecisionId,
    at_ms: i64,
    user: String,
    policy: String,
    policy_version: String,
    feature_version: u32,
    arm: String,
    chosen: u32,
    propensity: f64,
    features: Vec<u8>,
    source: Option<String>,
    record: String,
}

impl PolicyStore {
    /// Logs a decision. Once `done` was called with success, it can be rewarded.
    pub fn decision_record(
        &self,
        decision: Decision,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        match row(decision) {
            Ok(row) => self.submit(move |session| insert(session, &row), done),
            Err(error) => done(Err(error)),
        }
    }
}

/// Checks a decision and takes from its record what has columns of its own.
fn row(decision: Decision) -> Result<Row> {
    let id = decision.id;
    let invalid = |reason: &str| StoreError::Invalid(format!("decision {id}: {reason}"));
    let candidates = &decision.record.candidates;
    let index = usize::try_from(decision.chosen).unwrap_or(usize::MAX);
    let chosen = candidates
        .get(index)
        .ok_or_else(|| invalid("the chosen candidate is not in the list of candidates"))?;
    if !(chosen.propensity > 0.0 && chosen.propensity <= 1.0) {
        return Err(invalid(
            "the propensity of the chosen candidate is not in (0, 1]",
        ));
    }
    let scores = candidates.iter().map(|it| it.score);
    let propensities = candidates.iter().map(|it| it.propensity);
    let features = decision.features.iter().copied();
    if !scores
        .chain(propensities)
        .chain(features)
        .all(f64::is_finite)
    {
        return Err(invalid(
            "a score, a propensity or a feature is not a finite number",
        ));
    }
    let record = serde_json::to_string(&decision.record)
        .map_err(|error| invalid(&format!("its record cannot be stored ({error})")))?;
    Ok(Row {
        id,
        at_ms: decision.at_ms,
        arm: chosen.arm().to_owned(),
        chosen: decision.chosen,
        propensity: chosen.propensity,
        features: features_encode(&decision.features),
        source: chosen.source.as_ref().map(ToString::to_string),
        user: decision.user,
        policy: decision.policy,
        policy_version: decision.policy_version,
        feature_version: decision.feature_version,
        record,
    })
}

fn insert(session: &mut PolicySession, row: &Row) -> Attempt<()> {
    let conn = &session.conn;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO decision (id, at_ms, user, policy, policy_version, feature_version, arm,
                                   chosen, propensity, features, source, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute((
            row.id.number(),
            row.at_ms,
            &row.user,
            &row.policy,
            &row.policy_version,
            row.feature_version,
            &row.arm,
            row.chosen,
            row.propensity,
            &row.features,
            &row.source,
            &row.record,
        ));
    inserted.map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => {
            StoreError::AlreadyExists(format!("decision {} is already logged", row.id)).into()
        }
        _ => crate::sqlite::Fault::from(error),
    })?;
    let of_this_arm: i64 = conn
        .prepare_cached(
            "INSERT INTO arm (user, policy, arm, decisions) VALUES (?1, ?2, ?3, 1)
             ON CONFLICT (user, policy, arm) DO UPDATE SET decisions = decisions + 1
             RETURNING decisions",
        )?
        .query_row((&row.user, &row.policy, &row.arm), |row| row.get(0))?;
    if of_this_arm == 1 {
        user_count(conn, &row.user, &row.policy)?;
    }
    hour_add(conn, &row.policy, hour_of(row.at_ms), &Change::DECISION)?;
    if let Some(source) = &row.source {
        source_add(conn, source, &Change::DECISION)?;
    }
    Ok(())
}

/// Counts the user of a first decision with an arm, unless another arm was chosen before.
fn user_count(conn: &Connection, user: &str, policy: &str) -> Attempt<()> {
    let arms: i64 = conn
        .prepare_cached(
            "SELECT count(*) FROM arm WHERE user = ?1 AND policy = ?2 AND decisions > 0",
        )?
        .query_row((user, policy), |row| row.get(0))?;
    if arms == 1 {
        conn.prepare_cached(
            "INSERT INTO policy_users (policy, users) VALUES (?1, 1)
             ON CONFLICT (policy) DO UPDATE SET users = users + 1",
        )?
        .execute([policy])?;
    }
    Ok(())
}

/// The largest id in the file.
pub(super) fn last_id(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT coalesce(max(id), 0) FROM decision", [], |row| {
        row.get(0)
    })
}
