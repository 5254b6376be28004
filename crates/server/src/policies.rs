//! The online policies over HTTP: score, recommend, reward, statistics, reset, deletion.
//!
//! [`Engine`] holds the store, a cache of decoded models ([`cache`]) and what is active now
//! ([`live`]). A decision is answered after it was logged, a reward after it and the changed model
//! were committed; the store's writer groups many of both into one commit. Handlers run in place on
//! the runtime's threads and only wait for the commit; a user who is not in the cache is read from
//! disk with the runtime informed about it.
//!
//! Shadows ([`shadows`]) score on a thread of their own, after the answer.
//!
//! See docs/design/policy-service.md for the reasons.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use assize_pipeline::judge::Entropy;
use assize_pipeline::policies::alarm::{self, Alarm, AlarmRule};
use assize_policy::gate::GateThresholds;
use assize_policy::{PolicyKind, PolicySettings, UserModels};
use assize_store::StoreError;
use assize_store::policies::{Durability, PolicyFile, PolicyStore};
use tokio::sync::watch;

use crate::error::{ApiError, ApiResult};
use crate::http::in_place;
use cache::Cache;
use events::Events;
use live::{Live, ServedPolicy, index_of};
use shadows::Shadows;

mod alone;
mod cache;
mod decide;
mod events;
mod live;
mod operations;
mod replay;
mod request;
mod reward;
mod shadows;
mod stats;
mod users;

pub use alone::{PoliciesServer, run_policies};
pub(crate) use operations::{operations, unknown_routes};

/// How often the history is checked for changes by other processes.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// The history is checked so many times between two looks at the rewards.
const ALARM_ROUNDS: u32 = 8;

/// How the policies are served, which the binary provides.
#[derive(Debug, Clone)]
pub struct PoliciesConfig {
    /// The policies' file.
    pub path: PathBuf,
    /// The active policy until the history names another.
    pub active: PolicyKind,
    pub durability: Durability,
    /// The most memory that decoded models may take.
    pub cache_bytes: usize,
    /// Policies without an entry have their defaults.
    pub settings: BTreeMap<PolicyKind, PolicySettings>,
    pub shadows: Vec<ShadowConfig>,
    pub alarm: AlarmRule,
    /// What a promotion needs.
    pub gate: GateThresholds,
    /// Unix milliseconds.
    pub now_ms: fn() -> i64,
    pub entropy: Entropy,
}

/// A policy that scores beside the active one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowConfig {
    pub name: String,
    pub policy: PolicyKind,
    /// Whether it scores, until the history says otherwise.
    pub enabled: bool,
}

impl PoliciesConfig {
    /// The settings of one policy.
    pub fn settings_of(&self, kind: PolicyKind) -> PolicySettings {
        let set = self.settings.get(&kind).copied();
        set.unwrap_or_else(|| PolicySettings::defaults(kind))
    }
}

/// The policies of one file, in the process that serves them.
#[derive(Debug)]
pub(crate) struct Engine {
    store: PolicyStore,
    config: PoliciesConfig,
    cache: Cache,
    live: RwLock<Arc<Live>>,
    /// The position of the last reward.
    position: AtomicI64,
    shadows: Shadows,
    events: Events,
    /// Replayed models that could not be stored; they are removed from the cache.
    failed_loads: Arc<Mutex<Vec<(usize, String)>>>,
    stopping: watch::Sender<bool>,
    watching: Watching,
    /// The latest alarm about the active policy, while it lasts.
    alarm: Mutex<Option<Alarm>>,
}

/// Ends the thread that watches the history.
#[derive(Debug, Default)]
struct Watching {
    ended: Mutex<bool>,
    end: Condvar,
    has_failed: AtomicBool,
}

impl Engine {
    /// What any process may do with the file.
    pub fn file(&self) -> &PolicyFile {
        self.store.file()
    }

    pub const fn config(&self) -> &PoliciesConfig {
        &self.config
    }

    /// Opens the file and starts the threads of the shadows and of the watch on the history.
    pub fn start(config: PoliciesConfig) -> Result<Arc<Self>, StoreError> {
        let store = PolicyStore::open(&config.path, config.durability)?;
        let live = Live::read(store.file(), &config)?;
        let position = store.file().log_position()?;
        let (shadows, queue) = Shadows::new(&config);
        let engine = Arc::new(Self {
            cache: Cache::new(PolicyKind::ALL.len(), config.cache_bytes),
            live: RwLock::new(Arc::new(live)),
            position: AtomicI64::new(position),
            shadows,
            events: Events::default(),
            failed_loads: Arc::default(),
            stopping: watch::Sender::new(false),
            watching: Watching::default(),
            alarm: Mutex::default(),
            store,
            config,
        });
        engine.spawn("assize-shadows", move |it| shadows::work(it, &queue))?;
        engine.spawn("assize-policy-history", Self::watch)?;
        Ok(engine)
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) + Send + 'static,
    ) -> Result<(), StoreError> {
        let engine = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let spawned = thread.spawn(move || work(&engine));
        spawned.map(drop).map_err(|error| StoreError::Unusable {
            path: self.config.path.display().to_string(),
            reason: format!("the thread {name} cannot start ({error}): end other processes"),
        })
    }

    /// Ends event streams and threads, and writes the signals that wait in memory.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        let ended = self.watching.ended.lock();
        *ended.unwrap_or_else(PoisonError::into_inner) = true;
        self.watching.end.notify_all();
        self.shadows.stop();
        self.store.shadow_flush();
    }

    /// Notices what other processes append to the history.
    fn watch(&self) {
        let lock = || {
            let ended = self.watching.ended.lock();
            ended.unwrap_or_else(PoisonError::into_inner)
        };
        let mut ended = lock();
        let mut rounds = 0_u32;
        while !*ended {
            drop(ended);
            self.forget_failed_loads();
            if rounds.is_multiple_of(ALARM_ROUNDS) {
                self.look_for_alarms();
            }
            rounds = rounds.wrapping_add(1);
            let refreshed = self.refresh();
            let failing = &self.watching.has_failed;
            let is_known = failing.swap(refreshed.is_err(), Ordering::Relaxed);
            if let Err(error) = refreshed
                && !is_known
            {
                tracing::error!("the policy history cannot be read: {error}");
            }
            ended = lock();
            if !*ended {
                let waited = self.watching.end.wait_timeout(ended, WATCH_INTERVAL);
                ended = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Compares the latest rewards with the bound, and rolls back where that is configured.
    fn look_for_alarms(&self) {
        let rule = &self.config.alarm;
        if rule.bound <= 0.0 {
            return;
        }
        let file = self.store.file();
        let found = alarm::look(file, self.config.active, rule, (self.config.now_ms)());
        let found = found.unwrap_or_else(|error| {
            tracing::error!("the rewards of the active policy cannot be checked: {error}");
            None
        });
        let mut known = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = found {
            if known.map(|it| it.policy) != Some(found.policy) {
                let Alarm { policy, mean, .. } = found;
                tracing::warn!(%policy, mean, bound = rule.bound, "the rewards are below the bound");
            }
            *known = Some(found);
        } else if known.is_some_and(|it| it.rolled_back_to.is_none()) {
            *known = None;
        }
    }

    /// The latest alarm about the active policy.
    pub fn alarm(&self) -> Option<Alarm> {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_failed_loads(&self) {
        let failed = {
            let failed = self.failed_loads.lock();
            std::mem::take(&mut *failed.unwrap_or_else(PoisonError::into_inner))
        };
        for (slot, user) in failed {
            self.cache.remove(slot, &user);
        }
    }

    /// Reads the history if it has grown.
    fn refresh(&self) -> Result<(), StoreError> {
        let newest = self.store.file().history_latest()?;
        let known = self.live();
        if newest.map_or(0, |it| it.number) == known.number {
            return Ok(());
        }
        let live = Live::read(self.store.file(), &self.config)?;
        if live.active != known.active {
            tracing::info!("the active policy is now {}", live.active);
            self.events.active(known.active, live.active);
        }
        let mut current = self.live.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(live);
        Ok(())
    }

    fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The user's models. Those of a user who was not seen lately are read from disk.
    fn models(&self, served: &ServedPolicy, user: &str) -> ApiResult<Arc<UserModels>> {
        let slot = index_of(served.policy.kind());
        if let Some(models) = self.cache.get(slot, user, served.start) {
            return Ok(models);
        }
        in_place(|| {
            let key = (slot, user, served.start);
            let models = self.cache.get_or_load(key, || self.load(served, user));
            models.map_err(ApiError::from)
        })
    }

    /// Whether the file can be read.
    fn is_readable(&self) -> bool {
        self.store.file().history_latest().is_ok()
    }

    /// 128 random bits.
    fn random(&self) -> io::Result<(u64, u64)> {
        let bytes = u128::from_le_bytes((self.config.entropy)()?);
        #[expect(clippy::cast_possible_truncation, reason = "two halves of the bits")]
        Ok((bytes as u64, (bytes >> 64) as u64))
    }

    fn now_ms(&self) -> i64 {
        (self.config.now_ms)()
    }
}
