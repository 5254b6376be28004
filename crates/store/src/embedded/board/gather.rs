//! Reading the runs of a split for a board, in batches.
//!
//! Two statements advance together: the ids of the experiment's runs, and their board rows
//! ([`row`](super::row)). If a run has no row, the row is computed.

use std::collections::HashMap;
use std::ops::Range;

use assize_domain::hash::hex;
use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{Connection, Rows};

use super::row::{BoardRow, RowTags, Text, row_compute};
use crate::embedded::experiments::experiment_need;
use crate::embedded::rows::{RunKey, candidates_read, status_of};
use crate::embedded::schema::known;
use crate::embedded::write_session::text_find;
use crate::sqlite::Attempt;

/// The number of runs in a batch.
const BATCH: usize = 64;
/// The size of the cache of recent texts.
const RECENT: usize = 64;

/// Some runs with their verdict files, in order.
#[derive(Default)]
pub(super) struct Batch {
    pub runs: Vec<BatchRun>,
    pub files: Vec<u8>,
    /// The texts that no earlier batch contained.
    pub texts: Vec<Box<str>>,
}

/// The position of a text, counted over all batches. Numbers are cheaper to send between threads
/// than shared texts.
pub(super) type TextNumber = usize;

/// A run of a batch; its texts are positions.
pub(super) struct BatchRun {
    pub run_id: [u8; 16],
    pub status: RunStatus,
    pub model: TextNumber,
    pub prompt: TextNumber,
    pub scenario: TextNumber,
    pub tags: BatchTags,
    pub n_candidates: u32,
    pub n_failed: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    pub completion_tokens: Option<f64>,
    pub thinking_tokens: Option<f64>,
    pub cost_usd: Option<f64>,
    /// The range of its files in the batch.
    pub files: Range<usize>,
    /// The sittings that do not count, separated by spaces.
    pub set_aside: Option<Box<str>>,
}

pub(super) struct BatchTags {
    pub rubric: Option<TextNumber>,
    pub rubric_sha256: Option<TextNumber>,
    pub prompt_sha256: Option<TextNumber>,
    pub scenario_sha256: Option<TextNumber>,
    pub model_digest: Option<TextNumber>,
    pub settings: Option<TextNumber>,
}

/// Passes the runs of a split to `take`, oldest first, until it returns `false`. Runs without a
/// model, a prompt or a scenario are skipped.
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
    // Ids grow with time and those of an experiment are mostly contiguous, so a range scan is
    // faster than an index.
    let mut rows = conn.prepare_cached(
        "SELECT run, line FROM board
         WHERE run >= (SELECT min(id) FROM runs WHERE experiment = ?1 AND lifecycle_stage = 'active')
             AND run <= (SELECT max(id) FROM runs WHERE experiment = ?1 AND lifecycle_stage = 'active')
             AND experiment = ?1
         ORDER BY run",
    )?;
    let mut rows = RowCursor::start(rows.query([experiment])?)?;
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
        if let Some((row, files)) = rows.of(run)?.and_then(BoardRow::read) {
            if row.is_of(split, split_id) {
                reader.add(run, &row, files, &mut batch)?;
            }
        } else if let Some((_, row)) = row_compute(conn, run, |it| it.is_of(split, split_id))?
            && let Some((row, files)) = BoardRow::read(&row)
        {
            reader.add(run, &row, files, &mut batch)?;
        }
        if batch.runs.len() == BATCH && !take(std::mem::take(&mut batch)) {
            return Ok(());
        }
    }
    take(batch);
    Ok(())
}

/// The few runs that have sittings set aside.
fn set_aside(conn: &Connection) -> Attempt<HashMap<i64, Box<str>>> {
    let sql = format!(
        "SELECT run, CASE typeof(value) WHEN 'integer'
                THEN (SELECT text FROM texts WHERE id = value) ELSE value END
         FROM tags WHERE key = {} AND key < {}",
        known::SET_ASIDE,
        known::AWAITED_END
    );
    let mut list = conn.prepare_cached(&sql)?;
    let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The board rows of an experiment, in the order of its runs.
struct RowCursor<'a> {
    rows: Rows<'a>,
    /// The run of the current row; after the last row the highest number.
    run: i64,
}

impl<'a> RowCursor<'a> {
    fn start(rows: Rows<'a>) -> Attempt<Self> {
        let mut cursor = Self { rows, run: 0 };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Attempt<()> {
        self.run = match self.rows.next()? {
            Some(row) => row.get(0)?,
            None => i64::MAX,
        };
        Ok(())
    }

    /// The row of a run, if it has one; rows of earlier runs are skipped.
    fn of(&mut self, run: i64) -> Attempt<Option<&[u8]>> {
        while self.run < run {
            self.advance()?;
        }
        let Some(row) = self.rows.get().filter(|_| self.run == run) else {
            return Ok(None);
        };
        let row = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        Ok(Some(row))
    }
}

struct Reader<'a> {
    conn: &'a Connection,
    set_aside: HashMap<i64, Box<str>>,
    texts: Texts<'a>,
}

impl Reader<'_> {
    /// Adds a run to the batch, if it is a cell.
    fn add(
        &mut self,
        run: i64,
        row: &BoardRow<'_>,
        files: &[u8],
        batch: &mut Batch,
    ) -> Attempt<()> {
        let texts = &mut self.texts;
        let mut number = |text: Text<'_>| texts.number(text, &mut batch.texts);
        let params = &row.params;
        let (Some(model), Some(prompt), Some(scenario)) = (
            number(params.model)?,
            number(params.prompt)?,
            number(params.scenario)?,
        ) else {
            return Ok(());
        };
        let tags = numbered(&row.tags, number)?;
        let start = batch.files.len();
        batch.files.extend_from_slice(files);
        batch.runs.push(BatchRun {
            status: status_of(row.status),
            model,
            prompt,
            scenario,
            tags,
            n_candidates: match row.n_candidates {
                Some(count) => whole(count),
                None => candidates_count(self.conn, run, &row.run_id)?,
            },
            n_failed: row.n_failed.map_or(0, whole),
            latency_ms: row.latency_ms,
            tokens_per_s: row.tokens_per_s,
            completion_tokens: row.completion_tokens,
            thinking_tokens: row.thinking_tokens,
            cost_usd: row.cost_usd,
            files: start..batch.files.len(),
            set_aside: self.set_aside.get(&run).cloned(),
            run_id: row.run_id,
        });
        Ok(())
    }
}

fn numbered(
    tags: &RowTags<'_>,
    mut number: impl FnMut(Text<'_>) -> Attempt<Option<TextNumber>>,
) -> Attempt<BatchTags> {
    Ok(BatchTags {
        rubric: number(tags.rubric)?,
        rubric_sha256: number(tags.rubric_sha256)?,
        prompt_sha256: number(tags.prompt_sha256)?,
        scenario_sha256: number(tags.scenario_sha256)?,
        model_digest: number(tags.model_digest)?,
        settings: number(tags.settings)?,
    })
}

/// The texts seen so far, each read once; recent ones are found without hashing.
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

    /// The position of a param's or tag's value, if there is one. A new text is added to `new`.
    fn number(&mut self, text: Text<'_>, new: &mut Vec<Box<str>>) -> Attempt<Option<TextNumber>> {
        Ok(match text {
            Text::None => None,
            Text::Id(id) => Some(self.of_id(id, new)?),
            Text::Own(text) => Some(self.own(text, new)),
        })
    }

    /// A long value; consecutive runs usually have the same.
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

    /// By the text's id in the database.
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

/// Some tools log the candidates but not their count.
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
