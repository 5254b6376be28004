//! Sync: copy an experiment from one store to another.
//!
//! Copying adds and never takes back, so it may be repeated, cut off anywhere and begun again,
//! and done in both directions. Runs come first, then the sittings that judged them, then the
//! promotion history. A run is the same on both sides if its cell key is; ids differ, so
//! wherever a record names a run, the other side's id takes its place.
//!
//! What cannot be added without taking something back is left as it is and counted: cells that
//! were generated on both sides with different outputs, runs that are under different rubrics,
//! histories that went different ways.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use assize_domain::promotion::Promotion;
use assize_domain::run::{RunStatus, artifact, metric, param, tag};
use assize_domain::sitting::Sitting;
use assize_store::queue::SittingRecord;
use assize_store::{Change, ImportedRun, Run, RunQuery, StoreError, Tracking};
use serde::Serialize;

use crate::{PipelineError, Result};

/// How many runs are read at once, and how many are written at once.
const PAGE: u32 = 200;
const BATCH: usize = 16;
/// How many runs are read at the same time.
const AT_ONCE: usize = 8;

/// What to copy.
#[derive(Debug)]
pub struct Sync<'a> {
    pub from: &'a dyn Tracking,
    /// `None` where it would have to be made and nothing is to be written.
    pub to: Option<&'a dyn Tracking>,
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
    /// Runs that were there and got verdicts, or lost some to being set aside.
    pub merged: u64,
    pub unchanged: u64,
    /// Cells that both sides have generated, with different outputs.
    pub different: u64,
    /// Runs that are under another rubric there.
    pub other_rubric: u64,
    pub sittings: u64,
    pub promotions: u64,
    /// Tasks whose promotion histories went different ways.
    pub different_histories: Vec<String>,
    /// Surplus runs of a cell that were removed, on either side.
    pub surplus_removed: u64,
    /// Cells of this machine's journal that were delivered first, to either side.
    pub delivered: u64,
}

/// Hears how many runs of how many are done.
pub type Progress<'a> = &'a dyn Fn(u64, u64);

/// A run as far as it matters whether it has to be copied.
#[derive(Debug)]
struct Known {
    run_id: String,
    failed: bool,
    verdicts: BTreeSet<String>,
    aside: BTreeSet<String>,
    rubric_sha256: Option<String>,
}

impl Known {
    fn of(store: &dyn Tracking, run: &Run) -> Result<Self> {
        let aside = value(run, tag::SET_ASIDE).unwrap_or_default();
        // Lists of runs may leave artifacts out; only a judged run has some that matter here.
        let mut artifacts = Cow::Borrowed(&run.artifacts);
        if artifacts.is_empty() && looks_judged(run) {
            artifacts = Cow::Owned(store.run_get(&run.run_id)?.artifacts);
        }
        let verdicts = artifacts.iter();
        Ok(Self {
            run_id: run.run_id.clone(),
            failed: run.status == RunStatus::Failed,
            verdicts: verdicts
                .filter(|path| path.starts_with(artifact::VERDICTS))
                .cloned()
                .collect(),
            aside: aside.split_whitespace().map(str::to_owned).collect(),
            rubric_sha256: value(run, tag::RUBRIC_SHA256).map(str::to_owned),
        })
    }

    /// Whether there is anything that the other lacks.
    fn adds_to(&self, other: &Self) -> bool {
        (other.failed && !self.failed)
            || !self.verdicts.is_subset(&other.verdicts)
            || !self.aside.is_subset(&other.aside)
    }
}

fn looks_judged(run: &Run) -> bool {
    let mut metrics = run.metrics.iter();
    value(run, tag::SET_ASIDE).is_some()
        || metrics.any(|(name, _)| name.ends_with(metric::COMPOSITE))
}

fn value<'a>(run: &'a Run, name: &str) -> Option<&'a str> {
    let found = run.tags.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// What makes two runs the same: the cell key, else the run that was copied first.
fn identity(run: &Run) -> String {
    let key = value(run, tag::CELL_KEY).or_else(|| value(run, tag::COPIED_FROM));
    key.unwrap_or(&run.run_id).to_owned()
}

/// Copies what the target lacks. `stopped` ends it early; the same call again goes on.
pub fn run(sync: &Sync<'_>, stopped: &dyn Fn() -> bool, progress: Progress<'_>) -> Result<Synced> {
    let mut synced = Synced::default();
    if !sync.dry_run {
        for store in [Some(sync.from), sync.to].into_iter().flatten() {
            synced.delivered += store.deliver(stopped)?.delivered;
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
    copying.runs(stopped, progress)?;
    copying.sittings(stopped)?;
    copying.promotions()?;
    let mut synced = copying.synced;
    if let (false, Some(to)) = (sync.dry_run, sync.to) {
        synced.surplus_removed =
            sync.from.runs_tidy(sync.experiment)? + to.runs_tidy(sync.experiment)?;
    }
    Ok(synced)
}

/// What the target has.
fn index(to: Option<&dyn Tracking>, experiment: &str) -> Result<HashMap<String, Known>> {
    let mut there = HashMap::new();
    if let Some(to) = to {
        let listed = each_run(to, experiment, &mut |run| {
            there.insert(identity(&run), Known::of(to, &run)?);
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

/// Reads runs whole, a few at once, because a remote store is asked for every part.
fn read(from: &dyn Tracking, runs: &[Run]) -> Result<Vec<ImportedRun>> {
    let mut whole = Vec::with_capacity(runs.len());
    for few in runs.chunks(AT_ONCE) {
        let read: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> = few
                .iter()
                .map(|run| scope.spawn(|| ImportedRun::read(from, run)))
                .collect();
            readers
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect()
        });
        for run in read {
            let panicked = |_| PipelineError::Invalid("a reader panicked".to_owned());
            whole.push(run.map_err(panicked)??);
        }
    }
    Ok(whole)
}

/// A copy in the making.
struct Copying<'a> {
    sync: &'a Sync<'a>,
    there: HashMap<String, Known>,
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
        each_run(from, experiment, &mut |run| {
            if stopped() {
                return Err(PipelineError::Interrupted);
            }
            self.synced.runs += 1;
            let tasks = run.params.iter().filter(|(key, _)| key == param::TASK);
            self.tasks.extend(tasks.map(|(_, task)| task.clone()));
            if self.is_there(&run)? {
                self.synced.unchanged += 1;
            } else {
                batch.push(run);
            }
            if batch.len() == BATCH {
                self.write(&std::mem::take(&mut batch))?;
            }
            progress(self.synced.runs - batch.len() as u64, total);
            Ok(())
        })?;
        self.write(&batch)?;
        progress(self.synced.runs, total);
        Ok(())
    }

    /// Whether the target has all of this run.
    fn is_there(&mut self, run: &Run) -> Result<bool> {
        let Some(there) = self.there.get(&identity(run)) else {
            return Ok(false);
        };
        let here = Known::of(self.sync.from, run)?;
        if here.rubric_sha256 != there.rubric_sha256 && !here.failed && !there.failed {
            self.synced.other_rubric += 1;
        }
        let is_there = !here.adds_to(there);
        if is_there {
            let run_id = there.run_id.clone();
            self.remember(run, run_id, here.verdicts.iter().map(String::as_str));
        }
        Ok(is_there)
    }

    fn remember<'a>(&mut self, run: &Run, run_id: String, verdicts: impl Iterator<Item = &'a str>) {
        for name in verdicts.filter_map(|path| path.strip_prefix(artifact::VERDICTS)) {
            let runs = self.judged.entry(name.to_owned()).or_default();
            runs.push(run_id.clone());
        }
        self.ids.insert(run.run_id.clone(), run_id);
    }

    fn write(&mut self, runs: &[Run]) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let Sync {
            from, experiment, ..
        } = *self.sync;
        let Some(to) = self.sync.to.filter(|_| !self.sync.dry_run) else {
            for run in runs {
                match self.there.get(&identity(run)) {
                    Some(there) if !there.failed => self.synced.merged += 1,
                    _ => self.synced.copied += 1,
                }
            }
            return Ok(());
        };
        let whole = read(from, runs)?;
        let imported = to.runs_import(experiment, &whole)?;
        for ((run, whole), imported) in runs.iter().zip(&whole).zip(imported) {
            match imported.change {
                Change::Created => self.synced.copied += 1,
                Change::Merged => self.synced.merged += 1,
                Change::Unchanged => self.synced.unchanged += 1,
                Change::Differs => {
                    self.synced.different += 1;
                    continue;
                }
            }
            let verdicts = whole.verdict_files();
            let paths = verdicts.iter().map(|(path, _)| *path);
            self.remember(run, imported.run_id, paths);
        }
        Ok(())
    }

    fn sittings(&mut self, stopped: &dyn Fn() -> bool) -> Result<()> {
        for record in self.sync.from.sitting_list(self.sync.experiment)? {
            if stopped() {
                return Err(PipelineError::Interrupted);
            }
            let changed = match self.sync.to {
                Some(to) if !self.sync.dry_run => to.sitting_import(&self.translated(record))?,
                Some(to) => to.sitting_get(&record.sitting.id)?.is_none(),
                None => true,
            };
            self.synced.sittings += u64::from(changed);
        }
        Ok(())
    }

    /// The record with the target's run ids. A sitting that took its cases from the queue names
    /// the runs that it judged, because its leases stay behind.
    fn translated(&self, record: SittingRecord) -> SittingRecord {
        let sitting = record.sitting;
        let mut runs: Vec<(String, Vec<u32>)> = sitting
            .runs
            .iter()
            .filter_map(|(run, cases)| Some((self.ids.get(run)?.clone(), cases.clone())))
            .collect();
        let judged = self
            .judged
            .iter()
            .filter(|(name, _)| is_of(name, &sitting.id));
        for run in judged.flat_map(|(_, runs)| runs) {
            if !runs.iter().any(|(known, _)| known == run) {
                runs.push((run.clone(), Vec::new()));
            }
        }
        let inclusion = sitting
            .inclusion
            .iter()
            .filter_map(|it| {
                let mut it = it.clone();
                it.run_id.clone_from(self.ids.get(&it.run_id)?);
                Some(it)
            })
            .collect();
        SittingRecord {
            sitting: Sitting {
                runs,
                inclusion,
                ..sitting
            },
            ..record
        }
    }

    fn promotions(&mut self) -> Result<()> {
        let tasks = std::mem::take(&mut self.tasks);
        for task in tasks {
            let ours = self.sync.from.promotion_list(&task)?;
            let there = self.sync.to.map(|to| to.promotion_list(&task));
            let there = there.transpose()?.unwrap_or_default();
            if ours.iter().zip(&there).any(|(a, b)| !is_same(a, b)) {
                self.synced.different_histories.push(task);
                continue;
            }
            for promotion in ours.iter().skip(there.len()) {
                if let (false, Some(to)) = (self.sync.dry_run, self.sync.to) {
                    to.promotion_record(promotion)?;
                }
                self.synced.promotions += 1;
            }
        }
        Ok(())
    }
}

/// Whether a verdict file of this name is a sitting's: `SITTING.json` or `SITTING.2.json`.
fn is_of(name: &str, sitting: &str) -> bool {
    let rest = name.strip_prefix(sitting);
    let part = rest.and_then(|rest| rest.strip_suffix(".json"));
    part.is_some_and(|part| {
        part.is_empty()
            || part
                .strip_prefix('.')
                .is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

/// Versions are the registry's own numbers.
fn is_same(a: &Promotion, b: &Promotion) -> bool {
    let version = a.version;
    let b = Promotion {
        version,
        ..b.clone()
    };
    *a == b
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_sitting_s_files_are_its_own() {
        assert!(is_of("s-1.json", "s-1"));
        assert!(is_of("s-1.2.json", "s-1"));
        assert!(!is_of("s-12.json", "s-1"));
        assert!(!is_of("s-1.x.json", "s-1"));
        assert!(!is_of("s-1", "s-1"));
    }
}
