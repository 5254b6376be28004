//! The registry and trace methods of the MLflow API.

use super::{Mlflow, registry, traces, versions};
use crate::Result;
use crate::mlflow::{
    Entry, ModelVersion, NewVersion, Page, RegisteredModel, Search, Trace, TraceDeletion,
    TraceList, limits,
};

fn pair(key: &str, value: Option<&str>) -> Entry {
    Entry {
        key: key.to_owned(),
        value: value.unwrap_or_default().to_owned(),
    }
}

impl Mlflow<'_> {
    pub fn model_create(
        &self,
        name: &str,
        description: &str,
        tags: &[Entry],
    ) -> Result<RegisteredModel> {
        limits::model_name(name)?;
        tags.iter().try_for_each(limits::registry_tag)?;
        let (name, description, tags) = (name.to_owned(), description.to_owned(), tags.to_vec());
        self.store
            .writer
            .write(move |session| registry::create(session, &name, &description, &tags))
    }

    pub fn model_get(&self, name: &str) -> Result<RegisteredModel> {
        self.store.read(|conn| registry::get(conn, name))
    }

    pub fn model_search(&self, search: &Search) -> Result<Page<RegisteredModel>> {
        self.store.read(|conn| registry::search(conn, search))
    }

    pub fn model_update(&self, name: &str, description: &str) -> Result<RegisteredModel> {
        let (name, description) = (name.to_owned(), description.to_owned());
        self.store
            .writer
            .write(move |session| registry::update(session, &name, &description))
    }

    pub fn model_rename(&self, name: &str, new_name: &str) -> Result<RegisteredModel> {
        limits::model_name(new_name)?;
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.store
            .writer
            .write(move |session| registry::rename(session, &name, &new_name))
    }

    pub fn model_delete(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.store
            .writer
            .write(move |session| registry::delete(session, &name))
    }

    /// Sets a tag of a registered model, or deletes it.
    pub fn model_tag(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        let tag = pair(key, value);
        limits::registry_tag(&tag)?;
        let (name, is_kept) = (name.to_owned(), value.is_some());
        self.store.writer.write(move |session| {
            if is_kept {
                registry::tag_set(session, &name, &tag)
            } else {
                registry::tag_delete(session, &name, &tag.key)
            }
        })
    }

    /// Sets an alias of a version, or deletes it.
    pub fn model_alias(&self, name: &str, alias: &str, version: Option<&str>) -> Result<()> {
        limits::alias(alias)?;
        let (name, alias) = (name.to_owned(), alias.to_owned());
        let version = version.map(str::to_owned);
        self.store
            .writer
            .write(move |session| registry::alias(session, &name, &alias, version.as_deref()))
    }

    pub fn version_create(&self, new: NewVersion) -> Result<ModelVersion> {
        new.tags.iter().try_for_each(limits::registry_tag)?;
        self.store
            .writer
            .write(move |session| versions::create(session, &new))
    }

    pub fn version_get(&self, name: &str, version: &str) -> Result<ModelVersion> {
        self.store.read(|conn| versions::get(conn, name, version))
    }

    pub fn version_by_alias(&self, name: &str, alias: &str) -> Result<ModelVersion> {
        self.store
            .read(|conn| versions::by_alias(conn, name, alias))
    }

    pub fn version_search(&self, search: &Search) -> Result<Page<ModelVersion>> {
        self.store.read(|conn| versions::search(conn, search))
    }

    pub fn version_update(
        &self,
        name: &str,
        version: &str,
        description: &str,
    ) -> Result<ModelVersion> {
        let (name, version) = (name.to_owned(), version.to_owned());
        let description = description.to_owned();
        self.store
            .writer
            .write(move |session| versions::update(session, &name, &version, &description))
    }

    pub fn version_delete(&self, name: &str, version: &str) -> Result<()> {
        let (name, version) = (name.to_owned(), version.to_owned());
        self.store
            .writer
            .write(move |session| versions::delete(session, &name, &version))
    }

    /// Sets a tag of a version, or deletes it.
    pub fn version_tag(
        &self,
        name: &str,
        version: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let tag = pair(key, value);
        limits::registry_tag(&tag)?;
        let (name, version, is_kept) = (name.to_owned(), version.to_owned(), value.is_some());
        self.store
            .writer
            .write(move |session| versions::tag(session, &name, &version, &tag, is_kept))
    }

    /// Stores a trace that a client logged. `info` is JSON.
    pub fn trace_start(
        &self,
        experiment_id: &str,
        (trace_id, request_time_ms): (&str, i64),
        info: &str,
        tags: &[Entry],
    ) -> Result<()> {
        tags.iter().try_for_each(limits::trace_tag)?;
        let (experiment_id, trace_id) = (experiment_id.to_owned(), trace_id.to_owned());
        let (info, tags) = (info.to_owned(), tags.to_vec());
        self.store.writer.write(move |session| {
            let key = (trace_id.as_str(), request_time_ms);
            traces::start(session, &experiment_id, key, &info, &tags)
        })
    }

    /// The stored data of a trace, which may be empty.
    pub fn trace_get(&self, trace_id: &str) -> Result<Trace> {
        self.store.read(|conn| traces::get(conn, trace_id))
    }

    /// Times and ids of the traces of these experiments, including those of collected runs.
    pub fn trace_list(&self, ask: &TraceList<'_>) -> Result<Vec<(i64, String)>> {
        self.store.read(|conn| traces::list(conn, ask))
    }

    /// Sets a tag of a trace, or deletes it.
    pub fn trace_tag(&self, trace_id: &str, key: &str, value: Option<&str>) -> Result<()> {
        let tag = pair(key, value);
        limits::trace_tag(&tag)?;
        let (trace_id, is_kept) = (trace_id.to_owned(), value.is_some());
        self.store
            .writer
            .write(move |session| traces::tag(session, &trace_id, &tag, is_kept))
    }

    pub fn trace_file_write(&self, trace_id: &str, path: &str, content: Vec<u8>) -> Result<()> {
        limits::artifact_path(path)?;
        let (trace_id, path) = (trace_id.to_owned(), path.to_owned());
        self.store
            .writer
            .write(move |session| traces::file_write(session, &trace_id, &path, &content))
    }

    pub fn trace_file_read(&self, trace_id: &str, path: &str) -> Result<Vec<u8>> {
        self.store
            .read(|conn| traces::file_read(conn, trace_id, path))
    }

    /// Stores or replaces an assessment of a trace. `record` is JSON.
    pub fn assessment_put(&self, trace_id: &str, assessment_id: &str, record: &str) -> Result<()> {
        let (trace_id, id) = (trace_id.to_owned(), assessment_id.to_owned());
        let record = record.to_owned();
        self.store
            .writer
            .write(move |session| traces::assessment_put(session, &trace_id, &id, &record))
    }

    /// Links traces to a run.
    pub fn trace_runs_link(&self, trace_ids: Vec<String>, run_id: &str) -> Result<()> {
        let run_id = run_id.to_ascii_lowercase();
        self.store
            .writer
            .write(move |session| traces::runs_link(session, &trace_ids, &run_id))
    }

    /// Links prompt versions (`NAME/VERSION`) to a trace.
    pub fn trace_prompts_link(&self, trace_id: &str, prompts: Vec<String>) -> Result<()> {
        let trace_id = trace_id.to_owned();
        self.store
            .writer
            .write(move |session| traces::prompts_link(session, &trace_id, &prompts))
    }

    /// Deletes logged traces of an experiment, and counts them.
    pub fn trace_delete(&self, experiment_id: &str, which: TraceDeletion) -> Result<u64> {
        let id = experiment_id.to_owned();
        self.store
            .writer
            .write(move |session| traces::delete(session, &id, &which))
    }

    /// Deletes an assessment, if there is one.
    pub fn assessment_delete(&self, trace_id: &str, assessment_id: &str) -> Result<()> {
        let (trace_id, id) = (trace_id.to_owned(), assessment_id.to_owned());
        self.store
            .writer
            .write(move |session| traces::assessment_delete(session, &trace_id, &id))
    }
}
