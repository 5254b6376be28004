//! The three policies: how candidates are scored, which one is chosen, and what a reward changes.
//!
//! * **ε-greedy** (`egreedy-v1`, `egreedy-v2`): score = x·θ.
//! * **LinUCB** (`linucb`): score = x·θ + α·√(xᵀA⁻¹x), with one disjoint model for each arm.
//!
//! **Choice.** With probability 1 − ε the candidate with the highest score is taken (the greedy
//! one; scores within 1e-12 of the highest are equal, and the lowest index wins), otherwise one of
//! all K candidates, each with the same probability. The propensity of candidate i is therefore
//! ε/K + (1−ε)·[i is greedy], for all policies. LinUCB alone is deterministic, so its log could
//! not be used to evaluate another policy; with its default ε = 0.05 it can.
//!
//! **Reward.** The model of the chosen candidate's arm learns (see [`crate::ridge`]). With γ < 1
//! every model of the user forgets first, because time passes for the arms that were not shown too.
//!
//! The caller draws the random bits: the same draw gives the same choice.
//!
//! References: Li, Chu, Langford, Schapire (2010), "A contextual-bandit approach to personalized
//! news article recommendation", WWW (LinUCB, algorithm 1); Sutton and Barto (2018), "Reinforcement
//! learning", section 2.2 (ε-greedy); Russac, Vernade, Cappé (2019), "Weighted linear bandits for
//! non-stationary environments", NeurIPS (forgetting).

use crate::error::in_range;
use crate::features::check_features;
use crate::model::{sized, with_ridge};
use crate::pool::Pool;
use crate::ridge::Ridge;
use crate::{FeatureVersion, Model, PolicyError, UserModels};
use assize_stats::rng::SplitMix64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Scores closer than this are equal.
const TIE: f64 = 1e-12;

/// Which algorithm with which features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PolicyKind {
    #[serde(rename = "egreedy-v1")]
    EgreedyV1,
    #[serde(rename = "egreedy-v2")]
    EgreedyV2,
    #[serde(rename = "linucb")]
    LinUcb,
}

impl PolicyKind {
    pub const ALL: [Self; 3] = [Self::EgreedyV1, Self::EgreedyV2, Self::LinUcb];

    pub const fn name(self) -> &'static str {
        match self {
            Self::EgreedyV1 => "egreedy-v1",
            Self::EgreedyV2 => "egreedy-v2",
            Self::LinUcb => "linucb",
        }
    }

    /// The policy's part of an HTTP route: `/score/egreedy/v2`.
    pub const fn route(self) -> &'static str {
        match self {
            Self::EgreedyV1 => "egreedy",
            Self::EgreedyV2 => "egreedy/v2",
            Self::LinUcb => "linucb",
        }
    }

    /// The features that the policy computes.
    pub const fn feature_version(self) -> FeatureVersion {
        match self {
            Self::EgreedyV1 | Self::LinUcb => FeatureVersion::V1,
            Self::EgreedyV2 => FeatureVersion::V2,
        }
    }

    /// An error unless a caller may bring `length` features: the policy's own length, and for
    /// LinUCB 7 or 12.
    pub const fn check_length(self, length: usize) -> Result<(), PolicyError> {
        let expected = match (self, length) {
            (Self::EgreedyV1, 7) | (Self::EgreedyV2, 12) | (Self::LinUcb, 7 | 12) => return Ok(()),
            (Self::EgreedyV1, _) => "7",
            (Self::EgreedyV2, _) => "12",
            (Self::LinUcb, _) => "7 or 12",
        };
        Err(PolicyError::Length {
            policy: self.name(),
            expected,
            found: length,
        })
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| PolicyError::UnknownPolicy {
            name: name.to_owned(),
        })
    }
}

/// The numbers that a user may set for a policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PolicySettings {
    /// LinUCB's weight of the width; at least 0. Ignored by ε-greedy.
    pub alpha: f64,
    /// Regularisation λ in [1e-6, 1e6].
    pub lambda: f64,
    /// Probability of a random choice, in [0, 1].
    pub epsilon: f64,
    /// What a model keeps at each reward, in (0, 1]; 1 forgets nothing.
    pub gamma: f64,
    /// Weight κ of the pooled prior in observations; at least 0. Without a pool it has no effect.
    pub prior: f64,
}

impl PolicySettings {
    pub const fn defaults(kind: PolicyKind) -> Self {
        Self {
            alpha: 1.0,
            lambda: 1.0,
            epsilon: match kind {
                PolicyKind::EgreedyV1 | PolicyKind::EgreedyV2 => 0.1,
                PolicyKind::LinUcb => 0.05,
            },
            gamma: 1.0,
            prior: 10.0,
        }
    }

    pub fn check(&self) -> Result<(), PolicyError> {
        let Self {
            alpha,
            lambda,
            epsilon,
            gamma,
            prior,
        } = *self;
        in_range("alpha", alpha, (0.0..=1e3).contains(&alpha), "[0, 1000]")?;
        let lambda_holds = (1e-6..=1e6).contains(&lambda);
        in_range("lambda", lambda, lambda_holds, "[0.000001, 1000000]")?;
        let epsilon_holds = (0.0..=1.0).contains(&epsilon);
        in_range("epsilon", epsilon, epsilon_holds, "[0, 1]")?;
        in_range("gamma", gamma, gamma > 0.0 && gamma <= 1.0, "(0, 1]")?;
        in_range("prior", prior, (0.0..=1e6).contains(&prior), "[0, 1000000]")?;
        Ok(())
    }
}

/// A policy with its settings and its start for arms that a user has no model for.
#[derive(Debug, Clone)]
pub struct Policy {
    kind: PolicyKind,
    settings: PolicySettings,
    seven: Model,
    twelve: Model,
    starts: BTreeMap<String, Model>,
}

/// Which of a user's models an update has changed, and so must be stored.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Only the model of the rewarded arm.
    OneArm,
    /// All of them, because γ < 1.
    AllArms,
}

impl Policy {
    pub fn new(kind: PolicyKind, settings: PolicySettings) -> Result<Self, PolicyError> {
        settings.check()?;
        Ok(Self {
            kind,
            settings,
            seven: Model::new(7, settings.lambda)?,
            twelve: Model::new(12, settings.lambda)?,
            starts: BTreeMap::new(),
        })
    }

    /// The same policy, with the pooled prior as the start of its arms.
    pub fn with_pool(mut self, pool: &Pool) -> Result<Self, PolicyError> {
        self.starts = pool.starts(self.settings.lambda, self.settings.prior)?;
        Ok(self)
    }

    pub const fn kind(&self) -> PolicyKind {
        self.kind
    }

    pub const fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    pub const fn feature_version(&self) -> FeatureVersion {
        self.kind.feature_version()
    }

    /// The score of a candidate with features `x`.
    pub fn score(&self, models: &UserModels, arm: &str, x: &[f64]) -> Result<f64, PolicyError> {
        self.kind.check_length(x.len())?;
        check_features(x)?;
        let model = models.get(arm).unwrap_or_else(|| self.start(arm, x.len()));
        Ok(with_ridge!(model, x, |ridge, x| self.score_ridge(ridge, x)))
    }

    /// The score of checked features by the model of one arm.
    #[inline]
    pub fn score_ridge<const D: usize>(&self, ridge: &Ridge<D>, x: &[f64; D]) -> f64 {
        match self.kind {
            PolicyKind::EgreedyV1 | PolicyKind::EgreedyV2 => ridge.mean(x),
            PolicyKind::LinUcb => ridge.mean(x) + self.settings.alpha * ridge.width(x),
        }
    }

    /// Chooses among scored candidates with 64 random bits of the caller.
    pub fn choose(&self, scores: &[f64], draw: u64) -> Result<Choice, PolicyError> {
        choose(scores, self.settings.epsilon, draw)
    }

    /// Learns from the reward of a decision whose chosen candidate had the features `x`. After an
    /// error the models are unchanged.
    pub fn update(
        &self,
        models: &mut UserModels,
        arm: &str,
        x: &[f64],
        reward: f64,
    ) -> Result<Changed, PolicyError> {
        self.kind.check_length(x.len())?;
        check_features(x)?;
        check_reward(reward)?;
        if self.settings.gamma < 1.0 {
            let mut next = models.clone();
            self.update_forgetting(&mut next, arm, x, reward)?;
            *models = next;
            return Ok(Changed::AllArms);
        }
        if let Some(model) = models.get_mut(arm) {
            with_ridge!(model, x, |ridge, x| ridge.update(x, reward)?);
        } else {
            let mut model = self.start(arm, x.len()).clone();
            with_ridge!(&mut model, x, |ridge, x| ridge.update(x, reward)?);
            models.insert(arm, model);
        }
        Ok(Changed::OneArm)
    }

    fn update_forgetting(
        &self,
        models: &mut UserModels,
        arm: &str,
        x: &[f64],
        reward: f64,
    ) -> Result<(), PolicyError> {
        let PolicySettings { gamma, lambda, .. } = self.settings;
        if models.get(arm).is_none() {
            models.insert(arm, self.start(arm, x.len()).clone());
        }
        for (other, model) in models.iter_mut() {
            if other == arm {
                with_ridge!(model, x, |ridge, x| ridge
                    .forget_and_update(gamma, lambda, x, reward)?);
            } else {
                match model {
                    Model::Seven(ridge) => ridge.forget(gamma, lambda)?,
                    Model::Twelve(ridge) => ridge.forget(gamma, lambda)?,
                }
            }
        }
        Ok(())
    }

    /// The model with which a user starts in an arm.
    pub(crate) fn start(&self, arm: &str, dimension: usize) -> &Model {
        let pooled = self.starts.get(arm);
        let fresh = if dimension == 7 {
            &self.seven
        } else {
            &self.twelve
        };
        pooled
            .filter(|it| it.dimension() == dimension)
            .unwrap_or(fresh)
    }
}

/// Which candidate was chosen, and how likely each was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The chosen candidate.
    pub index: usize,
    /// The candidate with the highest score.
    pub greedy: usize,
    /// Whether the choice was random; it may still be the greedy one.
    pub explored: bool,
    candidates: usize,
    epsilon: f64,
}

impl Choice {
    /// The probability of the chosen candidate.
    pub fn propensity(&self) -> f64 {
        self.propensity_of(self.index)
    }

    /// The probability with which candidate `index` would have been chosen.
    pub fn propensity_of(&self, index: usize) -> f64 {
        let random = self.epsilon / self.candidates as f64;
        if index == self.greedy {
            random + (1.0 - self.epsilon)
        } else if index < self.candidates {
            random
        } else {
            0.0
        }
    }
}

/// Chooses by ε-greedy. The generator of seed `draw` decides: its first number in [0, 1) whether
/// to choose at random, its second which candidate.
pub fn choose(scores: &[f64], epsilon: f64, draw: u64) -> Result<Choice, PolicyError> {
    let mut rng = SplitMix64::new(draw);
    let uniforms = [rng.next_f64(), rng.next_f64()];
    choose_with(scores, epsilon, uniforms)
}

/// Chooses by ε-greedy with two numbers in [0, 1).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number in [0, 1) times the length is an index, and rounding up is cut off"
)]
pub fn choose_with(
    scores: &[f64],
    epsilon: f64,
    uniforms: [f64; 2],
) -> Result<Choice, PolicyError> {
    let greedy = greedy(scores)?;
    let explored = uniforms[0] < epsilon;
    let random = ((uniforms[1] * scores.len() as f64) as usize).min(scores.len() - 1);
    Ok(Choice {
        index: if explored { random } else { greedy },
        greedy,
        explored,
        candidates: scores.len(),
        epsilon,
    })
}

/// The lowest index among the highest scores.
fn greedy(scores: &[f64]) -> Result<usize, PolicyError> {
    if scores.iter().any(|it| !it.is_finite()) {
        return Err(PolicyError::NotFinite { field: "score" });
    }
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let found = scores.iter().position(|it| *it >= highest - TIE);
    found.ok_or(PolicyError::NoCandidates)
}

/// An error unless a reward is in [0, 1].
pub fn check_reward(reward: f64) -> Result<f64, PolicyError> {
    in_range("reward", reward, (0.0..=1.0).contains(&reward), "[0, 1]")
}

#[cfg(test)]
mod tests;
