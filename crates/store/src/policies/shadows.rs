//! Signals of shadows: what a policy that is not active would have chosen.
//!
//! Signals are collected in memory and written in small groups by the maintenance thread. Recording
//! one never waits for the disk; signals that were not written yet are lost if the process is
//! killed, and signals beyond the limit are dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};

use super::records::DecisionId;
use super::tallies::count;
use super::{PolicyFile, PolicySession, PolicyStore, Writing};
use crate::Result;
use crate::sqlite::Attempt;

/// The maximum number of signals that are kept in memory.
const MOST_KEPT: usize = 16_384;
/// The number of signals in a job, which limits how long other writes wait.
const GROUP: usize = 64;

/// What a shadow chose for a decision of the active policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ShadowSignal {
    #[schemars(with = "String")]
    pub decision: DecisionId,
    pub shadow: String,
    pub at_ms: i64,
    /// The index of the candidate.
    pub chosen: u32,
    /// Whether the active policy chose the same.
    pub agreed: bool,
    /// The probability with which the shadow would choose the candidate that was shown.
    pub propensity: f64,
    /// The shadow's score of its own choice.
    pub score: f64,
    /// Whether the shadow had learned from a replay or a prior.
    pub trained: bool,
}

/// The counts of a shadow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ShadowTally {
    pub shadow: String,
    pub signals: u64,
    pub agreed: u64,
    /// Signals of the shadow after it had learned.
    pub trained: u64,
    pub users: u64,
    pub last_ms: i64,
}

/// The signals of a trained shadow from some time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ShadowTraffic {
    pub signals: u64,
    pub agreed: u64,
    pub users: u64,
}

/// Signals that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Signals {
    kept: Mutex<Vec<ShadowSignal>>,
    dropped: AtomicU64,
}

impl Signals {
    fn add(&self, signal: ShadowSignal) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept = kept.len() < MOST_KEPT;
        if is_kept {
            kept.push(signal);
        } else {
            drop(kept);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_kept
    }

    fn take(&self) -> Vec<ShadowSignal> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Writing {
    /// Writes what was collected and waits for the commits. Returns whether there was anything.
    pub(super) fn signals_write(&self) -> bool {
        let mut signals = self.signals.take();
        let any = !signals.is_empty();
        while !signals.is_empty() {
            let group: Vec<_> = signals.drain(..signals.len().min(GROUP)).collect();
            let number = group.len() as u64;
            let written = self.writer.write(move |session| write(session, &group));
            if written.is_err() {
                self.signals.dropped.fetch_add(number, Ordering::Relaxed);
            }
        }
        any
    }
}

impl PolicyStore {
    /// Records a signal without waiting; `false` if it was dropped because too many are waiting.
    pub fn shadow_record(&self, signal: ShadowSignal) -> bool {
        self.writing.signals.add(signal)
    }

    /// The number of signals that were dropped since the store was opened: too many were waiting,
    /// or they could not be written.
    pub fn shadow_dropped(&self) -> u64 {
        self.writing.signals.dropped.load(Ordering::Relaxed)
    }

    /// Writes the signals that wait in memory and waits for the commit.
    pub fn shadow_flush(&self) {
        self.writing.signals_write();
    }
}

impl PolicyFile {
    /// The counts of all shadows, by name.
    pub fn shadow_tallies(&self) -> Result<Vec<ShadowTally>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT shadow, signals, agreed, trained, users, last_ms FROM shadow_tally
                 ORDER BY shadow",
            )?;
            let tallies = list.query_map([], |row| {
                Ok(ShadowTally {
                    shadow: row.get(0)?,
                    signals: count(row, 1)?,
                    agreed: count(row, 2)?,
                    trained: count(row, 3)?,
                    users: count(row, 4)?,
                    last_ms: row.get(5)?,
                })
            })?;
            Ok(tallies.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The signals of a trained shadow on decisions from this time on. Reads all of them.
    pub fn shadow_traffic(&self, shadow: &str, since_ms: i64) -> Result<ShadowTraffic> {
        self.readers.read_one(|conn| {
            let mut sum = conn.prepare_cached(
                "SELECT count(*), coalesce(sum(s.agreed), 0), count(DISTINCT d.user)
                 FROM shadow_signal s JOIN decision d ON d.id = s.decision
                 WHERE s.decision >= ?2 AND s.shadow = ?1 AND s.trained",
            )?;
            let first = DecisionId::new(since_ms, 0).number();
            Ok(sum.query_row((shadow, first), |row| {
                Ok(ShadowTraffic {
                    signals: count(row, 0)?,
                    agreed: count(row, 1)?,
                    users: count(row, 2)?,
                })
            })?)
        })
    }

    /// The latest signals of a shadow, newest decision first.
    pub fn shadow_recent(&self, shadow: &str, limit: u32) -> Result<Vec<ShadowSignal>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT decision, shadow, at_ms, chosen, agreed, propensity, score, trained
                 FROM shadow_signal WHERE shadow = ?1 ORDER BY decision DESC LIMIT ?2",
            )?;
            let signals = list.query_map((shadow, limit), signal)?;
            Ok(signals.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// The signals on a decision, by shadow.
pub(super) fn signals_of(conn: &Connection, decision: DecisionId) -> Attempt<Vec<ShadowSignal>> {
    let mut list = conn.prepare_cached(
        "SELECT decision, shadow, at_ms, chosen, agreed, propensity, score, trained
         FROM shadow_signal WHERE decision = ?1 ORDER BY shadow",
    )?;
    let signals = list.query_map([decision.number()], signal)?;
    Ok(signals.collect::<rusqlite::Result<_>>()?)
}

fn signal(row: &Row<'_>) -> rusqlite::Result<ShadowSignal> {
    Ok(ShadowSignal {
        decision: DecisionId::from_number(row.get(0)?),
        shadow: row.get(1)?,
        at_ms: row.get(2)?,
        chosen: row.get(3)?,
        agreed: row.get(4)?,
        propensity: row.get(5)?,
        score: row.get(6)?,
        trained: row.get(7)?,
    })
}

fn write(session: &PolicySession, signals: &[ShadowSignal]) -> Attempt<()> {
    signals.iter().try_for_each(|it| put(&session.conn, it))
}

/// Writes one signal, unless it was written before or its decision was deleted meanwhile.
fn put(conn: &Connection, signal: &ShadowSignal) -> Attempt<()> {
    let user: Option<String> = conn
        .prepare_cached("SELECT user FROM decision WHERE id = ?1")?
        .query_row([signal.decision.number()], |row| row.get(0))
        .optional()?;
    let Some(user) = user else {
        return Ok(());
    };
    let inserted = conn
        .prepare_cached(
            "INSERT INTO shadow_signal
                 (decision, shadow, at_ms, chosen, agreed, propensity, score, trained)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        )?
        .execute((
            signal.decision.number(),
            &signal.shadow,
            signal.at_ms,
            signal.chosen,
            signal.agreed,
            signal.propensity,
            signal.score,
            signal.trained,
        ))?;
    if inserted == 0 {
        return Ok(());
    }
    let new_users = conn
        .prepare_cached(
            "INSERT INTO shadow_user (shadow, user) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute((&signal.shadow, user))?;
    conn.prepare_cached(
        "INSERT INTO shadow_tally (shadow, signals, agreed, trained, users, last_ms)
         VALUES (?1, 1, ?2, ?3, ?4, ?5)
         ON CONFLICT (shadow) DO UPDATE
         SET signals = signals + 1, agreed = agreed + ?2, trained = trained + ?3,
             users = users + ?4, last_ms = max(last_ms, ?5)",
    )?
    .execute((
        &signal.shadow,
        signal.agreed,
        signal.trained,
        new_users == 1,
        signal.at_ms,
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_beyond_the_limit_are_dropped_and_counted() {
        let signals = Signals::default();
        let signal = ShadowSignal {
            decision: DecisionId::new(1, 1),
            shadow: String::new(),
            at_ms: 0,
            chosen: 0,
            agreed: true,
            propensity: 1.0,
            score: 0.0,
            trained: false,
        };
        assert!((0..MOST_KEPT).all(|_| signals.add(signal.clone())));
        assert!(!signals.add(signal.clone()));
        assert_eq!(signals.dropped.load(Ordering::Relaxed), 1);
        assert_eq!(signals.take().len(), MOST_KEPT);
        assert!(signals.add(signal));
    }
}
