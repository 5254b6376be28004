//! Taking in runs and sittings of another store, each by itself.
//!
//! A run that is not here is written as it is there. A run that is here gets what it lacks and
//! loses nothing: verdict files are immutable and named by sitting, so both sides' files add
//! up, and a sitting that is set aside on either side is set aside. Importing the same runs
//! again therefore changes nothing.

use assize_domain::candidate::Candidate;
use assize_domain::hash::sha256_hex;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use assize_domain::sitting::SittingState;
use assize_domain::verdict::VerdictFile;
use assize_store::Sittings as _;
use assize_store::queue::{Closing, SittingRecord};
use assize_store::{Additions, Change, Imported, ImportedRun, Result, StoreError, rules};

use crate::artifacts::corrupt;
use crate::commit::put_summary;
use crate::limits::Pairs;
use crate::runs::Entries;
use crate::verdicts::{Marks, is_named, param_of, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};

/// Takes these runs in, one after the other where they depend on nothing else.
pub(crate) fn runs_import(
    store: &MlflowStore,
    experiment: &str,
    runs: &[ImportedRun],
) -> Result<Vec<Imported>> {
    let id = store.experiment_make(experiment)?;
    store.cells_read(&id)?;
    parallel::each(runs, |run| store.run_import(&id, run))
}

/// Takes the record of a sitting in; answers whether anything changed.
pub(crate) fn sitting_import(store: &MlflowStore, theirs: &SittingRecord) -> Result<bool> {
    let id = &theirs.sitting.id;
    let quarantined = theirs.state == SittingState::Quarantined;
    let opened_at = &theirs.sitting.opened_at;
    let closing = Closing {
        state: if quarantined {
            SittingState::Quarantined
        } else {
            SittingState::Closed
        },
        at: theirs.closed_at.as_ref().unwrap_or(opened_at).clone(),
        judge: theirs.judge.clone(),
        drift: theirs.drift.clone(),
    };
    let Some(run) = store.sitting_run(id)? else {
        let run = store.sitting_begin(&theirs.sitting)?;
        store.anchors_add(&run, &[], theirs)?;
        store.closing_write(id, &run, &closing)?;
        store.run_update(&run.run_id, RunStatus::Finished, Some(run.start_time_ms))?;
        return Ok(true);
    };
    let ours = store.record_read(id, &run)?;
    let added = store.anchors_add(&run, &ours.anchor_files, theirs)?;
    let newly = quarantined && ours.state != SittingState::Quarantined;
    if newly {
        store.sitting_close(id, &closing)?;
    }
    Ok(added || newly)
}

impl MlflowStore {
    fn run_import(&self, experiment_id: &str, theirs: &ImportedRun) -> Result<Imported> {
        let is_cell = !theirs.record.cell_key.is_empty();
        let failed_there = theirs.record.status == RunStatus::Failed;
        let found = self.import_find(experiment_id, theirs)?;
        // Only a cell is generated again, so that what failed is worth nothing.
        let is_worth = |run: &Tracked| !is_cell || failed_there || run.status != RunStatus::Failed;
        if let Some(run) = found.filter(is_worth) {
            return Ok(Imported {
                change: self.merge(&run, theirs)?,
                run_id: run.run_id,
            });
        }
        let record = with_verdict_params(&theirs.record);
        let additions = Additions {
            points: theirs.points.clone(),
            datasets: theirs.datasets.clone(),
            ..Additions::default()
        };
        let run_id = if is_cell {
            let add = |run: &Tracked| self.add(run, &additions);
            self.cell_deliver(experiment_id, &record, &add)?.run_id
        } else {
            let known_by = (tag::COPIED_FROM, theirs.origin.as_str());
            let run = self.run_make(experiment_id, &record, known_by)?;
            self.run_fill(&run, &record)?;
            self.add(&run, &additions)?;
            self.run_update(&run.run_id, record.status, theirs.end_time_ms)?;
            run.run_id
        };
        Ok(Imported {
            run_id,
            change: Change::Created,
        })
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
        Ok(copies.into_iter().next())
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
                lacking.push(file);
            }
        }
        if lacking.is_empty() && aside.len() == known_aside {
            return Ok(Change::Unchanged);
        }
        if !self.same_candidates(run, &theirs.record)? {
            return Ok(Change::Differs);
        }
        let kept = kept.into_iter().map(|(_, file)| file);
        let files: Vec<VerdictFile> = kept
            .chain(lacking.iter().cloned())
            .filter(|file| !aside.contains(&file.sitting))
            .collect();
        let mut entries = Entries {
            params: self.files_put(run, &lacking)?,
            ..Entries::default()
        };
        if !aside.is_empty() {
            let list = aside.join(" ");
            entries.tags.push((tag::SET_ASIDE.to_owned(), list));
        }
        // A run without a rubric has no metrics to derive.
        if self.file_text(run, artifact::RUBRIC)?.is_some() {
            let rubric = self.rubric_read(run)?;
            let judgeable = rules::judgeable(&self.candidates_read(run)?);
            let has_metric = |name: &str| Ok(run.metrics.contains_key(name));
            let (summary, gone) = rules::derive_anew(&files, &rubric, judgeable, has_metric)?;
            put_summary(&mut entries, run, &summary);
            self.tags_drop(run, &gone)?;
        }
        // What counts and what follows from it, in one request.
        self.write(run, entries)?;
        Ok(Change::Merged)
    }

    /// Keeps verdict files with a run, and answers the params by which they count.
    fn files_put(&self, run: &Tracked, files: &[VerdictFile]) -> Result<Pairs> {
        let mut params = Pairs::new();
        for file in files {
            let is_taken = |path: &str| {
                let name = param_of(path);
                is_named(run, path) || params.iter().any(|(known, _)| *known == name)
            };
            let path = rules::free_path(is_taken, &file.sitting);
            let text = serde_json::to_string(file).map_err(|error| corrupt(run, &path, &error))?;
            self.file_put(run, &path, text.as_bytes())?;
            params.push((param_of(&path), sha256_hex(text.as_bytes())));
        }
        Ok(params)
    }

    /// Adds verdicts on a sitting's anchors that are not among these.
    fn anchors_add(
        &self,
        run: &Tracked,
        kept: &[VerdictFile],
        theirs: &SittingRecord,
    ) -> Result<bool> {
        let files = theirs.anchor_files.iter();
        let lacking: Vec<VerdictFile> = files.filter(|it| !kept.contains(it)).cloned().collect();
        if lacking.is_empty() {
            return Ok(false);
        }
        let params = self.files_put(run, &lacking)?;
        let entries = Entries {
            params,
            ..Entries::default()
        };
        self.write(run, entries).map(|()| true)
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
