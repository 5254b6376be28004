//! Reading all runs: at first as fast as the server allows, later page by page with long pauses.
//!
//! It finds what other programs changed or deleted. The first reading makes the copy complete.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_store::Result;

use super::follow::{LONGEST_DELAY, PAGE_PAUSE, POLL};
use super::{Team, lock};

/// The pause between two complete readings.
const SWEEP_EVERY: Duration = Duration::from_mins(2);

impl Team {
    /// Reads all runs again and again.
    pub(super) fn sweep(&self) {
        loop {
            let goes_on = match self.sweep_once() {
                Ok(()) => self.wait_for_next_sweep(),
                Err(_) => self.pause(LONGEST_DELAY),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Waits until all runs are to be read again: at once if another server began to answer at this
    /// address. Whether to go on.
    fn wait_for_next_sweep(&self) -> bool {
        let began = Instant::now();
        while began.elapsed() < SWEEP_EVERY && lock(&self.status).catching_up.is_none() {
            if !self.pause(POLL) {
                return false;
            }
        }
        self.pause(Duration::ZERO)
    }

    fn sweep_once(&self) -> Result<()> {
        let began_ms = (self.clock)();
        let all = self.experiments_read()?;
        let generation = self.generation();
        let is_first = lock(&self.status).catching_up.is_some();
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
        if is_first {
            self.complete(began_ms, generation)?;
        }
        Ok(())
    }

    /// Notes that the first reading has ended.
    fn complete(&self, began_ms: i64, generation: u64) -> Result<()> {
        let mut status = lock(&self.status);
        // A reading that was cut short, or of a server that is gone, is not complete.
        if *lock(&self.stopping) || self.generation() != generation {
            return Ok(());
        }
        self.server.copy_set(Arc::clone(&self.copy));
        status.catching_up = None;
        status.read_ms = Some(began_ms);
        drop(status);
        self.state.copy_read_put(&self.place, began_ms)
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
                asked.elapsed() * PAGE_PAUSE
            };
            is_cut = !self.pause(pause);
            (read_ms, asked) = ((self.clock)(), Instant::now());
            Ok(!is_cut)
        })?;
        if is_cut {
            return Ok(());
        }
        self.skipped_retain(experiment, &seen);
        let removed = self
            .copy
            .mirror_remove_missing(experiment, began_ms, seen)?;
        if removed > 0 {
            self.versions_reload()?;
        }
        Ok(())
    }
}
