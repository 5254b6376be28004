//! Tracking on an MLflow server, over its REST API.
//!
//! This crate implements the same roles as the embedded store ([`assize_store::Tracking`] and
//! [`assize_store::Cells`]), each in a separate module. The server has no transactions over
//! several runs, so the guarantees are implemented differently:
//!
//! - A cell's run is created first and finished last. An unfinished run of Assize is an
//!   interrupted delivery: readers ignore it, and the next delivery completes it.
//! - Of two runs of one cell, readers use the first by start time and id.
//! - A verdict file is an artifact. A write-once param names it and holds its hash. The param and
//!   the run's metrics and tags are written in one request. If a sitting is applied as a whole,
//!   its files count once the sitting's run has the commit mark.
//! - A lease is a write-once param with an epoch: if two judges write it, one is rejected.
//! - An entry of the ledger is a tag of its experiment, with a key of its own.
//! - Sittings and promotion histories are runs of a separate experiment ([`SITTINGS`]).
//! - Every change marks its run with a metric that holds the time, so that other machines can
//!   search for changes ([`following`]).
//!
//! This crate deliberately uses no SQL and no API of MLflow other than REST.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use assize_domain::sitting::Sitting;
use assize_store::embedded::EmbeddedStore;
use assize_store::{Result, Tracking};

mod address;
mod artifacts;
mod board;
mod cells;
mod commit;
mod copying;
mod experiments;
mod following;
mod import;
mod leases;
mod ledger;
mod limits;
mod parallel;
mod promotions;
mod queue;
mod rest;
mod runs;
mod set_aside;
mod sittings;
mod verdicts;
mod wire;

pub use rest::Config;

/// The experiment that holds the runs of sittings and promotion histories.
pub const SITTINGS: &str = "assize-sittings";

type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// Runs, verdicts, sittings and promotions on an MLflow server.
pub struct MlflowStore {
    rest: rest::Rest,
    artifacts: artifacts::Artifacts,
    clock: Clock,
    /// Experiment ids by name.
    experiments: Mutex<HashMap<String, String>>,
    /// By experiment id.
    cells: Mutex<HashMap<String, cells::Index>>,
    sittings: Mutex<HashMap<String, Arc<Sitting>>>,
    /// A cache of contents that many runs share, by their hash.
    texts: Mutex<HashMap<String, Arc<str>>>,
    waiting: Mutex<HashMap<String, leases::PendingCache>>,
    /// A cache of runs whose files were read recently.
    recent: Mutex<VecDeque<(Instant, Arc<wire::Tracked>)>>,
    is_assize: OnceLock<bool>,
    /// A copy of this server's runs on this machine, to find pending runs in.
    copy: Mutex<Option<Arc<EmbeddedStore>>>,
}

impl fmt::Debug for MlflowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlflowStore")
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl MlflowStore {
    /// Creates a store on this server without connecting to it. `now_ms` is the wall clock in Unix
    /// milliseconds.
    pub fn open(config: &Config, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Result<Self> {
        Ok(Self {
            rest: rest::Rest::new(config)?,
            artifacts: artifacts::Artifacts::default(),
            clock: Box::new(now_ms),
            experiments: Mutex::default(),
            cells: Mutex::default(),
            sittings: Mutex::default(),
            texts: Mutex::default(),
            waiting: Mutex::default(),
            recent: Mutex::default(),
            is_assize: OnceLock::new(),
            copy: Mutex::default(),
        })
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }
}

/// Locks a mutex, also if a thread panicked while holding it: no update here is left half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracking for MlflowStore {
    fn uri(&self) -> &str {
        self.rest.uri()
    }
}
