//! Keeping the copy current.
//!
//! One thread asks every [`POLL`] for the runs that Assize changed recently, by the metric that
//! each change writes. Machines' clocks differ and a change becomes visible a little after its
//! time, so every question overlaps the last one by [`OVERLAP`], and now and then by
//! [`WIDE_OVERLAP`]. Runs that are known already cost nothing more.
//!
//! Another thread reads all runs of the experiments that hold runs of Assize: at first as fast as
//! the server allows, later page by page with long pauses. It finds what other programs changed or
//! deleted, and fetches the texts that boards do not need.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use assize_domain::run::{artifact, tag};
use assize_store::following::FollowedExperiment;
use assize_store::{Result, Runs as _};

use super::{Team, lock};

/// How often changes are asked for.
const POLL: Duration = Duration::from_secs(2);
/// How far a question reaches back beyond the last one.
pub(super) const OVERLAP: Duration = Duration::from_secs(30);
/// The same for every so many questions, for clocks that differ more.
const WIDE_OVERLAP: Duration = Duration::from_mins(15);
const WIDE_EVERY: u32 = 30;
/// How often the time of the last question is stored.
const STORE_EVERY_MS: i64 = 10_000;
/// Pauses while the server is unreachable: the first, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(8);
/// The pause between two complete readings of all runs, and the part of the time that one takes.
const SWEEP_EVERY: Duration = Duration::from_mins(2);
const SWEEP_PAUSE: u32 = 10;
/// How many runs' texts are fetched between two pauses.
const TEXTS_AT_ONCE: usize = 64;
/// How many texts that runs share are in memory.
const MAX_TEXTS: usize = 1024;

/// What the threads know about the server's experiments.
#[derive(Debug, Default)]
pub(super) struct Experiments {
    all: Vec<FollowedExperiment>,
    /// Those that hold runs of Assize.
    used: BTreeSet<i64>,
}

impl Team {
    /// Asks for changes until the server ends.
    pub(super) fn follow_changes(&self) {
        let mut delay = FIRST_DELAY;
        let mut asked = 0;
        loop {
            asked += 1;
            let overlap = if asked % WIDE_EVERY == 1 {
                WIDE_OVERLAP
            } else {
                OVERLAP
            };
            let outcome = self.poll(overlap).and_then(|()| self.deliver());
            let pause = if outcome.is_ok() {
                delay = FIRST_DELAY;
                POLL
            } else {
                let pause = delay;
                delay = (delay * 2).min(LONGEST_DELAY);
                pause
            };
            // Every error is shown: a server that refuses its requests is of as little use as
            // one that does not answer.
            lock(&self.status).failure = outcome.err().map(|error| match error {
                assize_store::StoreError::Unreachable { reason, .. } => reason,
                other => other.to_string(),
            });
            if !self.pause(pause) {
                return;
            }
        }
    }

    /// Reads the experiments, and the runs that were changed since the last time.
    pub(super) fn poll(&self, overlap: Duration) -> Result<()> {
        let read_ms = (self.clock)();
        let all = self.experiments_read()?;
        let last_ms = lock(&self.status).read_ms.unwrap_or(read_ms);
        let overlap_ms = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let since_ms = last_ms.saturating_sub(overlap_ms);
        let known = |run_id: &str| self.version(run_id);
        self.server
            .runs_changed(&all, since_ms, &known, &mut |followed| {
                let used = followed.changed.iter().map(|it| it.experiment_id);
                lock(&self.experiments).used.extend(used);
                self.apply(followed, read_ms)?;
                Ok(true)
            })?;
        let mut status = lock(&self.status);
        if status.catching_up.is_some() {
            return Ok(());
        }
        status.read_ms = Some(read_ms);
        drop(status);
        // A restart asks for some seconds more than necessary.
        if read_ms / STORE_EVERY_MS != last_ms / STORE_EVERY_MS {
            self.state.copy_read_put(&self.place, read_ms)?;
        }
        Ok(())
    }

    /// Reads the list of experiments into the copy; returns their ids.
    fn experiments_read(&self) -> Result<Vec<i64>> {
        let all = self.server.experiments_follow()?;
        let ids = all.iter().map(|it| it.id).collect();
        let mut experiments = lock(&self.experiments);
        if experiments.all != all {
            self.copy.mirror_experiments(all.clone())?;
            experiments.all = all;
        }
        Ok(ids)
    }

    /// Reads all runs, first quickly and then again and again.
    pub(super) fn sweep(&self) {
        let mut is_first = lock(&self.status).catching_up.is_some();
        let mut tried = HashSet::new();
        loop {
            let pause = match self.sweep_once(is_first) {
                Ok(()) => {
                    is_first = false;
                    if !self.fetch_texts(&mut tried) {
                        return;
                    }
                    SWEEP_EVERY
                }
                Err(_) => LONGEST_DELAY,
            };
            if !self.pause(pause) {
                return;
            }
        }
    }

    fn sweep_once(&self, is_first: bool) -> Result<()> {
        let began_ms = (self.clock)();
        let all = self.experiments_read()?;
        let known_used = lock(&self.experiments).used.clone();
        let unknown: Vec<i64> = all
            .iter()
            .filter(|it| !known_used.contains(it))
            .copied()
            .collect();
        let found = self.server.experiments_used(&unknown)?;
        lock(&self.experiments).used.extend(found);
        let used = lock(&self.experiments).used.clone();
        for experiment in used.into_iter().filter(|it| all.contains(it)) {
            self.sweep_experiment(experiment, is_first)?;
        }
        // A reading that was cut short is not complete.
        if is_first && !*lock(&self.stopping) {
            self.server.copy_set(std::sync::Arc::clone(&self.copy));
            let mut status = lock(&self.status);
            status.catching_up = None;
            status.read_ms = Some(began_ms);
            drop(status);
            self.state.copy_read_put(&self.place, began_ms)?;
        }
        Ok(())
    }

    fn sweep_experiment(&self, experiment: i64, is_first: bool) -> Result<()> {
        let began_ms = (self.clock)();
        let mut read_ms = began_ms;
        let mut asked = Instant::now();
        let mut seen = HashSet::new();
        let mut is_cut = false;
        let known = |run_id: &str| self.version(run_id);
        self.server.runs_each(experiment, &known, &mut |followed| {
            seen.extend(followed.seen.iter().cloned());
            let count = followed.seen.len() as u64;
            self.apply(followed, read_ms)?;
            if let Some(read) = &mut lock(&self.status).catching_up {
                *read += count;
            }
            let pause = if is_first {
                Duration::ZERO
            } else {
                asked.elapsed() * SWEEP_PAUSE
            };
            is_cut = !self.pause(pause);
            (read_ms, asked) = ((self.clock)(), Instant::now());
            Ok(!is_cut)
        })?;
        if is_cut {
            return Ok(());
        }
        let removed = self
            .copy
            .mirror_remove_missing(experiment, began_ms, seen)?;
        if removed > 0 {
            self.versions_reload()?;
        }
        Ok(())
    }

    /// Fetches candidates, contexts and rubrics of runs that lack them, newest first. Whether to go on.
    fn fetch_texts(&self, tried: &mut HashSet<String>) -> bool {
        let Ok(mut missing) = self.copy.mirror_runs_without_candidates() else {
            return true;
        };
        missing.retain(|run_id| !tried.contains(run_id));
        for some in missing.chunks(TEXTS_AT_ONCE) {
            let began = Instant::now();
            for run_id in some {
                let paths = [artifact::CANDIDATES, artifact::CONTEXT, artifact::RUBRIC];
                if self.check_reachable().is_err() || self.texts_fetch(run_id, &paths).is_err() {
                    return true;
                }
                let found = self.copy.artifacts_get(run_id, &[artifact::CANDIDATES]);
                if found.is_ok_and(|it| it.iter().all(Option::is_none)) {
                    tried.insert(run_id.clone());
                }
            }
            // The server has other clients.
            if !self.pause(began.elapsed()) {
                return false;
            }
        }
        true
    }

    /// Fetches files of a run that the copy lacks. A context or rubric that was fetched for another
    /// run with the same hash is not fetched again.
    pub(super) fn texts_fetch(&self, run_id: &str, paths: &[&str]) -> Result<()> {
        let known = self.copy.artifacts_get(run_id, paths)?;
        let tags = self.copy.run_get(run_id)?.tags;
        for (path, _) in paths.iter().zip(known).filter(|(_, known)| known.is_none()) {
            let shared_by = match *path {
                artifact::CONTEXT => tag::SCENARIO_SHA256,
                artifact::RUBRIC => tag::RUBRIC_SHA256,
                _ => "",
            };
            let hash = tags.iter().find(|(key, _)| key == shared_by);
            let shared = hash.map(|(_, hash)| format!("{path} {hash}"));
            let cached = shared
                .as_ref()
                .and_then(|it| lock(&self.texts).get(it).cloned());
            let content = match cached {
                Some(content) => Some(content),
                None if self.check_reachable().is_err() => None,
                None => self.server.artifact_get_bytes(run_id, path)?,
            };
            let Some(content) = content else { continue };
            if let Some(shared) = shared {
                let mut texts = lock(&self.texts);
                if texts.len() >= MAX_TEXTS {
                    texts.clear();
                }
                texts.insert(shared, content.clone());
            }
            self.copy.mirror_file_put(run_id, path, content)?;
        }
        Ok(())
    }
}
