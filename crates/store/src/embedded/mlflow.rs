//! MLflow's API over the embedded store, including runs logged by other MLflow clients.
//!
//! Runs that Assize collects are ordinary runs here, and runs that other programs log can be judged
//! and compared. Each method is atomic. Input is validated first ([`limits`]), so that accepted
//! values are read back unchanged.
//!
//! A run's name is a column; the tag `mlflow.runName` is an alias of that column. A tag `cell_key`
//! makes the run the record of that cell, unless another run already is.

use std::io::{Read, Seek};

use assize_domain::hash::hex;
use assize_domain::run::RunStatus;
use assize_domain::verdict::VerdictFile;

use super::EmbeddedStore;
use crate::mlflow::{
    Batch, DatasetInput, DatasetSummary, Entry, Experiment, FileInfo, HistorySample, LoggedRun,
    ModelUse, NewRun, Page, Point, RunChange, RunInfo, RunPoint, RunSearch, Search, Slice, limits,
};
use crate::{Result, Runs};

mod artifacts;
mod conditions;
pub(super) mod entries;
pub(super) mod experiments;
mod indexed_conditions;
mod indexes;
mod logged_model_methods;
mod logged_model_search;
mod logged_models;
mod names;
mod orders;
mod page_token;
pub(super) mod read;
mod registry;
mod registry_methods;
pub(super) mod runs;
mod runs_by_metric;
mod schema;
mod search;
mod traces;
mod versions;

use orders::Ties;

pub(super) use schema::{V4, V5, V12};

/// The owner of files outside of runs and models.
pub const LOOSE: &str = "";

/// The store's MLflow API.
#[derive(Debug, Clone, Copy)]
pub struct Mlflow<'a> {
    pub(super) store: &'a EmbeddedStore,
}

impl Mlflow<'_> {
    pub fn experiment_create(
        &self,
        name: &str,
        artifact_location: Option<&str>,
        tags: &[Entry],
    ) -> Result<String> {
        limits::experiment_name(name)?;
        tags.iter().try_for_each(limits::experiment_tag)?;
        let name = name.to_owned();
        let location = artifact_location
            .filter(|it| !it.is_empty())
            .map(str::to_owned);
        let tags = tags.to_vec();
        self.store
            .writer
            .write(move |session| experiments::create(session, &name, location.as_deref(), &tags))
    }

    pub fn experiment_get(&self, experiment_id: &str) -> Result<Experiment> {
        self.store
            .read(|conn| experiments::get(conn, experiment_id))
    }

    pub fn experiment_get_by_name(&self, name: &str) -> Result<Experiment> {
        self.store.read(|conn| experiments::get_by_name(conn, name))
    }

    pub fn experiment_search(&self, search: &Search) -> Result<Page<Experiment>> {
        self.store.read(|conn| experiments::search(conn, search))
    }

    pub fn experiment_rename(&self, experiment_id: &str, name: &str) -> Result<()> {
        limits::experiment_name(name)?;
        let (id, name) = (experiment_id.to_owned(), name.to_owned());
        self.store
            .writer
            .write(move |session| experiments::rename(session, &id, &name))
    }

    /// Deletes an experiment with its runs, or restores both.
    pub fn experiment_set_deleted(&self, experiment_id: &str, deleted: bool) -> Result<()> {
        let id = experiment_id.to_owned();
        self.store
            .writer
            .write(move |session| experiments::set_deleted(session, &id, deleted))
    }

    /// Sets a tag of an experiment, or deletes it.
    pub fn experiment_tag(
        &self,
        experiment_id: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let tag = Entry {
            key: key.to_owned(),
            value: value.unwrap_or_default().to_owned(),
        };
        limits::experiment_tag(&tag)?;
        let (id, is_kept) = (experiment_id.to_owned(), value.is_some());
        self.store
            .writer
            .write(move |session| experiments::tag(session, &id, &tag, is_kept))
    }

    pub fn run_create(&self, new: NewRun) -> Result<LoggedRun> {
        new.tags.iter().try_for_each(limits::tag)?;
        if let Some(name) = &new.name {
            limits::length("the run's name", name, limits::RUN_NAME)?;
        }
        self.store
            .writer
            .write(move |session| runs::create(session, &new))
    }

    pub fn run_get(&self, run_id: &str) -> Result<LoggedRun> {
        self.store.read(|conn| {
            let run = runs::find(conn, run_id)?;
            read::run(conn, run.id)
        })
    }

    pub fn run_update(&self, run_id: &str, change: RunChange) -> Result<RunInfo> {
        if let Some(name) = &change.name {
            limits::length("the run's name", name, limits::RUN_NAME)?;
        }
        let run_id = run_id.to_owned();
        self.store
            .writer
            .write(move |session| runs::update(session, &run_id, &change))
    }

    /// Deletes or restores a run; idempotent.
    pub fn run_set_deleted(&self, run_id: &str, deleted: bool) -> Result<()> {
        let run_id = run_id.to_owned();
        self.store
            .writer
            .write(move |session| runs::set_deleted(session, &run_id, deleted))
    }

    pub fn run_log(&self, run_id: &str, batch: Batch) -> Result<()> {
        limits::batch(&batch)?;
        let run_id = run_id.to_owned();
        self.store
            .writer
            .write(move |session| entries::log(session, &run_id, &batch))
    }

    pub fn run_tag_delete(&self, run_id: &str, key: &str) -> Result<()> {
        let (run_id, key) = (run_id.to_owned(), key.to_owned());
        self.store
            .writer
            .write(move |session| entries::tag_delete(session, &run_id, &key))
    }

    pub fn run_inputs_log(
        &self,
        run_id: &str,
        inputs: Vec<DatasetInput>,
        models: Vec<ModelUse>,
    ) -> Result<()> {
        let run_id = run_id.to_owned();
        self.store
            .writer
            .write(move |session| entries::inputs_log(session, &run_id, &inputs, &models))
    }

    pub fn run_outputs_log(&self, run_id: &str, models: Vec<ModelUse>) -> Result<()> {
        let run_id = run_id.to_owned();
        self.store
            .writer
            .write(move |session| logged_models::uses_log(session, &run_id, &models, true))
    }

    /// Adds a client's record of a model to the run's tag that lists them.
    pub fn run_model_record(&self, run_id: &str, record: serde_json::Value) -> Result<()> {
        let run_id = run_id.to_owned();
        self.store
            .writer
            .write(move |session| entries::model_record(session, &run_id, &record))
    }

    /// All points of a metric, by time, step and value.
    pub fn metric_history(&self, run_id: &str, key: &str, slice: Slice) -> Result<Page<Point>> {
        self.store
            .read(|conn| read::history(conn, run_id, key, slice))
    }

    /// Evenly spread points of a metric of several runs, one run after another.
    pub fn metric_history_sample(
        &self,
        run_ids: &[String],
        key: &str,
        sample: HistorySample,
    ) -> Result<Vec<RunPoint>> {
        self.store.read(|conn| {
            let mut points = Vec::new();
            for run_id in run_ids {
                points.extend(read::history_sample(conn, run_id, key, sample)?);
            }
            Ok(points)
        })
    }

    /// The datasets that runs of these experiments used.
    pub fn dataset_summaries(
        &self,
        experiment_ids: &[String],
        most: u32,
    ) -> Result<Vec<DatasetSummary>> {
        self.store
            .read(|conn| read::dataset_summaries(conn, experiment_ids, most))
    }

    /// Visits the runs of a page until the visitor returns `false`, and returns the token of the
    /// next page. The first search of its kind among many runs creates the index that it needs.
    pub fn run_search_each(
        &self,
        search: &RunSearch,
        visit: &mut dyn FnMut(LoggedRun) -> bool,
    ) -> Result<Option<String>> {
        self.make_indexes(search)?;
        self.store.read(|conn| {
            let page = search::runs(conn, search, Ties::Later)?;
            read::runs_each(conn, &page.ids, visit)?;
            Ok(page.next)
        })
    }

    fn make_indexes(self, search: &RunSearch) -> Result<()> {
        let missing = self.store.read(|conn| search::missing(conn, search))?;
        if missing.is_empty() {
            return Ok(());
        }
        self.store
            .writer
            .write(move |session| indexes::make(session, &missing))
    }

    /// The entries of a folder of artifacts; the empty path is the root. The owner of artifacts is
    /// a run, or a logged model, whose id starts with `m-`, or nobody ([`LOOSE`]).
    pub fn artifact_list(&self, owner: &str, folder: &str) -> Result<Vec<FileInfo>> {
        self.store.read(|conn| artifacts::list(conn, owner, folder))
    }

    /// The size of an artifact in bytes.
    pub fn artifact_size(&self, owner: &str, path: &str) -> Result<u64> {
        self.store.read(|conn| artifacts::size(conn, owner, path))
    }

    /// Visits an artifact's content in chunks until the visitor returns `false`.
    pub fn artifact_read(
        &self,
        owner: &str,
        path: &str,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.store
            .read(|conn| artifacts::read(conn, owner, path, visit))
    }

    /// Stores the content of a file, from its start, as an artifact.
    pub fn artifact_write(
        &self,
        owner: &str,
        path: &str,
        mut content: impl Read + Seek + Send + 'static,
    ) -> Result<()> {
        limits::artifact_path(path)?;
        let (owner, path) = (owner.to_owned(), path.to_owned());
        self.store
            .writer
            .write(move |session| artifacts::write(session, &owner, &path, &mut content))
    }

    /// The text of an artifact of a run that is not deleted.
    pub fn artifact_text(&self, run_id: &str, path: &str) -> Result<Option<String>> {
        Runs::artifact_get(self.store, run_id, path)
    }

    /// The verdict files of a run that is not deleted.
    pub fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>> {
        Runs::verdicts_get(self.store, run_id)
    }

    /// A new id of 32 hex digits, and the time in Unix milliseconds.
    pub fn stamp(&self) -> Result<(String, i64)> {
        self.store.writer.write(|session| {
            let id = session.run_id_make()?;
            Ok((hex(&id), session.now_ms()))
        })
    }

    /// Deletes an artifact, or a folder of them.
    pub fn artifact_delete(&self, owner: &str, path: &str) -> Result<()> {
        limits::artifact_path(path)?;
        let (owner, path) = (owner.to_owned(), path.to_owned());
        self.store
            .writer
            .write(move |session| artifacts::delete(session, &owner, &path))
    }
}

/// The state of a run by its name in the protocol.
pub fn status(name: &str) -> Result<RunStatus> {
    RunStatus::parse(name).map_or_else(
        || {
            limits::invalid(format!(
                "'{name}' is not a valid run status: use RUNNING, SCHEDULED, FINISHED, FAILED or KILLED"
            ))
        },
        Ok,
    )
}
