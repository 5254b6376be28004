//! Applying rewards, each once.
//!
//! A reward, the model that learned from it and the counts are written in one transaction. A second
//! reward for the same decision finds the first one, even in the same group of the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::records::{ArmModel, DecisionId, Model, features_decode};
use super::tallies::{Change, count, hour_add, hour_of, source_add};
use super::{PolicySession, PolicyStore};
use crate::sqlite::Attempt;
use crate::{Result, StoreError};

/// A reward for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Reward {
    pub decision: DecisionId,
    /// The policy that must have made the decision; `None` for any.
    pub policy: Option<String>,
    pub value: f64,
    pub at_ms: i64,
    /// Whether the models of the user's other arms may change too.
    pub all_arms: bool,
}

/// What became of a reward. Whatever the answer says about the log is committed.
#[derive(Debug, Clone, PartialEq)]
pub enum RewardAnswer<T> {
    /// It was recorded and applied; with what the caller's function returned.
    Applied(T),
    /// The same reward was recorded before, and nothing was changed.
    Repeated,
    /// Another reward was recorded before, and nothing was changed.
    Conflict { recorded: f64 },
    /// No decision has this id: it was never logged, or its user was deleted.
    Unknown,
    /// Another policy than the expected one made the decision, and nothing was changed.
    OtherPolicy { policy: String },
}

/// The decision that a reward is applied to.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardedDecision {
    pub id: DecisionId,
    pub user: String,
    pub policy: String,
    pub policy_version: String,
    pub feature_version: u32,
    /// The arm of the chosen candidate.
    pub arm: String,
    /// The features of the chosen candidate.
    pub features: Vec<f64>,
}

/// What a model learns from.
#[derive(Debug)]
pub struct Update<'a> {
    pub decision: &'a RewardedDecision,
    pub reward: f64,
    /// The place of the reward in the order of all rewards.
    pub position: i64,
    /// The model before the reward; `None` if it has not learned yet.
    pub model: Option<Model>,
    /// The models of the user's other arms, if the reward asks for them.
    pub others: Vec<ArmModel>,
}

/// What a reward changes.
#[derive(Debug)]
pub struct Updated<T> {
    /// The model of the decision's arm.
    pub model: Model,
    /// Models of other arms, by arm.
    pub others: Vec<(String, Model)>,
    /// For the caller.
    pub value: T,
}

impl<T> Updated<T> {
    /// A change of the decision's arm only.
    pub const fn one(model: Model, value: T) -> Self {
        Self {
            model,
            others: Vec::new(),
            value,
        }
    }
}

impl PolicyStore {
    /// Records a reward and updates the model of the decision's arm. `update` runs on the writer's
    /// thread, inside the transaction: it returns the new models, and a value for `done`. If it
    /// fails, nothing is recorded and the reward can be sent again.
    pub fn reward_apply<T: Send + 'static>(
        &self,
        reward: Reward,
        update: impl FnOnce(Update<'_>) -> Result<Updated<T>> + Send + 'static,
        done: impl FnOnce(Result<RewardAnswer<T>>) + Send + 'static,
    ) {
        if reward.value.is_finite() {
            self.submit(move |session| apply(session, &reward, update), done);
        } else {
            done(Err(StoreError::Invalid(format!(
                "the reward {} of decision {} is not a finite number",
                reward.value, reward.decision
            ))));
        }
    }
}

fn apply<T>(
    session: &mut PolicySession,
    reward: &Reward,
    update: impl FnOnce(Update<'_>) -> Result<Updated<T>>,
) -> Attempt<RewardAnswer<T>> {
    let Some(found) = find(&session.conn, reward.decision)? else {
        return Ok(RewardAnswer::Unknown);
    };
    let decision = &found.decision;
    let expected = reward.policy.as_ref();
    if expected.is_some_and(|it| *it != decision.policy) {
        return Ok(RewardAnswer::OtherPolicy {
            policy: found.decision.policy,
        });
    }
    #[expect(
        clippy::float_cmp,
        reason = "only the very same reward is a repetition"
    )]
    if let Some(recorded) = found.recorded {
        return Ok(if recorded == reward.value {
            RewardAnswer::Repeated
        } else {
            RewardAnswer::Conflict { recorded }
        });
    }
    let position = next_position(session)?;
    let (row, model) = arm_get(&session.conn, decision)?;
    let update_with = Update {
        decision,
        reward: reward.value,
        position,
        model,
        others: if reward.all_arms {
            others_get(&session.conn, decision)?
        } else {
            Vec::new()
        },
    };
    let updated = catch_unwind(AssertUnwindSafe(|| update(update_with)));
    let updated = updated.unwrap_or_else(|_| Err(StoreError::worker_panicked()))?;
    reward_write(&session.conn, reward, &found, position)?;
    arm_write(&session.conn, row, reward.value, position, &updated.model)?;
    for (arm, model) in &updated.others {
        other_write(&session.conn, decision, arm, position, model)?;
    }
    session.next_position = Some(position + 1);
    Ok(RewardAnswer::Applied(updated.value))
}

/// A decision with the reward that it has.
struct Found {
    decision: RewardedDecision,
    source: Option<String>,
    recorded: Option<f64>,
}

fn find(conn: &Connection, id: DecisionId) -> Attempt<Option<Found>> {
    let mut find = conn.prepare_cached(
        "SELECT d.user, d.policy, d.policy_version, d.feature_version, d.arm, d.features, d.source,
                r.value
         FROM decision d LEFT JOIN reward r ON r.decision = d.id WHERE d.id = ?1",
    )?;
    let mut rows = find.query([id.number()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let features = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(Some(Found {
        decision: RewardedDecision {
            id,
            user: row.get(0)?,
            policy: row.get(1)?,
            policy_version: row.get(2)?,
            feature_version: row.get(3)?,
            arm: row.get(4)?,
            features: features_decode(id, features)?,
        },
        source: row.get(6)?,
        recorded: row.get(7)?,
    }))
}

/// The row of a decision's arm, and the model if there is one. Recording the decision made the row.
fn arm_get(conn: &Connection, decision: &RewardedDecision) -> Attempt<(i64, Option<Model>)> {
    let mut find = conn.prepare_cached(
        "SELECT id, dimension, updates, model FROM arm
         WHERE user = ?1 AND policy = ?2 AND arm = ?3",
    )?;
    let key = (&decision.user, &decision.policy, &decision.arm);
    let found = find.query_row(key, |row| {
        let is_there = row.get_ref(3)? != ValueRef::Null;
        let model = is_there.then(|| model(row, 1)).transpose()?;
        Ok((row.get(0)?, model))
    });
    found.optional()?.ok_or_else(|| {
        let reason = "its counts are missing".to_owned();
        let what = format!("the arm of decision {}", decision.id);
        StoreError::Unreadable { what, reason }.into()
    })
}

/// The models of the same user and policy, without that of the decision's arm.
fn others_get(conn: &Connection, decision: &RewardedDecision) -> Attempt<Vec<ArmModel>> {
    let mut list = conn.prepare_cached(
        "SELECT arm, position, dimension, updates, model FROM arm
         WHERE user = ?1 AND policy = ?2 AND arm <> ?3 AND model IS NOT NULL ORDER BY arm",
    )?;
    let key = (&decision.user, &decision.policy, &decision.arm);
    let others = list.query_map(key, |row| {
        Ok(ArmModel {
            arm: row.get(0)?,
            position: row.get(1)?,
            model: model(row, 2)?,
        })
    })?;
    Ok(others.collect::<rusqlite::Result<_>>()?)
}

/// A model from three columns.
pub(super) fn model(row: &Row<'_>, first: usize) -> rusqlite::Result<Model> {
    Ok(Model {
        dimension: row.get(first)?,
        updates: count(row, first + 1)?,
        bytes: row.get(first + 2)?,
    })
}

/// The position after the last reward, also if that reward was deleted.
fn next_position(session: &PolicySession) -> Attempt<i64> {
    match session.next_position {
        Some(position) => Ok(position),
        None => Ok(last_position(&session.conn)? + 1),
    }
}

/// The position of the last reward; 0 before the first.
pub(super) fn last_position(conn: &Connection) -> Attempt<i64> {
    let mut find = conn.prepare_cached(
        "SELECT max((SELECT coalesce(max(position), 0) FROM reward),
                    (SELECT position FROM position_floor))",
    )?;
    Ok(find.query_row([], |row| row.get(0))?)
}

/// Adds the reward to the log and to the sums.
fn reward_write(conn: &Connection, reward: &Reward, found: &Found, position: i64) -> Attempt<()> {
    let policy = &found.decision.policy;
    conn.prepare_cached(
        "INSERT INTO reward (position, decision, policy, at_ms, value)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((
        position,
        reward.decision.number(),
        policy,
        reward.at_ms,
        reward.value,
    ))?;
    let change = Change::reward(reward.value);
    hour_add(conn, policy, hour_of(reward.at_ms), &change)?;
    if let Some(source) = &found.source {
        source_add(conn, source, &change)?;
    }
    Ok(())
}

fn arm_write(conn: &Connection, row: i64, value: f64, position: i64, model: &Model) -> Attempt<()> {
    conn.prepare_cached(
        "UPDATE arm SET rewards = rewards + 1, reward_sum = reward_sum + ?2,
                        reward_squares = reward_squares + ?2 * ?2, position = ?3,
                        dimension = ?4, updates = ?5, model = ?6
         WHERE id = ?1",
    )?
    .execute((
        row,
        value,
        position,
        model.dimension,
        i64::try_from(model.updates).unwrap_or(i64::MAX),
        &model.bytes,
    ))?;
    Ok(())
}

/// Replaces the model of another arm.
fn other_write(
    conn: &Connection,
    decision: &RewardedDecision,
    arm: &str,
    position: i64,
    model: &Model,
) -> Attempt<()> {
    conn.prepare_cached(
        "UPDATE arm SET position = ?4, dimension = ?5, updates = ?6, model = ?7
         WHERE user = ?1 AND policy = ?2 AND arm = ?3",
    )?
    .execute((
        &decision.user,
        &decision.policy,
        arm,
        position,
        model.dimension,
        i64::try_from(model.updates).unwrap_or(i64::MAX),
        &model.bytes,
    ))?;
    Ok(())
}
