//! Runs: searching, iterating and deleting; writing is in [`writes`].
//!
//! Iteration continues by start time instead of the server's page tokens. Those are offsets, so a
//! run that is created or deleted meanwhile would cause others to be skipped.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_domain::run::{RunStatus, artifact, param, tag};
use assize_domain::scenario::Split;
use assize_domain::verdict::VerdictFile;
use assize_store::rules::{AMBIGUOUS_SHOWN, ambiguous_hint};
use assize_store::{
    ExperimentSummary, Result, Run, RunPage, RunQuery, Runs, StoreError, is_bookkeeping,
};
use serde_json::json;

use crate::address::encoded;
use crate::verdicts::{Marks, TAG as VERDICT_TAG};
use crate::wire::{Nothing, RunAnswer, RunsAnswer, Tracked};
use crate::{MlflowStore, SITTINGS, limits, lock, parallel};

pub(crate) use writes::{Entries, pairs};

mod writes;

/// The page size of a search.
const PAGE: usize = 1000;
/// How long a run is cached whose files are being read.
const RECENT: Duration = Duration::from_secs(2);
const RECENT_RUNS: usize = 16;

impl Runs for MlflowStore {
    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>> {
        let mut all = self.experiments_all()?;
        all.retain(|it| it.name != SITTINGS);
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let summaries = parallel::each(&all, |experiment| self.experiment_sum_up(experiment))?;
        Ok(summaries.into_iter().filter(|it| it.runs > 0).collect())
    }

    /// One page of an experiment's runs. A page token is the last run's start time and id.
    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage> {
        let id = self.experiment_need(experiment)?;
        let after = query.page_token.as_deref().map(page_start).transpose()?;
        let limit = usize::try_from(query.max_results).unwrap_or(usize::MAX);
        let mut found: Vec<Tracked> = Vec::new();
        let mut visit = |runs: Vec<Tracked>| {
            let shown = runs.into_iter().filter(|run| {
                let is_next = after.as_ref().is_none_or(|(ms, id)| {
                    let key = run.sort_key();
                    let last = (*ms, id.as_str());
                    if query.newest_first {
                        key < last
                    } else {
                        key > last
                    }
                });
                is_next && matches_query(run, query)
            });
            found.extend(shown);
            Ok(limit == 0 || found.len() <= limit)
        };
        let start_ms = after.as_ref().map(|(ms, _)| *ms);
        if query.newest_first {
            self.cells_until(&id, start_ms, &mut visit)?;
        } else {
            self.cells_from(&id, start_ms.unwrap_or(0), &mut visit)?;
        }
        let is_cut = limit > 0 && found.len() > limit;
        if is_cut {
            found.truncate(limit);
        }
        let next = found.last().filter(|_| is_cut);
        let next_page_token = next.map(|run| format!("{}-{}", run.start_time_ms, run.run_id));
        let runs = found.into_iter().map(|run| self.run_shown(run));
        Ok(RunPage {
            runs: runs.collect::<Result<_>>()?,
            next_page_token,
        })
    }

    fn run_get(&self, run_id: &str) -> Result<Run> {
        let run = self.run_find(run_id)?;
        let mut artifacts = self.artifacts.list(&self.rest, &run)?;
        artifacts.retain(|path| path != limits::FILE);
        Ok(Run {
            artifacts,
            ..self.run_shown(run)?
        })
    }

    fn run_delete(&self, run_ids: &[String]) -> Result<()> {
        // If one of the runs does not exist, none is deleted.
        let runs = parallel::each(run_ids, |run_id| self.run_find(run_id))?;
        for run in &runs {
            self.cells_invalidate(&run.experiment_id);
        }
        parallel::each(&runs, |run| self.run_remove(&run.run_id)).map(|_| ())
    }

    fn artifacts_get(&self, run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>> {
        let run = self.run_recent(run_id)?;
        let contents = paths.iter().map(|path| {
            let shared = match *path {
                artifact::CANDIDATES => self.candidates_text(&run)?,
                artifact::CONTEXT => self.context_read(&run)?,
                _ => return self.file_text(&run, path),
            };
            Ok(shared.map(|text| text.to_string()))
        });
        contents.collect()
    }

    fn artifact_get_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>> {
        let run = self.run_recent(run_id)?;
        self.artifacts.get(&self.rest, &run, path)
    }

    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>> {
        let run = self.run_find(run_id)?;
        let files = self.verdicts_read(&run, &Marks::new(self))?;
        Ok(files.into_iter().map(|(_, file)| file).collect())
    }
}

impl MlflowStore {
    /// An active run by its full id.
    pub(crate) fn run_load(&self, run_id: &str) -> Result<Tracked> {
        let mut run = self.run_fetch(run_id)?;
        self.restore(&mut run)?;
        Ok(run)
    }

    /// An active run as the server returns it.
    pub(crate) fn run_fetch(&self, run_id: &str) -> Result<Tracked> {
        let path = format!("/api/2.0/mlflow/runs/get?run_id={}", encoded(run_id));
        let run = match self.rest.get::<RunAnswer>(&path)? {
            Ok(found) => found.run,
            Err(refusal) if refusal.is_missing() || refusal.status == 400 => {
                return Err(no_run(run_id, ": see `assize runs list`"));
            }
            Err(refusal) => return Err(self.rest.refused(&format!("run {run_id}"), &refusal)),
        };
        if !run.is_active {
            return Err(no_run(run_id, " any more: it has been deleted"));
        }
        Ok(run)
    }

    /// An active run by its id or an unambiguous prefix of it.
    pub(crate) fn run_find(&self, wanted: &str) -> Result<Tracked> {
        let is_hex = wanted.chars().all(|c| c.is_ascii_hexdigit());
        if wanted.len() >= 32 || !is_hex {
            return self.run_load(wanted);
        }
        if wanted.is_empty() {
            return Err(no_run(wanted, ": see `assize runs list`"));
        }
        let all = self.experiments_all()?;
        let ids: Vec<String> = all.into_iter().map(|it| it.id).collect();
        let filter = format!("attributes.run_id LIKE '{}%'", wanted.to_lowercase());
        let page = self.search(&ids, &filter, AMBIGUOUS_SHOWN + 1, None)?;
        match &page.runs[..] {
            [] => Err(no_run(wanted, ": see `assize runs list`")),
            [one] => self.run_load(&one.run_id),
            several => {
                let ids = several.iter().map(|it| it.run_id.as_str());
                Err(no_run(wanted, &ambiguous_hint(ids)))
            }
        }
    }

    /// A run whose files are read. It is cached, because a caller that reads one file of a run
    /// usually reads others next.
    pub(crate) fn run_recent(&self, run_id: &str) -> Result<Arc<Tracked>> {
        let known = lock(&self.recent)
            .iter()
            .find(|(at, run)| run.run_id == run_id && at.elapsed() < RECENT)
            .map(|(_, run)| Arc::clone(run));
        if let Some(run) = known {
            return Ok(run);
        }
        let run = Arc::new(self.run_find(run_id)?);
        let mut recent = lock(&self.recent);
        recent.truncate(RECENT_RUNS - 1);
        recent.push_front((Instant::now(), Arc::clone(&run)));
        Ok(run)
    }

    /// One page of active runs, oldest first.
    pub(crate) fn search(
        &self,
        experiment_ids: &[String],
        filter: &str,
        most: usize,
        token: Option<&str>,
    ) -> Result<RunsAnswer> {
        let mut page = self.search_in_order("ASC", experiment_ids, filter, most, token)?;
        // Servers order by start time only. Runs with the same start time are ordered by id.
        page.runs
            .sort_by(|a, b| (a.start_time_ms, &a.run_id).cmp(&(b.start_time_ms, &b.run_id)));
        Ok(page)
    }

    fn search_in_order(
        &self,
        order: &str,
        experiment_ids: &[String],
        filter: &str,
        most: usize,
        token: Option<&str>,
    ) -> Result<RunsAnswer> {
        let by = ["start_time", "run_id"].map(|key| format!("attributes.{key} {order}"));
        let mut body = json!({
            "experiment_ids": experiment_ids,
            "filter": filter,
            "run_view_type": "ACTIVE_ONLY",
            "max_results": most,
            "order_by": by,
        });
        if let Some(token) = token {
            body["page_token"] = json!(token);
        }
        let page = self
            .rest
            .post::<RunsAnswer>("/api/2.0/mlflow/runs/search", &body)?;
        page.map_err(|refusal| self.rest.refused("a search", &refusal))
    }

    /// Visits the active runs that match a filter, oldest first, page by page, until `visit`
    /// returns `false`.
    pub(crate) fn scan(
        &self,
        experiment_id: &str,
        filter: &str,
        from_ms: i64,
        visit: &mut dyn FnMut(Vec<Tracked>) -> Result<bool>,
    ) -> Result<()> {
        self.scan_fetched(experiment_id, filter, from_ms, &mut |mut runs| {
            self.restore_all(&mut runs)?;
            visit(runs)
        })
    }

    /// Like [`MlflowStore::scan`], with the runs as the server returns them.
    pub(crate) fn scan_fetched(
        &self,
        experiment_id: &str,
        filter: &str,
        from_ms: i64,
        visit: &mut dyn FnMut(Vec<Tracked>) -> Result<bool>,
    ) -> Result<()> {
        let ids = [experiment_id.to_owned()];
        let mut from_ms = from_ms;
        let mut seen: HashSet<String> = HashSet::new();
        let mut token: Option<String> = None;
        loop {
            let mut since = filter.to_owned();
            if from_ms > 0 {
                let and = if filter.is_empty() { "" } else { " and " };
                since.push_str(&format!("{and}attributes.start_time >= {from_ms}"));
            }
            let page = self.search(&ids, &since, PAGE, token.as_deref())?;
            let last = page.runs.last().map(|run| run.start_time_ms);
            let mut fresh = page.runs;
            fresh.retain(|run| !seen.contains(&run.run_id));
            let next_token = page.next_page_token.filter(|token| !token.is_empty());
            let (Some(last), Some(next_token)) = (last, next_token) else {
                visit(fresh)?;
                return Ok(());
            };
            if last > from_ms {
                // The next page starts at the last start time of this one, because more runs may
                // share it.
                from_ms = last;
                token = None;
                seen.clear();
            } else {
                token = Some(next_token);
            }
            let shared = fresh.iter().filter(|run| run.start_time_ms == last);
            seen.extend(shared.map(|run| run.run_id.clone()));
            if !visit(fresh)? {
                return Ok(());
            }
        }
    }

    /// Visits the runs of an experiment that readers see: the first finished run of each cell, a
    /// failed one if the cell has no other, and every run that does not belong to a cell.
    pub(crate) fn cells_each(
        &self,
        experiment_id: &str,
        visit: &mut dyn FnMut(Vec<Tracked>) -> Result<bool>,
    ) -> Result<()> {
        self.cells_from(experiment_id, 0, visit)
    }

    fn cells_from(
        &self,
        experiment_id: &str,
        from_ms: i64,
        visit: &mut dyn FnMut(Vec<Tracked>) -> Result<bool>,
    ) -> Result<()> {
        let mut finished: HashSet<String> = HashSet::new();
        self.scan(experiment_id, "", from_ms, &mut |mut runs| {
            runs.retain(|run| match (run.tag(tag::CELL_KEY), run.status) {
                (None, _) => true,
                (Some(key), RunStatus::Finished) => finished.insert(key.to_owned()),
                (Some(key), RunStatus::Failed) => !finished.contains(key),
                // An interrupted delivery.
                (Some(_), _) => false,
            });
            visit(runs)
        })
    }

    /// Visits the runs of an experiment that started at this time or earlier, newest first. Of
    /// several finished runs of a cell it visits the newest, because it cannot know the first.
    fn cells_until(
        &self,
        experiment_id: &str,
        until_ms: Option<i64>,
        visit: &mut dyn FnMut(Vec<Tracked>) -> Result<bool>,
    ) -> Result<()> {
        let ids = [experiment_id.to_owned()];
        let until = until_ms.map(|ms| format!("attributes.start_time <= {ms}"));
        let filter = until.unwrap_or_default();
        let mut cells: HashSet<String> = HashSet::new();
        let mut seen: HashSet<String> = HashSet::new();
        let mut token: Option<String> = None;
        loop {
            let page = self.search_in_order("DESC", &ids, &filter, PAGE, token.as_deref())?;
            let mut runs = page.runs;
            runs.sort_by(|a, b| b.sort_key().cmp(&a.sort_key()));
            // Pages are offsets: a run that is created meanwhile moves others to the next page.
            runs.retain(|run| seen.insert(run.run_id.clone()));
            runs.retain(|run| match run.tag(tag::CELL_KEY) {
                None => true,
                Some(key) => {
                    let is_over = matches!(run.status, RunStatus::Finished | RunStatus::Failed);
                    is_over && cells.insert(key.to_owned())
                }
            });
            self.restore_all(&mut runs)?;
            token = page.next_page_token.filter(|token| !token.is_empty());
            if !visit(runs)? || token.is_none() {
                return Ok(());
            }
        }
    }

    /// Converts to the store's `Run`, without artifacts, because listing them takes a request each.
    pub(crate) fn run_shown(&self, run: Tracked) -> Result<Run> {
        let is_for_judges =
            run.tag(tag::CELL_KEY).is_some() || run.tag(tag::JUDGE_PENDING).is_some();
        let ours = |key: &str| is_for_judges && is_bookkeeping(key);
        let params = run.params.into_iter().filter(|(key, _)| !ours(key));
        let hidden = |key: &str| {
            key.starts_with("artifact:") || key.starts_with(VERDICT_TAG) || key == limits::TAG
        };
        let tags = run.tags.into_iter().filter(|(key, _)| !hidden(key));
        Ok(Run {
            experiment: self.experiment_name(&run.experiment_id)?,
            run_id: run.run_id,
            name: run.name,
            status: run.status,
            start_time_ms: run.start_time_ms,
            end_time_ms: run.end_time_ms,
            params: params.collect(),
            metrics: run
                .metrics
                .into_iter()
                .map(|(key, point)| (key, point.value))
                .collect(),
            tags: tags.collect(),
            artifacts: Vec::new(),
        })
    }

    pub(crate) fn run_remove(&self, run_id: &str) -> Result<()> {
        self.touch(run_id)?;
        let body = json!({ "run_id": run_id });
        let gone = self
            .rest
            .post::<Nothing>("/api/2.0/mlflow/runs/delete", &body)?;
        match gone {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.is_missing() => Ok(()),
            Err(refusal) => Err(self
                .rest
                .refused(&format!("to delete run {run_id}"), &refusal)),
        }
    }

    /// Restores the values of several runs that exceeded the server's limits.
    pub(crate) fn restore_all(&self, runs: &mut [Tracked]) -> Result<()> {
        let more: Vec<usize> = (0..runs.len())
            .filter(|place| runs[*place].tag(limits::TAG).is_some())
            .collect();
        let read = parallel::each(&more, |place| self.overflow_read(&runs[*place]))?;
        for (place, more) in more.into_iter().zip(read) {
            more.restore(&mut runs[place]);
        }
        Ok(())
    }

    /// Restores the values that exceeded the server's limits.
    pub(crate) fn restore(&self, run: &mut Tracked) -> Result<()> {
        if run.tag(limits::TAG).is_some() {
            self.overflow_read(run)?.restore(run);
        }
        Ok(())
    }
}

/// A quoted string for a filter; `None` if the text contains both kinds of quotes.
pub(crate) fn quoted(text: &str) -> Option<String> {
    let plain = |c: char| c != '\\' && !c.is_control();
    if !text.chars().all(plain) {
        None
    } else if !text.contains('\'') {
        Some(format!("'{text}'"))
    } else if !text.contains('"') {
        Some(format!("\"{text}\""))
    } else {
        None
    }
}

fn matches_query(run: &Tracked, query: &RunQuery) -> bool {
    let wanted = [
        (param::MODEL, &query.model),
        (param::PROMPT, &query.prompt),
        (param::SCENARIO, &query.scenario),
    ];
    let named = wanted
        .iter()
        .all(|(key, value)| value.is_none() || run.param(key) == value.as_deref());
    let split = run.param(param::SPLIT).unwrap_or(Split::Selection.as_str());
    let of_split = query.split.is_none_or(|it| it.as_str() == split);
    let of_status = query.status.is_none_or(|it| it == run.status);
    let awaited = query.pending.is_none_or(|pending| {
        let says = run.tag(tag::JUDGE_PENDING) == Some(if pending { "true" } else { "false" });
        says && (!pending || run.status == RunStatus::Finished)
    });
    named && of_split && of_status && awaited
}

fn page_start(token: &str) -> Result<(i64, String)> {
    let parsed = token
        .rsplit_once('-')
        .and_then(|(ms, id)| Some((ms.parse().ok()?, id.to_owned())));
    parsed.ok_or_else(|| {
        StoreError::Invalid(format!(
            "'{token}' is not a page token: leave it out to start from the first page"
        ))
    })
}

fn no_run(id: &str, hint: &str) -> StoreError {
    StoreError::NoRun {
        id: id.to_owned(),
        hint: hint.to_owned(),
    }
}
