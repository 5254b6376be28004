//! Reading the log in order, in pages.
//!
//! Each page is a snapshot of its own: a long snapshot would keep the write-ahead log growing. The
//! order of rewards never changes, so a stream of them up to a position is the same at any time.

use std::collections::BinaryHeap;

use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use super::PolicyFile;
use super::records::{DecisionId, LoggedDecision, LoggedReward, TipSource, features_decode};
use super::shadows::signals_of;
use crate::Result;
use crate::sqlite::Attempt;

/// The maximum number of decisions in a page.
const PAGE: u32 = 512;
/// A page ends when its records have this size.
const PAGE_BYTES: usize = 4 << 20;
/// The number of ids that are read at once for a sample.
const IDS: u32 = 16_384;

/// Which decisions are read, and in which order.
///
/// Without `rewarded`, decisions are read in the order of their ids, and `after` and `until` are
/// ids ([`LogQuery::of_id`]). With it, they are read in the order of their rewards, and `after` and
/// `until` are positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub policy: Option<String>,
    pub user: Option<String>,
    /// Only decisions with a reward.
    pub rewarded: bool,
    /// Exclusive; 0 from the beginning.
    pub after: i64,
    /// Inclusive; `None` to the end.
    pub until: Option<i64>,
    /// Also read what the shadows chose.
    pub shadows: bool,
}

impl LogQuery {
    /// A place in the order of decisions, for `after` and `until`.
    pub const fn of_id(id: DecisionId) -> i64 {
        id.number()
    }

    /// The place of a decision in the order of the query, for `after` of the next one.
    pub fn place(&self, decision: &LoggedDecision) -> i64 {
        match &decision.reward {
            Some(reward) if self.rewarded => reward.position,
            _ => decision.id.number(),
        }
    }
}

impl PolicyFile {
    /// One decision, with the choices of shadows.
    pub fn decision_get(&self, id: DecisionId) -> Result<Option<LoggedDecision>> {
        self.readers.read(|conn| fetch(conn, id, true))
    }

    /// The first decisions of a query, at most `limit`; fewer if their records are large. Empty
    /// only if there are none.
    pub fn log_page(&self, query: &LogQuery, limit: u32) -> Result<Vec<LoggedDecision>> {
        self.readers.read(|conn| {
            let ids = match &query.user {
                Some(user) => user_ids(conn, query, user, limit)?,
                None => all_ids(conn, query, limit)?,
            };
            page(conn, query, &ids).map(|it| it.0)
        })
    }

    /// Visits the decisions of a query in order, until `visit` returns `false`. Memory does not
    /// depend on the number of decisions, except for 8 bytes for each one of a user.
    pub fn log_each(
        &self,
        query: &LogQuery,
        mut visit: impl FnMut(LoggedDecision) -> Result<bool>,
    ) -> Result<()> {
        if let Some(user) = &query.user {
            let mut ids = self
                .readers
                .read(|conn| user_ids(conn, query, user, u32::MAX))?;
            while !ids.is_empty() {
                let most = ids.len().min(PAGE as usize);
                let (decisions, read) =
                    self.readers.read(|conn| page(conn, query, &ids[..most]))?;
                ids.drain(..read);
                for decision in decisions {
                    if !visit(decision)? {
                        return Ok(());
                    }
                }
            }
            return Ok(());
        }
        let mut query = query.clone();
        loop {
            let decisions = self.log_page(&query, PAGE)?;
            let Some(last) = decisions.last() else {
                return Ok(());
            };
            query.after = query.place(last);
            for decision in decisions {
                if !visit(decision)? {
                    return Ok(());
                }
            }
        }
    }

    /// A random sample of the decisions from this time on, in the order of their ids; the same for
    /// the same seed and log. Reads all ids.
    pub fn decision_sample(
        &self,
        size: usize,
        seed: u64,
        since_ms: i64,
    ) -> Result<Vec<LoggedDecision>> {
        let first = DecisionId::new(since_ms, 0).number();
        // The ids with the smallest hashes, the largest of which is replaced first.
        let mut smallest: BinaryHeap<([u8; 32], i64)> = BinaryHeap::new();
        let mut after = (String::new(), i64::MIN);
        loop {
            let ids = self.readers.read_one(|conn| ids_page(conn, &after))?;
            let Some(last) = ids.last() else { break };
            after.clone_from(last);
            for (_, id) in ids {
                if id >= first {
                    smallest.push((hash(seed, id), id));
                }
                if smallest.len() > size {
                    smallest.pop();
                }
            }
        }
        let mut ids: Vec<i64> = smallest.into_iter().map(|(_, id)| id).collect();
        ids.sort_unstable();
        let mut decisions = Vec::with_capacity(ids.len());
        for id in ids {
            let id = DecisionId::from_number(id);
            let found = self.readers.read_one(|conn| fetch(conn, id, false))?;
            decisions.extend(found);
        }
        Ok(decisions)
    }
}

fn hash(seed: u64, id: i64) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(seed.to_le_bytes());
    hasher.update(id.to_le_bytes());
    hasher.finalize().into()
}

/// Ids with their users, in the order of the index of users, which is much smaller than the table.
fn ids_page(conn: &Connection, after: &(String, i64)) -> Attempt<Vec<(String, i64)>> {
    let mut list = conn.prepare_cached(
        "SELECT user, id FROM decision WHERE (user, id) > (?1, ?2) ORDER BY user, id LIMIT ?3",
    )?;
    let ids = list.query_map((&after.0, after.1, IDS), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

fn all_ids(conn: &Connection, query: &LogQuery, limit: u32) -> Attempt<Vec<i64>> {
    let sql = if query.rewarded {
        "SELECT decision FROM reward
         WHERE position > ?1 AND position <= ?2 AND (?3 IS NULL OR policy = ?3)
         ORDER BY position LIMIT ?4"
    } else {
        "SELECT id FROM decision WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR policy = ?3)
         ORDER BY id LIMIT ?4"
    };
    let until = query.until.unwrap_or(i64::MAX);
    let mut list = conn.prepare_cached(sql)?;
    let ids = list.query_map((query.after, until, &query.policy, limit), |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

fn user_ids(conn: &Connection, query: &LogQuery, user: &str, limit: u32) -> Attempt<Vec<i64>> {
    let sql = if query.rewarded {
        "SELECT d.id FROM decision d CROSS JOIN reward r ON r.decision = d.id
         WHERE d.user = ?5 AND r.position > ?1 AND r.position <= ?2
               AND (?3 IS NULL OR r.policy = ?3)
         ORDER BY r.position LIMIT ?4"
    } else {
        "SELECT id FROM decision
         WHERE user = ?5 AND id > ?1 AND id <= ?2 AND (?3 IS NULL OR policy = ?3)
         ORDER BY id LIMIT ?4"
    };
    let until = query.until.unwrap_or(i64::MAX);
    let mut list = conn.prepare_cached(sql)?;
    let values = (query.after, until, &query.policy, limit, user);
    let ids = list.query_map(values, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// The decisions with these ids until the page is full, and the number of ids that were read.
fn page(conn: &Connection, query: &LogQuery, ids: &[i64]) -> Attempt<(Vec<LoggedDecision>, usize)> {
    let mut decisions = Vec::with_capacity(ids.len());
    let (mut bytes, mut read) = (0, 0);
    for id in ids {
        // A decision may have been deleted since the list of ids was read.
        if let Some(decision) = fetch(conn, DecisionId::from_number(*id), query.shadows)? {
            bytes += decision.record.len();
            decisions.push(decision);
        }
        read += 1;
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok((decisions, read))
}

fn fetch(conn: &Connection, id: DecisionId, shadows: bool) -> Attempt<Option<LoggedDecision>> {
    let mut find = conn.prepare_cached(
        "SELECT d.at_ms, d.user, d.policy, d.policy_version, d.feature_version, d.arm, d.chosen,
                d.propensity, d.features, d.source, d.record, r.position, r.at_ms, r.value,
                r.position <= z.position
         FROM decision d LEFT JOIN reward r ON r.decision = d.id
                         LEFT JOIN reset z ON z.user = d.user
         WHERE d.id = ?1",
    )?;
    let mut rows = find.query([id.number()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let features = row.get_ref(8)?.as_blob().map_err(rusqlite::Error::from)?;
    let source: Option<String> = row.get(9)?;
    let reward = match row.get::<_, Option<i64>>(11)? {
        Some(position) => Some(LoggedReward {
            position,
            at_ms: row.get(12)?,
            value: row.get(13)?,
        }),
        None => None,
    };
    Ok(Some(LoggedDecision {
        id,
        at_ms: row.get(0)?,
        user: row.get(1)?,
        policy: row.get(2)?,
        policy_version: row.get(3)?,
        feature_version: row.get(4)?,
        arm: row.get(5)?,
        chosen: row.get(6)?,
        propensity: row.get(7)?,
        features: features_decode(id, features)?,
        source: source.as_deref().and_then(TipSource::parse),
        record: row.get(10)?,
        reward,
        is_before_reset: row.get::<_, Option<bool>>(14)?.unwrap_or(false),
        shadows: if shadows {
            signals_of(conn, id)?
        } else {
            Vec::new()
        },
    }))
}
