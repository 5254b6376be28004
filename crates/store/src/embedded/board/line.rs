//! Lines: what boards need of a run, in one row of `board`.
//!
//! Everything in a line is said elsewhere too, in five tables. Reading it there takes ten times
//! as long, and a board reads every run of an experiment. So whoever records a run writes its
//! line, whoever adds a verdict file appends to it, and whoever changes anything else that
//! boards look at drops it: a run without a line is read from the five tables, by the very
//! statement that would write the line. What is set aside and what is deleted is not in a line.

use assize_domain::judge::{Judge, Tier};
use assize_domain::verdict::{Amends, LeanScores, RubricRef, Verdict, VerdictFile, as_number};
use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::embedded::rows::{RunKey, verdicts_read};
use crate::embedded::schema::known;
use crate::sqlite::Attempt;

/// The columns of a line before its verdict files.
pub(super) const COLUMNS: &str = "run, experiment, run_id, status, model, prompt, scenario, split, \
     rubric, rubric_sha256, prompt_sha256, scenario_sha256, model_digest, settings, \
     n_candidates, latency_ms, tokens_per_s";

/// The same columns for the run `?1`, from where they are said first; no row where the run is
/// no cell.
pub(super) fn columns_anew() -> String {
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
    // Most runs of other tools are no cells, which their missing model tells soonest.
    format!(
        "SELECT r.id, r.experiment, r.run_id, r.status, {} FROM runs r
         WHERE r.id = ?1 AND EXISTS (SELECT 1 FROM params WHERE run = r.id AND key = {})",
        columns.join(", "),
        known::MODEL
    )
}

/// The experiment of the latest line.
pub(super) fn latest(conn: &Connection) -> Attempt<Option<String>> {
    let mut find = conn.prepare_cached(
        "SELECT e.name FROM (SELECT experiment FROM board ORDER BY run DESC LIMIT 1) b
         JOIN experiments e ON e.experiment_id = b.experiment AND e.lifecycle_stage = 'active'",
    )?;
    Ok(find.query_row([], |row| row.get(0)).optional()?)
}

/// Writes the line of a run anew.
pub(crate) fn line_write(conn: &Connection, run: &RunKey) -> Attempt<()> {
    let files = files_anew(conn, run)?;
    let sql = format!(
        "INSERT OR REPLACE INTO board ({COLUMNS}, files) {}",
        columns_anew().replace(" FROM runs r", ", ?2 FROM runs r")
    );
    conn.prepare_cached(&sql)?.execute((run.id, files))?;
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
pub(crate) fn line_drop(conn: &Connection, run: i64) -> Attempt<()> {
    conn.prepare_cached("DELETE FROM board WHERE run = ?1")?
        .execute([run])?;
    Ok(())
}

/// A verdict file was added to a run.
pub(crate) fn line_add(conn: &Connection, run: &RunKey, file: &VerdictFile) -> Attempt<()> {
    let mut more = Vec::new();
    encode(file, &mut more).map_err(|error| unreadable(&run.run_id, &error))?;
    // SQLite calls what it puts together a text, whatever it was before.
    conn.prepare_cached("UPDATE board SET files = CAST(files || ?2 AS BLOB) WHERE run = ?1")?
        .execute((run.id, more))?;
    Ok(())
}

/// The verdict files of a run as its line would have them.
pub(super) fn files_anew(conn: &Connection, run: &RunKey) -> Attempt<Vec<u8>> {
    let mut files = Vec::new();
    for (_, file) in verdicts_read(conn, run)? {
        encode(&file, &mut files).map_err(|error| unreadable(&run.run_id, &error))?;
    }
    Ok(files)
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

impl From<JudgeInLine<'_>> for Judge {
    fn from(judge: JudgeInLine<'_>) -> Self {
        Self {
            kind: judge.kind.to_owned(),
            name: judge.name.to_owned(),
        }
    }
}

/// Appends a verdict file to the files of a line.
fn encode(file: &VerdictFile, files: &mut Vec<u8>) -> postcard::Result<()> {
    let verdicts = file.verdicts.iter().map(|verdict| VerdictInLine {
        candidate: verdict.candidate,
        composite: verdict.composite,
        scores: (verdict.scores.iter())
            .filter_map(|(name, value)| Some((name.as_str(), as_number(value)?)))
            .collect(),
    });
    let line = FileInLine {
        sitting: &file.sitting,
        tier: file.tier,
        judge: JudgeInLine::from(&file.judge),
        rubric_id: &file.rubric.id,
        rubric_sha256: &file.rubric.sha256,
        judged_at: &file.judged_at,
        amends: (file.amends.as_ref()).map(|it| (it.sitting.as_str(), (&it.judge).into())),
        verdicts: verdicts.collect(),
    };
    *files = postcard::to_extend(&line, std::mem::take(files))?;
    Ok(())
}

/// The verdict files of a line.
pub(super) fn decode(mut files: &[u8]) -> postcard::Result<Vec<VerdictFile<LeanScores<'_>>>> {
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
        decoded.push(VerdictFile {
            sitting: file.sitting.to_owned(),
            tier: file.tier,
            judge: file.judge.into(),
            rubric: RubricRef {
                id: file.rubric_id.to_owned(),
                sha256: file.rubric_sha256.to_owned(),
            },
            judged_at: file.judged_at.to_owned(),
            verdicts: verdicts.collect(),
            usage: None,
            amends: file.amends.map(|(sitting, judge)| Amends {
                sitting: sitting.to_owned(),
                judge: judge.into(),
            }),
        });
    }
    Ok(decoded)
}
