//! The journal: generated cells that a tracking server has not acknowledged.
//!
//! A cell is committed here before it is sent, and removed after the server has acknowledged it. If
//! the process dies in between, the cell is in the journal, on the server, or both. If it is in
//! both, it is sent again, and delivering an existing cell changes nothing.
//!
//! A journal entry belongs to a place: a tracking URI without its credentials, which are never
//! stored. Content that many cells share (rubric, prompt, context) is stored once.

use std::sync::Arc;

use assize_domain::hash::sha256_hex;
use assize_domain::run::{CellRecord, RunStatus};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::State;
use crate::Result;
use crate::embedded::is_shareable;

/// A cell that is to be delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    pub id: i64,
    pub experiment: String,
    pub cell: CellRecord,
}

/// The stored form of a cell.
#[derive(Debug, Serialize, Deserialize)]
struct StoredCell {
    name: String,
    status: RunStatus,
    start_time_ms: i64,
    end_time_ms: i64,
    params: Vec<(String, String)>,
    tags: Vec<(String, String)>,
    /// JSON has no NaN: it is `null`.
    metrics: Vec<(String, Option<f64>)>,
    artifacts: Vec<(String, Content)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Content {
    Own(String),
    Shared { sha256: String },
}

impl State {
    /// Stores cells and returns the ids of their entries. A cell that is stored already and has not
    /// failed is not changed.
    pub fn journal_put(
        &self,
        place: &str,
        experiment: &str,
        cells: &[CellRecord],
    ) -> Result<Vec<i64>> {
        self.change(|conn| {
            let ids = cells.iter().map(|cell| put(conn, place, experiment, cell));
            ids.collect()
        })
    }

    /// Whether these cells are in the journal, in the order of the request, and whether they have
    /// failed.
    pub fn journal_known(
        &self,
        place: &str,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<bool>>> {
        self.with(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT failed FROM journal WHERE place = ?1 AND experiment = ?2 AND cell_key = ?3",
            )?;
            let known = cell_keys.iter().map(|cell_key| {
                find.query_row((place, experiment, cell_key), |row| row.get(0))
                    .optional()
            });
            known.collect()
        })
    }

    /// The next entries of a place after this id, limited in number and of one experiment.
    pub fn journal_next(&self, place: &str, after: i64, most: usize) -> Result<Vec<JournalEntry>> {
        self.with(|conn| next(conn, place, after, most))
    }

    /// Removes entries; removing the last one also removes the shared texts.
    pub fn journal_remove(&self, ids: &[i64]) -> Result<()> {
        self.change(|conn| {
            let mut remove = conn.prepare_cached("DELETE FROM journal WHERE id = ?1")?;
            for id in ids {
                remove.execute([id])?;
            }
            conn.prepare_cached(
                "DELETE FROM journal_texts WHERE NOT EXISTS (SELECT 1 FROM journal)",
            )?
            .execute([])?;
            Ok(())
        })
    }

    /// The number of cells for each place, by name.
    pub fn journal_places(&self) -> Result<Vec<(String, u64)>> {
        self.with(|conn| {
            let mut list =
                conn.prepare_cached("SELECT place, count(*) FROM journal GROUP BY place")?;
            let places = list.query_map([], |row| {
                Ok((row.get(0)?, u64::from(row.get::<_, u32>(1)?)))
            })?;
            places.collect()
        })
    }

    /// Brings the names of places into their current spelling. Of two entries for one cell, one
    /// that has not failed is kept.
    pub fn journal_places_respell(&self, spell: &dyn Fn(&str) -> String) -> Result<()> {
        for (place, _) in self.journal_places()? {
            let spelling = spell(&place);
            if spelling != place {
                self.change(|conn| {
                    let places = (&place, &spelling);
                    conn.execute(
                        "DELETE FROM journal WHERE place = ?2 AND failed AND (experiment, cell_key)
                         IN (SELECT experiment, cell_key FROM journal WHERE place = ?1)",
                        places,
                    )?;
                    conn.execute(
                        "UPDATE OR IGNORE journal SET place = ?2 WHERE place = ?1",
                        places,
                    )?;
                    conn.execute("DELETE FROM journal WHERE place = ?1", [&place])
                })?;
            }
        }
        Ok(())
    }

    /// The number of cells for a place.
    pub fn journal_count(&self, place: &str) -> Result<u64> {
        self.with(|conn| {
            conn.prepare_cached("SELECT count(*) FROM journal WHERE place = ?1")?
                .query_row([place], |row| row.get::<_, u32>(0).map(u64::from))
        })
    }
}

fn put(
    conn: &Connection,
    place: &str,
    experiment: &str,
    cell: &CellRecord,
) -> rusqlite::Result<i64> {
    let failed = cell.status == RunStatus::Failed;
    if !failed {
        conn.prepare_cached(
            "DELETE FROM journal
             WHERE place = ?1 AND experiment = ?2 AND cell_key = ?3 AND failed",
        )?
        .execute((place, experiment, &cell.cell_key))?;
    }
    let record = write(conn, cell)?;
    conn.prepare_cached(
        "INSERT INTO journal (place, experiment, cell_key, failed, record)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute((place, experiment, &cell.cell_key, failed, record))?;
    conn.prepare_cached(
        "SELECT id FROM journal WHERE place = ?1 AND experiment = ?2 AND cell_key = ?3",
    )?
    .query_row((place, experiment, &cell.cell_key), |row| row.get(0))
}

fn next(
    conn: &Connection,
    place: &str,
    after: i64,
    most: usize,
) -> rusqlite::Result<Vec<JournalEntry>> {
    let mut list = conn.prepare_cached(
        "SELECT id, experiment, cell_key, record FROM journal
         WHERE place = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let mut rows = list.query((place, after, i64::try_from(most).unwrap_or(i64::MAX)))?;
    let mut entries: Vec<JournalEntry> = Vec::new();
    while let Some(row) = rows.next()? {
        let experiment: String = row.get(1)?;
        if entries
            .first()
            .is_some_and(|first| first.experiment != experiment)
        {
            break;
        }
        let record: String = row.get(3)?;
        entries.push(JournalEntry {
            id: row.get(0)?,
            experiment,
            cell: read(conn, row.get(2)?, &record)?,
        });
    }
    Ok(entries)
}

fn write(conn: &Connection, cell: &CellRecord) -> rusqlite::Result<String> {
    let pairs = |pairs: &[(Arc<str>, Arc<str>)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    };
    let mut artifacts = Vec::with_capacity(cell.artifacts.len());
    for (path, content) in &cell.artifacts {
        let content = if is_shareable(path) {
            let sha256 = sha256_hex(content.as_bytes());
            conn.prepare_cached(
                "INSERT INTO journal_texts (sha256, content) VALUES (?1, ?2)
                 ON CONFLICT DO NOTHING",
            )?
            .execute((&sha256, &**content))?;
            Content::Shared { sha256 }
        } else {
            Content::Own(content.to_string())
        };
        artifacts.push((path.to_string(), content));
    }
    let metrics = cell.metrics.iter();
    let line = StoredCell {
        name: cell.name.clone(),
        status: cell.status,
        start_time_ms: cell.start_time_ms,
        end_time_ms: cell.end_time_ms,
        params: pairs(&cell.params),
        tags: pairs(&cell.tags),
        metrics: metrics
            .map(|(name, value)| (name.to_string(), Some(*value)))
            .collect(),
        artifacts,
    };
    serde_json::to_string(&line)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn read(conn: &Connection, cell_key: String, record: &str) -> rusqlite::Result<CellRecord> {
    let line: StoredCell = serde_json::from_str(record).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, Box::new(error))
    })?;
    let pairs = |pairs: Vec<(String, String)>| {
        let pairs = pairs.into_iter();
        pairs
            .map(|(key, value)| (key.into(), value.into()))
            .collect()
    };
    let mut artifacts = Vec::with_capacity(line.artifacts.len());
    for (path, content) in line.artifacts {
        let content = match content {
            Content::Own(text) => text,
            Content::Shared { sha256 } => conn
                .prepare_cached("SELECT content FROM journal_texts WHERE sha256 = ?1")?
                .query_row([sha256], |row| row.get(0))?,
        };
        artifacts.push((path.into(), content.into()));
    }
    let metrics = line.metrics.into_iter();
    Ok(CellRecord {
        cell_key,
        name: line.name,
        status: line.status,
        start_time_ms: line.start_time_ms,
        end_time_ms: line.end_time_ms,
        params: pairs(line.params),
        tags: pairs(line.tags),
        metrics: metrics
            .map(|(name, value)| (name.into(), value.unwrap_or(f64::NAN)))
            .collect(),
        artifacts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(key: &str, status: RunStatus) -> CellRecord {
        CellRecord {
            cell_key: key.to_owned(),
            name: format!("m × v1 × {key}"),
            status,
            start_time_ms: 1,
            end_time_ms: 2,
            params: vec![("model".into(), "m".into())],
            tags: vec![("judge_pending".into(), "true".into())],
            metrics: vec![("n_candidates".into(), 2.0)],
            artifacts: vec![
                ("rubric.md".into(), "one for all".into()),
                ("raw.txt".into(), key.into()),
            ],
        }
    }

    fn keys(state: &State, place: &str) -> Vec<String> {
        let entries = state.journal_next(place, 0, 100).unwrap();
        entries.into_iter().map(|it| it.cell.cell_key).collect()
    }

    #[test]
    fn places_take_their_current_spelling_and_no_finished_cell_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let (old, new) = ("http://h:80", "http://h");
        let finished = |key| cell(key, RunStatus::Finished);
        let failed = |key| cell(key, RunStatus::Failed);
        state
            .journal_put(old, "e", &[finished("a"), finished("b"), finished("c")])
            .unwrap();
        state
            .journal_put(new, "e", &[failed("b"), finished("c")])
            .unwrap();
        let spell = |place: &str| place.trim_end_matches(":80").to_owned();
        state.journal_places_respell(&spell).unwrap();
        let mut kept = keys(&state, new);
        kept.sort();
        assert_eq!(kept, ["a", "b", "c"]);
        let known = state.journal_known(new, "e", &["b".to_owned()]).unwrap();
        assert_eq!(known, [Some(false)], "the finished entry of b is kept");
        assert_eq!(state.journal_places().unwrap(), [(new.to_owned(), 3)]);
    }

    #[test]
    fn cells_come_back_as_they_were_by_place_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let cells = [
            cell("b", RunStatus::Finished),
            cell("a", RunStatus::Finished),
        ];
        let state = State::open(dir.path()).unwrap();
        state.journal_put("here", "e", &cells).unwrap();
        state.journal_put("there", "e", &cells[..1]).unwrap();
        state.journal_put("here", "f", &cells[..1]).unwrap();
        drop(state);

        let state = State::open(dir.path()).unwrap();
        let entries = state.journal_next("here", 0, 100).unwrap();
        let found: Vec<CellRecord> = entries.iter().map(|it| it.cell.clone()).collect();
        assert_eq!(found, cells, "one experiment at a time");
        assert_eq!(state.journal_next("here", 0, 1).unwrap().len(), 1);
        let rest = state.journal_next("here", entries[1].id, 100).unwrap();
        assert_eq!(rest[0].experiment, "f");
        assert_eq!(
            state.journal_places().unwrap(),
            [("here".to_owned(), 3), ("there".to_owned(), 1)]
        );
        let ask = ["a".to_owned(), "z".to_owned()];
        assert_eq!(
            state.journal_known("here", "e", &ask).unwrap(),
            [Some(false), None]
        );
        assert_eq!(
            state.journal_known("there", "e", &ask).unwrap(),
            [None, None]
        );
    }

    #[test]
    fn a_success_replaces_a_failure_and_is_not_removed_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let put = |status| state.journal_put("p", "e", &[cell("k", status)]).unwrap();
        let failed = put(RunStatus::Failed);
        assert_eq!(put(RunStatus::Failed), failed);
        let finished = put(RunStatus::Finished);
        assert_ne!(finished, failed);
        assert_eq!(put(RunStatus::Failed), finished);
        // The failed cell was being delivered meanwhile.
        state.journal_remove(&failed).unwrap();
        assert_eq!(keys(&state, "p"), ["k"]);
        state.journal_remove(&finished).unwrap();
        assert_eq!(keys(&state, "p"), [""; 0]);
        let texts = |conn: &Connection| {
            conn.query_row("SELECT count(*) FROM journal_texts", [], |row| {
                row.get::<_, u32>(0)
            })
        };
        assert_eq!(state.with(texts).unwrap(), 0);
    }
}
