//! Listing and deleting runs.

use assize_domain::run::RunStatus;
use assize_domain::scenario::Split;
use assize_domain::verdict::VerdictFile;
use rusqlite::{Connection, params_from_iter};

use super::EmbeddedStore;
use super::experiments::{experiment_list, experiment_need};
use super::rows::{
    artifact_get_bytes, artifact_text, run_find, run_read, status_number, verdicts_read,
};
use super::schema::{artifact_number, known};
use super::write_session::{Stored, WriteSession, lookup, text_find};
use crate::sqlite::Attempt;
use crate::{ExperimentSummary, Result, Run, RunPage, RunQuery, Runs, StoreError};

impl Runs for EmbeddedStore {
    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>> {
        self.read(experiment_list)
    }

    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage> {
        self.read(|conn| run_list(conn, experiment, query))
    }

    fn run_get(&self, run_id: &str) -> Result<Run> {
        self.read(|conn| run_read(conn, run_find(conn, run_id)?.id))
    }

    fn run_delete(&self, run_ids: &[String]) -> Result<()> {
        let run_ids = run_ids.to_vec();
        self.writer
            .write(move |session| run_delete(session, &run_ids))
    }

    fn artifacts_get(&self, run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>> {
        self.read(|conn| {
            let run = run_find(conn, run_id)?;
            let contents = paths.iter().map(|path| {
                let known = artifact_number(path);
                match known.map_or_else(|| text_find(conn, path), |it| Ok(Some(it)))? {
                    Some(number) => artifact_text(conn, &run, path, number),
                    None => Ok(None),
                }
            });
            contents.collect()
        })
    }

    fn artifact_get_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>> {
        self.read(|conn| {
            let run = run_find(conn, run_id)?;
            let number = text_find(conn, path)?.unwrap_or_default();
            artifact_get_bytes(conn, &run, number)
        })
    }

    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>> {
        self.read(|conn| {
            let run = run_find(conn, run_id)?;
            let files = verdicts_read(conn, &run)?;
            Ok(files.into_iter().map(|(_, file)| file).collect())
        })
    }
}

/// One page of an experiment's runs. A page token is the id of the page's last run.
pub(crate) fn run_list(conn: &Connection, experiment: &str, query: &RunQuery) -> Attempt<RunPage> {
    let experiment = experiment_need(conn, experiment)?;
    let ids = matching(conn, experiment, query)?;
    let limit = usize::try_from(query.max_results).unwrap_or(usize::MAX);
    let is_cut = limit > 0 && ids.len() > limit;
    let shown = if is_cut { &ids[..limit] } else { &ids[..] };
    let runs = shown
        .iter()
        .map(|id| run_read(conn, *id))
        .collect::<Attempt<_>>()?;
    Ok(RunPage {
        runs,
        next_page_token: shown.last().filter(|_| is_cut).map(ToString::to_string),
    })
}

/// The runs of one page, and one more if there is a next page.
fn matching(conn: &Connection, experiment: i64, query: &RunQuery) -> Attempt<Vec<i64>> {
    let mut sql = "SELECT r.id FROM runs r WHERE r.experiment = ? AND r.lifecycle_stage = 'active'"
        .to_owned();
    let mut values = vec![Stored::Number(experiment)];
    if let Some(token) = &query.page_token {
        let after = token.parse().map_err(|_| {
            StoreError::Invalid(format!(
                "'{token}' is not a page token: leave it out to start from the first page"
            ))
        })?;
        sql.push_str(if query.newest_first {
            " AND r.id < ?"
        } else {
            " AND r.id > ?"
        });
        values.push(Stored::Number(after));
    }
    let wanted = [
        (known::MODEL, &query.model),
        (known::PROMPT, &query.prompt),
        (known::SCENARIO, &query.scenario),
    ];
    for (key, value) in wanted {
        let Some(value) = value else { continue };
        let Some(stored) = lookup(conn, key, value)? else {
            return Ok(Vec::new());
        };
        sql.push_str(
            " AND EXISTS (SELECT 1 FROM params p WHERE p.run = r.id AND p.key = ? AND p.value = ?)",
        );
        values.extend([Stored::Number(key), stored]);
    }
    if let Some(split) = query.split {
        let Some(of_split) = split_condition(conn, split, &mut values)? else {
            return Ok(Vec::new());
        };
        sql.push_str(&of_split);
    }
    if let Some(pending) = query.pending {
        sql.push_str(
            " AND EXISTS (SELECT 1 FROM tags t WHERE t.run = r.id AND t.key = ? AND t.value = ?)",
        );
        let value = if pending { known::TRUE } else { known::FALSE };
        values.extend([Stored::Number(known::JUDGE_PENDING), Stored::Number(value)]);
        if pending {
            sql.push_str(" AND r.status = ?");
            values.push(Stored::Number(status_number(RunStatus::Finished)));
        }
    }
    if let Some(status) = query.status {
        sql.push_str(" AND r.status = ?");
        values.push(Stored::Number(status_number(status)));
    }
    sql.push_str(if query.newest_first {
        " ORDER BY r.id DESC"
    } else {
        " ORDER BY r.id"
    });
    if query.max_results > 0 {
        sql.push_str(" LIMIT ?");
        values.push(Stored::Number(i64::from(query.max_results) + 1));
    }
    let mut list = conn.prepare_cached(&sql)?;
    let ids = list.query_map(params_from_iter(values), |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// The condition that a run is in a split; `None` if no run can be. Runs that do not name a split
/// are in the selection split.
fn split_condition(
    conn: &Connection,
    split: Split,
    values: &mut Vec<Stored<'_>>,
) -> Attempt<Option<String>> {
    let stored = lookup(conn, known::SPLIT, split.as_str())?;
    let (not, value) = match (split, &stored) {
        (Split::Selection, Some(_)) => (" NOT", " AND p.value <> ?"),
        (Split::Selection, None) => (" NOT", ""),
        (_, Some(_)) => ("", " AND p.value = ?"),
        (_, None) => return Ok(None),
    };
    values.push(Stored::Number(known::SPLIT));
    values.extend(stored);
    Ok(Some(format!(
        " AND{not} EXISTS (SELECT 1 FROM params p WHERE p.run = r.id AND p.key = ?{value})"
    )))
}

/// Marks runs as deleted, all or none; their cells can be recorded again.
pub(crate) fn run_delete(session: &mut WriteSession, run_ids: &[String]) -> Attempt<()> {
    for run_id in run_ids {
        let run = run_find(&session.conn, run_id)?;
        session
            .conn
            .prepare_cached("UPDATE runs SET lifecycle_stage = 'deleted' WHERE id = ?1")?
            .execute([run.id])?;
        session
            .conn
            .prepare_cached(
                "UPDATE experiments SET last_update_time = ?2
                 WHERE experiment_id = (SELECT experiment FROM runs WHERE id = ?1)",
            )?
            .execute((run.id, session.now_ms()))?;
    }
    Ok(())
}
