//! Runs on their way from one store to another.
//!
//! What identifies a run travels with it: its cell key, or for runs of older tools the id of
//! the run that was copied first. What belongs to a server rather than to the run (its own
//! tags, the marks of leases) stays behind.

use std::borrow::Cow;
use std::sync::Arc;

use assize_domain::run::{CellRecord, artifact, tag};

use crate::rules::free_path;
use crate::{Result, Run, StoreError, Tracking};

/// Tags that a tracking server makes for itself, and artifacts that are kept as tags.
const NOT_OURS: [&str; 2] = ["mlflow.", "artifact:"];
/// Params by which runs are held and verdict files are named over MLflow.
const BOOKKEEPING: [&str; 2] = ["lease.", "verdict."];

/// A run as another store has it, with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// The id of the run that it is a copy of; what a run without a cell key is known by.
    pub origin: String,
    /// Its artifacts hold the verdict files too; its tags and metrics are as they stand there.
    pub record: CellRecord,
}

/// What importing a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its id here.
    pub run_id: String,
    pub change: Change,
}

/// How a store's run changed by being imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there, or had failed.
    Created,
    /// It got verdict files, or some of its verdicts are set aside now.
    Merged,
    Unchanged,
    /// The cell is there with other candidates, so nothing that was said about the one is true
    /// of the other: nothing was written.
    Differs,
}

/// The artifacts of a run, and of its verdict files those that were committed.
fn contents(store: &dyn Tracking, run: &Run) -> Result<Vec<(Cow<'static, str>, Arc<str>)>> {
    // A list of runs may leave the artifacts out, because some stores would ask for each.
    let paths = if run.artifacts.is_empty() {
        store.run_get(&run.run_id)?.artifacts
    } else {
        run.artifacts.clone()
    };
    let mut artifacts: Vec<(Cow<'static, str>, Arc<str>)> = Vec::with_capacity(paths.len());
    let (verdicts, others): (Vec<String>, Vec<String>) = paths
        .into_iter()
        .partition(|path| path.starts_with(artifact::VERDICTS));
    for path in others {
        if let Some(content) = store.artifact_get(&run.run_id, &path)? {
            artifacts.push((path.into(), content.into()));
        }
    }
    if verdicts.is_empty() {
        return Ok(artifacts);
    }
    for file in store.verdicts_get(&run.run_id)? {
        let is_taken = |path: &str| artifacts.iter().any(|(known, _)| known == path);
        let path = free_path(is_taken, &file.sitting);
        let content = serde_json::to_string(&file).map_err(|error| StoreError::Corrupt {
            run_id: run.run_id.clone(),
            what: path.clone(),
            reason: error.to_string(),
        })?;
        artifacts.push((path.into(), content.into()));
    }
    Ok(artifacts)
}

impl ImportedRun {
    /// Reads a run with all that belongs to it.
    pub fn read(store: &dyn Tracking, run: &Run) -> Result<Self> {
        let value = |name: &str| {
            let found = run.tags.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        let origin = value(tag::COPIED_FROM).unwrap_or_else(|| run.run_id.clone());
        let cell_key = value(tag::CELL_KEY).unwrap_or_default();
        let is_ours = |name: &str| !NOT_OURS.iter().any(|start| name.starts_with(start));
        let mut tags: Vec<_> = run
            .tags
            .iter()
            .filter(|(key, _)| is_ours(key))
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect();
        if cell_key.is_empty() && value(tag::COPIED_FROM).is_none() {
            tags.push((tag::COPIED_FROM.into(), origin.as_str().into()));
        }
        let params = run
            .params
            .iter()
            .filter(|(key, _)| !BOOKKEEPING.iter().any(|start| key.starts_with(start)));
        Ok(Self {
            origin,
            record: CellRecord {
                cell_key,
                name: run.name.clone(),
                status: run.status,
                start_time_ms: run.start_time_ms,
                end_time_ms: run.end_time_ms.unwrap_or(run.start_time_ms),
                params: params
                    .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                    .collect(),
                tags,
                metrics: run
                    .metrics
                    .iter()
                    .map(|(key, value)| (key.clone().into(), *value))
                    .collect(),
                artifacts: contents(store, run)?,
            },
        })
    }

    /// The sittings whose verdicts on the run do not count.
    pub fn set_aside(&self) -> impl Iterator<Item = &str> {
        let tags = self.record.tags.iter();
        tags.filter(|(key, _)| &**key == tag::SET_ASIDE)
            .flat_map(|(_, sittings)| sittings.split_whitespace())
    }

    /// The paths and contents of its verdict files, the parts of a sitting in order.
    pub fn verdict_files(&self) -> Vec<(&str, &str)> {
        let mut files: Vec<(&str, &str)> = self
            .record
            .artifacts
            .iter()
            .filter(|(path, _)| path.starts_with(artifact::VERDICTS))
            .map(|(path, content)| (&**path, &**content))
            .collect();
        // `S.json`, `S.2.json`, …, `S.10.json`: a later part has a longer name or a higher one.
        files.sort_by_key(|(path, _)| (path.len(), *path));
        files
    }
}
