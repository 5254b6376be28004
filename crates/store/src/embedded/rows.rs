//! Reading the data of one run.

use assize_domain::candidate::Candidate;
use assize_domain::hash::hex;
use assize_domain::run::{RunStatus, artifact};
use assize_domain::verdict::VerdictFile;
use rusqlite::{Connection, OptionalExtension, Row};

use super::schema::known;
use crate::rules::{AMBIGUOUS_SHOWN, ambiguous_hint};
use crate::sqlite::Attempt;
use crate::{Run, StoreError};

/// A run with its id in the database.
#[derive(Debug, Clone)]
pub(crate) struct RunKey {
    pub id: i64,
    pub run_id: String,
}

/// The numbers of a run's states in MLflow's protocol.
pub(crate) const fn status_number(status: RunStatus) -> i64 {
    match status {
        RunStatus::Running => 1,
        RunStatus::Scheduled => 2,
        RunStatus::Finished => 3,
        RunStatus::Failed => 4,
        RunStatus::Killed => 5,
    }
}

/// The state of a run; an unknown number does not count as finished.
pub(crate) fn status_of(number: i64) -> RunStatus {
    RunStatus::ALL
        .into_iter()
        .find(|status| status_number(*status) == number)
        .unwrap_or(RunStatus::Running)
}

/// Finds an active run by its id or an unambiguous prefix of it.
pub(crate) fn run_find(conn: &Connection, wanted: &str) -> Attempt<RunKey> {
    let (low, high) = bounds(wanted).ok_or_else(|| no_run(wanted, ": see `assize runs list`"))?;
    if low == high {
        return run_find_whole(conn, wanted, low);
    }
    let mut find = conn.prepare_cached(
        "SELECT id, run_id, lifecycle_stage = 'active' FROM runs
         WHERE run_id BETWEEN ?1 AND ?2 ORDER BY 3 DESC, run_id LIMIT ?3",
    )?;
    let most = i64::try_from(AMBIGUOUS_SHOWN + 1).unwrap_or(i64::MAX);
    let found: Vec<(RunKey, bool)> = find
        .query_map((low, high, most), |row| {
            let run_id = hex(&row.get::<_, [u8; 16]>(1)?);
            Ok((
                RunKey {
                    id: row.get(0)?,
                    run_id,
                },
                row.get(2)?,
            ))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let active: Vec<&RunKey> = found.iter().filter(|it| it.1).map(|it| &it.0).collect();
    match &active[..] {
        [run] => Ok((*run).clone()),
        [] if found.is_empty() => Err(no_run(wanted, ": see `assize runs list`").into()),
        [] => Err(no_run(wanted, " any more: it has been deleted").into()),
        several => {
            let ids = several.iter().map(|it| it.run_id.as_str());
            Err(no_run(wanted, &ambiguous_hint(ids)).into())
        }
    }
}

/// Finds an active run by its full id.
fn run_find_whole(conn: &Connection, wanted: &str, run_id: [u8; 16]) -> Attempt<RunKey> {
    let mut find =
        conn.prepare_cached("SELECT id, lifecycle_stage = 'active' FROM runs WHERE run_id = ?1")?;
    let found = find.query_row([run_id], |row| Ok((row.get(0)?, row.get(1)?)));
    match found.optional()? {
        Some((id, true)) => Ok(RunKey {
            id,
            run_id: hex(&run_id),
        }),
        Some((_, false)) => Err(no_run(wanted, " any more: it has been deleted").into()),
        None => Err(no_run(wanted, ": see `assize runs list`").into()),
    }
}

fn no_run(id: &str, hint: &str) -> StoreError {
    StoreError::NoRun {
        id: id.to_owned(),
        hint: hint.to_owned(),
    }
}

/// The smallest and the largest id with this prefix.
fn bounds(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    if prefix.is_empty() || prefix.len() > 32 {
        return None;
    }
    let mut low = [0; 16];
    let mut high = [0xff; 16];
    for (position, digit) in prefix.chars().enumerate() {
        let digit = u8::try_from(digit.to_digit(16)?).ok()?;
        let byte = position / 2;
        if position % 2 == 0 {
            low[byte] = digit << 4;
            high[byte] = digit << 4 | 0x0f;
        } else {
            low[byte] |= digit;
            high[byte] = high[byte] & 0xf0 | digit;
        }
    }
    Some((low, high))
}

/// A run without the contents of its artifacts.
pub(crate) fn run_read(conn: &Connection, run: i64) -> Attempt<Run> {
    let mut find = conn.prepare_cached(
        "SELECT r.run_id, e.name, r.name, r.status, r.start_time, r.end_time
         FROM runs r JOIN experiments e ON e.experiment_id = r.experiment WHERE r.id = ?1",
    )?;
    let mut found = find.query_row([run], |row| {
        Ok(Run {
            run_id: hex(&row.get::<_, [u8; 16]>(0)?),
            experiment: row.get(1)?,
            name: row.get(2)?,
            status: status_of(row.get(3)?),
            start_time_ms: row.get(4)?,
            end_time_ms: row.get(5)?,
            params: Vec::new(),
            metrics: Vec::new(),
            tags: Vec::new(),
            artifacts: Vec::new(),
        })
    })?;
    found.params = entries(conn, "params", run)?;
    found.tags = entries(conn, "tags", run)?;
    found.metrics = metrics(conn, run)?;
    found.artifacts = artifact_paths(conn, run)?
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    Ok(found)
}

fn entries(conn: &Connection, table: &str, run: i64) -> Attempt<Vec<(String, String)>> {
    let sql = format!(
        "SELECT k.text, CASE typeof(x.value) WHEN 'integer'
                THEN (SELECT text FROM texts WHERE id = x.value) ELSE x.value END
         FROM {table} x JOIN texts k ON k.id = x.key WHERE x.run = ?1"
    );
    let mut list = conn.prepare_cached(&sql)?;
    let rows = list.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut entries: Vec<(String, String)> = rows.collect::<rusqlite::Result<_>>()?;
    entries.sort();
    Ok(entries)
}

fn metrics(conn: &Connection, run: i64) -> Attempt<Vec<(String, f64)>> {
    let mut list = conn.prepare_cached(
        "SELECT k.text, x.value, x.is_nan FROM latest_metrics x JOIN texts k ON k.id = x.key
         WHERE x.run = ?1 ORDER BY k.text",
    )?;
    let rows = list.query_map([run], |row| Ok((row.get(0)?, metric_value(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// A metric's value, from the columns `value` and `is_nan`.
pub(crate) fn metric_value(row: &Row<'_>, at: usize) -> rusqlite::Result<f64> {
    let is_nan: bool = row.get(at + 1)?;
    if is_nan { Ok(f64::NAN) } else { row.get(at) }
}

/// The value of one tag or param of a run.
pub(crate) fn entry(conn: &Connection, table: &str, run: i64, key: i64) -> Attempt<Option<String>> {
    let sql = format!(
        "SELECT CASE typeof(value) WHEN 'integer'
                THEN (SELECT text FROM texts WHERE id = value) ELSE value END
         FROM {table} WHERE run = ?1 AND key = ?2"
    );
    let mut find = conn.prepare_cached(&sql)?;
    Ok(find.query_row((run, key), |row| row.get(0)).optional()?)
}

/// The paths of a run's artifacts with the ids of their blobs, in order.
fn artifact_paths(conn: &Connection, run: i64) -> Attempt<Vec<(String, i64)>> {
    let mut list = conn.prepare_cached(
        "SELECT p.text, a.blob FROM artifacts a JOIN texts p ON p.id = a.path
         WHERE a.run = ?1 ORDER BY p.text",
    )?;
    let rows = list.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The text of an artifact of a run.
pub(crate) fn artifact_text(
    conn: &Connection,
    run: &RunKey,
    path: &str,
    path_number: i64,
) -> Attempt<Option<String>> {
    artifact_get_bytes(conn, run, path_number)?
        .map(|bytes| String::from_utf8(bytes).map_err(|error| corrupt(run, path, &error).into()))
        .transpose()
}

/// The content of an artifact of a run.
pub(crate) fn artifact_get_bytes(
    conn: &Connection,
    run: &RunKey,
    path_number: i64,
) -> Attempt<Option<Vec<u8>>> {
    let mut find = conn.prepare_cached(
        "SELECT b.content FROM artifacts a JOIN blobs b ON b.id = a.blob
         WHERE a.run = ?1 AND a.path = ?2",
    )?;
    let content = find.query_row((run.id, path_number), |row| row.get(0));
    Ok(content.optional()?)
}

pub(crate) fn corrupt(run: &RunKey, what: &str, reason: &dyn ToString) -> StoreError {
    StoreError::Corrupt {
        run_id: run.run_id.clone(),
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}

/// The indexes of a run's candidates that have a text.
pub(crate) fn judgeable_read(conn: &Connection, run: &RunKey) -> Attempt<Vec<u32>> {
    #[derive(serde::Deserialize)]
    struct IndexAndText {
        index: u32,
        text: Option<serde::de::IgnoredAny>,
    }
    let path = artifact::CANDIDATES;
    let Some(text) = artifact_text(conn, run, path, known::ARTIFACT_CANDIDATES)? else {
        return Ok(Vec::new());
    };
    let candidates: Vec<IndexAndText> =
        serde_json::from_str(&text).map_err(|error| corrupt(run, path, &error))?;
    let with_text = candidates.into_iter().filter(|it| it.text.is_some());
    Ok(with_text.map(|it| it.index).collect())
}

/// The candidates of a run; `None` if it has no list of them.
pub(crate) fn candidates_read(conn: &Connection, run: &RunKey) -> Attempt<Option<Vec<Candidate>>> {
    let path = artifact::CANDIDATES;
    let Some(text) = artifact_text(conn, run, path, known::ARTIFACT_CANDIDATES)? else {
        return Ok(None);
    };
    let parsed = serde_json::from_str(&text).map_err(|error| corrupt(run, path, &error))?;
    Ok(Some(parsed))
}

/// The verdict files of a run with their paths, in the order in which the sittings were created.
pub(crate) fn verdicts_read(
    conn: &Connection,
    run: &RunKey,
) -> Attempt<Vec<(String, VerdictFile)>> {
    let mut list = conn.prepare_cached(
        "SELECT p.text, b.content FROM artifacts a
         JOIN texts p ON p.id = a.path JOIN blobs b ON b.id = a.blob
         WHERE a.run = ?1 AND a.path > ?2 AND substr(p.text, 1, 9) = 'verdicts/'
         ORDER BY a.path",
    )?;
    let mut rows = list.query((run.id, known::LAST))?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let path: String = row.get(0)?;
        let content = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        let file = serde_json::from_slice(content).map_err(|error| corrupt(run, &path, &error))?;
        files.push((path, file));
    }
    Ok(files)
}

/// The sittings whose verdicts on a run do not count.
pub(crate) fn set_aside(conn: &Connection, run: i64) -> Attempt<Vec<String>> {
    let list = entry(conn, "tags", run, known::SET_ASIDE)?.unwrap_or_default();
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// The verdict files of a run that count, in the order in which the sittings were created.
pub(crate) fn verdicts_counting(conn: &Connection, run: &RunKey) -> Attempt<Vec<VerdictFile>> {
    let aside = set_aside(conn, run.id)?;
    let files = verdicts_read(conn, run)?.into_iter().map(|(_, file)| file);
    Ok(files
        .filter(|file| !aside.contains(&file.sitting))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_of_an_id_bounds_the_ids_that_have_it() {
        let (low, high) = bounds("abc12").unwrap();
        assert_eq!(hex(&low), "abc12000000000000000000000000000");
        assert_eq!(hex(&high), "abc12fffffffffffffffffffffffffff");
        let (low, high) = bounds("a").unwrap();
        assert_eq!((low[0], high[0]), (0xa0, 0xaf));
        assert_eq!(bounds(""), None);
        assert_eq!(bounds("wxyz"), None);
        assert_eq!(bounds(&"a".repeat(33)), None);
    }

    #[test]
    fn states_keep_their_numbers() {
        for status in RunStatus::ALL {
            assert_eq!(status_of(status_number(status)), status);
        }
    }
}
