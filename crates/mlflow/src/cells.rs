//! Recording cells as runs.
//!
//! MLflow has no "create if absent" for runs, so delivery is at least once. The cells of an
//! experiment are looked up once and cached, and a request that creates a run is never repeated
//! without a check. After finishing a run, the writer checks whether the cell has another finished
//! run, and deletes its own if that one came first.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use assize_domain::hash::sha256_hex;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use assize_store::{Cells, KnownCell, Recorded, Result, StoreError};
use serde_json::{Value, json};

use crate::limits::{self, Overflow, Pairs};
use crate::runs::{pairs, quoted};
use crate::verdicts::param_of;
use crate::wire::{RunAnswer, Tracked, number_json};
use crate::{MlflowStore, lock, parallel};

/// How long the index of an experiment is cached.
const CACHE_TTL: Duration = Duration::from_mins(5);

/// The cells of an experiment, by key.
#[derive(Debug)]
pub(crate) struct Index {
    read_at: Instant,
    known: HashMap<String, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    run_id: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Finished,
    Failed,
    /// An interrupted delivery.
    CutOff,
}

impl State {
    fn of(status: RunStatus) -> Self {
        match status {
            RunStatus::Finished => Self::Finished,
            RunStatus::Failed => Self::Failed,
            _ => Self::CutOff,
        }
    }
}

/// The run of a cell after a delivery.
pub(crate) struct Delivered {
    pub run_id: String,
    /// `false` if the cell was recorded already and nothing was written.
    pub written: bool,
}

impl Cells for MlflowStore {
    fn cells_known(
        &self,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<KnownCell>>> {
        let Some(id) = self.experiment_find(experiment)? else {
            return Ok(vec![None; cell_keys.len()]);
        };
        self.cells_read(&id)?;
        let cells = lock(&self.cells);
        let index = cells.get(&id);
        let known = cell_keys.iter().map(|key| {
            let known = index?.known.get(key)?;
            (known.state != State::CutOff).then(|| KnownCell {
                run_id: Some(known.run_id.clone()),
                failed: known.state == State::Failed,
            })
        });
        Ok(known.collect())
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        let id = self.experiment_make(experiment)?;
        self.cells_read(&id)?;
        parallel::each(cells, |cell| {
            let delivered = self.cell_deliver(&id, cell, &|_| Ok(()))?;
            Ok(Recorded {
                run_id: Some(delivered.run_id),
                written: delivered.written,
            })
        })
    }
}

impl MlflowStore {
    /// Invalidates the cached index.
    pub(crate) fn cells_invalidate(&self, experiment_id: &str) {
        lock(&self.cells).remove(experiment_id);
    }

    pub(crate) fn cells_read(&self, experiment_id: &str) -> Result<()> {
        let is_fresh = lock(&self.cells)
            .get(experiment_id)
            .is_some_and(|index| index.read_at.elapsed() < CACHE_TTL);
        if is_fresh {
            return Ok(());
        }
        let mut known: HashMap<String, Known> = HashMap::new();
        let filter = format!("tags.{} != ''", tag::CELL_KEY);
        self.scan(experiment_id, &filter, 0, &mut |runs| {
            for run in runs {
                let Some(key) = run.tag(tag::CELL_KEY) else {
                    continue;
                };
                let state = State::of(run.status);
                // Runs are in order, so that the first of several runs of a cell is kept.
                if known.get(key).is_none_or(|there| state < there.state) {
                    let run_id = run.run_id.clone();
                    known.insert(key.to_owned(), Known { run_id, state });
                }
            }
            Ok(true)
        })?;
        let read_at = Instant::now();
        lock(&self.cells).insert(experiment_id.to_owned(), Index { read_at, known });
        Ok(())
    }

    fn cell_known(&self, experiment_id: &str, key: &str) -> Option<Known> {
        lock(&self.cells)
            .get(experiment_id)?
            .known
            .get(key)
            .cloned()
    }

    /// The run of a cell, if it has been delivered.
    pub(crate) fn cell_run_id(&self, experiment_id: &str, key: &str) -> Option<String> {
        let known = self.cell_known(experiment_id, key)?;
        (known.state != State::CutOff).then_some(known.run_id)
    }

    fn cell_remember(&self, experiment_id: &str, key: &str, run_id: &str, state: State) {
        if let Some(index) = lock(&self.cells).get_mut(experiment_id) {
            let run_id = run_id.to_owned();
            index.known.insert(key.to_owned(), Known { run_id, state });
        }
    }

    /// Records a cell. `add` writes additional data to its run before the run is finished.
    pub(crate) fn cell_deliver(
        &self,
        experiment_id: &str,
        cell: &CellRecord,
        add: &dyn Fn(&Tracked) -> Result<()>,
    ) -> Result<Delivered> {
        let known = self.cell_known(experiment_id, &cell.cell_key);
        let known_by = (tag::CELL_KEY, cell.cell_key.as_str());
        let (run, failed) = match known {
            Some(known) if known.state == State::Finished => {
                return Ok(Delivered {
                    run_id: known.run_id,
                    written: false,
                });
            }
            Some(known) if known.state == State::CutOff => {
                match self.interrupted_run(&known.run_id, cell)? {
                    Some(run) if run.status == RunStatus::Finished => {
                        let (key, id) = (&cell.cell_key, &run.run_id);
                        self.cell_remember(experiment_id, key, id, State::Finished);
                        return Ok(Delivered {
                            run_id: run.run_id,
                            written: false,
                        });
                    }
                    Some(run) => (run, None),
                    None => (self.run_make(experiment_id, cell, known_by)?, None),
                }
            }
            Some(known) => (
                self.run_make(experiment_id, cell, known_by)?,
                Some(known.run_id),
            ),
            None => (self.run_make(experiment_id, cell, known_by)?, None),
        };
        self.cell_remember(experiment_id, &cell.cell_key, &run.run_id, State::CutOff);
        let filled = self.run_fill(&run, cell).and_then(|()| {
            add(&run)?;
            if let Some(failed) = failed {
                self.run_remove(&failed)?;
            }
            self.run_update(&run.run_id, cell.status, Some(cell.end_time_ms))
        });
        if let Err(error) = filled {
            return self.delivered_by_another(experiment_id, cell, error);
        }
        let first = self.cell_settle(experiment_id, run, cell)?;
        let state = State::of(cell.status);
        self.cell_remember(experiment_id, &cell.cell_key, &first.run_id, state);
        Ok(first)
    }

    /// After a failed delivery: not an error if another process has delivered the cell meanwhile
    /// and deleted our run.
    fn delivered_by_another(
        &self,
        experiment_id: &str,
        cell: &CellRecord,
        error: StoreError,
    ) -> Result<Delivered> {
        if matches!(error, StoreError::Unreachable { .. }) {
            return Err(error);
        }
        let all = self.runs_tagged(experiment_id, tag::CELL_KEY, &cell.cell_key)?;
        let done = all
            .into_iter()
            .find(|it| it.status == RunStatus::Finished)
            .ok_or(error)?;
        self.cell_remember(experiment_id, &cell.cell_key, &done.run_id, State::Finished);
        Ok(Delivered {
            run_id: done.run_id,
            written: false,
        })
    }

    /// The run of an interrupted delivery in the cached index, if it has been finished since or can
    /// be completed with this cell. A run with other content may still be being written by another
    /// process, so it is not touched.
    fn interrupted_run(&self, run_id: &str, cell: &CellRecord) -> Result<Option<Tracked>> {
        let run = match self.run_load(run_id) {
            Err(StoreError::NoRun { .. }) => return Ok(None),
            other => other?,
        };
        if run.status == RunStatus::Finished {
            return Ok(Some(run));
        }
        let params = cell.params.iter();
        let agrees = |key: &str, value: &str| run.param(key).is_none_or(|there| there == value);
        let fits = params.into_iter().all(|(key, value)| agrees(key, value));
        Ok(Some(run).filter(|run| fits && run.start_time_ms == cell.start_time_ms))
    }

    pub(crate) fn run_make(
        &self,
        experiment_id: &str,
        cell: &CellRecord,
        known_by: (&str, &str),
    ) -> Result<Tracked> {
        let mut tags = tags_of(cell);
        // Values that exceed the limits are written later, with the rest.
        Overflow::split(&mut Vec::new(), &mut tags);
        let body = json!({
            "experiment_id": experiment_id,
            "run_name": cell.name,
            "start_time": cell.start_time_ms,
            "tags": pairs(&tags),
        });
        self.run_create(experiment_id, &body, known_by)
    }

    /// Creates a run that is identified by a tag. If it is not known whether the request arrived,
    /// the run is searched for before the request is repeated.
    pub(crate) fn run_create(
        &self,
        experiment_id: &str,
        body: &Value,
        (key, value): (&str, &str),
    ) -> Result<Tracked> {
        let mut tried = 0;
        loop {
            let path = "/api/2.0/mlflow/runs/create";
            if let Some(made) = self.rest.post_once::<RunAnswer>(path, body, tried)? {
                let made = made.map_err(|refusal| self.rest.refused("a new run", &refusal))?;
                return Ok(made.run);
            }
            tried += 1;
            let made = self.runs_tagged(experiment_id, key, value)?;
            let open = |run: &Tracked| run.status == RunStatus::Running;
            if let Some(run) = made.into_iter().find(open) {
                return Ok(run);
            }
        }
    }

    /// The active runs with this tag, oldest first.
    pub(crate) fn runs_tagged(
        &self,
        experiment_id: &str,
        key: &str,
        value: &str,
    ) -> Result<Vec<Tracked>> {
        let Some(quoted) = quoted(value) else {
            return Ok(Vec::new());
        };
        let filter = format!("tags.`{key}` = {quoted}");
        let ids = [experiment_id.to_owned()];
        let mut runs = self.search(&ids, &filter, 100, None)?.runs;
        runs.retain(|run| run.tag(key) == Some(value));
        Ok(runs)
    }

    pub(crate) fn run_fill(&self, run: &Tracked, cell: &CellRecord) -> Result<()> {
        let mut params: Pairs = owned(&cell.params);
        params.extend(verdict_params(cell));
        let mut tags = tags_of(cell);
        let more = Overflow::split(&mut params, &mut tags);
        let mut files: Vec<(&str, Vec<u8>)> = cell
            .artifacts
            .iter()
            .map(|(path, content)| (&**path, content.as_bytes().to_vec()))
            .collect();
        let mut late_tags = Vec::new();
        if !more.is_empty() {
            let text = serde_json::to_vec(&more)
                .map_err(|error| crate::artifacts::corrupt(run, limits::FILE, &error))?;
            let hash = sha256_hex(&text);
            late_tags.push((limits::TAG.to_owned(), hash));
            files.push((limits::FILE, text));
        }
        parallel::each(&files, |(path, content)| self.file_put(run, path, content))?;
        let metrics: Vec<Value> = cell
            .metrics
            .iter()
            .map(|(key, value)| {
                json!({"key": key, "value": number_json(*value), "step": 0,
                       "timestamp": cell.end_time_ms})
            })
            .collect();
        self.log(&run.run_id, &pairs(&params), &pairs(&late_tags), &metrics)
    }

    pub(crate) fn run_update(
        &self,
        run_id: &str,
        status: RunStatus,
        end_ms: Option<i64>,
    ) -> Result<()> {
        let mut body = json!({"run_id": run_id, "status": status.as_str()});
        if let Some(end_ms) = end_ms {
            body["end_time"] = json!(end_ms);
        }
        let updated = self
            .rest
            .post::<Value>("/api/2.0/mlflow/runs/update", &body)?;
        let refused = |refusal| {
            self.rest
                .refused(&format!("to finish run {run_id}"), &refusal)
        };
        updated.map(|_| ()).map_err(refused)
    }

    /// Deletes our run if the cell has a finished run that precedes it or has been judged already;
    /// otherwise deletes unfinished runs of the cell.
    fn cell_settle(
        &self,
        experiment_id: &str,
        run: Tracked,
        cell: &CellRecord,
    ) -> Result<Delivered> {
        let all = self.runs_tagged(experiment_id, tag::CELL_KEY, &cell.cell_key)?;
        let is_other = |it: &&Tracked| it.run_id != run.run_id;
        let finished = |it: &&Tracked| it.status == RunStatus::Finished;
        let mut others = all.iter().filter(is_other).filter(finished);
        let better = others.find(|it| {
            cell.status != RunStatus::Finished || it.is_judged() || it.sort_key() < run.sort_key()
        });
        if let Some(better) = better {
            self.run_remove(&run.run_id)?;
            return Ok(Delivered {
                run_id: better.run_id.clone(),
                written: false,
            });
        }
        if cell.status == RunStatus::Finished {
            let open = |it: &&Tracked| it.status == RunStatus::Running;
            for left in all.iter().filter(is_other).filter(open) {
                self.run_remove(&left.run_id)?;
            }
        }
        Ok(Delivered {
            run_id: run.run_id,
            written: true,
        })
    }
}

fn owned<T: AsRef<str>>(entries: &[(T, T)]) -> Pairs {
    entries
        .iter()
        .map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned()))
        .collect()
}

/// The params that name the verdict files of a cell that was judged as it was collected.
fn verdict_params(cell: &CellRecord) -> Pairs {
    let files = cell.artifacts.iter();
    let files = files.filter(|(path, _)| path.starts_with(artifact::VERDICTS));
    files
        .map(|(path, content)| (param_of(path), sha256_hex(content.as_bytes())))
        .collect()
}

fn tags_of(cell: &CellRecord) -> Pairs {
    let mut tags = owned(&cell.tags);
    if !cell.cell_key.is_empty() {
        tags.insert(0, (tag::CELL_KEY.to_owned(), cell.cell_key.clone()));
    }
    tags
}
