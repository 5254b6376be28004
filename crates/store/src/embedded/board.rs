//! Reading what a board needs of every run of a split, a hundred thousand verdicts at a time.
//!
//! Five statements walk the experiment's runs side by side: the runs, and one lane each for
//! params, tags, metrics and verdict files, where what is needed of a run is in neighbouring
//! rows ([`known`]). That is several times faster than asking for one run after the other.
//! Texts are looked up once, and verdict files are parsed in place.

use std::collections::HashMap;
use std::rc::Rc;

use assize_domain::hash::hex;
use assize_domain::run::{RunStatus, artifact};
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanScores, RubricRef, VerdictFile};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Rows};

use super::experiments::experiment_need;
use super::rows::{RunKey, candidates_read, corrupt, metric_value, status_of};
use super::schema::known;
use super::session::text_find;
use crate::sqlite::Attempt;
use crate::{BoardRun, Result};

/// Visits all runs of a split, oldest first. What is not a run of a model with a prompt on a
/// scenario is left out.
pub(crate) fn board_each(
    conn: &Connection,
    experiment: &str,
    split: Split,
    visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
) -> Attempt<()> {
    let experiment = experiment_need(conn, experiment)?;
    let Some(split_number) = text_find(conn, split.as_str())? else {
        return Ok(());
    };
    let mut runs = conn.prepare_cached(&walk("r.run_id, r.status", "", ""))?;
    let mut params = conn.prepare_cached(&lane("params", known::MODEL, known::SPLIT))?;
    let mut tags = conn.prepare_cached(&lane("tags", known::RUBRIC, known::PROMPT_SHA256))?;
    let mut metrics = conn.prepare_cached(&lane(
        "latest_metrics",
        known::N_CANDIDATES,
        known::TOKENS_PER_S,
    ))?;
    let mut files = conn.prepare_cached(&files_of(split_number))?;
    let mut lanes = Lanes {
        params: Lane::start(params.query([experiment])?)?,
        tags: Lane::start(tags.query([experiment])?)?,
        metrics: Lane::start(metrics.query([experiment])?)?,
        files: Lane::start(files.query([experiment])?)?,
    };
    let mut texts = Texts::new(conn);
    let mut facts = Facts::default();
    let mut runs = runs.query([experiment])?;
    while let Some(row) = runs.next()? {
        let key = RunKey {
            id: row.get(0)?,
            run_id: hex(&row.get::<_, [u8; 16]>(1)?),
        };
        facts.read(key.id, &mut lanes, &mut texts)?;
        if facts.is_of(split) {
            facts.show(conn, &key, status_of(row.get(2)?), visit)?;
        }
    }
    Ok(())
}

/// A statement over the active runs of an experiment in the order of their creation.
fn walk(columns: &str, joins: &str, condition: &str) -> String {
    format!(
        "SELECT r.id, {columns} FROM runs r {joins}
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active' {condition} ORDER BY r.id"
    )
}

fn lane(table: &str, first: i64, last: i64) -> String {
    let more = if table == "latest_metrics" {
        ", x.is_nan"
    } else {
        ""
    };
    let join = format!("CROSS JOIN {table} x ON x.run = r.id AND x.key BETWEEN {first} AND {last}");
    walk(&format!("x.key, x.value{more}"), &join, "")
}

/// Contents are large, so runs of other splits are left out before theirs are read.
fn files_of(split: i64) -> String {
    let join = format!(
        "CROSS JOIN artifacts x ON x.run = r.id AND x.path > {}
         CROSS JOIN blobs b ON b.id = x.blob",
        known::LAST
    );
    let condition = format!(
        "AND coalesce((SELECT s.value FROM params s WHERE s.run = r.id AND s.key = {key}),
                      {default}) = {split}",
        key = known::SPLIT,
        default = known::SELECTION,
    );
    walk("x.path, b.content", &join, &condition)
}

/// Rows about runs, in the order of the runs.
struct Lane<'a> {
    rows: Rows<'a>,
}

impl<'a> Lane<'a> {
    fn start(mut rows: Rows<'a>) -> Attempt<Self> {
        rows.advance()?;
        Ok(Self { rows })
    }

    /// Visits the rows of one run; rows of runs before it are passed over.
    fn each(&mut self, run: i64, mut visit: impl FnMut(&Row<'_>) -> Attempt<()>) -> Attempt<()> {
        while let Some(row) = self.rows.get() {
            let at: i64 = row.get(0)?;
            if at > run {
                break;
            }
            if at == run {
                visit(row)?;
            }
            self.rows.advance()?;
        }
        Ok(())
    }
}

struct Lanes<'a> {
    params: Lane<'a>,
    tags: Lane<'a>,
    metrics: Lane<'a>,
    files: Lane<'a>,
}

/// Texts by their numbers, each read once.
struct Texts<'a> {
    conn: &'a Connection,
    read: HashMap<i64, Rc<str>>,
}

impl<'a> Texts<'a> {
    fn new(conn: &'a Connection) -> Self {
        Self {
            conn,
            read: HashMap::new(),
        }
    }

    fn get(&mut self, number: i64) -> Attempt<Rc<str>> {
        if let Some(text) = self.read.get(&number) {
            return Ok(Rc::clone(text));
        }
        let mut find = self
            .conn
            .prepare_cached("SELECT text FROM texts WHERE id = ?1")?;
        let text: Rc<str> = find.query_row([number], |row| {
            Ok(Rc::from(
                row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?,
            ))
        })?;
        self.read.insert(number, Rc::clone(&text));
        Ok(text)
    }

    fn value(&mut self, value: ValueRef<'_>) -> Attempt<Rc<str>> {
        match value {
            ValueRef::Integer(number) => self.get(number),
            other => Ok(Rc::from(other.as_str().map_err(rusqlite::Error::from)?)),
        }
    }
}

/// What is known of the run at hand, by key, counted from the lane's first.
#[derive(Default)]
struct Facts {
    params: [Option<Rc<str>>; 4],
    tags: [Option<Rc<str>>; 3],
    metrics: [Option<f64>; 3],
    files: Files,
}

/// The run's verdict files one after the other, in memory that the next run uses again.
#[derive(Default)]
struct Files {
    contents: Vec<u8>,
    /// Path and end of each.
    parts: Vec<(Rc<str>, usize)>,
}

impl Facts {
    fn read(&mut self, run: i64, lanes: &mut Lanes<'_>, texts: &mut Texts<'_>) -> Attempt<()> {
        self.params = [const { None }; 4];
        self.tags = [const { None }; 3];
        self.metrics = [None; 3];
        self.files.contents.clear();
        self.files.parts.clear();
        lanes.params.each(run, |row| {
            self.params[offset(row, known::MODEL)?] = Some(texts.value(row.get_ref(2)?)?);
            Ok(())
        })?;
        lanes.tags.each(run, |row| {
            self.tags[offset(row, known::RUBRIC)?] = Some(texts.value(row.get_ref(2)?)?);
            Ok(())
        })?;
        lanes.metrics.each(run, |row| {
            self.metrics[offset(row, known::N_CANDIDATES)?] = Some(metric_value(row, 2)?);
            Ok(())
        })?;
        lanes.files.each(run, |row| {
            let path = texts.get(row.get(1)?)?;
            if path.starts_with(artifact::VERDICTS) {
                let content = row.get_ref(2)?.as_bytes().map_err(rusqlite::Error::from)?;
                self.files.contents.extend_from_slice(content);
                self.files.parts.push((path, self.files.contents.len()));
            }
            Ok(())
        })
    }

    fn is_of(&self, split: Split) -> bool {
        let named = self.params[3].as_deref();
        named.unwrap_or(Split::Selection.as_str()) == split.as_str()
    }

    fn show(
        &self,
        conn: &Connection,
        key: &RunKey,
        status: RunStatus,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Attempt<()> {
        let [Some(model), Some(prompt), Some(scenario), _] = &self.params else {
            return Ok(());
        };
        let tag = |position: usize| self.tags[position].as_deref().unwrap_or_default();
        let n_candidates = match self.metrics[0] {
            Some(count) => whole(count),
            None => candidates_count(conn, key)?,
        };
        visit(BoardRun {
            run_id: &key.run_id,
            model,
            prompt,
            prompt_sha256: tag(2),
            scenario,
            status,
            rubric: RubricRef {
                id: tag(0).to_owned(),
                sha256: tag(1).to_owned(),
            },
            n_candidates,
            latency_ms: self.metrics[1],
            tokens_per_s: self.metrics[2],
            files: self.files.parse(key)?,
        })?;
        Ok(())
    }
}

impl Files {
    fn parse(&self, key: &RunKey) -> Attempt<Vec<VerdictFile<LeanScores<'_>>>> {
        let mut start = 0;
        let files = self.parts.iter().map(|(path, end)| {
            let content = &self.contents[start..*end];
            start = *end;
            let text = std::str::from_utf8(content).map_err(|error| corrupt(key, path, &error))?;
            Ok(serde_json::from_str(text).map_err(|error| corrupt(key, path, &error))?)
        });
        files.collect()
    }
}

/// Where a row's key stands, counted from the lane's first.
fn offset(row: &Row<'_>, first: i64) -> Attempt<usize> {
    let key: i64 = row.get(1)?;
    Ok(usize::try_from(key - first).unwrap_or(0))
}

/// Tools that do not log the count still log the candidates.
fn candidates_count(conn: &Connection, key: &RunKey) -> Attempt<u32> {
    let candidates = candidates_read(conn, key)?.unwrap_or_default();
    Ok(u32::try_from(candidates.len()).unwrap_or(u32::MAX))
}

/// A count that was logged as a metric.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and counts are small"
)]
fn whole(count: f64) -> u32 {
    count as u32
}
