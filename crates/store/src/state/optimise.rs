//! The events of prompt loops (`assize optimise`): an append-only log for each experiment.
//!
//! The store does not read the events; `assize_optimise` folds them into the loop's tree. Events of
//! an experiment are numbered from 1 without gaps, and an event is appended only if its number
//! follows the latest one, so of two processes that continue the same loop one is told that the
//! other was first. Triggers refuse changes, because everything that a loop knows about itself is
//! derived from its log.

use super::State;
use crate::{Result, StoreError};

pub(super) const TABLES: &str = "
CREATE TABLE optimise_events (
    experiment TEXT NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (experiment, number)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER optimise_events_follow BEFORE INSERT ON optimise_events
WHEN new.number <> (SELECT coalesce(max(number), 0) + 1 FROM optimise_events
                    WHERE experiment = new.experiment)
BEGIN SELECT RAISE(ABORT, 'an event of a prompt loop must follow the latest one'); END;
CREATE TRIGGER optimise_events_stay BEFORE UPDATE ON optimise_events
BEGIN SELECT RAISE(ABORT, 'an event of a prompt loop is never changed'); END;
CREATE TRIGGER optimise_events_remain BEFORE DELETE ON optimise_events
BEGIN SELECT RAISE(ABORT, 'an event of a prompt loop is never deleted'); END;
";

/// A stored event of a prompt loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Events of an experiment are numbered from 1 without gaps.
    pub number: u32,
    pub at_ms: i64,
    /// JSON.
    pub event: String,
}

/// A prompt loop in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopSummary {
    pub experiment: String,
    pub events: u32,
    pub started_ms: i64,
    pub last_ms: i64,
}

impl State {
    /// Appends events in one transaction. `after` is the number of the last event that the caller
    /// has seen (0 for none); if there is a later one by now, nothing is written and the answer is
    /// a conflict. Returns the number of the last event.
    pub fn optimise_append(
        &self,
        experiment: &str,
        after: u32,
        at_ms: i64,
        events: &[String],
    ) -> Result<u32> {
        let appended = self.change(|conn| {
            let latest: u32 = conn
                .prepare_cached(
                    "SELECT coalesce(max(number), 0) FROM optimise_events WHERE experiment = ?1",
                )?
                .query_row([experiment], |row| row.get(0))?;
            if latest != after {
                return Ok(Err(latest));
            }
            let mut insert = conn.prepare_cached(
                "INSERT INTO optimise_events (experiment, number, at_ms, event)
                 VALUES (?1, ?2, ?3, ?4)",
            )?;
            let mut number = after;
            for event in events {
                number += 1;
                insert.execute((experiment, number, at_ms, event))?;
            }
            Ok(Ok(number))
        })?;
        appended.map_err(|latest| {
            StoreError::Conflict(format!(
                "the prompt loop of '{experiment}' was continued by another process: its log has \
                 {latest} events, and this step knew {after}. Run the step again"
            ))
        })
    }

    /// The events of an experiment's loop after this number, oldest first.
    pub fn optimise_events(&self, experiment: &str, after: u32) -> Result<Vec<StoredEvent>> {
        self.with(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT number, at_ms, event FROM optimise_events
                 WHERE experiment = ?1 AND number > ?2 ORDER BY number",
            )?;
            let events = list.query_map((experiment, after), |row| {
                Ok(StoredEvent {
                    number: row.get(0)?,
                    at_ms: row.get(1)?,
                    event: row.get(2)?,
                })
            })?;
            events.collect()
        })
    }

    /// All loops, the one with the latest event first.
    pub fn optimise_loops(&self) -> Result<Vec<LoopSummary>> {
        self.with(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT experiment, count(*), min(at_ms), max(at_ms) FROM optimise_events
                 GROUP BY experiment ORDER BY max(at_ms) DESC, experiment",
            )?;
            let loops = list.query_map([], |row| {
                Ok(LoopSummary {
                    experiment: row.get(0)?,
                    events: row.get(1)?,
                    started_ms: row.get(2)?,
                    last_ms: row.get(3)?,
                })
            })?;
            loops.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(events: &[&str]) -> Vec<String> {
        events.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn events_keep_their_order_and_survive() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        assert!(state.optimise_events("e", 0).unwrap().is_empty());
        assert_eq!(state.optimise_append("e", 0, 5, &texts(&["a"])).unwrap(), 1);
        assert_eq!(state.optimise_append("f", 0, 6, &texts(&["z"])).unwrap(), 1);
        let last = state.optimise_append("e", 1, 7, &texts(&["b", "c"]));
        assert_eq!(last.unwrap(), 3);
        drop(state);

        let state = State::open(dir.path()).unwrap();
        let found = state.optimise_events("e", 0).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.number, it.at_ms, it.event.as_str()))
            .collect();
        assert_eq!(found, [(1, 5, "a"), (2, 7, "b"), (3, 7, "c")]);
        let later = state.optimise_events("e", 2).unwrap();
        assert_eq!(later.len(), 1);
        let loops = state.optimise_loops().unwrap();
        let loops: Vec<_> = loops
            .iter()
            .map(|it| (it.experiment.as_str(), it.events, it.started_ms, it.last_ms))
            .collect();
        assert_eq!(loops, [("e", 3, 5, 7), ("f", 1, 6, 6)]);
    }

    #[test]
    fn of_two_writers_one_is_told_that_the_other_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        drop(State::open(folder).unwrap());
        let written: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    scope.spawn(move || {
                        let state = State::open(folder).unwrap();
                        let mut written = 0;
                        for turn in 0..25 {
                            let after = state.optimise_events("e", 0).unwrap().len();
                            let events = texts(&["one", "two"])
                                .iter()
                                .map(|it| format!("{writer} {turn} {it}"))
                                .collect::<Vec<_>>();
                            let after = u32::try_from(after).unwrap();
                            match state.optimise_append("e", after, 1, &events) {
                                Ok(number) => {
                                    assert_eq!(number, after + 2);
                                    written += 1;
                                }
                                Err(error) => {
                                    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
                                }
                            }
                        }
                        written
                    })
                })
                .collect();
            writers.into_iter().map(|it| it.join().unwrap()).sum()
        });
        let state = State::open(folder).unwrap();
        let events = state.optimise_events("e", 0).unwrap();
        assert!(written > 0);
        assert_eq!(events.len(), 2 * written);
        for (index, pair) in events.chunks(2).enumerate() {
            assert_eq!(pair[0].number as usize, 2 * index + 1);
            let (first, second) = (&pair[0].event, &pair[1].event);
            assert_eq!(
                first.strip_suffix("one").unwrap(),
                second.strip_suffix("two").unwrap(),
                "events of one transaction are neighbours"
            );
        }
    }

    #[test]
    fn a_transaction_that_did_not_end_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.optimise_append("e", 0, 1, &texts(&["a"])).unwrap();
        let path = dir.path().join("state.db");
        let other = rusqlite::Connection::open(&path).unwrap();
        other
            .execute_batch(
                "BEGIN IMMEDIATE;
                 INSERT INTO optimise_events VALUES ('e', 2, 2, 'b');",
            )
            .unwrap();
        // The connection ends as it does when its process is killed: without a commit.
        drop(other);
        assert_eq!(state.optimise_events("e", 0).unwrap().len(), 1);
        assert_eq!(state.optimise_append("e", 1, 3, &texts(&["c"])).unwrap(), 2);
    }

    #[test]
    fn the_log_refuses_changes_and_gaps() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.optimise_append("e", 0, 1, &texts(&["a"])).unwrap();
        let other = rusqlite::Connection::open(dir.path().join("state.db")).unwrap();
        for (sql, problem) in [
            ("UPDATE optimise_events SET event = 'x'", "never changed"),
            ("DELETE FROM optimise_events", "never deleted"),
            (
                "INSERT INTO optimise_events VALUES ('e', 3, 1, 'x')",
                "must follow",
            ),
            (
                "INSERT INTO optimise_events VALUES ('f', 2, 1, 'x')",
                "must follow",
            ),
        ] {
            let error = other.execute(sql, []).unwrap_err();
            assert!(error.to_string().contains(problem), "{sql}: {error}");
        }
        assert_eq!(state.optimise_events("e", 0).unwrap()[0].event, "a");
    }
}
