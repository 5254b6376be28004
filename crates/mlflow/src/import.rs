//! Importing runs and sittings of another store, one at a time:
//! [`plan`](assize_store::import::plan) decides what is written, this module writes it.

use assize_domain::hash::sha256_hex;
use assize_domain::run::{CellRecord, RunStatus, artifact, tag};
use assize_domain::verdict::VerdictFile;
use assize_store::Sittings as _;
use assize_store::import::plan::{ExistingRun, RunMerge, RunPlan, SittingPlan, with_free_paths};
use assize_store::queue::SittingRecord;
use assize_store::{Additions, Imported, ImportedRun, Result, StoreError, rules};

use crate::artifacts::corrupt;
use crate::commit::put_summary;
use crate::limits::Pairs;
use crate::runs::Entries;
use crate::verdicts::{Marks, counting, named_paths, param_of, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};

/// Imports these runs, several at a time.
pub(crate) fn runs_import(
    store: &MlflowStore,
    experiment: &str,
    runs: &[ImportedRun],
) -> Result<Vec<Imported>> {
    let id = store.experiment_make(experiment)?;
    store.cells_read(&id)?;
    parallel::each(runs, |run| store.run_import(&id, run))
}

/// Imports the record of a sitting; returns whether anything changed.
pub(crate) fn sitting_import(store: &MlflowStore, theirs: &SittingRecord) -> Result<bool> {
    let id = &theirs.sitting.id;
    let found = store.sitting_run(id)?;
    let ours = found.as_ref().map(|run| store.record_read(id, run));
    let plan = SittingPlan::new(ours.transpose()?.as_ref(), theirs);
    let run = match found {
        Some(run) => run,
        None => store.sitting_begin(&theirs.sitting)?,
    };
    store.anchors_add(&run, &plan.anchor_files)?;
    match &plan.closing {
        Some(closing) if plan.is_new => {
            // The sitting exists once its run is finished, so everything else is written first.
            store.closing_write(id, &run, closing)?;
            store.run_update(&run.run_id, RunStatus::Finished, Some(run.start_time_ms))?;
            store.touch(&run.run_id)?;
        }
        Some(closing) => store.sitting_close(id, closing)?,
        None => {}
    }
    Ok(!plan.is_empty())
}

impl MlflowStore {
    fn run_import(&self, experiment_id: &str, theirs: &ImportedRun) -> Result<Imported> {
        let found = self.import_find(experiment_id, theirs)?;
        let existing = match &found {
            Some(run) => Some(self.existing_run(run)?),
            None => None,
        };
        let plan = RunPlan::new(existing.as_ref(), theirs)?;
        let run_id = match (&plan, found, existing) {
            (RunPlan::Unchanged | RunPlan::Differs, Some(run), _) => run.run_id,
            (RunPlan::Merge(merge), Some(run), Some(existing)) => {
                self.merge_carry_out(&run, existing, merge)?;
                run.run_id
            }
            _ => self.run_deliver(experiment_id, theirs)?,
        };
        Ok(Imported {
            run_id,
            change: plan.change(),
        })
    }

    /// The existing data of a run, as input for the plan.
    fn existing_run(&self, run: &Tracked) -> Result<ExistingRun> {
        let candidates = self.candidates_text(run)?;
        Ok(ExistingRun {
            run_id: run.run_id.clone(),
            status: run.status,
            set_aside: set_aside(run),
            verdict_files: self.verdicts_read(run, &Marks::new(self))?,
            reserved_paths: named_paths(run),
            candidates: candidates.map(|text| text.as_bytes().to_vec()),
        })
    }

    /// Writes an imported run; replaces the run of a cell that failed here. Returns its id.
    fn run_deliver(&self, experiment_id: &str, theirs: &ImportedRun) -> Result<String> {
        let record = with_verdict_params(&theirs.record);
        let additions = Additions {
            points: theirs.points.clone(),
            datasets: theirs.datasets.clone(),
            ..Additions::default()
        };
        if !record.cell_key.is_empty() {
            let add = |run: &Tracked| self.add(run, &additions);
            return Ok(self.cell_deliver(experiment_id, &record, &add)?.run_id);
        }
        let known_by = (tag::COPIED_FROM, theirs.origin.as_str());
        let run = self.run_make(experiment_id, &record, known_by)?;
        self.run_fill(&run, &record)?;
        self.add(&run, &additions)?;
        self.run_update(&run.run_id, record.status, theirs.end_time_ms)?;
        Ok(run.run_id)
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

    /// Adds the missing verdict files, sets sittings aside, and derives metrics and tags again.
    fn merge_carry_out(
        &self,
        run: &Tracked,
        existing: ExistingRun,
        merge: &RunMerge,
    ) -> Result<()> {
        let RunMerge {
            verdict_files: added,
            set_aside,
        } = merge;
        let mut entries = Entries {
            params: self.files_put(run, added)?,
            ..Entries::default()
        };
        let files = existing
            .verdict_files
            .into_iter()
            .chain(added.iter().cloned());
        let files = counting(files.collect(), set_aside);
        if !set_aside.is_empty() {
            let list = set_aside.join(" ");
            entries.tags.push((tag::SET_ASIDE.to_owned(), list));
        }
        // A run without a rubric has no metrics to derive.
        if self.file_text(run, artifact::RUBRIC)?.is_some() {
            let rubric = self.rubric_read(run)?;
            let judgeable = rules::judgeable(&self.candidates_read(run)?).len();
            let has_metric = |name: &str| Ok(run.metrics.contains_key(name));
            let (summary, gone) = rules::derive_again(&files, &rubric, judgeable, has_metric)?;
            put_summary(&mut entries, run, &summary);
            self.tags_drop(run, &gone)?;
        }
        // The list of sittings and the values derived from it are written in one request.
        self.write(run, entries)
    }

    /// Stores verdict files with a run, and returns the params that make them count.
    fn files_put(&self, run: &Tracked, files: &[(String, VerdictFile)]) -> Result<Pairs> {
        let mut params = Pairs::new();
        for (path, file) in files {
            let text = serde_json::to_string(file).map_err(|error| corrupt(run, path, &error))?;
            self.file_put(run, path, text.as_bytes())?;
            params.push((param_of(path), sha256_hex(text.as_bytes())));
        }
        Ok(params)
    }

    /// Adds verdicts on a sitting's anchors.
    fn anchors_add(&self, run: &Tracked, files: &[VerdictFile]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let first = |file: &VerdictFile| format!("{}{}.json", artifact::VERDICTS, file.sitting);
        let files = files.iter().map(|file| (first(file), file.clone()));
        let files = with_free_paths(named_paths(run), files.collect());
        let entries = Entries {
            params: self.files_put(run, &files)?,
            ..Entries::default()
        };
        self.write(run, entries)
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
