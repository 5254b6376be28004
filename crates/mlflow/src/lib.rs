//! Tracking on an MLflow server, over its REST API.
//!
//! The same roles as the embedded store ([`assize_store::Tracking`] and
//! [`assize_store::Cells`]), each in a module of its own. Promises are kept by other means,
//! because the server has no transactions over several runs:
//!
//! - A cell's run is made first and finished last; a run of ours that is not finished is a
//!   delivery that was cut off, invisible to readers and completed by the next one.
//! - Of two runs of one cell readers take the first, by start time and id.
//! - A verdict file is an artifact that a write-once param names with its hash; the param and
//!   what the run says about itself are written in one request, or, where a sitting is applied
//!   whole, count from the moment when the sitting's run gets its commit mark.
//! - A lease is a write-once param with an epoch: of two that write it one is refused.
//! - Sittings and promotion histories are runs of an experiment of their own
//!   ([`SITTINGS`]).
//!
//! This crate deliberately knows no SQL and no other API of MLflow's than REST.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use assize_domain::sitting::Sitting;
use assize_store::{Result, Tracking};

mod address;
mod artifacts;
mod board;
mod cells;
mod commit;
mod copying;
mod experiments;
mod import;
mod leases;
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

/// The experiment whose runs are sittings and promotion histories.
pub const SITTINGS: &str = "assize-sittings";

type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// Runs, verdicts, sittings and promotions on an MLflow server.
pub struct MlflowStore {
    rest: rest::Rest,
    artifacts: artifacts::Artifacts,
    clock: Clock,
    /// Ids by name.
    experiments: Mutex<HashMap<String, String>>,
    /// By the id of the experiment.
    cells: Mutex<HashMap<String, cells::Index>>,
    sittings: Mutex<HashMap<String, Arc<Sitting>>>,
    /// Contents that many runs share, by their hash.
    texts: Mutex<HashMap<String, Arc<str>>>,
    waiting: Mutex<HashMap<String, leases::Seen>>,
    /// Runs whose files were read just now.
    recent: Mutex<VecDeque<(Instant, Arc<wire::Tracked>)>>,
    is_assize: OnceLock<bool>,
}

impl fmt::Debug for MlflowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlflowStore")
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl MlflowStore {
    /// A store on this server, which is not asked for anything yet. `now_ms` is the wall
    /// clock in Unix milliseconds.
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
        })
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }
}

/// What is behind a lock, even where a thread died with it: nothing here is left half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracking for MlflowStore {
    fn uri(&self) -> &str {
        self.rest.uri()
    }
}
