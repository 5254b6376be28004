//! Merging a run or a sitting from another store with the existing data.
//!
//! Every store uses these decisions: it reads its existing data, creates the plan and executes it.
//! Nothing in this module reads or writes.
//!
//! Copying only adds data. Verdict files are immutable and named by sitting, so the result has the
//! files of both sides, and a sitting that is set aside on either side is set aside. Importing the
//! same run again therefore changes nothing.

use assize_domain::candidate::Candidate;
use assize_domain::run::{RunStatus, artifact};
use assize_domain::sitting::SittingState;
use assize_domain::verdict::VerdictFile;

use super::{Change, ImportedRun};
use crate::queue::{Closing, SittingRecord};
use crate::rules::free_path;
use crate::{Result, StoreError};

/// The existing data of a run that is imported.
#[derive(Debug, Clone, PartialEq)]
pub struct ExistingRun {
    pub run_id: String,
    pub status: RunStatus,
    /// The sittings whose verdicts on the run do not count.
    pub set_aside: Vec<String>,
    /// The committed verdict files, with their paths.
    pub verdict_files: Vec<(String, VerdictFile)>,
    /// Other paths that a verdict file must not get, for example those of an unfinished commit.
    pub reserved_paths: Vec<String>,
    /// The content of `candidates.json`.
    pub candidates: Option<Vec<u8>>,
}

/// What a store does with a run that is imported.
#[derive(Debug, Clone, PartialEq)]
pub enum RunPlan {
    /// The run does not exist: write it as imported.
    Create,
    /// The cell failed in this store: replace the content of its run.
    Replace,
    /// Everything exists already.
    Unchanged,
    /// The cell was generated on both sides with different candidates, so verdicts on one run are
    /// not valid for the other: write nothing.
    Differs,
    Merge(RunMerge),
}

/// The data that is added to a run, whose metrics and tags are then derived again.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMerge {
    /// The missing verdict files, each with a free path.
    pub verdict_files: Vec<(String, VerdictFile)>,
    /// All sittings that do not count from now on.
    pub set_aside: Vec<String>,
}

impl RunPlan {
    pub fn new(existing: Option<&ExistingRun>, incoming: &ImportedRun) -> Result<Self> {
        let Some(existing) = existing else {
            return Ok(Self::Create);
        };
        let is_cell = !incoming.record.cell_key.is_empty();
        if is_replaced(is_cell, existing.status, incoming.record.status) {
            return Ok(Self::Replace);
        }
        let set_aside = union(&existing.set_aside, incoming.set_aside());
        let missing = missing_files(existing, incoming)?;
        if missing.is_empty() && set_aside.len() == existing.set_aside.len() {
            return Ok(Self::Unchanged);
        }
        if !has_same_candidates(existing, incoming)? {
            return Ok(Self::Differs);
        }
        let taken = existing.verdict_files.iter().map(|(path, _)| path.clone());
        let taken = taken.chain(existing.reserved_paths.iter().cloned());
        Ok(Self::Merge(RunMerge {
            verdict_files: with_free_paths(taken.collect(), missing),
            set_aside,
        }))
    }

    /// How the run changes when the plan is executed.
    pub fn change(&self) -> Change {
        match self {
            Self::Create | Self::Replace => Change::Created,
            Self::Unchanged => Change::Unchanged,
            Self::Differs => Change::Differs,
            Self::Merge(_) => Change::Merged,
        }
    }
}

/// Whether the existing content is replaced. This applies only to a cell that failed, because only
/// cells are generated again.
pub fn is_replaced(is_cell: bool, existing: RunStatus, incoming: RunStatus) -> bool {
    is_cell && existing == RunStatus::Failed && incoming != RunStatus::Failed
}

fn union<'a>(existing: &[String], incoming: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all = existing.to_vec();
    for id in incoming {
        if !all.iter().any(|known| known == id) {
            all.push(id.to_owned());
        }
    }
    all
}

/// The imported verdict files that do not exist yet, whatever their paths.
fn missing_files(
    existing: &ExistingRun,
    incoming: &ImportedRun,
) -> Result<Vec<(String, VerdictFile)>> {
    let mut missing = Vec::new();
    for (path, content) in incoming.verdict_files() {
        let file = parse::<VerdictFile>(&existing.run_id, path, content.as_bytes())?;
        if !existing.verdict_files.iter().any(|(_, it)| *it == file) {
            missing.push((path.to_owned(), file));
        }
    }
    Ok(missing)
}

/// Gives every file its original path, or another one if that is taken.
pub fn with_free_paths(
    mut taken: Vec<String>,
    files: Vec<(String, VerdictFile)>,
) -> Vec<(String, VerdictFile)> {
    let mut named = Vec::with_capacity(files.len());
    for (path, file) in files {
        let path = if taken.contains(&path) {
            free_path(|path| taken.iter().any(|it| it == path), &file.sitting)
        } else {
            path
        };
        taken.push(path.clone());
        named.push((path, file));
    }
    named
}

/// Whether both runs have the same candidates, so that verdicts are valid for both.
fn has_same_candidates(existing: &ExistingRun, incoming: &ImportedRun) -> Result<bool> {
    let path = artifact::CANDIDATES;
    let texts = |content: Option<&[u8]>| -> Result<Vec<(u32, Option<String>)>> {
        let Some(content) = content else {
            return Ok(Vec::new());
        };
        let candidates: Vec<Candidate> = parse(&existing.run_id, path, content)?;
        Ok(candidates
            .into_iter()
            .map(|it| (it.index, it.text))
            .collect())
    };
    let mut artifacts = incoming.record.artifacts.iter();
    let content = artifacts.find(|(known, _)| known == path);
    let content = content.map(|(_, content)| content.as_bytes());
    Ok(texts(existing.candidates.as_deref())? == texts(content)?)
}

fn parse<T: serde::de::DeserializeOwned>(run_id: &str, path: &str, content: &[u8]) -> Result<T> {
    serde_json::from_slice(content).map_err(|error| StoreError::Corrupt {
        run_id: run_id.to_owned(),
        what: path.to_owned(),
        reason: error.to_string(),
    })
}

/// What a store does with a sitting that is imported.
#[derive(Debug, Clone, PartialEq)]
pub struct SittingPlan {
    /// The sitting does not exist, so its record is written first.
    pub is_new: bool,
    /// Missing verdicts on its anchors.
    pub anchor_files: Vec<VerdictFile>,
    pub closing: Option<Closing>,
}

impl SittingPlan {
    /// An open sitting is closed in the copy, because it continues in the original store. The state
    /// of an existing sitting changes only if the imported one is quarantined.
    pub fn new(existing: Option<&SittingRecord>, incoming: &SittingRecord) -> Self {
        let is_quarantined = |it: &SittingRecord| it.state == SittingState::Quarantined;
        let known = existing.map_or(&[][..], |it| &it.anchor_files);
        let anchor_files = incoming.anchor_files.iter();
        let is_closed =
            existing.is_none_or(|existing| is_quarantined(incoming) && !is_quarantined(existing));
        Self {
            is_new: existing.is_none(),
            anchor_files: anchor_files
                .filter(|file| !known.contains(file))
                .cloned()
                .collect(),
            closing: is_closed.then(|| closing(incoming)),
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        !self.is_new && self.anchor_files.is_empty() && self.closing.is_none()
    }
}

fn closing(incoming: &SittingRecord) -> Closing {
    let opened_at = &incoming.sitting.opened_at;
    Closing {
        state: match incoming.state {
            SittingState::Quarantined => SittingState::Quarantined,
            _ => SittingState::Closed,
        },
        at: incoming.closed_at.as_ref().unwrap_or(opened_at).clone(),
        judge: incoming.judge.clone(),
        drift: incoming.drift.clone(),
    }
}

#[cfg(test)]
mod tests;
