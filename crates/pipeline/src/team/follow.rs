//! Keeping the copy current: the changes of Assize on other machines.
//!
//! One thread asks every [`POLL`] for the runs that Assize changed recently, by the metric that
//! each change writes. Machines' clocks differ and a change becomes visible a little after its
//! time, so every question overlaps the last one by [`OVERLAP`]. Runs that are known already cost
//! nothing more. Nothing else that reads the server in the background runs on this thread, so that
//! a change is seen within seconds, whatever else there is to read.
//!
//! Another thread tries the runs again that could not be read, and asks now and then with an
//! overlap of [`LATE_OVERLAP`], for clocks that differ more. After a large collection the answer has
//! thousands of runs, so it pauses between pages.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use assize_store::following::FollowedExperiment;
use assize_store::{Result, StoreError};

use super::{Team, lock};

/// How often changes are asked for.
pub(super) const POLL: Duration = Duration::from_secs(2);
/// How far a question reaches back beyond the last one.
const OVERLAP: Duration = Duration::from_secs(30);
/// How often runs are tried again that could not be read.
const RETRY_EVERY: Duration = Duration::from_secs(15);
/// The overlap for clocks that differ more, and after how many retries it is used.
const LATE_EVERY: u32 = 4;
const LATE_OVERLAP: Duration = Duration::from_mins(15);
/// How often the time of the last question is stored.
const STORE_EVERY_MS: i64 = 10_000;
/// Pauses while the server is unreachable: the first, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(8);
/// The pause between two pages, as a multiple of the time that a page takes.
pub(super) const PAGE_PAUSE: u32 = 10;

/// What the threads know about the server's experiments.
#[derive(Debug, Default)]
pub(super) struct Experiments {
    all: Vec<FollowedExperiment>,
    /// Those that hold runs of Assize.
    pub used: BTreeSet<i64>,
}

impl Team {
    /// Asks for changes until the server ends.
    pub(super) fn follow_changes(&self) {
        let mut delay = FIRST_DELAY;
        loop {
            let outcome = self.poll().and_then(|()| self.deliver());
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
                StoreError::Unreachable { reason, .. } => reason,
                other => other.to_string(),
            });
            if !self.pause(pause) {
                return;
            }
        }
    }

    /// Reads the experiments, and the runs that were changed since the last time.
    pub(super) fn poll(&self) -> Result<()> {
        // Two at once would read the same, and background reading waits for this.
        let _polling = lock(&self.polling);
        let read_ms = (self.clock)();
        let generation = self.generation();
        let all = self.experiments_read()?;
        let last_ms = lock(&self.status).read_ms.unwrap_or(read_ms);
        self.changes_read(&all, last_ms, OVERLAP, &mut || true)?;
        let mut status = lock(&self.status);
        if status.catching_up.is_some() || self.generation() != generation {
            return Ok(());
        }
        status.read_ms = Some(read_ms);
        drop(status);
        self.has_polled.store(true, Ordering::Release);
        // A restart asks for some seconds more than necessary.
        if read_ms / STORE_EVERY_MS != last_ms / STORE_EVERY_MS {
            self.state.copy_read_put(&self.place, read_ms)?;
        }
        Ok(())
    }

    /// Reads the runs of these experiments that Assize changed since a time, until `goes_on` says
    /// otherwise after a page.
    fn changes_read(
        &self,
        experiments: &[i64],
        last_ms: i64,
        overlap: Duration,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut read_ms = (self.clock)();
        let overlap_ms = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let since_ms = last_ms.saturating_sub(overlap_ms);
        let known = |run_id: &str| self.version(run_id);
        self.server
            .runs_changed(experiments, since_ms, &known, &mut |followed| {
                let used = followed.changed.iter().map(|it| it.experiment_id);
                lock(&self.experiments).used.extend(used);
                self.apply(followed, read_ms)?;
                let is_wanted = goes_on();
                read_ms = (self.clock)();
                Ok(is_wanted)
            })
    }

    /// Looks now and then for changes by machines whose clocks are wrong, and for runs that could
    /// not be read before.
    pub(super) fn follow_late(&self) {
        let mut times = 0;
        while self.pause(RETRY_EVERY) {
            let status = self.status();
            let (None, None, Some(last_ms)) = (status.failure, status.catching_up, status.read_ms)
            else {
                continue;
            };
            // A failure is shown by the next question for changes, and the next time is soon.
            let _ = self.skipped_retry();
            times = (times + 1) % LATE_EVERY;
            if times > 0 {
                continue;
            }
            let all: Vec<i64> = lock(&self.experiments).all.iter().map(|it| it.id).collect();
            let mut asked = Instant::now();
            let mut goes_on = || {
                let goes_on = self.pause(asked.elapsed() * PAGE_PAUSE);
                asked = Instant::now();
                goes_on
            };
            let _ = self.changes_read(&all, last_ms, LATE_OVERLAP, &mut goes_on);
        }
    }

    /// Reads the list of experiments into the copy; returns their ids. A list of another server
    /// makes the copy begin anew.
    pub(super) fn experiments_read(&self) -> Result<Vec<i64>> {
        let all = self.server.experiments_follow()?;
        self.experiments_put(all)
    }

    pub(super) fn experiments_put(&self, all: Vec<FollowedExperiment>) -> Result<Vec<i64>> {
        let ids = all.iter().map(|it| it.id).collect();
        let mut experiments = lock(&self.experiments);
        if experiments.all == all {
            return Ok(ids);
        }
        if !self.copy.mirror_experiments(all.clone())? {
            *experiments = Experiments::default();
            self.restart_copy()?;
            self.copy.mirror_experiments(all.clone())?;
        }
        experiments.all = all;
        Ok(ids)
    }
}
