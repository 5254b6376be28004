//! Shadows: policies that score what the active policy decides, and are never shown or rewarded.
//!
//! A decision of `/recommend` is queued after its commit; the queue is bounded, and decisions that
//! do not fit are counted, not scored. One thread scores them, so an answer never waits for a
//! shadow and never fails because of one. A signal uses the same random bits as the active policy:
//! two equal policies always agree.
//!
//! A shadow learns by replay only. Its start is a position of the log, with the pooled prior of
//! all rewards up to it; the models of a user are the replay of the user's rewards up to it. It
//! starts again whenever the log has doubled since, from the first reward on: so a shadow knows at
//! least half of the log, and all replays together read it about twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use assize_pipeline::policies::log::start_from_log;
use assize_policy::{Context, Policy, Profile};
use assize_store::StoreError;
use assize_store::policies::{DecisionId, PolicyStart, ShadowSignal};

use super::cache::Cache;
use super::live::{Live, with_start};
use super::replay::user_replay;
use super::request::{Candidate, score};
use super::{Engine, PoliciesConfig, ShadowConfig};

/// The maximum number of decisions that wait for the shadows.
const QUEUE: usize = 4096;
/// The shadows' part of the memory for models.
const CACHE_SHARE: usize = 4;

/// A decision that shadows score.
#[derive(Debug)]
pub(super) struct ShadowJob {
    pub decision: DecisionId,
    pub user: String,
    pub context: Context,
    pub profile: Option<Profile>,
    pub candidates: Vec<Candidate>,
    /// The index that the active policy chose.
    pub chosen: usize,
    pub draw: u64,
    pub live: Arc<Live>,
}

#[derive(Debug)]
pub(super) struct Shadows {
    /// `None` once the server stops.
    queue: Mutex<Option<SyncSender<ShadowJob>>>,
    cache: Cache,
    states: Vec<Mutex<Option<Arc<Started>>>>,
    dropped: AtomicU64,
    unscored: AtomicU64,
}

/// A shadow with what it has learnt.
#[derive(Debug)]
pub(super) struct Started {
    policy: Policy,
    /// The position of the log that it starts from.
    pub position: i64,
    has_prior: bool,
}

impl Shadows {
    pub fn new(config: &PoliciesConfig) -> (Self, Receiver<ShadowJob>) {
        let (queue, waiting) = sync_channel(QUEUE);
        let shadows = Self {
            queue: Mutex::new(Some(queue)),
            cache: Cache::new(config.shadows.len(), config.cache_bytes / CACHE_SHARE),
            states: config.shadows.iter().map(|_| Mutex::new(None)).collect(),
            dropped: AtomicU64::new(0),
            unscored: AtomicU64::new(0),
        };
        (shadows, waiting)
    }

    /// Queues a decision, or counts it if the queue is full.
    pub fn add(&self, job: ShadowJob) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = &*queue else { return };
        if let Err(TrySendError::Full(_)) = queue.try_send(job) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the thread after what is queued.
    pub fn stop(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        *queue = None;
    }

    /// Decisions that did not fit into the queue.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Decisions that a shadow could not score, such as those with features of another length.
    pub fn unscored(&self) -> u64 {
        self.unscored.load(Ordering::Relaxed)
    }

    pub fn forget_user(&self, user: &str) {
        self.cache.remove_user(user);
    }

    /// What a shadow has started from, if it has scored anything since the server started.
    pub fn started(&self, index: usize) -> Option<Arc<Started>> {
        let state = self.states[index].lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Started {
    fn new(
        config: (&ShadowConfig, &PoliciesConfig),
        start: &PolicyStart,
    ) -> Result<Self, StoreError> {
        let (shadow, config) = config;
        let settings = config.settings_of(shadow.policy);
        Ok(Self {
            policy: with_start(shadow.policy, settings, Some(start))?,
            position: start.position,
            has_prior: !start.priors.is_empty(),
        })
    }

    pub const fn is_trained(&self) -> bool {
        self.has_prior
    }

    /// Whether the log has doubled since.
    const fn is_outdated(&self, position: i64) -> bool {
        position >= 1 && position >= self.position.saturating_mul(2)
    }
}

/// Scores what is queued until the server stops.
pub(super) fn work(engine: &Engine, queue: &Receiver<ShadowJob>) {
    while let Ok(job) = queue.recv() {
        let shadows = engine.config.shadows.iter().enumerate();
        for (index, shadow) in shadows.filter(|(index, _)| job.live.shadows[*index]) {
            if let Err(reason) = engine.shadow(index, shadow, &job) {
                engine.shadows.unscored.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("{} did not score {}: {reason}", shadow.name, job.decision);
            }
        }
    }
}

impl Engine {
    fn shadow(&self, index: usize, shadow: &ShadowConfig, job: &ShadowJob) -> Result<(), String> {
        let reason = |error: StoreError| error.to_string();
        let started = self.shadow_start(index, shadow).map_err(reason)?;
        let file = self.store.file();
        let key = (index, job.user.as_str(), started.position);
        let models = self.shadows.cache.get_or_load(key, || {
            user_replay(file, &started.policy, &job.user, started.position)
        });
        let models = models.map_err(reason)?;
        let about = (&job.context, job.profile.as_ref());
        let candidates = score(&started.policy, &models, about, &job.candidates);
        let scores = candidates.map_err(|error| error.message)?.values;
        let choice = started.policy.choose(&scores, job.draw);
        let choice = choice.map_err(|error| error.to_string())?;
        let signal = ShadowSignal {
            decision: job.decision,
            shadow: shadow.name.clone(),
            at_ms: self.now_ms(),
            chosen: u32::try_from(choice.index).unwrap_or(u32::MAX),
            agreed: choice.index == job.chosen,
            propensity: choice.propensity_of(job.chosen),
            score: scores[choice.index],
            trained: started.has_prior || !models.is_empty(),
        };
        if self.events.are_watched() {
            let event = serde_json::json!({
                "signal": signal_name(&shadow.name),
                "policy": shadow.policy.name(),
                "decision_id": signal.decision,
                "user_id": job.user,
                "chosen": job.candidates[choice.index].id,
                "agreed": signal.agreed,
                "propensity": signal.propensity,
                "score": signal.score,
                "trained": signal.trained,
            });
            self.events.send("shadow", event.to_string());
        }
        // The store counts what it drops.
        self.store.shadow_record(signal);
        Ok(())
    }

    /// The shadow's start: the stored one, or a new one if the log has doubled.
    fn shadow_start(
        &self,
        index: usize,
        shadow: &ShadowConfig,
    ) -> Result<Arc<Started>, StoreError> {
        let file = self.store.file();
        let position = self.position.load(Ordering::Relaxed);
        let mut current = self.shadows.started(index);
        if current.is_none() {
            let stored = file.start_get(&shadow.name)?;
            let start = stored.unwrap_or_else(|| PolicyStart {
                policy: shadow.name.clone(),
                at_ms: 0,
                position: 0,
                replayed: 0,
                priors: Vec::new(),
            });
            current = Some(Arc::new(Started::new((shadow, &self.config), &start)?));
        }
        if let Some(started) = current.filter(|it| !it.is_outdated(position)) {
            self.shadow_keep(index, &started);
            return Ok(started);
        }
        let settings = self.config.settings_of(shadow.policy);
        let fresh = with_start(shadow.policy, settings, None)?;
        let start = start_from_log(file, &fresh, &shadow.name, self.now_ms())?;
        file.start_put(&start)?;
        let started = Arc::new(Started::new((shadow, &self.config), &start)?);
        self.shadow_keep(index, &started);
        Ok(started)
    }

    fn shadow_keep(&self, index: usize, started: &Arc<Started>) {
        let state = self.shadows.states[index].lock();
        *state.unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(started));
    }
}

/// The name under which a shadow's signals are known.
pub(super) fn signal_name(shadow: &str) -> String {
    format!("shadow:{shadow}")
}
