//! Runs that are copied from one store to another.
//!
//! A copy keeps the identity of its run: its cell key, or for other runs the id of the original
//! run. Data that belongs to a server rather than to the run is not copied (the name as a tag,
//! files that are stored as tags, leases).
//!
//! A run is created with the data that readers need: params, tags, metrics, datasets, and the files
//! that Assize reads itself. Other files may be large and need not be text, so they are copied
//! separately, as bytes.

use std::borrow::Cow;
use std::sync::Arc;

use assize_domain::run::{CellRecord, RunStatus, artifact, tag};

use crate::mlflow::{DatasetInput, Entry, Point, RUN_NAME_TAG};
use crate::rules::free_path;
use crate::{Result, Run, Runs, StoreError};

pub mod plan;

/// Prefixes of the params that hold leases and name verdict files over MLflow.
const BOOKKEEPING: [&str; 2] = ["lease.", "verdict."];

/// Whether a server uses this tag to store something else: the run's name, or a file.
pub fn is_storage_tag(tag: &str) -> bool {
    tag == RUN_NAME_TAG || tag.starts_with("artifact:")
}

/// Whether a run is or was to be judged.
pub fn is_for_judges(run: &Run) -> bool {
    let ours = [tag::CELL_KEY, tag::JUDGE_PENDING];
    run.tags.iter().any(|(key, _)| ours.contains(&key.as_str()))
}

/// Whether a param holds a lease or names a verdict file.
pub fn is_bookkeeping(param: &str) -> bool {
    BOOKKEEPING.iter().any(|start| param.starts_with(start))
}

/// Whether Assize reads this file itself, so that it is part of a new run.
pub fn is_core(path: &str) -> bool {
    let core = [
        artifact::PROMPT,
        artifact::CONTEXT,
        artifact::CANDIDATES,
        artifact::RAW,
        artifact::RUBRIC,
    ];
    core.contains(&path) || path.starts_with(artifact::VERDICTS)
}

/// A run with all its data except the contents of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeRun {
    pub run: Run,
    /// Every point of every metric.
    pub points: Vec<Point>,
    pub datasets: Vec<DatasetInput>,
    /// Paths and sizes in bytes.
    pub files: Vec<(String, u64)>,
}

/// Data that is added to a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Additions {
    pub params: Vec<Entry>,
    pub tags: Vec<Entry>,
    /// By step and time, so that the latest point of a metric comes last.
    pub points: Vec<Point>,
    pub datasets: Vec<DatasetInput>,
    /// The final status and its time.
    pub end: Option<(RunStatus, Option<i64>)>,
}

impl Additions {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A run of another store.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// The id of the original run, which identifies a run without a cell key.
    pub origin: String,
    /// Without metrics; its artifacts are those that Assize reads, including the verdict files.
    pub record: CellRecord,
    /// `None` for a run that has not ended.
    pub end_time_ms: Option<i64>,
    pub points: Vec<Point>,
    pub datasets: Vec<DatasetInput>,
}

/// The result of importing a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its id in this store.
    pub run_id: String,
    pub change: Change,
}

/// How a store's run changed by an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It did not exist, or had failed.
    Created,
    /// It got verdict files, or some of its verdicts are set aside now.
    Merged,
    Unchanged,
    /// The cell exists with different candidates, so verdicts on one run are not valid for the
    /// other: nothing was written.
    Differs,
}

/// The files that Assize reads; of the verdict files, only those that were committed. A file that
/// is not text was written by another program under the same name, and is skipped.
fn contents(store: &dyn Runs, run: &Run) -> Result<Vec<(Cow<'static, str>, Arc<str>)>> {
    let mut artifacts: Vec<(Cow<'static, str>, Arc<str>)> = Vec::new();
    let core = run.artifacts.iter().filter(|path| is_core(path));
    let (verdicts, others): (Vec<&String>, Vec<&String>) =
        core.partition(|path| path.starts_with(artifact::VERDICTS));
    for path in others {
        let content = store.artifact_get_bytes(&run.run_id, path)?;
        if let Some(Ok(text)) = content.map(String::from_utf8) {
            artifacts.push((path.clone().into(), text.into()));
        }
    }
    if verdicts.is_empty() || !is_for_judges(run) {
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
    /// Prepares a run for copying, with the contents of the files that Assize reads.
    pub fn read(store: &dyn Runs, whole: &WholeRun) -> Result<Self> {
        let run = &whole.run;
        let value = |name: &str| {
            let found = run.tags.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        let origin = value(tag::COPIED_FROM).unwrap_or_else(|| run.run_id.clone());
        let cell_key = value(tag::CELL_KEY).unwrap_or_default();
        let shared = |(key, value): &(String, String)| (key.as_str().into(), value.as_str().into());
        let tags = run.tags.iter().filter(|(key, _)| !is_storage_tag(key));
        let mut tags: Vec<_> = tags.map(shared).collect();
        if cell_key.is_empty() && value(tag::COPIED_FROM).is_none() {
            tags.push((tag::COPIED_FROM.into(), origin.as_str().into()));
        }
        let is_ours = is_for_judges(run);
        let params = run.params.iter();
        let params = params.filter(|(key, _)| !(is_ours && is_bookkeeping(key)));
        Ok(Self {
            origin,
            record: CellRecord {
                cell_key,
                name: run.name.clone(),
                status: run.status,
                start_time_ms: run.start_time_ms,
                end_time_ms: run.end_time_ms.unwrap_or(run.start_time_ms),
                params: params.map(shared).collect(),
                tags,
                metrics: Vec::new(),
                artifacts: contents(store, run)?,
            },
            end_time_ms: run.end_time_ms,
            points: whole.points.clone(),
            datasets: whole.datasets.clone(),
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
        // `S.json`, `S.2.json`, …, `S.10.json`: a later part has a longer or a greater name.
        files.sort_by_key(|(path, _)| (path.len(), *path));
        files
    }
}
