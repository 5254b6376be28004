//! Taking in runs of another store, each by itself.
//!
//! A run that is not here is written as it is there. A run that is here gets what it lacks and
//! loses nothing: verdict files are immutable and named by sitting, so both sides' files add
//! up, and a sitting that is set aside on either side is set aside. Importing the same runs
//! again therefore changes nothing.

use assize_domain::candidate::Candidate;
use assize_domain::hash::sha256_hex;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use assize_domain::verdict::VerdictFile;
use assize_store::{Change, Imported, ImportedRun, Result, StoreError, rules};

use crate::artifacts::corrupt;
use crate::runs::Entries;
use crate::verdicts::{Marks, is_named, param_of, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};

impl MlflowStore {
    /// Takes these runs in, one after the other where they depend on nothing else.
    pub(crate) fn import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        let id = self.experiment_make(experiment)?;
        self.cells_read(&id)?;
        parallel::each(runs, |run| self.run_import(&id, run))
    }

    fn run_import(&self, experiment_id: &str, theirs: &ImportedRun) -> Result<Imported> {
        let found = self.import_find(experiment_id, theirs)?;
        let failed_there = theirs.record.status == RunStatus::Failed;
        match found {
            Some(run) if run.status != RunStatus::Failed || failed_there => Ok(Imported {
                change: self.merge(&run, theirs)?,
                run_id: run.run_id,
            }),
            _ => {
                let record = with_verdict_params(&theirs.record);
                let run_id = if record.cell_key.is_empty() {
                    let origin = (tag::COPIED_FROM, theirs.origin.as_str());
                    self.record_deliver(experiment_id, &record, origin)?
                } else {
                    self.cell_deliver(experiment_id, &record)?.run_id
                };
                Ok(Imported {
                    run_id,
                    change: Change::Created,
                })
            }
        }
    }

    fn import_find(&self, experiment_id: &str, theirs: &ImportedRun) -> Result<Option<Tracked>> {
        let key = &theirs.record.cell_key;
        if !key.is_empty() {
            let known = self.cell_run_id(experiment_id, key);
            return known.map(|run_id| self.run_load(&run_id)).transpose();
        }
        match self.run_load(&theirs.origin) {
            Ok(run) if run.experiment_id == experiment_id => return Ok(Some(run)),
            Ok(_) | Err(StoreError::NoRun { .. }) => {}
            Err(error) => return Err(error),
        }
        let copies = self.runs_tagged(experiment_id, tag::COPIED_FROM, &theirs.origin)?;
        let done = |run: &Tracked| run.status != RunStatus::Running;
        Ok(copies.into_iter().find(done))
    }

    /// Adds to a run what it lacks.
    fn merge(&self, run: &Tracked, theirs: &ImportedRun) -> Result<Change> {
        let mut aside = set_aside(run);
        let known_aside = aside.len();
        for sitting in theirs.set_aside() {
            if !aside.iter().any(|known| known == sitting) {
                aside.push(sitting.to_owned());
            }
        }
        let marks = Marks::new(self);
        let mut lacking = Vec::new();
        let kept = self.verdicts_read(run, &marks)?;
        for (path, content) in theirs.verdict_files() {
            let file: VerdictFile =
                serde_json::from_str(content).map_err(|error| corrupt(run, path, &error))?;
            if !kept.iter().any(|(_, known)| *known == file) {
                lacking.push((path, content, file));
            }
        }
        if lacking.is_empty() && aside.len() == known_aside {
            return Ok(Change::Unchanged);
        }
        if !self.same_candidates(run, &theirs.record)? {
            return Ok(Change::Differs);
        }
        let mut run = run.clone();
        for (path, content, file) in lacking {
            let path = if is_named(&run, path) {
                rules::free_path(|path| is_named(&run, path), &file.sitting)
            } else {
                path.to_owned()
            };
            self.file_put(&run, &path, content.as_bytes())?;
            let (name, hash) = (param_of(&path), sha256_hex(content.as_bytes()));
            let entries = Entries {
                params: vec![(name.clone(), hash.clone())],
                ..Entries::default()
            };
            self.write(&run, entries)?;
            run.params.insert(name, hash);
        }
        let run = self.run_load(&run.run_id)?;
        if self.file_text(&run, artifact::RUBRIC)?.is_some() {
            self.aside_write(&run, &aside, Entries::default(), &marks)?;
        } else if !aside.is_empty() {
            // A run without a rubric has no metrics to derive.
            let tags = vec![(tag::SET_ASIDE.to_owned(), aside.join(" "))];
            let entries = Entries {
                tags,
                ..Entries::default()
            };
            self.write(&run, entries)?;
        }
        Ok(Change::Merged)
    }

    /// Whether what was said about one run's candidates is true of the other's.
    fn same_candidates(&self, run: &Tracked, theirs: &CellRecord) -> Result<bool> {
        let path = artifact::CANDIDATES;
        let content = theirs.artifacts.iter().find(|(known, _)| known == path);
        let theirs: Vec<Candidate> = match content {
            Some((_, content)) => {
                serde_json::from_str(content).map_err(|error| corrupt(run, path, &error))?
            }
            None => Vec::new(),
        };
        let texts = |list: &[Candidate]| -> Vec<(u32, Option<String>)> {
            list.iter().map(|it| (it.index, it.text.clone())).collect()
        };
        Ok(texts(&self.candidates_read(run)?) == texts(&theirs))
    }
}

/// The record with the params that name its verdict files.
fn with_verdict_params(record: &CellRecord) -> CellRecord {
    let mut record = record.clone();
    let files = record.artifacts.iter();
    let files = files.filter(|(path, _)| path.starts_with(artifact::VERDICTS));
    let named: Vec<_> = files
        .map(|(path, content)| {
            let hash = sha256_hex(content.as_bytes());
            (param_of(path).into(), hash.into())
        })
        .collect();
    record.params.extend(named);
    record
}
