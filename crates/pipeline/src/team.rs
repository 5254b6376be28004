//! A team's tracking server, behind a copy on this machine.
//!
//! [`Team`] is the store of `assize serve` when runs are tracked on a server. What reads many runs
//! reads the copy, an embedded store with the server's ids, which [`follow`] and [`sweep`] keep
//! current. What
//! writes goes to the server, whose decisions count for all machines, and the runs that it touched
//! are then read again into the copy ([`roles`]). While the server is unreachable, reading goes on,
//! verdicts on leased cases are kept on this machine and delivered later ([`verdicts`]), and
//! everything else that writes is refused.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use assize_http::place_of;
use assize_store::embedded::EmbeddedStore;
use assize_store::following::{Followed, FollowedExperiment, Following, RunVersion};
use assize_store::state::State;
use assize_store::state::team::RefusedVerdicts;
use assize_store::{Result, StoreError};

use crate::Clock;

mod follow;
mod roles;
mod skipped;
mod sweep;
mod texts;
mod verdicts;

/// The state of the connection and of the copy.
#[derive(Debug, Clone, Default)]
pub struct TeamStatus {
    /// Why the server cannot be used at present.
    pub failure: Option<String>,
    /// When the copy was last known to be current, in Unix milliseconds.
    pub read_ms: Option<i64>,
    /// The number of runs that were read so far, while the copy is not complete.
    pub catching_up: Option<u64>,
    /// How many runs cannot be read, and why the first of them cannot.
    pub skipped: Option<(u64, String)>,
    /// Verdicts that wait for the server.
    pub undelivered: u64,
    /// Verdicts that it has refused.
    pub refused: Vec<RefusedVerdicts>,
}

/// A team's tracking server, with its copy.
pub struct Team {
    server: Arc<dyn Following>,
    copy: Arc<EmbeddedStore>,
    state: Arc<State>,
    /// The server's address without credentials.
    place: String,
    clock: Clock,
    status: Mutex<TeamStatus>,
    /// The versions of the runs in the copy.
    versions: Mutex<HashMap<String, i64>>,
    experiments: Mutex<follow::Experiments>,
    skipped: Mutex<skipped::Skipped>,
    /// Counts the servers that were found at the address.
    generation: AtomicU64,
    /// Whether changes were asked for since the start, with a complete copy.
    has_polled: AtomicBool,
    /// Held while changes are asked for.
    polling: Mutex<()>,
    /// A cache of texts that many runs share.
    texts: Mutex<HashMap<String, Vec<u8>>>,
    /// Held while verdicts are delivered.
    delivering: Mutex<()>,
    /// Whether the threads are to end.
    stopping: Mutex<bool>,
    stopped: Condvar,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The threads that keep the copy current; dropping this ends them.
#[derive(Debug)]
pub struct Followers {
    team: Arc<Team>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Followers {
    fn drop(&mut self) {
        *lock(&self.team.stopping) = true;
        self.team.stopped.notify_all();
        for thread in self.threads.drain(..) {
            // A request in flight may take long; the process ends without waiting for it.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl Team {
    /// Connects to the server. An unreachable server is an error only if there is no complete copy
    /// of it yet.
    pub fn open(
        server: Arc<dyn Following>,
        copy: Arc<EmbeddedStore>,
        state: Arc<State>,
        clock: Clock,
    ) -> Result<Arc<Self>> {
        let place = place_of(server.uri());
        let read_ms = state.copy_read_ms(&place)?;
        let (failure, experiments) = match reach(server.as_ref()) {
            Ok(experiments) => (None, Some(experiments)),
            Err(StoreError::Unreachable { reason, .. }) if read_ms.is_some() => {
                (Some(reason), None)
            }
            Err(StoreError::Unreachable { uri, reason }) => {
                let reason = format!(
                    "{reason}. There is no copy of it on this machine yet, so nothing can be \
                     shown: start the server first"
                );
                return Err(StoreError::Unreachable { uri, reason });
            }
            Err(error) => return Err(error),
        };
        let versions = copy.mirror_versions()?;
        if read_ms.is_some() {
            server.copy_set(Arc::clone(&copy));
        }
        let team = Self {
            status: Mutex::new(TeamStatus {
                failure,
                read_ms,
                catching_up: read_ms.is_none().then_some(0),
                skipped: None,
                undelivered: state.verdicts_count(&place)?,
                refused: state.verdicts_refused(&place)?,
            }),
            versions: Mutex::new(versions),
            experiments: Mutex::default(),
            skipped: Mutex::default(),
            generation: AtomicU64::default(),
            has_polled: AtomicBool::default(),
            polling: Mutex::default(),
            texts: Mutex::default(),
            server,
            copy,
            state,
            place,
            clock,
            delivering: Mutex::default(),
            stopping: Mutex::default(),
            stopped: Condvar::new(),
        };
        // Pages must not show the copy of a server that was replaced by another one.
        if let Some(experiments) = experiments {
            team.experiments_put(experiments)?;
        }
        Ok(Arc::new(team))
    }

    /// Starts the threads that keep the copy current.
    pub fn follow(self: &Arc<Self>) -> std::io::Result<Followers> {
        let start = |name: &str, work: fn(&Self)| {
            let team = Arc::clone(self);
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&team))
        };
        Ok(Followers {
            threads: vec![
                start("assize-follow", Self::follow_changes)?,
                start("assize-late", Self::follow_late)?,
                start("assize-sweep", Self::sweep)?,
                start("assize-texts", Self::fetch_texts)?,
            ],
            team: Arc::clone(self),
        })
    }

    /// The server's address without credentials.
    pub fn address(&self) -> &str {
        self.server.uri()
    }

    /// The state of the connection and of the copy.
    pub fn status(&self) -> TeamStatus {
        lock(&self.status).clone()
    }

    /// Reads the latest changes at once, so that a decision is made on the server's current data.
    /// An unreachable server is an error.
    pub fn refresh(&self) -> Result<()> {
        self.check_reachable()?;
        if let Some(runs) = self.status().catching_up {
            return Err(StoreError::Unreachable {
                uri: self.address().to_owned(),
                reason: format!("its runs are being read for the first time, {runs} so far"),
            });
        }
        self.noted(self.poll())
    }

    /// Whether the copy has all sittings that were open when `assize serve` started. Until then it
    /// is not known which judges must not see results.
    pub fn knows_sittings(&self) -> bool {
        self.has_polled.load(Ordering::Acquire)
    }

    /// An error if the server was unreachable the last time that it was asked.
    pub fn check_reachable(&self) -> Result<()> {
        let failure = lock(&self.status).failure.clone();
        failure.map_or(Ok(()), |reason| {
            Err(StoreError::Unreachable {
                uri: self.address().to_owned(),
                reason,
            })
        })
    }

    /// Notes whether the server answered.
    fn noted<T>(&self, outcome: Result<T>) -> Result<T> {
        match &outcome {
            Ok(_) => lock(&self.status).failure = None,
            Err(StoreError::Unreachable { reason, .. }) => {
                lock(&self.status).failure = Some(reason.clone());
            }
            Err(_) => {}
        }
        outcome
    }

    /// Sends a change to the server, unless it is known to be unreachable.
    fn ask<T>(&self, work: impl FnOnce(&dyn Following) -> Result<T>) -> Result<T> {
        self.check_reachable()?;
        let outcome = work(self.server.as_ref());
        if let Err(StoreError::Unreachable { reason, .. }) = &outcome {
            lock(&self.status).failure = Some(reason.clone());
        }
        outcome
    }

    /// Writes what was read from the server, beginning at this time, to the copy.
    fn apply(&self, followed: Followed, read_ms: i64) -> Result<()> {
        self.skipped_note(&followed);
        if followed.changed.is_empty() {
            return Ok(());
        }
        let changed: Vec<RunVersion> = followed.changed.clone();
        let shown = followed.runs.len() + followed.sittings.len() + followed.promotions.len();
        match self.copy.mirror_apply(followed, read_ms) {
            // The server's history is not a continuation of the one in the copy.
            Err(StoreError::Conflict(_)) => {
                *lock(&self.experiments) = follow::Experiments::default();
                return self.restart_copy();
            }
            outcome => outcome?,
        }
        if shown < changed.len() {
            return self.versions_reload();
        }
        let mut versions = lock(&self.versions);
        for it in changed {
            versions.insert(it.run_id, it.version);
        }
        Ok(())
    }

    /// Begins a new copy, because another server answers at this address.
    fn restart_copy(&self) -> Result<()> {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.has_polled.store(false, Ordering::Release);
        let mut status = lock(&self.status);
        status.catching_up = Some(0);
        status.read_ms = None;
        status.skipped = None;
        drop(status);
        // In this order, so that a copy that was cleared only in part is never taken for complete.
        self.state.copy_read_remove(&self.place)?;
        self.copy.mirror_clear()?;
        *lock(&self.skipped) = skipped::Skipped::default();
        lock(&self.versions).clear();
        self.server.forget();
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Reads the versions again after runs were removed: other runs of their cells are then to be
    /// read again.
    fn versions_reload(&self) -> Result<()> {
        let versions = self.copy.mirror_versions()?;
        *lock(&self.versions) = versions;
        Ok(())
    }

    /// Reads these runs again. A failure is only noted: the change is on the server, and the
    /// next reading finds it.
    fn reread(&self, run_ids: &[String]) {
        let read_ms = (self.clock)();
        let read = self.noted(self.server.runs_follow(run_ids));
        let _ = read.and_then(|followed| self.apply(followed, read_ms));
    }

    /// Reads a sitting again.
    fn reread_sitting(&self, id: &str) {
        let read_ms = (self.clock)();
        let Ok(Some(record)) = self.noted(self.server.sitting_record_get(id)) else {
            return;
        };
        let followed = Followed {
            sittings: vec![record],
            ..Followed::default()
        };
        let _ = self.copy.mirror_apply(followed, read_ms);
    }

    /// The version of a run that need not be read again.
    fn version(&self, run_id: &str) -> Option<i64> {
        let read = || lock(&self.versions).get(run_id).copied();
        lock(&self.skipped).version(run_id, read)
    }

    /// Waits, but not longer than until the server ends; returns whether to go on.
    fn pause(&self, time: Duration) -> bool {
        let stopping = lock(&self.stopping);
        let waited = self.stopped.wait_timeout_while(stopping, time, |it| !*it);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The experiments of a server that can be followed.
fn reach(server: &dyn Following) -> Result<Vec<FollowedExperiment>> {
    server.follow_check()?;
    server.experiments_follow()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
