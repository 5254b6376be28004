//! Resetting and deleting users.

use rusqlite::Connection;
use serde::Serialize;

use super::rewards::last_position;
use super::tallies::{Change, count, hour_add, source_add};
use super::{PolicySession, PolicyStore};
use crate::Result;
use crate::sqlite::Attempt;

/// What was deleted with a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Deleted {
    pub decisions: u64,
    pub rewards: u64,
    pub models: u64,
}

impl PolicyStore {
    /// Removes the user's models in every policy; `done` receives how many there were. The log and
    /// the counts stay. Replays skip the user's rewards up to now.
    pub fn user_reset(
        &self,
        user: &str,
        at_ms: i64,
        done: impl FnOnce(Result<u64>) + Send + 'static,
    ) {
        let user = user.to_owned();
        self.submit(move |session| reset(&session.conn, &user, at_ms), done);
    }

    /// Deletes the user's decisions, rewards, shadow signals and models in one transaction, and
    /// takes them out of all counts. Rewards for these decisions are unknown afterwards.
    pub fn user_delete(&self, user: &str, done: impl FnOnce(Result<Deleted>) + Send + 'static) {
        let user = user.to_owned();
        self.submit(move |session| delete(session, &user), done);
    }
}

fn reset(conn: &Connection, user: &str, at_ms: i64) -> Attempt<u64> {
    let models = models_count(conn, user)?;
    conn.prepare_cached("DELETE FROM arm WHERE user = ?1 AND decisions = 0")?
        .execute([user])?;
    conn.prepare_cached(
        "UPDATE arm SET dimension = NULL, updates = NULL, model = NULL
         WHERE user = ?1 AND model IS NOT NULL",
    )?
    .execute([user])?;
    let position = last_position(conn)?;
    conn.prepare_cached(
        "INSERT INTO reset (user, at_ms, position)
         SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM decision WHERE user = ?1)
         ON CONFLICT (user) DO UPDATE SET at_ms = ?2, position = ?3",
    )?
    .execute((user, at_ms, position))?;
    Ok(models)
}

fn models_count(conn: &Connection, user: &str) -> Attempt<u64> {
    Ok(conn
        .prepare_cached("SELECT count(*) FROM arm WHERE user = ?1 AND model IS NOT NULL")?
        .query_row([user], |row| count(row, 0))?)
}

fn delete(session: &PolicySession, user: &str) -> Attempt<Deleted> {
    let conn = &session.conn;
    // No position is used twice, even if the last reward is deleted.
    conn.execute(
        "UPDATE position_floor SET position = ?1",
        [last_position(conn)?],
    )?;
    let models = models_count(conn, user)?;
    tallies_reduce(conn, user)?;
    shadows_delete(conn, user)?;
    let rewards = conn.execute(
        "DELETE FROM reward WHERE decision IN (SELECT id FROM decision WHERE user = ?1)",
        [user],
    )?;
    let decisions = conn.execute("DELETE FROM decision WHERE user = ?1", [user])?;
    conn.execute("DELETE FROM arm WHERE user = ?1", [user])?;
    conn.execute("DELETE FROM reset WHERE user = ?1", [user])?;
    Ok(Deleted {
        decisions: decisions as u64,
        rewards: rewards as u64,
        models,
    })
}

/// Takes the user's decisions and rewards out of the sums of policies and sources.
fn tallies_reduce(conn: &Connection, user: &str) -> Attempt<()> {
    let decided = "SELECT policy, at_ms, count(*), 0, 0.0, 0.0 FROM decision
                   WHERE user = ?1 GROUP BY 1, at_ms / 3600000";
    let rewarded = "SELECT r.policy, r.at_ms, 0, count(*), total(r.value), total(r.value * r.value)
                    FROM decision d JOIN reward r ON r.decision = d.id
                    WHERE d.user = ?1 GROUP BY 1, r.at_ms / 3600000";
    for sql in [decided, rewarded] {
        let mut list = conn.prepare(sql)?;
        let mut rows = list.query([user])?;
        while let Some(row) = rows.next()? {
            let (policy, at_ms): (String, i64) = (row.get(0)?, row.get(1)?);
            let hour = super::tallies::hour_of(at_ms);
            hour_add(conn, &policy, hour, &change(row)?.inverse())?;
        }
    }
    let mut list = conn.prepare(
        "SELECT d.source, 0, count(*), count(r.value), total(r.value), total(r.value * r.value)
         FROM decision d LEFT JOIN reward r ON r.decision = d.id
         WHERE d.user = ?1 AND d.source IS NOT NULL GROUP BY d.source",
    )?;
    let mut rows = list.query([user])?;
    while let Some(row) = rows.next()? {
        source_add(conn, &row.get::<_, String>(0)?, &change(row)?.inverse())?;
    }
    conn.execute(
        "UPDATE policy_users SET users = users - 1
         WHERE policy IN (SELECT policy FROM arm WHERE user = ?1 AND decisions > 0)",
        [user],
    )?;
    // Differences of sums may leave rounding errors behind.
    conn.execute_batch(
        "DELETE FROM policy_hour WHERE decisions = 0 AND rewards = 0;
         UPDATE policy_hour SET reward_sum = 0, reward_squares = 0
         WHERE rewards = 0 AND (reward_sum <> 0 OR reward_squares <> 0);
         DELETE FROM source_tally WHERE decisions = 0;
         UPDATE source_tally SET reward_sum = 0, reward_squares = 0
         WHERE rewards = 0 AND (reward_sum <> 0 OR reward_squares <> 0);",
    )?;
    Ok(())
}

/// A change from the columns after the first two.
fn change(row: &rusqlite::Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change {
        decisions: row.get(2)?,
        rewards: row.get(3)?,
        reward_sum: row.get(4)?,
        reward_squares: row.get(5)?,
    })
}

fn shadows_delete(conn: &Connection, user: &str) -> Attempt<()> {
    let mut list = conn.prepare(
        "SELECT s.shadow, count(*), sum(s.agreed), sum(s.trained)
         FROM decision d JOIN shadow_signal s ON s.decision = d.id
         WHERE d.user = ?1 GROUP BY s.shadow",
    )?;
    let mut rows = list.query([user])?;
    while let Some(row) = rows.next()? {
        let shadow: String = row.get(0)?;
        let (signals, agreed, trained): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        conn.execute(
            "UPDATE shadow_tally SET signals = signals - ?2, agreed = agreed - ?3,
                                     trained = trained - ?4, users = users - 1
             WHERE shadow = ?1",
            (shadow, signals, agreed, trained),
        )?;
    }
    conn.execute("DELETE FROM shadow_user WHERE user = ?1", [user])?;
    conn.execute(
        "DELETE FROM shadow_signal WHERE decision IN (SELECT id FROM decision WHERE user = ?1)",
        [user],
    )?;
    Ok(())
}
