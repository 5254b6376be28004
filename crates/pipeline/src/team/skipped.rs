//! Runs that cannot be read, for example because a file of theirs is missing on the server.
//!
//! They must not keep the other runs from being followed: each is left out, or stays as it was
//! read last, is counted and shown, and is tried again after [`RETRY`].

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use assize_store::Result;
use assize_store::following::{Followed, SkippedRun};

use super::{Team, lock};

/// When a run is tried again that could not be read.
const RETRY: Duration = Duration::from_secs(10);
/// How many of them are tried at once.
const AT_ONCE: usize = 64;

/// The runs that could not be read, by id.
#[derive(Debug, Default)]
pub(super) struct Skipped(BTreeMap<String, Attempt>);

#[derive(Debug)]
struct Attempt {
    run: SkippedRun,
    at: Instant,
}

impl Attempt {
    fn is_due(&self) -> bool {
        self.at.elapsed() >= RETRY
    }
}

impl Skipped {
    /// The version of a run that need not be read now: the one at which it could not be read,
    /// unless it is to be tried again. For other runs it is `otherwise`.
    pub fn version(&self, run_id: &str, otherwise: impl FnOnce() -> Option<i64>) -> Option<i64> {
        match self.0.get(run_id) {
            Some(attempt) => (!attempt.is_due()).then_some(attempt.run.run.version),
            None => otherwise(),
        }
    }

    /// The number of runs, and why the first of them cannot be read.
    pub fn summary(&self) -> Option<(u64, String)> {
        let (_, first) = self.0.first_key_value()?;
        Some((self.0.len() as u64, first.run.reason.clone()))
    }

    fn note(&mut self, followed: &Followed) {
        for it in &followed.changed {
            self.0.remove(&it.run_id);
        }
        for run in &followed.skipped {
            let at = Instant::now();
            let run = run.clone();
            self.0.insert(run.run.run_id.clone(), Attempt { run, at });
        }
    }

    /// The runs to try again, those first that were tried least recently.
    fn due(&self) -> Vec<String> {
        let mut due: Vec<_> = self.0.iter().filter(|it| it.1.is_due()).collect();
        due.sort_by_key(|it| it.1.at);
        let due = due.into_iter().take(AT_ONCE);
        due.map(|(run_id, _)| run_id.clone()).collect()
    }
}

impl Team {
    /// Notes which of these runs could not be read, and which could.
    pub(super) fn skipped_note(&self, followed: &Followed) {
        let mut skipped = lock(&self.skipped);
        skipped.note(followed);
        lock(&self.status).skipped = skipped.summary();
    }

    /// Forgets the runs of an experiment that the server does not have any more.
    pub(super) fn skipped_retain(&self, experiment: i64, seen: &HashSet<String>) {
        let mut skipped = lock(&self.skipped);
        let is_there = |run_id: &String, it: &mut Attempt| {
            it.run.run.experiment_id != experiment || seen.contains(run_id)
        };
        skipped.0.retain(is_there);
        lock(&self.status).skipped = skipped.summary();
    }

    /// Tries runs again that could not be read.
    pub(super) fn skipped_retry(&self) -> Result<()> {
        let due = lock(&self.skipped).due();
        if due.is_empty() {
            return Ok(());
        }
        let read_ms = (self.clock)();
        let followed = self.server.runs_follow(&due)?;
        self.apply(followed, read_ms)
    }
}
