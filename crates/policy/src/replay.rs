//! Replay: a policy learns from decisions that another policy made.
//!
//! The log holds the raw context, profile and candidates of each decision, so the features of any
//! policy can be computed later, whatever the features of the policy that decided. For each
//! rewarded decision, in the order of the log, the target policy's model of the chosen candidate's
//! arm learns as if it had chosen the candidate itself: A and b depend on what was shown and
//! rewarded, not on who chose it. A policy that starts this way knows what the active policy has
//! seen, and less about candidates that were rarely shown: their widths stay large.
//!
//! A decision whose candidates carry the caller's own features can be replayed only by a policy
//! with features of that length. Others are skipped and counted, never mixed.
//!
//! Decisions without a reward teach nothing and are not part of a replay.
//!
//! Reference: Li, Chu, Langford, Wang (2011), "Unbiased offline evaluation of
//! contextual-bandit-based news article recommendation algorithms", WSDM (replay of logs).

use crate::{Context, FeatureVector, Policy, PolicyError, Pool, Profile, SHARED_ARM, UserModels};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One candidate as it was logged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoggedCandidate {
    #[serde(default)]
    pub arm: Option<String>,
    #[serde(default)]
    pub task_match: Option<f64>,
    /// The caller's own features, in place of computed ones.
    #[serde(default)]
    pub features: Option<Vec<f64>>,
}

impl LoggedCandidate {
    pub fn arm(&self) -> &str {
        self.arm.as_deref().unwrap_or(SHARED_ARM)
    }
}

/// A rewarded decision as it was logged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedDecision {
    pub user_id: String,
    #[serde(default)]
    pub context: Context,
    #[serde(default)]
    pub profile_features: Option<Profile>,
    pub candidates: Vec<LoggedCandidate>,
    /// Index of the candidate that was shown.
    pub chosen: usize,
    /// The probability with which it was chosen.
    pub propensity: f64,
    pub reward: f64,
}

/// The features of one logged candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoggedFeatures<'a> {
    Computed(FeatureVector),
    Brought(&'a [f64]),
}

impl std::ops::Deref for LoggedFeatures<'_> {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        match self {
            Self::Computed(features) => features,
            Self::Brought(features) => features,
        }
    }
}

impl LoggedDecision {
    /// The candidate that was shown.
    pub fn shown(&self) -> Result<&LoggedCandidate, PolicyError> {
        let shown = self.candidates.get(self.chosen);
        shown.ok_or(PolicyError::NoCandidates)
    }

    /// The features of a candidate for `policy`; `None` where the caller brought features of a
    /// length that the policy does not have.
    pub fn features<'a>(
        &'a self,
        policy: &Policy,
        candidate: &'a LoggedCandidate,
    ) -> Result<Option<LoggedFeatures<'a>>, PolicyError> {
        if let Some(brought) = &candidate.features {
            let fits = policy.kind().check_length(brought.len()).is_ok();
            return Ok(fits.then_some(LoggedFeatures::Brought(brought)));
        }
        let profile = self.profile_features.as_ref();
        let version = policy.feature_version();
        let computed = version.features(&self.context, profile, candidate.task_match)?;
        Ok(Some(LoggedFeatures::Computed(computed)))
    }
}

/// What became of a decision in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    Learnt,
    /// Its features have a length that the policy or the arm's model does not have.
    Skipped,
}

/// The user's models learn from one decision.
pub fn learn(
    policy: &Policy,
    models: &mut UserModels,
    decision: &LoggedDecision,
) -> Result<Replayed, PolicyError> {
    let shown = decision.shown()?;
    let Some(x) = decision.features(policy, shown)? else {
        return Ok(Replayed::Skipped);
    };
    let updated = policy.update(models, shown.arm(), &x, decision.reward);
    outcome(updated.map(|_| ()))
}

/// The pool of all users learns from one decision.
pub fn learn_pooled(
    policy: &Policy,
    pool: &mut Pool,
    decision: &LoggedDecision,
) -> Result<Replayed, PolicyError> {
    let shown = decision.shown()?;
    let Some(x) = decision.features(policy, shown)? else {
        return Ok(Replayed::Skipped);
    };
    outcome(pool.add(shown.arm(), &x, decision.reward))
}

fn outcome(result: Result<(), PolicyError>) -> Result<Replayed, PolicyError> {
    match result {
        Ok(()) => Ok(Replayed::Learnt),
        Err(PolicyError::Dimension { .. }) => Ok(Replayed::Skipped),
        Err(error) => Err(error),
    }
}

/// The models of all users of a log, and their pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replay {
    pub users: BTreeMap<String, UserModels>,
    pub pool: Pool,
    pub learnt: u64,
    pub skipped: u64,
}

/// Replays a whole log in its order. Each user starts as `policy` starts them.
pub fn replay<'a>(
    policy: &Policy,
    decisions: impl IntoIterator<Item = &'a LoggedDecision>,
) -> Result<Replay, PolicyError> {
    let mut result = Replay::default();
    for decision in decisions {
        let models = result.users.entry(decision.user_id.clone()).or_default();
        match learn(policy, models, decision)? {
            Replayed::Learnt => {
                result.learnt += 1;
                learn_pooled(policy, &mut result.pool, decision)?;
            }
            Replayed::Skipped => result.skipped += 1,
        }
    }
    result.users.retain(|_, models| !models.is_empty());
    Ok(result)
}

#[cfg(test)]
mod tests;
