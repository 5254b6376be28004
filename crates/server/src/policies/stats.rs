//! `GET /stats` and `GET /stats/…`: counts and mean rewards, by policy, user, shadow and source.

use std::sync::Arc;

use assize_pipeline::policies::log::arm_key;
use assize_policy::PolicyKind;
use assize_store::StoreError;
use assize_store::policies::{ArmTally, ShadowTally, Tally, TipSource};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::live::Live;
use super::request::check_name;
use super::shadows::signal_name;
use crate::error::{ApiError, ApiResult};
use crate::http::{json, read};

/// The most sources in an answer.
const MOST_SOURCES: usize = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatsRequest {
    /// Also show this user's figures
    user_id: Option<String>,
}

/// Decisions and their rewards.
#[derive(Debug, Serialize, JsonSchema)]
struct Counts {
    decisions: u64,
    rewards: u64,
    /// `null` without rewards.
    reward_mean: Option<f64>,
}

impl From<Tally> for Counts {
    fn from(tally: Tally) -> Self {
        Self {
            decisions: tally.decisions,
            rewards: tally.rewards,
            reward_mean: tally.mean_reward(),
        }
    }
}

/// One policy.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PolicyStats {
    policy: &'static str,
    /// Whether `/recommend` uses it.
    active: bool,
    feature_version: u8,
    /// The settings and the start, as decisions log them.
    version: String,
    /// Users with a decision of this policy.
    users: u64,
    #[serde(flatten)]
    counts: Counts,
    /// The figures of the user that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserStats>,
}

/// One user with one policy.
#[derive(Debug, Serialize, JsonSchema)]
struct UserStats {
    user_id: String,
    #[serde(flatten)]
    counts: Counts,
    arms: Vec<ArmStats>,
}

/// One arm of a user.
#[derive(Debug, Serialize, JsonSchema)]
struct ArmStats {
    /// `*` for candidates without an arm.
    arm: String,
    #[serde(flatten)]
    counts: Counts,
    /// The number of rewards that the model has learned from.
    updates: u64,
}

/// All policies, shadows and sources.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AllStats {
    /// The policy that `/recommend` uses.
    active: &'static str,
    policies: Vec<PolicyStats>,
    shadows: Vec<ShadowStats>,
    /// Decisions that no shadow scored, because too many were waiting.
    shadow_dropped: u64,
    /// Decisions that a shadow could not score, such as those with features of another length.
    shadow_unscored: u64,
    /// What made the chosen candidates, most decisions first.
    sources: Vec<SourceStats>,
    cache: CacheStats,
}

/// Where a shadow's models come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Training {
    /// There was nothing to learn from.
    Untrained,
    /// It has replayed rewards of the log.
    Replayed,
}

/// One shadow.
#[derive(Debug, Serialize, JsonSchema)]
struct ShadowStats {
    name: String,
    signal: String,
    policy: &'static str,
    /// Whether it scores decisions now.
    enabled: bool,
    training: Training,
    /// The position in the order of rewards up to which it has learned.
    position: i64,
    signals: u64,
    /// Signals that chose what the active policy chose.
    agreed: u64,
    /// The share of them; `null` without signals.
    agreement: Option<f64>,
    /// Signals of the shadow after it had learned.
    trained: u64,
    users: u64,
}

/// What made candidates: a run, or a champion's prompt.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceStats {
    source: TipSource,
    #[serde(flatten)]
    counts: Counts,
}

/// The decoded models in memory.
#[derive(Debug, Serialize, JsonSchema)]
struct CacheStats {
    users: usize,
    bytes: usize,
}

/// `GET /stats/…` of one policy, or `GET /stats` of all.
pub(crate) async fn handle(
    engine: Arc<Engine>,
    policy: Option<PolicyKind>,
    request: Request,
) -> Response {
    match answer(engine, policy, request).await {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => error.into_response(),
    }
}

async fn answer(
    engine: Arc<Engine>,
    policy: Option<PolicyKind>,
    request: Request,
) -> ApiResult<Vec<u8>> {
    let StatsRequest { user_id } = read(request).await?;
    if let Some(user) = &user_id {
        check_name("user_id", user)?;
    }
    let work = move || {
        let user = user_id.as_deref();
        match policy {
            Some(kind) => Ok(serde_json::to_vec(&engine.policy_stats(kind, user)?)),
            None => Ok(serde_json::to_vec(&engine.all_stats(user)?)),
        }
    };
    let read = tokio::task::spawn_blocking(work).await;
    let written: Result<_, StoreError> = read.map_err(|_| ApiError::worker_panicked())?;
    written?.map_err(|error| ApiError::internal(error.to_string()))
}

impl Engine {
    fn policy_stats(
        &self,
        kind: PolicyKind,
        user: Option<&str>,
    ) -> Result<PolicyStats, StoreError> {
        let live = self.live();
        let file = self.store.file();
        let tally = file.policy_tally(kind.name())?;
        let user = user.map(|user| {
            let arms = file.user_tally(user, kind.name())?;
            Ok::<_, StoreError>(user_stats(user, arms))
        });
        Ok(PolicyStats {
            policy: kind.name(),
            active: kind == live.active,
            feature_version: kind.feature_version().number(),
            version: live.policy(kind).version.clone(),
            users: tally.users,
            counts: tally.tally.into(),
            user: user.transpose()?,
        })
    }

    fn all_stats(&self, user: Option<&str>) -> Result<AllStats, StoreError> {
        let live = self.live();
        let policies = PolicyKind::ALL.into_iter();
        let policies = policies.map(|kind| self.policy_stats(kind, user));
        let mut sources = self.store.file().source_tallies()?;
        sources.sort_by_key(|it| std::cmp::Reverse(it.tally.decisions));
        let sources = sources.into_iter().take(MOST_SOURCES);
        let (users, bytes) = self.cache.size();
        Ok(AllStats {
            active: live.active.name(),
            policies: policies.collect::<Result<_, _>>()?,
            shadows: self.shadow_stats(&live)?,
            shadow_dropped: self.shadows.dropped() + self.store.shadow_dropped(),
            shadow_unscored: self.shadows.unscored(),
            sources: sources
                .map(|it| SourceStats {
                    source: it.source,
                    counts: it.tally.into(),
                })
                .collect(),
            cache: CacheStats { users, bytes },
        })
    }

    fn shadow_stats(&self, live: &Live) -> Result<Vec<ShadowStats>, StoreError> {
        let tallies = self.store.file().shadow_tallies()?;
        let shadows = self.config.shadows.iter().enumerate();
        let stats = shadows.map(|(index, shadow)| {
            let start = if let Some(started) = self.shadows.started(index) {
                Some((started.position, started.is_trained()))
            } else {
                let stored = self.store.file().start_get(&shadow.name)?;
                stored.map(|it| (it.position, !it.priors.is_empty()))
            };
            let (position, is_trained) = start.unwrap_or((0, false));
            let none = empty_tally(&shadow.name);
            let tally = tallies.iter().find(|it| it.shadow == shadow.name);
            let tally = tally.unwrap_or(&none);
            Ok(ShadowStats {
                name: shadow.name.clone(),
                signal: signal_name(&shadow.name),
                policy: shadow.policy.name(),
                enabled: live.shadows[index],
                training: if is_trained {
                    Training::Replayed
                } else {
                    Training::Untrained
                },
                position,
                signals: tally.signals,
                agreed: tally.agreed,
                agreement: (tally.signals > 0).then(|| tally.agreed as f64 / tally.signals as f64),
                trained: tally.trained,
                users: tally.users,
            })
        });
        stats.collect()
    }
}

fn empty_tally(shadow: &str) -> ShadowTally {
    ShadowTally {
        shadow: shadow.to_owned(),
        signals: 0,
        agreed: 0,
        trained: 0,
        users: 0,
        last_ms: 0,
    }
}

fn user_stats(user: &str, arms: Vec<ArmTally>) -> UserStats {
    let mut sum = Tally::default();
    for arm in &arms {
        sum.add(&arm.tally);
    }
    let arms = arms.into_iter().map(|it| ArmStats {
        arm: arm_key(&it.arm).to_owned(),
        counts: it.tally.into(),
        updates: it.updates,
    });
    UserStats {
        user_id: user.to_owned(),
        counts: sum.into(),
        arms: arms.collect(),
    }
}
