//! Runs: finding, walking, writing and deleting them.
//!
//! A walk goes by start time and not by the server's page tokens, which are offsets: runs that
//! come or go meanwhile would make it miss others.

use std::collections::{BTreeMap, HashSet};

use assize_domain::run::{RunStatus, param, tag};
use assize_store::{Result, Run, RunPage, RunQuery, StoreError};
use serde_json::{Value, json};

use crate::address::encoded;
use crate::artifacts::corrupt;
use crate::limits::{self, More, Pairs};
use crate::wire::{Nothing, RunAnswer, RunsAnswer, Tracked, number_json};
use crate::{MlflowStore, parallel};

/// Runs in one answer.
const PAGE: usize = 1000;
/// What one request may log.
const BATCH: usize = 100;
/// Params that are bookkeeping and not about the cell.
const OURS: [&str; 2] = ["lease.", "verdict."];

/// What is written to a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Entries {
    pub params: Pairs,
    pub tags: Pairs,
    pub metrics: Vec<(String, f64)>,
}

impl MlflowStore {
    /// An active run by its whole id.
    pub(crate) fn run_load(&self, run_id: &str) -> Result<Tracked> {
        let path = format!("/api/2.0/mlflow/runs/get?run_id={}", encoded(run_id));
        let mut run = match self.rest.get::<RunAnswer>(&path)? {
            Ok(found) => found.run,
            Err(refusal) if refusal.is_missing() || refusal.status == 400 => {
                return Err(no_run(run_id, ": see `assize runs list`"));
            }
            Err(refusal) => return Err(self.rest.refused(&format!("run {run_id}"), &refusal)),
        };
        if !run.is_active {
            return Err(no_run(run_id, " any more: it has been deleted"));
        }
        self.restore(&mut run)?;
        Ok(run)
    }

    /// An active run by its id, or by an unambiguous start of it.
    pub(crate) fn run_find(&self, wanted: &str) -> Result<Tracked> {
        let is_hex = wanted.chars().all(|c| c.is_ascii_hexdigit());
        if wanted.len() >= 32 || !is_hex {
            return self.run_load(wanted);
        }
        if wanted.len() < 4 {
            return Err(no_run(wanted, ": see `assize runs list`"));
        }
        let all = self.experiments_all()?;
        let ids: Vec<String> = all.into_iter().map(|it| it.id).collect();
        let filter = format!("attributes.run_id LIKE '{}%'", wanted.to_lowercase());
        let page = self.search(&ids, &filter, 3, None)?;
        match &page.runs[..] {
            [] => Err(no_run(wanted, ": see `assize runs list`")),
            [one] => self.run_load(&one.run_id),
            [one, other, ..] => {
                let hint = format!(
                    ": it is the start of {}, of {} and maybe of more, so give more of it",
                    one.run_id, other.run_id
                );
                Err(no_run(wanted, &hint))
            }
        }
    }

    /// One page of active runs, oldest first.
    pub(crate) fn search(
        &self,
        experiment_ids: &[String],
        filter: &str,
        most: usize,
        token: Option<&str>,
    ) -> Result<RunsAnswer> {
        let mut body = json!({
            "experiment_ids": experiment_ids,
            "filter": filter,
            "run_view_type": "ACTIVE_ONLY",
            "max_results": most,
            "order_by": ["attributes.start_time ASC", "attributes.run_id ASC"],
        });
        if let Some(token) = token {
            body["page_token"] = json!(token);
        }
        let page = self
            .rest
            .post::<RunsAnswer>("/api/2.0/mlflow/runs/search", &body)?;
        let mut page = page.map_err(|refusal| self.rest.refused("a search", &refusal))?;
        // Servers order by start time; where several runs share one, so do we.
        page.runs
            .sort_by(|a, b| (a.start_time_ms, &a.run_id).cmp(&(b.start_time_ms, &b.run_id)));
        Ok(page)
    }

    /// Walks the active runs that a filter admits, oldest first, page by page, until `visit`
    /// wants no more.
    pub(crate) fn scan(
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
            parallel_restore(self, &mut fresh)?;
            let next_token = page.next_page_token.filter(|token| !token.is_empty());
            let (Some(last), Some(next_token)) = (last, next_token) else {
                visit(fresh)?;
                return Ok(());
            };
            if last > from_ms {
                // The next page begins where this one ends, with what shares its last moment.
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

    /// Walks the runs of an experiment as readers see them: the first finished one of each
    /// cell, a failed one where the cell has no other, and every run that is not of a cell.
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
                // A delivery that was cut off.
                (Some(_), _) => false,
            });
            visit(runs)
        })
    }

    /// One page of an experiment's runs. A page token is the last run's start time and id.
    pub(crate) fn run_page(&self, experiment: &str, query: &RunQuery) -> Result<RunPage> {
        let id = self.experiment_need(experiment)?;
        let after = query.page_token.as_deref().map(page_start).transpose()?;
        let limit = usize::try_from(query.max_results).unwrap_or(usize::MAX);
        let mut found: Vec<Tracked> = Vec::new();
        let from_ms = after.as_ref().map_or(0, |(from_ms, _)| *from_ms);
        self.cells_from(&id, from_ms, &mut |runs| {
            let shown = runs.into_iter().filter(|run| {
                let is_later = after
                    .as_ref()
                    .is_none_or(|(ms, id)| run.place() > (*ms, id.as_str()));
                is_later && is_asked_for(run, query)
            });
            found.extend(shown);
            Ok(limit == 0 || found.len() <= limit)
        })?;
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

    /// The run as the interface has it, without its artifacts, which would take a request each.
    pub(crate) fn run_shown(&self, run: Tracked) -> Result<Run> {
        let ours = |key: &str| OURS.iter().any(|start| key.starts_with(start));
        let params = run.params.into_iter().filter(|(key, _)| !ours(key));
        let hidden = |key: &str| key.starts_with("artifact:") || key == limits::TAG;
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

    /// Takes runs out of every list.
    pub(crate) fn runs_delete(&self, run_ids: &[String]) -> Result<()> {
        // Nothing is deleted where one of them is not there.
        let runs = parallel::each(run_ids, |run_id| self.run_find(run_id))?;
        for run in &runs {
            self.cells_forget(&run.experiment_id);
        }
        parallel::each(&runs, |run| self.run_remove(&run.run_id)).map(|_| ())
    }

    pub(crate) fn run_remove(&self, run_id: &str) -> Result<()> {
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

    /// Writes to a run. What belongs together goes last and in one request, which a server
    /// takes whole or not at all; what does not fit goes before it, into a file.
    pub(crate) fn write(&self, run: &Tracked, mut entries: Entries) -> Result<()> {
        let more = More::split(&mut entries.params, &mut entries.tags);
        let mut kept = match run.tag(limits::TAG) {
            Some(_) => self.more_read(run)?,
            None => More::default(),
        };
        let before = kept.clone();
        for (key, _) in &entries.tags {
            kept.tags.remove(key);
        }
        kept.params.extend(more.params);
        kept.tags.extend(more.tags);
        if kept != before {
            let text =
                serde_json::to_string(&kept).map_err(|error| corrupt(run, limits::FILE, &error))?;
            self.file_put(run, limits::FILE, text.as_bytes())?;
            let hash = assize_domain::hash::sha256_hex(text.as_bytes());
            entries.tags.push((limits::TAG.to_owned(), hash));
        }
        let now_ms = self.now_ms();
        let metrics: Vec<Value> = entries
            .metrics
            .iter()
            .filter(|(key, value)| !is_same(run.metric(key), *value))
            .map(|(key, value)| {
                // The latest point of a step is the one with the latest time.
                let before = run.metrics.get(key).map_or(0, |it| it.timestamp_ms + 1);
                json!({"key": key, "value": number_json(*value), "step": 0,
                       "timestamp": now_ms.max(before)})
            })
            .collect();
        self.log(
            &run.run_id,
            &pairs(&entries.params),
            &pairs(&entries.tags),
            &metrics,
        )
    }

    /// Logs in as few requests as a server allows.
    pub(crate) fn log(
        &self,
        run_id: &str,
        params: &[Value],
        tags: &[Value],
        metrics: &[Value],
    ) -> Result<()> {
        let requests = [params.len(), tags.len(), metrics.len()]
            .map(|count| count.div_ceil(BATCH))
            .into_iter()
            .max()
            .unwrap_or(0);
        let part = |list: &[Value], number: usize| -> Vec<Value> {
            list.iter()
                .skip(number * BATCH)
                .take(BATCH)
                .cloned()
                .collect()
        };
        for number in 0..requests {
            let body = json!({
                "run_id": run_id,
                "params": part(params, number),
                "tags": part(tags, number),
                "metrics": part(metrics, number),
            });
            let logged = self
                .rest
                .post::<Nothing>("/api/2.0/mlflow/runs/log-batch", &body)?;
            logged.map_err(|refusal| {
                self.rest
                    .refused(&format!("what to log for run {run_id}"), &refusal)
            })?;
        }
        Ok(())
    }

    /// Tries to write a write-once param: `false` where another value was there first.
    pub(crate) fn param_claim(&self, run_id: &str, key: &str, value: &str) -> Result<bool> {
        let body = json!({"run_id": run_id, "key": key, "value": value});
        let logged = self
            .rest
            .post::<Nothing>("/api/2.0/mlflow/runs/log-parameter", &body)?;
        match logged {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.status == 400 => {
                let run = self.run_load(run_id)?;
                match run.param(key) {
                    Some(there) => Ok(there == value),
                    None => Err(self
                        .rest
                        .refused(&format!("{key} of run {run_id}"), &refusal)),
                }
            }
            Err(refusal) => Err(self
                .rest
                .refused(&format!("{key} of run {run_id}"), &refusal)),
        }
    }

    /// Takes tags away from a run.
    pub(crate) fn tags_drop(&self, run: &Tracked, keys: &[&str]) -> Result<()> {
        for key in keys.iter().filter(|key| run.tags.contains_key(**key)) {
            let body = json!({"run_id": run.run_id, "key": key});
            let gone = self
                .rest
                .post::<Nothing>("/api/2.0/mlflow/runs/delete-tag", &body)?;
            match gone {
                Ok(_) => {}
                Err(refusal) if refusal.is_missing() => {}
                Err(refusal) => {
                    let what = format!("to take the tag {key} from run {}", run.run_id);
                    return Err(self.rest.refused(&what, &refusal));
                }
            }
        }
        Ok(())
    }

    /// Keeps a file with a run.
    pub(crate) fn file_put(&self, run: &Tracked, path: &str, content: &[u8]) -> Result<()> {
        self.artifacts.put(&self.rest, run, path, content, &|tags| {
            self.log(&run.run_id, &[], &pairs(tags), &[])
        })
    }

    /// The text of a file of a run.
    pub(crate) fn file_text(&self, run: &Tracked, path: &str) -> Result<Option<String>> {
        self.artifacts.text(&self.rest, run, path)
    }

    fn more_read(&self, run: &Tracked) -> Result<More> {
        let text = self
            .file_text(run, limits::FILE)?
            .ok_or_else(|| corrupt(run, limits::FILE, &"the file is gone"))?;
        serde_json::from_str(&text).map_err(|error| corrupt(run, limits::FILE, &error))
    }

    fn restore(&self, run: &mut Tracked) -> Result<()> {
        if run.tag(limits::TAG).is_some() {
            self.more_read(run)?.restore(run);
        }
        Ok(())
    }
}

fn parallel_restore(store: &MlflowStore, runs: &mut [Tracked]) -> Result<()> {
    let more: Vec<usize> = (0..runs.len())
        .filter(|place| runs[*place].tag(limits::TAG).is_some())
        .collect();
    let read = parallel::each(&more, |place| store.more_read(&runs[*place]))?;
    for (place, more) in more.into_iter().zip(read) {
        more.restore(&mut runs[place]);
    }
    Ok(())
}

/// Entries as the API takes them.
pub(crate) fn pairs(pairs: &[(String, String)]) -> Vec<Value> {
    // The first of several values for a key counts.
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in pairs {
        first.entry(key).or_insert(value);
    }
    let pairs = first.into_iter();
    pairs
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect()
}

/// A text as a filter quotes it; `None` where no quotes would do.
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

fn is_same(there: Option<f64>, value: f64) -> bool {
    there
        .is_some_and(|there| there.to_bits() == value.to_bits() || there.is_nan() && value.is_nan())
}

fn is_asked_for(run: &Tracked, query: &RunQuery) -> bool {
    let wanted = [
        (param::MODEL, &query.model),
        (param::PROMPT, &query.prompt),
        (param::SCENARIO, &query.scenario),
    ];
    let named = wanted
        .iter()
        .all(|(key, value)| value.is_none() || run.param(key) == value.as_deref());
    let awaited = query.pending.is_none_or(|pending| {
        let says = run.tag(tag::JUDGE_PENDING) == Some(if pending { "true" } else { "false" });
        says && (!pending || run.status == RunStatus::Finished)
    });
    named && awaited
}

fn page_start(token: &str) -> Result<(i64, String)> {
    let parsed = token
        .rsplit_once('-')
        .and_then(|(ms, id)| Some((ms.parse().ok()?, id.to_owned())));
    parsed.ok_or_else(|| {
        StoreError::Conflict(format!(
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
