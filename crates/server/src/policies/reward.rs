//! `POST /reward/…`: a reward changes the model of the decision's arm, once.
//!
//! The reward goes to the policy that made the decision, whichever is active now. The new model is
//! computed on the store's writer thread, inside the transaction that records the reward, from the
//! model as that transaction sees it; the cache follows after the commit and before the answer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use assize_pipeline::policies::log::{arm_key, stored_arm};
use assize_policy::{Changed, Model, PolicyKind, UserModels, check_reward};
use assize_store::StoreError;
use assize_store::policies::{DecisionId, Reward, RewardAnswer, Update, Updated};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Engine;
use super::live::{Live, index_of};
use super::replay::{decode, encode};
use super::request::{body, parse, refusal};
use crate::error::{ApiError, ApiResult};
use crate::http::json;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RewardRequest {
    /// As the answer to the request to score has it
    decision_id: String,
    /// From 0 to 1
    reward: f64,
}

/// The answer to a reward.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Rewarded {
    decision_id: String,
    reward: f64,
    /// Whether the same reward was recorded before; then nothing was changed.
    repeated: bool,
}

/// What a reward has changed.
#[derive(Debug)]
struct Learnt {
    kind: PolicyKind,
    user: String,
    position: i64,
    models: UserModels,
}

/// How one attempt ended.
enum Attempted {
    Answered(RewardAnswer<()>),
    /// The user's history must be replayed first.
    NeedsReplay {
        kind: PolicyKind,
        user: String,
    },
}

/// Applies a reward; `policy` is the one of the route, `None` for any.
pub(crate) async fn handle(
    engine: Arc<Engine>,
    policy: Option<PolicyKind>,
    request: Request,
) -> Response {
    let answer = match body(request).await {
        Ok(bytes) => engine.reward(policy, &bytes).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => json(StatusCode::OK, answer),
        Err(error) => error.into_response(),
    }
}

impl Engine {
    async fn reward(
        self: &Arc<Self>,
        policy: Option<PolicyKind>,
        bytes: &[u8],
    ) -> ApiResult<Vec<u8>> {
        let request: RewardRequest = parse(bytes)?;
        // An id that this server cannot have made belongs to no decision either.
        let decision: Result<DecisionId, _> = request.decision_id.parse();
        let decision = decision.map_err(|error| ApiError::not_found(error.to_string()))?;
        let value = check_reward(request.reward).map_err(|it| refusal("", &it))?;
        let reward = Reward {
            decision,
            policy: policy.map(|it| it.name().to_owned()),
            value,
            at_ms: self.now_ms(),
            all_arms: self.live().forgets(),
        };
        let answer = match self.attempt(reward.clone(), true).await? {
            Attempted::Answered(answer) => answer,
            Attempted::NeedsReplay { kind, user } => {
                self.models(self.live().policy(kind), &user)?;
                match self.attempt(reward, false).await? {
                    Attempted::Answered(answer) => answer,
                    Attempted::NeedsReplay { .. } => return Err(ApiError::worker_panicked()),
                }
            }
        };
        let repeated = is_repeated(&request.decision_id, answer)?;
        if !repeated && self.events.are_watched() {
            let event = serde_json::json!({"decision_id": request.decision_id, "reward": value});
            self.events.send("reward", event.to_string());
        }
        let rewarded = Rewarded {
            decision_id: request.decision_id,
            reward: value,
            repeated,
        };
        serde_json::to_vec(&rewarded).map_err(|error| ApiError::internal(error.to_string()))
    }

    /// Sends a reward to the writer and waits for the commit. `checked` asks for the user's history
    /// to be replayed before.
    async fn attempt(self: &Arc<Self>, reward: Reward, checked: bool) -> ApiResult<Attempted> {
        let live = self.live();
        let engine = Arc::clone(self);
        let needs: Arc<OnceLock<(PolicyKind, String)>> = Arc::default();
        let needed = Arc::clone(&needs);
        let update = move |update: Update<'_>| {
            let kind = kind_of(&update)?;
            let served = live.policy(kind);
            let user = &update.decision.user;
            if checked && served.start > 0 {
                let cached = engine.cache.get(index_of(kind), user, served.start);
                if cached.is_none() {
                    let _ = needed.set((kind, user.clone()));
                    return Err(StoreError::Conflict("a replay is needed".to_owned()));
                }
            }
            learn(&live, kind, &update)
        };
        let engine = Arc::clone(self);
        let (committed, commit) = oneshot::channel();
        self.store.reward_apply(reward, update, move |outcome| {
            let outcome = outcome.map(|answer| engine.follow(answer));
            // The client may no longer be waiting.
            let _ = committed.send(outcome);
        });
        let outcome = commit.await.map_err(|_| ApiError::worker_panicked())?;
        match (outcome, needs.get()) {
            (Ok(answer), _) => Ok(Attempted::Answered(answer)),
            (Err(_), Some((kind, user))) => Ok(Attempted::NeedsReplay {
                kind: *kind,
                user: user.clone(),
            }),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Brings the cache up to date with a commit.
    fn follow(&self, answer: RewardAnswer<Learnt>) -> RewardAnswer<()> {
        match answer {
            RewardAnswer::Applied(learnt) => {
                let slot = index_of(learnt.kind);
                self.cache.change(slot, &learnt.user, |models| {
                    for (arm, model) in learnt.models.iter() {
                        models.insert(arm, model.clone());
                    }
                });
                self.position.fetch_max(learnt.position, Ordering::Relaxed);
                RewardAnswer::Applied(())
            }
            RewardAnswer::Repeated => RewardAnswer::Repeated,
            RewardAnswer::Conflict { recorded } => RewardAnswer::Conflict { recorded },
            RewardAnswer::Unknown => RewardAnswer::Unknown,
            RewardAnswer::OtherPolicy { policy } => RewardAnswer::OtherPolicy { policy },
        }
    }
}

fn kind_of(update: &Update<'_>) -> Result<PolicyKind, StoreError> {
    let named = &update.decision.policy;
    named.parse().map_err(|_| StoreError::Unreadable {
        what: format!("decision {}", update.decision.id),
        reason: format!("there is no policy '{named}': use the version of assize that made it"),
    })
}

/// The models after a reward.
fn learn(
    live: &Live,
    kind: PolicyKind,
    update: &Update<'_>,
) -> Result<Updated<Learnt>, StoreError> {
    let decision = update.decision;
    let policy = &live.policy(kind).policy;
    let arm = arm_key(&decision.arm);
    let mut models = UserModels::default();
    let forgets = policy.settings().gamma < 1.0;
    let others = update.others.iter().filter(|_| forgets);
    for other in others {
        let model = decode(&other.model.bytes, &decision.user, &other.arm)?;
        models.insert(arm_key(&other.arm), model);
    }
    if let Some(model) = &update.model {
        models.insert(arm, decode(&model.bytes, &decision.user, &decision.arm)?);
    }
    let changed = policy.update(&mut models, arm, &decision.features, update.reward);
    let changed = changed.map_err(|error| {
        let message = format!("the reward of decision {} is refused: {error}", decision.id);
        StoreError::Conflict(message)
    })?;
    let written = |(arm, model): (&str, &Model)| (stored_arm(arm).to_owned(), encode(model));
    let model = models.get(arm).map(encode);
    let others = match changed {
        Changed::OneArm => Vec::new(),
        Changed::AllArms => models
            .iter()
            .filter(|it| it.0 != arm)
            .map(written)
            .collect(),
    };
    Ok(Updated {
        model: model.ok_or_else(StoreError::worker_panicked)?,
        others,
        value: Learnt {
            kind,
            user: decision.user.clone(),
            position: update.position,
            models,
        },
    })
}

/// Whether a reward was recorded before; an error if it was not recorded.
fn is_repeated(id: &str, answer: RewardAnswer<()>) -> ApiResult<bool> {
    match answer {
        RewardAnswer::Applied(()) => Ok(false),
        RewardAnswer::Repeated => Ok(true),
        RewardAnswer::Conflict { recorded } => Err(ApiError::conflict(format!(
            "decision {id} has the reward {recorded} already, and a decision is rewarded once: \
             nothing was changed"
        ))),
        RewardAnswer::Unknown => Err(ApiError::not_found(format!(
            "there is no decision {id}: it was never made here, or its user was deleted"
        ))),
        RewardAnswer::OtherPolicy { policy } => {
            let route = policy.parse().map_or("", PolicyKind::route);
            Err(ApiError::conflict(format!(
                "decision {id} was made by {policy}: send its reward to POST /reward/{route}, or to \
                 POST /reward, which takes the rewards of all policies"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_for_another_policy_is_told_where_to_go() {
        let other = RewardAnswer::OtherPolicy {
            policy: "egreedy-v2".to_owned(),
        };
        let message = is_repeated("0", other).unwrap_err().message;
        assert!(message.contains("POST /reward/egreedy/v2"), "{message}");
    }
}
