//! Lines: what boards need of a run, in one row of `board`.
//!
//! Everything in a line is said elsewhere too, in five tables. Reading it there takes several
//! times as long, and a board reads every run of an experiment. So whoever records a run writes its
//! line, whoever adds a verdict file appends to it, and whoever changes anything else that
//! boards look at drops it: for a run without a line the line is made while reading. What is set
//! aside and what is deleted is not in a line.

use std::borrow::Cow;
use std::sync::LazyLock;

use assize_domain::hash::hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::scenario::Split;
use assize_domain::verdict::{
    Amends, LeanFile, LeanScores, RubricRef, Verdict, VerdictFile, as_number,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::embedded::rows::{RunKey, verdicts_read};
use crate::embedded::schema::known;
use crate::sqlite::{Attempt, Fault};

/// How lines are written today. Whoever changes [`Line`] or [`FileInLine`] counts on: a line of
/// another form is as good as none.
const FORM: u8 = 1;

/// A line before its verdict files.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<'a> {
    form: u8,
    pub run_id: [u8; 16],
    pub status: i64,
    /// `model`, `prompt`, `scenario` and `split`.
    #[serde(borrow)]
    pub params: [Text<'a>; 4],
    /// From `rubric` to `settings`, in the order of [`known`].
    #[serde(borrow)]
    pub tags: [Text<'a>; 6],
    pub n_candidates: Option<f64>,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
}

/// A value of a param or tag, as its column keeps it.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) enum Text<'a> {
    #[default]
    None,
    /// The id of a text.
    Id(i64),
    Own(&'a str),
}

impl<'a> Line<'a> {
    /// A line and its files; `None` where it cannot be read.
    pub fn read(line: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let read: Option<(Self, _)> = postcard::take_from_bytes(line).ok();
        read.filter(|(line, _)| line.form == FORM)
    }

    /// The id of a split's name is `split_id`, if the name is known at all.
    pub fn is_of(&self, split: Split, split_id: Option<i64>) -> bool {
        match self.params[3] {
            Text::None => split == Split::Selection,
            Text::Id(id) => Some(id) == split_id,
            Text::Own(name) => name == split.as_str(),
        }
    }
}

/// What a line is made of: a row for the run `?1`, or none where the run is no cell, which its
/// missing model tells.
static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    let value = |table: &str, key: i64| {
        format!("(SELECT value FROM {table} WHERE run = r.id AND key = {key})")
    };
    let number = |key: i64| {
        format!(
            "(SELECT CASE WHEN is_nan THEN NULL ELSE value END
              FROM latest_metrics WHERE run = r.id AND key = {key})"
        )
    };
    let params = (known::MODEL..=known::SPLIT).map(|key| value("params", key));
    let tags = (known::RUBRIC..=known::SETTINGS).map(|key| value("tags", key));
    let metrics = (known::N_CANDIDATES..=known::TOKENS_PER_S).map(number);
    let columns: Vec<String> = params.chain(tags).chain(metrics).collect();
    format!(
        "SELECT r.experiment, r.run_id, r.status, {} FROM runs r
         WHERE r.id = ?1 AND EXISTS (SELECT 1 FROM params WHERE run = r.id AND key = {})",
        columns.join(", "),
        known::MODEL
    )
});

/// The experiment of a run and its line with its files, from where they are said first; `None`
/// where the run is no cell, or not wanted.
pub(super) fn line_anew(
    conn: &Connection,
    run: i64,
    is_wanted: impl FnOnce(&Line<'_>) -> bool,
) -> Attempt<Option<(i64, Vec<u8>)>> {
    let mut find = conn.prepare_cached(&COLUMNS)?;
    let mut rows = find.query([run])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut line = Line {
        form: FORM,
        run_id: row.get(1)?,
        status: row.get(2)?,
        params: [Text::None; 4],
        tags: [Text::None; 6],
        n_candidates: row.get(13)?,
        latency_ms: row.get(14)?,
        tokens_per_s: row.get(15)?,
    };
    for (column, text) in (3..).zip(line.params.iter_mut().chain(&mut line.tags)) {
        *text = match row.get_ref(column)? {
            ValueRef::Null => Text::None,
            ValueRef::Integer(id) => Text::Id(id),
            other => Text::Own(other.as_str().map_err(rusqlite::Error::from)?),
        };
    }
    if !is_wanted(&line) {
        return Ok(None);
    }
    let key = RunKey {
        id: run,
        run_id: hex(&line.run_id),
    };
    let unreadable = |error: postcard::Error| unreadable(&key.run_id, &error);
    let mut written = postcard::to_allocvec(&line).map_err(unreadable)?;
    for (_, file) in verdicts_read(conn, &key)? {
        written = encode(&file, written).map_err(unreadable)?;
    }
    Ok(Some((row.get(0)?, written)))
}

/// The experiment of the latest line.
pub(super) fn latest(conn: &Connection) -> Attempt<Option<String>> {
    let mut find = conn.prepare_cached(
        "SELECT e.name FROM board b JOIN experiments e ON e.experiment_id = b.experiment
         WHERE e.lifecycle_stage = 'active' ORDER BY b.run DESC LIMIT 1",
    )?;
    Ok(find.query_row([], |row| row.get(0)).optional()?)
}

/// Writes the line of a run anew.
pub(crate) fn line_write(conn: &Connection, run: i64) -> Attempt<()> {
    let line = match line_anew(conn, run, |_| true) {
        // Boards say it when they come to it; it is no reason not to write.
        Err(Fault::Store(StoreError::Corrupt { .. })) => None,
        line => line?,
    };
    let Some((experiment, line)) = line else {
        return line_drop(conn, run);
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO board (run, experiment, line) VALUES (?1, ?2, ?3)",
    )?
    .execute((run, experiment, line))?;
    Ok(())
}

/// A param, tag or metric of a run is about to change: where boards look at it, the run's line
/// is not true any more.
pub(crate) fn line_outdate(conn: &Connection, run: i64, key: i64) -> Attempt<()> {
    let columns = [
        known::MODEL..=known::SPLIT,
        known::RUBRIC..=known::SETTINGS,
        known::N_CANDIDATES..=known::TOKENS_PER_S,
    ];
    if columns.iter().any(|keys| keys.contains(&key)) {
        line_drop(conn, run)?;
    }
    Ok(())
}

/// A run's line is not true any more.
fn line_drop(conn: &Connection, run: i64) -> Attempt<()> {
    conn.prepare_cached("DELETE FROM board WHERE run = ?1")?
        .execute([run])?;
    Ok(())
}

/// A verdict file has been added to a run.
pub(crate) fn line_add(conn: &Connection, run: &RunKey, file: &VerdictFile) -> Attempt<()> {
    let more = encode(file, Vec::new()).map_err(|error| unreadable(&run.run_id, &error))?;
    // SQLite calls what it puts together a text, whatever it was before.
    let added = conn
        .prepare_cached("UPDATE board SET line = CAST(line || ?2 AS BLOB) WHERE run = ?1")?
        .execute((run.id, more))?;
    if added == 0 {
        line_write(conn, run.id)?;
    }
    Ok(())
}

pub(super) fn unreadable(run_id: &str, error: &postcard::Error) -> StoreError {
    StoreError::Corrupt {
        run_id: run_id.to_owned(),
        what: "its line of the board".to_owned(),
        reason: error.to_string(),
    }
}

/// A verdict file in a line: without reasons, and without what it cost.
#[derive(Serialize, Deserialize)]
struct FileInLine<'a> {
    sitting: &'a str,
    tier: Tier,
    judge: JudgeInLine<'a>,
    rubric_id: &'a str,
    rubric_sha256: &'a str,
    judged_at: &'a str,
    /// The sitting and the judge whose verdict these correct.
    #[serde(borrow)]
    amends: Option<(&'a str, JudgeInLine<'a>)>,
    #[serde(borrow)]
    verdicts: Vec<VerdictInLine<'a>>,
}

#[derive(Serialize, Deserialize)]
struct JudgeInLine<'a> {
    kind: &'a str,
    name: &'a str,
}

#[derive(Serialize, Deserialize)]
struct VerdictInLine<'a> {
    candidate: u32,
    composite: f64,
    #[serde(borrow)]
    scores: Vec<(&'a str, f64)>,
}

impl<'a> From<&'a Judge> for JudgeInLine<'a> {
    fn from(judge: &'a Judge) -> Self {
        Self {
            kind: &judge.kind,
            name: &judge.name,
        }
    }
}

impl<'a> From<JudgeInLine<'a>> for Judge<Cow<'a, str>> {
    fn from(judge: JudgeInLine<'a>) -> Self {
        Self {
            kind: judge.kind.into(),
            name: judge.name.into(),
        }
    }
}

/// Appends a verdict file to a line.
fn encode(file: &VerdictFile, line: Vec<u8>) -> postcard::Result<Vec<u8>> {
    let verdicts = file.verdicts.iter().map(|verdict| VerdictInLine {
        candidate: verdict.candidate,
        composite: verdict.composite,
        scores: (verdict.scores.iter())
            .filter_map(|(name, value)| Some((name.as_str(), as_number(value)?)))
            .collect(),
    });
    let file = FileInLine {
        sitting: &file.sitting,
        tier: file.tier,
        judge: JudgeInLine::from(&file.judge),
        rubric_id: &file.rubric.id,
        rubric_sha256: &file.rubric.sha256,
        judged_at: &file.judged_at,
        amends: (file.amends.as_ref()).map(|it| (it.sitting.as_str(), (&it.judge).into())),
        verdicts: verdicts.collect(),
    };
    postcard::to_extend(&file, line)
}

/// The verdict files of a line, in the order in which they were judged.
pub(super) fn decode(mut files: &[u8]) -> postcard::Result<Vec<LeanFile<'_>>> {
    let mut decoded = Vec::new();
    while !files.is_empty() {
        let (file, rest): (FileInLine<'_>, _) = postcard::take_from_bytes(files)?;
        files = rest;
        let verdicts = file.verdicts.into_iter().map(|verdict| Verdict {
            candidate: verdict.candidate,
            scores: LeanScores(verdict.scores),
            composite: verdict.composite,
            rationale: None,
        });
        decoded.push(LeanFile {
            sitting: file.sitting.into(),
            tier: file.tier,
            judge: file.judge.into(),
            rubric: RubricRef {
                id: file.rubric_id.into(),
                sha256: file.rubric_sha256.into(),
            },
            judged_at: file.judged_at.into(),
            verdicts: verdicts.collect(),
            usage: None,
            amends: file.amends.map(|(sitting, judge)| Amends {
                sitting: sitting.into(),
                judge: judge.into(),
            }),
        });
    }
    // Stores that were copied together have them in any order.
    decoded.sort_by(|a, b| (&a.judged_at, &a.sitting).cmp(&(&b.judged_at, &b.sitting)));
    Ok(decoded)
}
