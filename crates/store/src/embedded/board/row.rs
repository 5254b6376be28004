//! Board rows: the data of a run that boards need, in one row of the table `board`.
//!
//! Everything in a row is also in five other tables, but reading it there takes several times as
//! long, and a board reads every run of an experiment. A row is a cache and may be missing; then it
//! is computed on reading. A row must therefore be correct, but need not exist.
//!
//! - Code that records a run writes its row ([`row_write`]), and code that adds a verdict file
//!   appends to it ([`row_append`]). Without the first call boards are slower, but correct.
//! - Database triggers delete the row when data that it repeats is changed or deleted.
//! - Inserting does not fire a trigger, because recording a run inserts about fifty rows and the
//!   trigger would run for each of them. Code that inserts a param, tag or metric into a recorded
//!   run calls [`row_outdate`].
//!
//! Layout of the column `line`: a [`BoardRow`], then a [`RowFile`] for each verdict file, in the
//! order in which they were added, encoded with postcard without separators. A row does not
//! contain the list of sittings set aside or the lifecycle stage.

use std::borrow::Cow;
use std::sync::LazyLock;

use assize_domain::hash::hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::scenario::Split;
use assize_domain::verdict::{
    Amends, LeanFile, LeanScores, RubricRef, Verdict, VerdictFile, as_number,
};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::embedded::rows::{RunKey, verdicts_read};
use crate::embedded::schema::known;
use crate::sqlite::{Attempt, Fault};

/// The format of rows. Increase it with every change to [`BoardRow`] or [`RowFile`]: a row of
/// another format counts as missing.
const FORMAT: u8 = 5;

/// The data of a run that precedes its verdict files.
#[derive(Serialize, Deserialize)]
pub(super) struct BoardRow<'a> {
    format: u8,
    pub run_id: [u8; 16],
    pub status: i64,
    #[serde(borrow)]
    pub params: RowParams<'a>,
    #[serde(borrow)]
    pub tags: RowTags<'a>,
    pub n_candidates: Option<f64>,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    pub n_failed: Option<f64>,
    pub completion_tokens: Option<f64>,
    pub cost_usd: Option<f64>,
    pub thinking_tokens: Option<f64>,
}

/// In the order of [`keys::PARAMS`].
#[derive(Serialize, Deserialize)]
pub(super) struct RowParams<'a> {
    #[serde(borrow)]
    pub model: Text<'a>,
    pub prompt: Text<'a>,
    pub scenario: Text<'a>,
    pub split: Text<'a>,
}

/// In the order of [`keys::TAGS`].
#[derive(Serialize, Deserialize)]
pub(super) struct RowTags<'a> {
    #[serde(borrow)]
    pub rubric: Text<'a>,
    pub rubric_sha256: Text<'a>,
    pub prompt_sha256: Text<'a>,
    pub scenario_sha256: Text<'a>,
    pub model_digest: Text<'a>,
    pub settings: Text<'a>,
}

/// The keys of the data that a row repeats.
mod keys {
    use std::ops::RangeInclusive;

    use assize_domain::run::metric;

    use crate::embedded::schema::known;

    pub const PARAMS: RangeInclusive<i64> = known::MODEL..=known::SPLIT;
    pub const TAGS: RangeInclusive<i64> = known::RUBRIC..=known::SETTINGS;
    pub const METRICS: RangeInclusive<i64> = known::N_CANDIDATES..=known::TOKENS_PER_S;
    /// Metrics whose ids differ between databases, in the order of [`super::BoardRow`]. The
    /// triggers of schema versions 9 and 11 name them too.
    pub const NAMED_METRICS: [&str; 4] = [
        metric::N_FAILED,
        metric::COMPLETION_TOKENS,
        metric::GENERATION_COST_USD,
        metric::THINKING_TOKENS,
    ];
}

/// A value of a param or tag, as stored in its column.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) enum Text<'a> {
    #[default]
    None,
    /// The id of a text.
    Id(i64),
    Own(&'a str),
}

impl<'a> BoardRow<'a> {
    /// A row and its verdict files, still encoded; `None` if it cannot be decoded.
    pub fn read(row: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let read: Option<(Self, _)> = postcard::take_from_bytes(row).ok();
        read.filter(|(row, _)| row.format == FORMAT)
    }

    /// Whether the run is in a split; `split_id` is the id of the split's name, if that text
    /// exists.
    pub fn is_of(&self, split: Split, split_id: Option<i64>) -> bool {
        match self.params.split {
            Text::None => split == Split::Selection,
            Text::Id(id) => Some(id) == split_id,
            Text::Own(name) => name == split.as_str(),
        }
    }
}

/// The columns that a row is computed from, for the run `?1`, in the order of [`BoardRow`], then
/// its experiment. There is no result if the run has no model and so is not a cell.
static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    let value = |table: &str, key: i64| {
        format!("(SELECT value FROM {table} WHERE run = r.id AND key = {key})")
    };
    let number = |key: String| {
        format!(
            "(SELECT CASE WHEN is_nan THEN NULL ELSE value END
              FROM latest_metrics WHERE run = r.id AND key = {key})"
        )
    };
    let named = |name: &&str| number(format!("(SELECT id FROM texts WHERE text = '{name}')"));
    let params = keys::PARAMS.map(|key| value("params", key));
    let tags = keys::TAGS.map(|key| value("tags", key));
    let metrics = keys::METRICS.map(|key| number(key.to_string()));
    let named = keys::NAMED_METRICS.iter().map(named);
    let columns: Vec<String> = params.chain(tags).chain(metrics).chain(named).collect();
    format!(
        "SELECT r.run_id, r.status, {}, r.experiment FROM runs r
         WHERE r.id = ?1 AND EXISTS (SELECT 1 FROM params WHERE run = r.id AND key = {})",
        columns.join(", "),
        known::MODEL
    )
});

/// Reads columns one after the other.
struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    fn get<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    fn text(&mut self) -> rusqlite::Result<Text<'a>> {
        self.next += 1;
        Ok(match self.row.get_ref(self.next - 1)? {
            ValueRef::Null => Text::None,
            ValueRef::Integer(id) => Text::Id(id),
            other => Text::Own(other.as_str()?),
        })
    }

    fn board_row(&mut self) -> rusqlite::Result<BoardRow<'a>> {
        Ok(BoardRow {
            format: FORMAT,
            run_id: self.get()?,
            status: self.get()?,
            params: RowParams {
                model: self.text()?,
                prompt: self.text()?,
                scenario: self.text()?,
                split: self.text()?,
            },
            tags: RowTags {
                rubric: self.text()?,
                rubric_sha256: self.text()?,
                prompt_sha256: self.text()?,
                scenario_sha256: self.text()?,
                model_digest: self.text()?,
                settings: self.text()?,
            },
            n_candidates: self.get()?,
            latency_ms: self.get()?,
            tokens_per_s: self.get()?,
            n_failed: self.get()?,
            completion_tokens: self.get()?,
            cost_usd: self.get()?,
            thinking_tokens: self.get()?,
        })
    }
}

/// The experiment of a run and its row with its verdict files, computed from the other tables;
/// `None` if the run is not a cell or is filtered out.
pub(super) fn row_compute(
    conn: &Connection,
    run: i64,
    is_wanted: impl FnOnce(&BoardRow<'_>) -> bool,
) -> Attempt<Option<(i64, Vec<u8>)>> {
    let mut find = conn.prepare_cached(&COLUMNS)?;
    let mut rows = find.query([run])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut columns = Columns { row, next: 0 };
    let row = columns.board_row()?;
    if !is_wanted(&row) {
        return Ok(None);
    }
    let key = RunKey {
        id: run,
        run_id: hex(&row.run_id),
    };
    let unreadable = |error: postcard::Error| unreadable(&key.run_id, &error);
    let mut written = postcard::to_allocvec(&row).map_err(unreadable)?;
    for (_, file) in verdicts_read(conn, &key)? {
        written = encode(&file, written).map_err(unreadable)?;
    }
    Ok(Some((columns.get()?, written)))
}

/// The experiment of the latest row.
pub(super) fn latest(conn: &Connection) -> Attempt<Option<String>> {
    let mut find = conn.prepare_cached(
        "SELECT e.name FROM board b JOIN experiments e ON e.experiment_id = b.experiment
         WHERE e.lifecycle_stage = 'active' ORDER BY b.run DESC LIMIT 1",
    )?;
    Ok(find.query_row([], |row| row.get(0)).optional()?)
}

/// Writes the row of a run, replacing an earlier one.
pub(crate) fn row_write(conn: &Connection, run: i64) -> Attempt<()> {
    let row = match row_compute(conn, run, |_| true) {
        // Boards report this error when they read the run, so the write is not rejected.
        Err(Fault::Store(StoreError::Corrupt { .. })) => None,
        row => row?,
    };
    let Some((experiment, row)) = row else {
        return row_delete(conn, run);
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO board (run, experiment, line) VALUES (?1, ?2, ?3)",
    )?
    .execute((run, experiment, row))?;
    Ok(())
}

/// Deletes a run's row after a param, tag or metric that the row repeats has been inserted.
/// Triggers do this for changes and deletions.
pub(crate) fn row_outdate(conn: &Connection, run: i64, key: i64) -> Attempt<()> {
    let keys = [keys::PARAMS, keys::TAGS, keys::METRICS];
    if keys.iter().any(|keys| keys.contains(&key)) || is_named_metric(conn, key)? {
        row_delete(conn, run)?;
    }
    Ok(())
}

fn is_named_metric(conn: &Connection, key: i64) -> Attempt<bool> {
    let mut find = conn.prepare_cached("SELECT text FROM texts WHERE id = ?1")?;
    let text: Option<String> = find.query_row([key], |row| row.get(0)).optional()?;
    Ok(text.is_some_and(|text| keys::NAMED_METRICS.contains(&text.as_str())))
}

fn row_delete(conn: &Connection, run: i64) -> Attempt<()> {
    conn.prepare_cached("DELETE FROM board WHERE run = ?1")?
        .execute([run])?;
    Ok(())
}

/// Appends a new verdict file to the run's row, or writes the row.
pub(crate) fn row_append(conn: &Connection, run: &RunKey, file: &VerdictFile) -> Attempt<()> {
    let more = encode(file, Vec::new()).map_err(|error| unreadable(&run.run_id, &error))?;
    // The result of `||` is a text in SQLite, whatever its operands are.
    let added = conn
        .prepare_cached("UPDATE board SET line = CAST(line || ?2 AS BLOB) WHERE run = ?1")?
        .execute((run.id, more))?;
    if added == 0 {
        row_write(conn, run.id)?;
    }
    Ok(())
}

pub(super) fn unreadable(run_id: &str, error: &postcard::Error) -> StoreError {
    StoreError::Corrupt {
        run_id: run_id.to_owned(),
        what: "its board row".to_owned(),
        reason: error.to_string(),
    }
}

/// A verdict file in a row, without rationales and costs.
#[derive(Serialize, Deserialize)]
struct RowFile<'a> {
    sitting: &'a str,
    tier: Tier,
    judge: RowJudge<'a>,
    rubric_id: &'a str,
    rubric_sha256: &'a str,
    judged_at: &'a str,
    /// The sitting and the judge whose verdict this one corrects, and the amendment that it replaces.
    #[serde(borrow)]
    amends: Option<(&'a str, RowJudge<'a>, Option<&'a str>)>,
    #[serde(borrow)]
    verdicts: Vec<RowVerdict<'a>>,
}

#[derive(Serialize, Deserialize)]
struct RowJudge<'a> {
    kind: &'a str,
    name: &'a str,
    #[serde(borrow)]
    version: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct RowVerdict<'a> {
    candidate: u32,
    composite: f64,
    #[serde(borrow)]
    scores: Vec<(&'a str, f64)>,
}

impl<'a> From<&'a Judge> for RowJudge<'a> {
    fn from(judge: &'a Judge) -> Self {
        Self {
            kind: &judge.kind,
            name: &judge.name,
            version: judge.version.as_deref(),
        }
    }
}

impl<'a> From<RowJudge<'a>> for Judge<Cow<'a, str>> {
    fn from(judge: RowJudge<'a>) -> Self {
        Self {
            kind: judge.kind.into(),
            name: judge.name.into(),
            version: judge.version.map(Cow::from),
        }
    }
}

/// Appends a verdict file to a row.
fn encode(file: &VerdictFile, row: Vec<u8>) -> postcard::Result<Vec<u8>> {
    let verdicts = file.verdicts.iter().map(|verdict| RowVerdict {
        candidate: verdict.candidate,
        composite: verdict.composite,
        scores: (verdict.scores.iter())
            .filter_map(|(name, value)| Some((name.as_str(), as_number(value)?)))
            .collect(),
    });
    let file = RowFile {
        sitting: &file.sitting,
        tier: file.tier,
        judge: RowJudge::from(&file.judge),
        rubric_id: &file.rubric.id,
        rubric_sha256: &file.rubric.sha256,
        judged_at: &file.judged_at,
        amends: (file.amends.as_ref()).map(|it| {
            let replaces = it.replaces.as_deref();
            (it.sitting.as_str(), (&it.judge).into(), replaces)
        }),
        verdicts: verdicts.collect(),
    };
    postcard::to_extend(&file, row)
}

/// The verdict files of a row, in the order in which they were judged.
pub(super) fn decode(mut files: &[u8]) -> postcard::Result<Vec<LeanFile<'_>>> {
    let mut decoded = Vec::new();
    while !files.is_empty() {
        let (file, rest): (RowFile<'_>, _) = postcard::take_from_bytes(files)?;
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
            amends: file.amends.map(|(sitting, judge, replaces)| Amends {
                sitting: sitting.into(),
                judge: judge.into(),
                replaces: replaces.map(Cow::from),
            }),
        });
    }
    // Copying between stores adds files in any order.
    decoded.sort_by(|a, b| (&a.judged_at, &a.sitting).cmp(&(&b.judged_at, &b.sitting)));
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Databases hold rows of this format: if the bytes change, [`FORMAT`] must change.
    #[test]
    fn the_layout_of_a_row_is_pinned() {
        let row = BoardRow {
            format: FORMAT,
            run_id: [7; 16],
            status: 3,
            params: RowParams {
                model: Text::Id(100),
                prompt: Text::Own("v1"),
                scenario: Text::Id(102),
                split: Text::None,
            },
            tags: RowTags {
                rubric: Text::Id(1),
                rubric_sha256: Text::Own("ab"),
                prompt_sha256: Text::None,
                scenario_sha256: Text::None,
                model_digest: Text::None,
                settings: Text::Id(2),
            },
            n_candidates: Some(5.0),
            latency_ms: None,
            tokens_per_s: None,
            n_failed: Some(1.0),
            completion_tokens: None,
            cost_usd: None,
            thinking_tokens: None,
        };
        let written = hex(&postcard::to_allocvec(&row).unwrap());
        let expected = [
            "05",
            &"07".repeat(16),
            "06",
            "01c801",
            "02027631",
            "01cc01",
            "000102",
            "02026162",
            "0000000104",
            "010000000000001440",
            "0000",
            "01000000000000f03f",
            "000000",
        ];
        assert_eq!(written, expected.concat());
    }

    #[test]
    fn a_row_keeps_the_versions_of_judges() {
        let judge = |version: Option<&str>| Judge {
            kind: "codex".to_owned(),
            name: "nightly".to_owned(),
            version: version.map(str::to_owned),
        };
        let file = VerdictFile {
            sitting: "s".to_owned(),
            tier: Tier::Expert,
            judge: judge(Some("codex 0.46")),
            rubric: RubricRef {
                id: "r".to_owned(),
                sha256: "ab".to_owned(),
            },
            judged_at: "2026-04-27T10:00:00Z".to_owned(),
            verdicts: Vec::new(),
            usage: None,
            amends: Some(Amends {
                sitting: "s0".to_owned(),
                judge: judge(None),
                replaces: Some("s1".to_owned()),
            }),
        };
        let row = encode(&file, Vec::new()).unwrap();
        let files = decode(&row).unwrap();
        assert_eq!(files[0].judge.version.as_deref(), Some("codex 0.46"));
        let amends = files[0].amends.as_ref().unwrap();
        assert_eq!(amends.judge.version, None);
        assert_eq!(amends.replaces.as_deref(), Some("s1"));
    }
}
