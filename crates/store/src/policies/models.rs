//! Models of users, and where policies start.
//!
//! The model of an arm includes the rewards up to a position of the log. A policy that has not been
//! active learns by replaying the rewards after that position; [`PolicyStore::model_write`] stores
//! what a replay has computed.

use rusqlite::{Connection, OptionalExtension as _};

use super::records::{ArmModel, Model};
use super::rewards::model;
use super::{PolicyFile, PolicyStore};
use crate::Result;
use crate::sqlite::Attempt;

/// A model that a replay of the log has computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelWrite {
    pub user: String,
    pub policy: String,
    pub arm: String,
    /// The position of the last reward that was replayed.
    pub position: i64,
    /// The user's reset that the replay has taken into account
    /// ([`PolicyFile::reset_position`]); 0 for none.
    pub reset_position: i64,
    pub model: Model,
}

/// From where a policy starts: the log up to `position` is its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStart {
    pub policy: String,
    pub at_ms: i64,
    /// The position of the log at that time.
    pub position: i64,
    /// How far the log has been replayed.
    pub replayed: i64,
    /// What users without history start from.
    pub priors: Vec<Prior>,
}

/// What the model of an arm starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prior {
    pub arm: String,
    pub model: Model,
}

impl PolicyFile {
    /// The models of a user with one policy, by arm.
    pub fn model_list(&self, user: &str, policy: &str) -> Result<Vec<ArmModel>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT arm, position, dimension, updates, model FROM arm
                 WHERE user = ?1 AND policy = ?2 AND model IS NOT NULL ORDER BY arm",
            )?;
            let arms = list.query_map((user, policy), |row| {
                Ok(ArmModel {
                    arm: row.get(0)?,
                    position: row.get(1)?,
                    model: model(row, 2)?,
                })
            })?;
            Ok(arms.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The position of the log when the user's models were reset last; 0 if they never were.
    /// Replays skip the user's rewards up to it.
    pub fn reset_position(&self, user: &str) -> Result<i64> {
        self.readers.read_one(|conn| reset_position(conn, user))
    }

    /// Stores from where a policy starts, in place of an earlier start.
    pub fn start_put(&self, start: &PolicyStart) -> Result<()> {
        self.change(|conn| {
            conn.execute(
                "INSERT INTO policy_start (policy, at_ms, position, replayed)
                 VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (policy) DO UPDATE
                 SET at_ms = ?2, position = ?3, replayed = ?4",
                (&start.policy, start.at_ms, start.position, start.replayed),
            )?;
            conn.execute(
                "DELETE FROM policy_prior WHERE policy = ?1",
                [&start.policy],
            )?;
            let mut insert = conn.prepare(
                "INSERT INTO policy_prior (policy, arm, dimension, updates, model)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for Prior { arm, model } in &start.priors {
                let updates = i64::try_from(model.updates).unwrap_or(i64::MAX);
                let values = (&start.policy, arm, model.dimension, updates, &model.bytes);
                insert.execute(values)?;
            }
            Ok(())
        })
    }

    /// From where a policy starts; `None` if it starts from nothing.
    pub fn start_get(&self, policy: &str) -> Result<Option<PolicyStart>> {
        self.readers.read(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT at_ms, position, replayed FROM policy_start WHERE policy = ?1",
            )?;
            let found = find.query_row([policy], |row| {
                Ok(PolicyStart {
                    policy: policy.to_owned(),
                    at_ms: row.get(0)?,
                    position: row.get(1)?,
                    replayed: row.get(2)?,
                    priors: Vec::new(),
                })
            });
            let Some(mut start) = found.optional()? else {
                return Ok(None);
            };
            let mut list = conn.prepare_cached(
                "SELECT arm, dimension, updates, model FROM policy_prior WHERE policy = ?1
                 ORDER BY arm",
            )?;
            let priors = list.query_map([policy], |row| {
                Ok(Prior {
                    arm: row.get(0)?,
                    model: model(row, 1)?,
                })
            })?;
            start.priors = priors.collect::<rusqlite::Result<_>>()?;
            Ok(Some(start))
        })
    }
}

impl PolicyStore {
    /// Stores models from a replay and how far the replay of a policy has come, in one transaction.
    /// A model is left out if the stored one includes later rewards or the user was reset since.
    /// `done` receives the number of models that were stored. A call delays other writes, so it
    /// should have some hundred models at most.
    pub fn model_write(
        &self,
        models: Vec<ModelWrite>,
        replayed: Option<(String, i64)>,
        done: impl FnOnce(Result<u64>) + Send + 'static,
    ) {
        let job = move |session: &mut super::PolicySession| {
            let mut stored = 0;
            for write in &models {
                stored += u64::from(model_put(&session.conn, write)?);
            }
            if let Some((policy, position)) = &replayed {
                session
                    .conn
                    .prepare_cached("UPDATE policy_start SET replayed = ?2 WHERE policy = ?1")?
                    .execute((policy, position))?;
            }
            Ok(stored)
        };
        self.submit(job, done);
    }
}

/// Returns whether the model was stored.
fn model_put(conn: &Connection, write: &ModelWrite) -> Attempt<bool> {
    if reset_position(conn, &write.user)? != write.reset_position {
        return Ok(false);
    }
    let changed = conn
        .prepare_cached(
            "INSERT INTO arm (user, policy, arm, position, dimension, updates, model)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (user, policy, arm) DO UPDATE
             SET position = ?4, dimension = ?5, updates = ?6, model = ?7
             WHERE model IS NULL OR position <= ?4",
        )?
        .execute((
            &write.user,
            &write.policy,
            &write.arm,
            write.position,
            write.model.dimension,
            i64::try_from(write.model.updates).unwrap_or(i64::MAX),
            &write.model.bytes,
        ))?;
    Ok(changed == 1)
}

fn reset_position(conn: &Connection, user: &str) -> Attempt<i64> {
    let mut find = conn.prepare_cached("SELECT position FROM reset WHERE user = ?1")?;
    let found = find.query_row([user], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}
