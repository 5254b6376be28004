//! Gathering what a board needs of the runs of a split, in batches.
//!
//! Five statements walk the experiment's runs side by side: the runs, and one lane each for
//! params, tags, metrics and verdict files, where what is needed of a run is in neighbouring
//! rows ([`known`]). That is several times faster than asking for one run after the other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use assize_domain::hash::hex;
use assize_domain::run::{RunStatus, artifact};
use assize_domain::scenario::Split;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row, Rows};

use crate::embedded::experiments::experiment_need;
use crate::embedded::rows::{RunKey, candidates_read, metric_value, status_of};
use crate::embedded::schema::known;
use crate::sqlite::Attempt;

/// Runs that travel together.
const BATCH: usize = 256;
/// Texts that are kept at hand.
const RECENT: usize = 64;

/// Some runs with their verdict files, in order.
#[derive(Default)]
pub(super) struct Batch {
    pub runs: Vec<Facts>,
    pub files: Vec<File>,
    pub contents: Vec<u8>,
}

/// A verdict file; its content is a part of its batch's.
pub(super) struct File {
    pub path: Arc<str>,
    pub content: Range<usize>,
}

/// What is known of a run.
pub(super) struct Facts {
    pub run_id: [u8; 16],
    pub status: RunStatus,
    pub model: Arc<str>,
    pub prompt: Arc<str>,
    pub scenario: Arc<str>,
    /// From `rubric` to `settings`, in the order of [`known`].
    pub tags: [Option<Arc<str>>; 6],
    pub n_candidates: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// Which of its batch's files are its own.
    pub files: Range<usize>,
    /// The sittings that do not count, separated by spaces.
    pub set_aside: Option<Arc<str>>,
}

/// Hands on the runs of a split, oldest first, until `take` wants no more. What is not a run
/// of a model with a prompt on a scenario is left out.
pub(super) fn gather(
    conn: &Connection,
    experiment: &str,
    split: Split,
    take: &mut dyn FnMut(Batch) -> bool,
) -> Attempt<()> {
    let experiment = experiment_need(conn, experiment)?;
    let mut runs = conn.prepare_cached(&walk("r.run_id, r.status", ""))?;
    let mut params = conn.prepare_cached(&lane("params", known::MODEL, known::SPLIT))?;
    let mut tags = conn.prepare_cached(&lane("tags", known::RUBRIC, known::SETTINGS))?;
    let mut metrics = conn.prepare_cached(&lane(
        "latest_metrics",
        known::N_CANDIDATES,
        known::TOKENS_PER_S,
    ))?;
    let mut files = conn.prepare_cached(&walk(
        "x.path, x.blob",
        &format!(
            "CROSS JOIN artifacts x ON x.run = r.id AND x.path > {}",
            known::LAST
        ),
    ))?;
    let mut lanes = Lanes {
        conn,
        split,
        set_aside: set_aside(conn)?,
        texts: Texts::new(conn),
        params: Lane::start(params.query([experiment])?)?,
        tags: Lane::start(tags.query([experiment])?)?,
        metrics: Lane::start(metrics.query([experiment])?)?,
        files: Lane::start(files.query([experiment])?)?,
        content: conn.prepare_cached("SELECT content FROM blobs WHERE id = ?1")?,
    };
    let mut runs = runs.query([experiment])?;
    let mut batch = Batch::default();
    while let Some(row) = runs.next()? {
        lanes.read(row, &mut batch)?;
        if batch.runs.len() == BATCH && !take(std::mem::take(&mut batch)) {
            return Ok(());
        }
    }
    take(batch);
    Ok(())
}

/// The few runs on which something is set aside.
fn set_aside(conn: &Connection) -> Attempt<HashMap<i64, Arc<str>>> {
    let sql = format!(
        "SELECT run, CASE typeof(value) WHEN 'integer'
                THEN (SELECT text FROM texts WHERE id = value) ELSE value END
         FROM tags WHERE key = {} AND key < 22",
        known::SET_ASIDE
    );
    let mut list = conn.prepare_cached(&sql)?;
    let rows = list.query_map([], |row| {
        Ok((row.get(0)?, Arc::from(row.get::<_, String>(1)?)))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// A statement over the active runs of an experiment in the order of their creation.
fn walk(columns: &str, join: &str) -> String {
    format!(
        "SELECT r.id, {columns} FROM runs r {join}
         WHERE r.experiment = ?1 AND r.lifecycle_stage = 'active' ORDER BY r.id"
    )
}

fn lane(table: &str, first: i64, last: i64) -> String {
    let more = if table == "latest_metrics" {
        ", x.is_nan"
    } else {
        ""
    };
    let join = format!("CROSS JOIN {table} x ON x.run = r.id AND x.key BETWEEN {first} AND {last}");
    walk(&format!("x.key, x.value{more}"), &join)
}

/// Rows about runs, in the order of the runs.
struct Lane<'a> {
    rows: Rows<'a>,
    /// The run that the next row is about; none is left after the last row.
    next_run: i64,
}

impl<'a> Lane<'a> {
    fn start(rows: Rows<'a>) -> Attempt<Self> {
        let mut lane = Self { rows, next_run: 0 };
        lane.advance()?;
        Ok(lane)
    }

    fn advance(&mut self) -> Attempt<()> {
        self.next_run = match self.rows.next()? {
            Some(row) => row.get(0)?,
            None => i64::MAX,
        };
        Ok(())
    }

    /// Visits the rows of one run; rows of runs before it are passed over.
    fn each(&mut self, run: i64, mut visit: impl FnMut(&Row<'_>) -> Attempt<()>) -> Attempt<()> {
        while self.next_run < run {
            self.advance()?;
        }
        while self.next_run == run {
            if let Some(row) = self.rows.get() {
                visit(row)?;
            }
            self.advance()?;
        }
        Ok(())
    }
}

struct Lanes<'a> {
    conn: &'a Connection,
    split: Split,
    set_aside: HashMap<i64, Arc<str>>,
    texts: Texts<'a>,
    params: Lane<'a>,
    tags: Lane<'a>,
    metrics: Lane<'a>,
    files: Lane<'a>,
    content: CachedStatement<'a>,
}

impl Lanes<'_> {
    /// Adds a run to the batch, if it belongs there.
    fn read(&mut self, row: &Row<'_>, batch: &mut Batch) -> Attempt<()> {
        let run: i64 = row.get(0)?;
        let run_id: [u8; 16] = row.get(1)?;
        let texts = &mut self.texts;
        let mut params = [const { None }; 4];
        self.params.each(run, |row| {
            params[offset(row, known::MODEL)?] = Some(texts.value(row)?);
            Ok(())
        })?;
        let [Some(model), Some(prompt), Some(scenario), split] = params else {
            return Ok(());
        };
        if split.as_deref().unwrap_or(Split::Selection.as_str()) != self.split.as_str() {
            return Ok(());
        }
        let mut tags = [const { None }; 6];
        self.tags.each(run, |row| {
            tags[offset(row, known::RUBRIC)?] = Some(texts.value(row)?);
            Ok(())
        })?;
        let mut metrics = [None; 3];
        self.metrics.each(run, |row| {
            metrics[offset(row, known::N_CANDIDATES)?] = Some(metric_value(row, 2)?);
            Ok(())
        })?;
        let first_file = batch.files.len();
        let content = &mut self.content;
        self.files.each(run, |row| {
            let path = texts.get(row.get(1)?)?;
            if path.starts_with(artifact::VERDICTS) {
                let start = batch.contents.len();
                content.query_row([row.get::<_, i64>(2)?], |row| {
                    batch
                        .contents
                        .extend_from_slice(row.get_ref(0)?.as_bytes()?);
                    Ok(())
                })?;
                let content = start..batch.contents.len();
                batch.files.push(File { path, content });
            }
            Ok(())
        })?;
        batch.runs.push(Facts {
            status: status_of(row.get(2)?),
            model,
            prompt,
            scenario,
            tags,
            n_candidates: match metrics[0] {
                Some(count) => whole(count),
                None => candidates_count(self.conn, run, &run_id)?,
            },
            latency_ms: metrics[1],
            tokens_per_s: metrics[2],
            files: first_file..batch.files.len(),
            set_aside: self.set_aside.get(&run).map(Arc::clone),
            run_id,
        });
        Ok(())
    }
}

/// Texts by their numbers, each read once; the latest are at hand without hashing.
struct Texts<'a> {
    conn: &'a Connection,
    read: HashMap<i64, Arc<str>>,
    recent: [Option<(i64, Arc<str>)>; RECENT],
}

impl<'a> Texts<'a> {
    fn new(conn: &'a Connection) -> Self {
        Self {
            conn,
            read: HashMap::new(),
            recent: [const { None }; RECENT],
        }
    }

    fn get(&mut self, number: i64) -> Attempt<Arc<str>> {
        let place = usize::try_from(number).unwrap_or(0) % RECENT;
        if let Some((at_hand, text)) = &self.recent[place]
            && *at_hand == number
        {
            return Ok(Arc::clone(text));
        }
        let text = self.find(number)?;
        self.recent[place] = Some((number, Arc::clone(&text)));
        Ok(text)
    }

    fn find(&mut self, number: i64) -> Attempt<Arc<str>> {
        if let Some(text) = self.read.get(&number) {
            return Ok(Arc::clone(text));
        }
        let mut find = self
            .conn
            .prepare_cached("SELECT text FROM texts WHERE id = ?1")?;
        let text: Arc<str> = find.query_row([number], |row| row.get(0))?;
        self.read.insert(number, Arc::clone(&text));
        Ok(text)
    }

    /// The value of a param or tag.
    fn value(&mut self, row: &Row<'_>) -> Attempt<Arc<str>> {
        match row.get_ref(2)? {
            ValueRef::Integer(number) => self.get(number),
            other => Ok(Arc::from(other.as_str().map_err(rusqlite::Error::from)?)),
        }
    }
}

/// Where a row's key stands, counted from the lane's first.
fn offset(row: &Row<'_>, first: i64) -> Attempt<usize> {
    let key: i64 = row.get(1)?;
    Ok(usize::try_from(key - first).unwrap_or(0))
}

/// Tools that do not log the count still log the candidates.
fn candidates_count(conn: &Connection, run: i64, run_id: &[u8; 16]) -> Attempt<u32> {
    let key = RunKey {
        id: run,
        run_id: hex(run_id),
    };
    let candidates = candidates_read(conn, &key)?.unwrap_or_default();
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
