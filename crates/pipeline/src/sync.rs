//! Sync: copy an experiment from one store to another.
//!
//! Copying adds and never takes back, so it may be repeated, cut off anywhere and begun again,
//! and done in both directions. Runs come first, then the sittings that judged them, then the
//! promotion history. A run is the same on both sides if its cell key is; ids differ, so
//! wherever a record names a run, the other side's id takes its place.
//!
//! What cannot be added without taking something back is left as it is and counted: cells that
//! were generated on both sides with different outputs, runs that are under different rubrics,
//! histories that went different ways, values that differ.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::marker::Sync as Shared;
use std::sync::Arc;

use assize_domain::ledger::is_entry_key;
use assize_domain::run::{RunStatus, artifact, param, tag};
use assize_store::{Change, ImportedRun, Run, RunQuery, StoreError, Tracking, is_for_judges};
use serde::Serialize;

use self::missing::{Missing, compare_entries};
use self::pair::{Pair, verdicts};
use crate::journal::Journal;
use crate::{PipelineError, Result};

mod missing;
mod pair;
mod records;

/// How many runs are read at once, and how many are written at once.
const PAGE: u32 = 200;
const BATCH: usize = 16;
/// How many runs are read at the same time.
const AT_ONCE: usize = 8;
/// The tag that names the run above a nested one.
const PARENT: &str = "mlflow.parentRunId";

/// What to copy.
#[derive(Debug)]
pub struct Sync<'a> {
    pub from: &'a dyn Tracking,
    /// `None` where it would have to be made and nothing is to be written.
    pub to: Option<&'a dyn Tracking>,
    /// The journals before either side, which are delivered first.
    pub journals: &'a [Arc<Journal>],
    pub experiment: &'a str,
    /// Only count what would be done.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Synced {
    pub runs: u64,
    /// Runs that were not there, or had failed there.
    pub copied: u64,
    /// Runs that were there and got what was missing, or whose verdicts were set aside.
    pub merged: u64,
    pub unchanged: u64,
    /// Cells that both sides have generated, with different outputs.
    pub different: u64,
    /// Runs that are under another rubric there.
    pub other_rubric: u64,
    /// Runs whose name, params, tags or files are not the same there.
    pub other_values: u64,
    /// Cells whose runs are not finished, and are copied once they are.
    pub unfinished: u64,
    /// Files that are listed and cannot be had, or have a name that the target refuses.
    pub unreadable_files: u64,
    /// Tags of the experiment that were not there.
    pub experiment_tags: u64,
    /// Tags of the experiment that have another value there.
    pub different_tags: Vec<String>,
    /// Entries of the ledger that were not there.
    pub ledger: u64,
    /// Logged models of the experiment, none of which is copied.
    pub logged_models_left: u64,
    pub sittings: u64,
    pub promotions: u64,
    /// Tasks whose promotion histories diverge.
    pub different_histories: Vec<String>,
    /// Surplus runs of a cell that were removed, on either side.
    pub surplus_removed: u64,
    /// Cells of this machine's journal that were delivered first, to either side.
    pub delivered: u64,
}

/// Hears how many runs of how many are done.
pub type Progress<'a> = &'a dyn Fn(u64, u64);

fn value<'a>(run: &'a Run, name: &str) -> Option<&'a str> {
    let found = run.tags.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// What makes two runs the same: the cell key, else the run that was copied first.
fn identity(run: &Run) -> String {
    let key = value(run, tag::CELL_KEY).or_else(|| value(run, tag::COPIED_FROM));
    key.unwrap_or(&run.run_id).to_owned()
}

/// Copies what the target does not have. `stopped` ends it early; the same call again continues.
pub fn run(sync: &Sync<'_>, stopped: &dyn Fn() -> bool, progress: Progress<'_>) -> Result<Synced> {
    let mut synced = Synced::default();
    if !sync.dry_run {
        for journal in sync.journals {
            synced.delivered += journal.deliver(stopped)?.delivered;
        }
    }
    let mut copying = Copying {
        sync,
        there: index(sync.to, sync.experiment)?,
        ids: HashMap::new(),
        judged: BTreeMap::new(),
        tasks: BTreeSet::new(),
        synced,
    };
    copying.experiment_tags()?;
    copying.runs(stopped, progress)?;
    copying.sittings(stopped)?;
    copying.promotions()?;
    let mut synced = copying.synced;
    synced.logged_models_left = sync.from.logged_model_count(sync.experiment)?;
    if let (false, Some(to)) = (sync.dry_run, sync.to) {
        synced.surplus_removed =
            sync.from.runs_tidy(sync.experiment)? + to.runs_tidy(sync.experiment)?;
    }
    Ok(synced)
}

/// The ids of what the target has.
fn index(to: Option<&dyn Tracking>, experiment: &str) -> Result<HashMap<String, String>> {
    let mut there = HashMap::new();
    if let Some(to) = to {
        let listed = each_run(to, experiment, &mut |run| {
            there.entry(identity(&run)).or_insert(run.run_id);
            Ok(())
        });
        match listed {
            Ok(()) | Err(PipelineError::Store(StoreError::NoExperiment { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(there)
}

fn each_run(
    store: &dyn Tracking,
    experiment: &str,
    visit: &mut dyn FnMut(Run) -> Result<()>,
) -> Result<()> {
    let mut query = RunQuery {
        max_results: PAGE,
        ..RunQuery::default()
    };
    loop {
        let page = store.run_list(experiment, &query)?;
        page.runs.into_iter().try_for_each(&mut *visit)?;
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            return Ok(());
        }
    }
}

/// Reads something of each, a few at once, because a remote store is asked for every part.
fn read<T: Shared, R: Send>(items: &[T], one: impl Fn(&T) -> Result<R> + Shared) -> Result<Vec<R>> {
    let one = &one;
    let mut all = Vec::with_capacity(items.len());
    for few in items.chunks(AT_ONCE) {
        let read: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> = few
                .iter()
                .map(|item| scope.spawn(move || one(item)))
                .collect();
            readers
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect()
        });
        for read in read {
            all.push(read.map_err(|_| PipelineError::worker_panicked())??);
        }
    }
    Ok(all)
}

/// A copy in the making.
struct Copying<'a> {
    sync: &'a Sync<'a>,
    /// Run ids of the target by identity.
    there: HashMap<String, String>,
    /// Run ids of the source, with those of the target.
    ids: HashMap<String, String>,
    /// Names of verdict files, with the target's runs that have one.
    judged: BTreeMap<String, Vec<String>>,
    tasks: BTreeSet<String>,
    synced: Synced,
}

impl Copying<'_> {
    fn runs(&mut self, stopped: &dyn Fn() -> bool, progress: Progress<'_>) -> Result<()> {
        let Sync {
            from, experiment, ..
        } = *self.sync;
        let listed = from.experiment_list()?.into_iter();
        let total = listed
            .filter(|it| it.name == experiment)
            .map(|it| it.runs)
            .sum();
        let mut batch = Vec::with_capacity(BATCH);
        let mut children = Vec::new();
        each_run(from, experiment, &mut |run| {
            if stopped() {
                return Err(PipelineError::Interrupted);
            }
            self.synced.runs += 1;
            let tasks = run.params.iter().filter(|(key, _)| key == param::TASK);
            self.tasks.extend(tasks.map(|(_, task)| task.clone()));
            let ended = matches!(run.status, RunStatus::Finished | RunStatus::Failed);
            if value(&run, tag::CELL_KEY).is_some() && !ended {
                self.synced.unfinished += 1;
            } else if self.is_orphan(&run) {
                children.push(run);
            } else {
                batch.push(run);
            }
            if batch.len() == BATCH {
                self.copy(&std::mem::take(&mut batch))?;
            }
            let waiting = batch.len() + children.len();
            progress(self.synced.runs - waiting as u64, total);
            Ok(())
        })?;
        self.copy(&batch)?;
        self.children(children, stopped)?;
        progress(self.synced.runs, total);
        Ok(())
    }

    /// Whether a run is nested in one whose copy is not known.
    fn is_orphan(&self, run: &Run) -> bool {
        value(run, PARENT).is_some_and(|parent| !self.ids.contains_key(parent))
    }

    /// Copies nested runs after those that they are nested in. A parent that is not copied at
    /// all, being of another experiment, keeps its id.
    fn children(&mut self, mut children: Vec<Run>, stopped: &dyn Fn() -> bool) -> Result<()> {
        while !children.is_empty() {
            let (later, now): (Vec<Run>, Vec<Run>) =
                children.into_iter().partition(|run| self.is_orphan(run));
            let (now, later) = if now.is_empty() {
                (later, now)
            } else {
                (now, later)
            };
            for few in now.chunks(BATCH) {
                if stopped() {
                    return Err(PipelineError::Interrupted);
                }
                self.copy(few)?;
            }
            children = later;
        }
        Ok(())
    }

    fn remember<'a>(&mut self, run: &Run, run_id: String, verdicts: impl Iterator<Item = &'a str>) {
        for name in verdicts.filter_map(|path| path.strip_prefix(artifact::VERDICTS)) {
            let runs = self.judged.entry(name.to_owned()).or_default();
            runs.push(run_id.clone());
        }
        self.ids.insert(run.run_id.clone(), run_id);
    }

    /// A run as both sides have it, the id of its parent being the target's.
    fn pair(&self, run: &Run) -> Result<Pair> {
        let mut here = self.sync.from.run_get_whole(&run.run_id)?;
        let mut old_parent = None;
        for (key, parent) in &mut here.run.tags {
            if key == PARENT
                && let Some(copy) = self.ids.get(parent)
            {
                old_parent = Some(std::mem::replace(parent, copy.clone()));
            }
        }
        let known = self.there.get(&identity(run));
        let mut there = match (self.sync.to, known) {
            (Some(to), Some(run_id)) => Some(to.run_get_whole(run_id)?),
            _ => None,
        };
        // Copied before its parent was: the parent id that it names here is derived, not a value of its own.
        if let (Some(there), Some(old)) = (&mut there, old_parent) {
            let is_old = |(key, parent): &(String, String)| key == PARENT && *parent == old;
            there.run.tags.retain(|it| !is_old(it));
        }
        Ok(Pair { here, there })
    }

    /// Copies what the target does not have of these runs.
    fn copy(&mut self, runs: &[Run]) -> Result<()> {
        let pairs = read(runs, |run| self.pair(run))?;
        let mut imported = Vec::new();
        for pair in pairs {
            self.synced.other_rubric += u64::from(pair.is_under_another_rubric());
            let missing = pair.missing();
            self.synced.other_values += u64::from(missing.is_different);
            self.add(&pair, &missing)?;
            if pair.is_imported() {
                imported.push((pair, !missing.is_empty()));
                continue;
            }
            if missing.is_empty() {
                self.synced.unchanged += 1;
            } else {
                self.synced.merged += 1;
            }
            if let Some(there) = pair.there {
                let here = &pair.here.run;
                self.remember(here, there.run.run_id, verdicts(here).into_iter());
            }
        }
        self.import(imported)
    }

    /// Adds what is missing to a run that is there, its verdicts aside.
    fn add(&mut self, pair: &Pair, missing: &Missing) -> Result<()> {
        let to = self.sync.to.filter(|_| !self.sync.dry_run);
        let (Some(to), Some(there)) = (to, &pair.there) else {
            return Ok(());
        };
        if !missing.additions.is_empty() {
            to.run_add(&there.run.run_id, &missing.additions)?;
        }
        let files = missing.files.iter().map(String::as_str);
        self.files_copy(to, &pair.here.run.run_id, &there.run.run_id, files)
    }

    /// Copies files one after the other, because any of them may be large.
    fn files_copy<'a>(
        &mut self,
        to: &dyn Tracking,
        run_id: &str,
        copy: &str,
        paths: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        for path in paths {
            match self.sync.from.artifact_get_bytes(run_id, path)? {
                Some(content) => match to.artifact_add(copy, path, content) {
                    // A name that the target keeps for something else.
                    Err(StoreError::Invalid(_)) => self.synced.unreadable_files += 1,
                    added => added?,
                },
                None => self.synced.unreadable_files += 1,
            }
        }
        Ok(())
    }

    /// Makes runs, and gives those that are there verdicts; each comes with whether it has got
    /// something else already.
    fn import(&mut self, pairs: Vec<(Pair, bool)>) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let Some(to) = self.sync.to.filter(|_| !self.sync.dry_run) else {
            for (pair, _) in pairs {
                if pair.there.is_some() && !pair.is_replaced() {
                    self.synced.merged += 1;
                } else {
                    self.synced.copied += 1;
                }
            }
            return Ok(());
        };
        let from = self.sync.from;
        let whole = read(&pairs, |(pair, _)| Ok(ImportedRun::read(from, &pair.here)?))?;
        let imported = to.runs_import(self.sync.experiment, &whole)?;
        for (((pair, is_merged), whole), imported) in pairs.into_iter().zip(&whole).zip(imported) {
            let here = &pair.here.run;
            match imported.change {
                Change::Created => {
                    self.synced.copied += 1;
                    let artifacts = &whole.record.artifacts;
                    let has = |path: &str| artifacts.iter().any(|(known, _)| known == path);
                    let paths = here.artifacts.iter().map(String::as_str);
                    let is_ours = is_for_judges(here);
                    let is_verdicts = |path: &str| is_ours && path.starts_with(artifact::VERDICTS);
                    let others = paths.filter(|path| !is_verdicts(path) && !has(path));
                    self.files_copy(to, &here.run_id, &imported.run_id, others)?;
                }
                Change::Unchanged if !is_merged => self.synced.unchanged += 1,
                Change::Merged | Change::Unchanged => self.synced.merged += 1,
                Change::Differs => {
                    self.synced.different += 1;
                    continue;
                }
            }
            let verdicts = whole.verdict_files();
            let paths = verdicts.iter().map(|(path, _)| *path);
            self.remember(here, imported.run_id, paths);
        }
        Ok(())
    }

    /// Adds tags of the experiment that the target does not have. Entries of the ledger are such
    /// tags, so those of both sides add up.
    fn experiment_tags(&mut self) -> Result<()> {
        let Sync {
            from, experiment, ..
        } = *self.sync;
        let here = from.experiment_tags_get(experiment)?;
        let there = self.sync.to.map(|to| to.experiment_tags_get(experiment));
        let there = there.transpose()?.unwrap_or_default();
        let (missing, different) = compare_entries(here.iter(), &there);
        let different = different.into_iter().map(str::to_owned);
        self.synced.different_tags = different.collect();
        let entries = missing.iter().filter(|(key, _)| is_entry_key(key)).count();
        self.synced.ledger = entries as u64;
        self.synced.experiment_tags = (missing.len() - entries) as u64;
        match self.sync.to {
            Some(to) if !self.sync.dry_run && !missing.is_empty() => {
                let missing: Vec<_> = missing.into_iter().cloned().collect();
                Ok(to.experiment_tags_add(experiment, &missing)?)
            }
            _ => Ok(()),
        }
    }
}
