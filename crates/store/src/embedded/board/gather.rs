//! Gathering what a board needs of the runs of a split, in batches.
//!
//! Two statements walk side by side: the ids of the experiment's runs, and their lines
//! ([`line`](super::line)). A run without a line is read by itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use assize_domain::hash::hex;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Rows};

use super::line::{COLUMNS, columns_anew, files_anew};
use crate::embedded::experiments::experiment_need;
use crate::embedded::rows::{RunKey, candidates_read, status_of};
use crate::embedded::schema::known;
use crate::sqlite::Attempt;

/// Runs that travel together.
const BATCH: usize = 256;
/// Texts that are kept at hand.
const RECENT: usize = 64;
/// Where the columns of [`COLUMNS`] stand that are not read one after the other.
const MODEL: usize = 4;
const TAGS: usize = 8;
const METRICS: usize = 14;
const FILES: usize = 17;

/// Some runs with their verdict files, in order.
#[derive(Default)]
pub(super) struct Batch {
    pub runs: Vec<Facts>,
    pub files: Vec<u8>,
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
    /// Which part of its batch's files is its own.
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
    let mut ids = conn.prepare_cached(
        "SELECT id FROM runs WHERE experiment = ?1 AND lifecycle_stage = 'active' ORDER BY id",
    )?;
    // Ids grow with time and an experiment's are mostly together, so a range finds them faster
    // than an index would.
    let mut lines = conn.prepare_cached(&format!(
        "SELECT {COLUMNS}, files FROM board
         WHERE run >= (SELECT min(id) FROM runs WHERE experiment = ?1 AND lifecycle_stage = 'active')
             AND experiment = ?1
         ORDER BY run"
    ))?;
    let mut lines = Lines::start(lines.query([experiment])?)?;
    let mut reader = Reader {
        conn,
        split,
        set_aside: set_aside(conn)?,
        texts: Texts::new(conn),
    };
    let mut ids = ids.query([experiment])?;
    let mut batch = Batch::default();
    while let Some(row) = ids.next()? {
        let run: i64 = row.get(0)?;
        match lines.of(run)? {
            Some(line) => reader.add(line, &mut batch, Files::InLine)?,
            None => reader.run(run, &mut batch)?,
        }
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

/// The lines of an experiment, in the order of its runs.
struct Lines<'a> {
    rows: Rows<'a>,
    /// The run that the next line is about; none is left after the last.
    next_run: i64,
}

impl<'a> Lines<'a> {
    fn start(rows: Rows<'a>) -> Attempt<Self> {
        let mut lines = Self { rows, next_run: 0 };
        lines.advance()?;
        Ok(lines)
    }

    fn advance(&mut self) -> Attempt<()> {
        self.next_run = match self.rows.next()? {
            Some(row) => row.get(0)?,
            None => i64::MAX,
        };
        Ok(())
    }

    /// The line of a run, if it has one; lines of runs before it are passed over.
    fn of(&mut self, run: i64) -> Attempt<Option<&Row<'_>>> {
        while self.next_run < run {
            self.advance()?;
        }
        Ok(self.rows.get().filter(|_| self.next_run == run))
    }
}

struct Reader<'a> {
    conn: &'a Connection,
    split: Split,
    set_aside: HashMap<i64, Arc<str>>,
    texts: Texts<'a>,
}

impl Reader<'_> {
    /// Adds a run that has no line.
    fn run(&mut self, run: i64, batch: &mut Batch) -> Attempt<()> {
        let mut find = self.conn.prepare_cached(&columns_anew())?;
        let mut rows = find.query([run])?;
        match rows.next()? {
            Some(row) => self.add(row, batch, Files::Anew),
            None => Ok(()),
        }
    }

    /// Adds a run to the batch, if it belongs there.
    fn add(&mut self, row: &Row<'_>, batch: &mut Batch, files: Files) -> Attempt<()> {
        let texts = &mut self.texts;
        let mut text = |place: usize| texts.value(row.get_ref(place)?);
        let (Some(model), Some(prompt), Some(scenario)) =
            (text(MODEL)?, text(MODEL + 1)?, text(MODEL + 2)?)
        else {
            return Ok(());
        };
        let split = text(MODEL + 3)?;
        if split.as_deref().unwrap_or(Split::Selection.as_str()) != self.split.as_str() {
            return Ok(());
        }
        let mut tags = [const { None }; 6];
        for (place, tag) in tags.iter_mut().enumerate() {
            *tag = text(TAGS + place)?;
        }
        let run: i64 = row.get(0)?;
        let run_id: [u8; 16] = row.get(2)?;
        let key = || RunKey {
            id: run,
            run_id: hex(&run_id),
        };
        let start = batch.files.len();
        match files {
            Files::InLine => {
                let files = row.get_ref(FILES)?.as_bytes();
                let files = files.map_err(rusqlite::Error::from)?;
                batch.files.extend_from_slice(files);
            }
            Files::Anew => batch.files.append(&mut files_anew(self.conn, &key())?),
        }
        batch.runs.push(Facts {
            status: status_of(row.get(3)?),
            model,
            prompt,
            scenario,
            tags,
            n_candidates: match row.get(METRICS)? {
                Some(count) => whole(count),
                None => candidates_count(self.conn, &key())?,
            },
            latency_ms: row.get(METRICS + 1)?,
            tokens_per_s: row.get(METRICS + 2)?,
            files: start..batch.files.len(),
            set_aside: self.set_aside.get(&run).map(Arc::clone),
            run_id,
        });
        Ok(())
    }
}

/// Where the verdict files of a run are.
#[derive(Clone, Copy)]
enum Files {
    InLine,
    Anew,
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

    /// The value of a param or tag, if there is one.
    fn value(&mut self, value: ValueRef<'_>) -> Attempt<Option<Arc<str>>> {
        Ok(match value {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(self.get(number)?),
            other => Some(Arc::from(other.as_str().map_err(rusqlite::Error::from)?)),
        })
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
}

/// Tools that do not log the count still log the candidates.
fn candidates_count(conn: &Connection, run: &RunKey) -> Attempt<u32> {
    let candidates = candidates_read(conn, run)?.unwrap_or_default();
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
