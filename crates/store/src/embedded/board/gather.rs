//! Gathering what a board needs of the runs of a split, in batches.
//!
//! Two statements walk side by side: the ids of the experiment's runs, and their lines
//! ([`line`](super::line)). For a run without one it is made.

use std::collections::HashMap;
use std::ops::Range;

use assize_domain::hash::hex;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{Connection, Rows};

use super::line::{Line, Text, line_anew};
use crate::embedded::experiments::experiment_need;
use crate::embedded::rows::{RunKey, candidates_read, status_of};
use crate::embedded::schema::known;
use crate::embedded::write_session::text_find;
use crate::sqlite::Attempt;

/// Runs that travel together.
const BATCH: usize = 64;
/// Texts that are kept at hand.
const RECENT: usize = 64;

/// Some runs with their verdict files, in order.
#[derive(Default)]
pub(super) struct Batch {
    pub runs: Vec<Facts>,
    pub files: Vec<u8>,
    /// The texts that no batch before it had.
    pub texts: Vec<Box<str>>,
}

/// A text, counted from the first of the first batch. Numbers travel between threads with less
/// ado than shared texts.
pub(super) type TextNumber = usize;

/// What is known of a run.
pub(super) struct Facts {
    pub run_id: [u8; 16],
    pub status: RunStatus,
    pub model: TextNumber,
    pub prompt: TextNumber,
    pub scenario: TextNumber,
    /// From `rubric` to `settings`, in the order of [`known`].
    pub tags: [Option<TextNumber>; 6],
    pub n_candidates: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// Which part of its batch's files is its own.
    pub files: Range<usize>,
    /// The sittings that do not count, separated by spaces.
    pub set_aside: Option<Box<str>>,
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
    let mut lines = conn.prepare_cached(
        "SELECT run, line FROM board
         WHERE run >= (SELECT min(id) FROM runs WHERE experiment = ?1 AND lifecycle_stage = 'active')
             AND run <= (SELECT max(id) FROM runs WHERE experiment = ?1 AND lifecycle_stage = 'active')
             AND experiment = ?1
         ORDER BY run",
    )?;
    let mut lines = Lines::start(lines.query([experiment])?)?;
    let mut reader = Reader {
        conn,
        set_aside: set_aside(conn)?,
        texts: Texts::new(conn),
    };
    let split_id = text_find(conn, split.as_str())?;
    let mut ids = ids.query([experiment])?;
    let mut batch = Batch::default();
    while let Some(row) = ids.next()? {
        let run: i64 = row.get(0)?;
        if let Some((line, files)) = lines.of(run)?.and_then(Line::read) {
            if line.is_of(split, split_id) {
                reader.add(run, &line, files, &mut batch)?;
            }
        } else if let Some((_, line)) = line_anew(conn, run, |it| it.is_of(split, split_id))?
            && let Some((line, files)) = Line::read(&line)
        {
            reader.add(run, &line, files, &mut batch)?;
        }
        if batch.runs.len() == BATCH && !take(std::mem::take(&mut batch)) {
            return Ok(());
        }
    }
    take(batch);
    Ok(())
}

/// The few runs on which something is set aside.
fn set_aside(conn: &Connection) -> Attempt<HashMap<i64, Box<str>>> {
    let sql = format!(
        "SELECT run, CASE typeof(value) WHEN 'integer'
                THEN (SELECT text FROM texts WHERE id = value) ELSE value END
         FROM tags WHERE key = {} AND key < 22",
        known::SET_ASIDE
    );
    let mut list = conn.prepare_cached(&sql)?;
    let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
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
    fn of(&mut self, run: i64) -> Attempt<Option<&[u8]>> {
        while self.next_run < run {
            self.advance()?;
        }
        let Some(row) = self.rows.get().filter(|_| self.next_run == run) else {
            return Ok(None);
        };
        let line = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        Ok(Some(line))
    }
}

struct Reader<'a> {
    conn: &'a Connection,
    set_aside: HashMap<i64, Box<str>>,
    texts: Texts<'a>,
}

impl Reader<'_> {
    /// Adds a run to the batch, if it is a cell.
    fn add(&mut self, run: i64, line: &Line<'_>, files: &[u8], batch: &mut Batch) -> Attempt<()> {
        let texts = &mut self.texts;
        let mut number = |text: Text<'_>| texts.number(text, &mut batch.texts);
        let [model, prompt, scenario, _] = line.params;
        let (Some(model), Some(prompt), Some(scenario)) =
            (number(model)?, number(prompt)?, number(scenario)?)
        else {
            return Ok(());
        };
        let mut tags = [None; 6];
        for (known, text) in tags.iter_mut().zip(line.tags) {
            *known = number(text)?;
        }
        let start = batch.files.len();
        batch.files.extend_from_slice(files);
        batch.runs.push(Facts {
            status: status_of(line.status),
            model,
            prompt,
            scenario,
            tags,
            n_candidates: match line.n_candidates {
                Some(count) => whole(count),
                None => candidates_count(self.conn, run, &line.run_id)?,
            },
            latency_ms: line.latency_ms,
            tokens_per_s: line.tokens_per_s,
            files: start..batch.files.len(),
            set_aside: self.set_aside.get(&run).cloned(),
            run_id: line.run_id,
        });
        Ok(())
    }
}

/// The texts that have been met, each read once; the latest are at hand without hashing.
struct Texts<'a> {
    conn: &'a Connection,
    met: TextNumber,
    numbers: HashMap<i64, TextNumber>,
    long: HashMap<Box<str>, TextNumber>,
    recent: [Option<(i64, TextNumber)>; RECENT],
}

impl<'a> Texts<'a> {
    fn new(conn: &'a Connection) -> Self {
        Self {
            conn,
            met: 0,
            numbers: HashMap::new(),
            long: HashMap::new(),
            recent: [None; RECENT],
        }
    }

    /// The number of a param's or tag's value, if there is one. What is new is added to `new`.
    fn number(&mut self, text: Text<'_>, new: &mut Vec<Box<str>>) -> Attempt<Option<TextNumber>> {
        Ok(match text {
            Text::None => None,
            Text::Id(id) => Some(self.of_id(id, new)?),
            Text::Own(text) => Some(self.own(text, new)),
        })
    }

    /// A long value; runs that follow each other mostly have the same.
    fn own(&mut self, text: &str, new: &mut Vec<Box<str>>) -> TextNumber {
        if let Some(number) = self.long.get(text) {
            return *number;
        }
        let number = self.add(text.into(), new);
        self.long.insert(text.into(), number);
        number
    }

    fn add(&mut self, text: Box<str>, new: &mut Vec<Box<str>>) -> TextNumber {
        new.push(text);
        self.met += 1;
        self.met - 1
    }

    /// By the id that the database has for the text.
    fn of_id(&mut self, id: i64, new: &mut Vec<Box<str>>) -> Attempt<TextNumber> {
        let place = usize::try_from(id).unwrap_or(0) % RECENT;
        if let Some((at_hand, number)) = self.recent[place]
            && at_hand == id
        {
            return Ok(number);
        }
        let number = if let Some(number) = self.numbers.get(&id) {
            *number
        } else {
            let mut find = self
                .conn
                .prepare_cached("SELECT text FROM texts WHERE id = ?1")?;
            let text = find.query_row([id], |row| row.get(0))?;
            let number = self.add(text, new);
            self.numbers.insert(id, number);
            number
        };
        self.recent[place] = Some((id, number));
        Ok(number)
    }
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
