//! Counts and sums, kept up to date so that reading them does not depend on the length of the log.
//!
//! Sums of a user are in the rows of the user's arms; sums of a policy are one row an hour. A
//! reward counts in the hour in which it came.

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};

use super::PolicyFile;
use super::records::{DecisionId, LoggedReward, Tally, TipSource};
use super::rewards::last_position;
use crate::Result;
use crate::sqlite::Attempt;

pub(super) const HOUR_MS: i64 = 3_600_000;

/// The counts of one user, policy and arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ArmTally {
    pub arm: String,
    /// Decisions that chose this arm, and their rewards.
    #[serde(flatten)]
    pub tally: Tally,
    /// The number of rewards that the model has learned from; 0 without a model.
    pub updates: u64,
}

/// The counts of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PolicyTally {
    pub policy: String,
    #[serde(flatten)]
    pub tally: Tally,
    /// Users with a decision of this policy.
    pub users: u64,
}

/// The counts of a policy in one hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HourTally {
    /// The start of the hour, in Unix milliseconds.
    pub start_ms: i64,
    #[serde(flatten)]
    pub tally: Tally,
}

/// The counts of what generated the chosen candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SourceTally {
    pub source: TipSource,
    #[serde(flatten)]
    pub tally: Tally,
}

impl PolicyFile {
    /// The counts of a user with one policy, by arm; empty for an unknown user.
    pub fn user_tally(&self, user: &str, policy: &str) -> Result<Vec<ArmTally>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT decisions, rewards, reward_sum, reward_squares, arm, coalesce(updates, 0)
                 FROM arm WHERE user = ?1 AND policy = ?2 ORDER BY arm",
            )?;
            let arms = list.query_map((user, policy), |row| {
                Ok(ArmTally {
                    arm: row.get(4)?,
                    tally: tally(row)?,
                    updates: count(row, 5)?,
                })
            })?;
            Ok(arms.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The counts of every policy that has made a decision, by name.
    pub fn policy_tallies(&self) -> Result<Vec<PolicyTally>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT sum(h.decisions), sum(h.rewards), total(h.reward_sum),
                        total(h.reward_squares), h.policy, coalesce(u.users, 0)
                 FROM policy_hour h LEFT JOIN policy_users u ON u.policy = h.policy
                 GROUP BY h.policy ORDER BY h.policy",
            )?;
            let policies = list.query_map([], policy_tally)?;
            Ok(policies.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The counts of a policy; all zero before its first decision.
    pub fn policy_tally(&self, policy: &str) -> Result<PolicyTally> {
        self.readers.read_one(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT coalesce(sum(decisions), 0), coalesce(sum(rewards), 0), total(reward_sum),
                        total(reward_squares), ?1,
                        coalesce((SELECT users FROM policy_users WHERE policy = ?1), 0)
                 FROM policy_hour WHERE policy = ?1",
            )?;
            Ok(find.query_row([policy], policy_tally)?)
        })
    }

    /// The counts of a policy by hour, oldest first, for the hours that overlap the time from
    /// `from_ms` to `until_ms`. Hours without decisions and rewards are missing.
    pub fn policy_hours(
        &self,
        policy: &str,
        from_ms: i64,
        until_ms: i64,
    ) -> Result<Vec<HourTally>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT decisions, rewards, reward_sum, reward_squares, hour FROM policy_hour
                 WHERE policy = ?1 AND hour BETWEEN ?2 AND ?3 ORDER BY hour",
            )?;
            let range = (policy, hour_of(from_ms), hour_of(until_ms));
            let hours = list.query_map(range, |row| {
                Ok(HourTally {
                    start_ms: row.get::<_, i64>(4)?.saturating_mul(HOUR_MS),
                    tally: tally(row)?,
                })
            })?;
            Ok(hours.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The counts of the decisions that chose a candidate of this source.
    pub fn source_tally(&self, source: &TipSource) -> Result<Tally> {
        self.readers.read_one(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT decisions, rewards, reward_sum, reward_squares FROM source_tally
                 WHERE source = ?1",
            )?;
            let found = find.query_row([source.to_string()], tally).optional()?;
            Ok(found.unwrap_or_default())
        })
    }

    /// The counts of all sources, by name.
    pub fn source_tallies(&self) -> Result<Vec<SourceTally>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT decisions, rewards, reward_sum, reward_squares, source FROM source_tally
                 ORDER BY source",
            )?;
            let mut rows = list.query([])?;
            let mut tallies = Vec::new();
            while let Some(row) = rows.next()? {
                if let Some(source) = TipSource::parse(&row.get::<_, String>(4)?) {
                    let tally = tally(row)?;
                    tallies.push(SourceTally { source, tally });
                }
            }
            Ok(tallies)
        })
    }

    /// The latest rewards of a policy, newest first, at most `limit`. Reads back over the rewards
    /// of other policies in between.
    pub fn rewards_recent(
        &self,
        policy: &str,
        limit: u32,
    ) -> Result<Vec<(DecisionId, LoggedReward)>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT decision, position, at_ms, value FROM reward WHERE policy = ?1
                 ORDER BY position DESC LIMIT ?2",
            )?;
            let rewards = list.query_map((policy, limit), |row| {
                let reward = LoggedReward {
                    position: row.get(1)?,
                    at_ms: row.get(2)?,
                    value: row.get(3)?,
                };
                Ok((DecisionId::from_number(row.get(0)?), reward))
            })?;
            Ok(rewards.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The propensities of the latest decisions of a policy, newest first, at most `limit`.
    pub fn propensities_recent(&self, policy: &str, limit: u32) -> Result<Vec<f64>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT propensity FROM decision WHERE policy = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let found = list.query_map((policy, limit), |row| row.get(0))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The position of the last reward; 0 before the first.
    pub fn log_position(&self) -> Result<i64> {
        self.readers.read_one(last_position)
    }
}

/// A change of a tally.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Change {
    pub decisions: i64,
    pub rewards: i64,
    pub reward_sum: f64,
    pub reward_squares: f64,
}

impl Change {
    pub const DECISION: Self = Self {
        decisions: 1,
        rewards: 0,
        reward_sum: 0.0,
        reward_squares: 0.0,
    };

    pub fn reward(value: f64) -> Self {
        Self {
            decisions: 0,
            rewards: 1,
            reward_sum: value,
            reward_squares: value * value,
        }
    }

    pub fn inverse(self) -> Self {
        Self {
            decisions: -self.decisions,
            rewards: -self.rewards,
            reward_sum: -self.reward_sum,
            reward_squares: -self.reward_squares,
        }
    }
}

pub(super) const fn hour_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(HOUR_MS)
}

pub(super) fn hour_add(conn: &Connection, policy: &str, hour: i64, change: &Change) -> Attempt<()> {
    conn.prepare_cached(
        "INSERT INTO policy_hour (policy, hour, decisions, rewards, reward_sum, reward_squares)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (policy, hour) DO UPDATE
         SET decisions = decisions + ?3, rewards = rewards + ?4,
             reward_sum = reward_sum + ?5, reward_squares = reward_squares + ?6",
    )?
    .execute((
        policy,
        hour,
        change.decisions,
        change.rewards,
        change.reward_sum,
        change.reward_squares,
    ))?;
    Ok(())
}

pub(super) fn source_add(conn: &Connection, source: &str, change: &Change) -> Attempt<()> {
    conn.prepare_cached(
        "INSERT INTO source_tally (source, decisions, rewards, reward_sum, reward_squares)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (source) DO UPDATE
         SET decisions = decisions + ?2, rewards = rewards + ?3,
             reward_sum = reward_sum + ?4, reward_squares = reward_squares + ?5",
    )?
    .execute((
        source,
        change.decisions,
        change.rewards,
        change.reward_sum,
        change.reward_squares,
    ))?;
    Ok(())
}

/// A number that is never negative.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// A tally from the first four columns.
fn tally(row: &Row<'_>) -> rusqlite::Result<Tally> {
    Ok(Tally {
        decisions: count(row, 0)?,
        rewards: count(row, 1)?,
        reward_sum: row.get(2)?,
        reward_squares: row.get(3)?,
    })
}

fn policy_tally(row: &Row<'_>) -> rusqlite::Result<PolicyTally> {
    Ok(PolicyTally {
        policy: row.get(4)?,
        tally: tally(row)?,
        users: count(row, 5)?,
    })
}
