//! A policy that plays in this process: one ridge for each arm, without keys or allocation in the
//! loop.

use super::{Player, Situation};
use crate::policy::choose;
use crate::ridge::Ridge;
use crate::{FeatureVersion, Model, Policy, PolicyError};
use std::collections::VecDeque;

const TASK_MATCH: usize = 6;

/// A player of either length of features.
#[derive(Debug)]
pub(super) enum Learner<'a> {
    Seven(Arms<'a, 7>),
    Twelve(Arms<'a, 12>),
}

impl<'a> Learner<'a> {
    pub fn new(policy: &'a Policy, arms: &[String]) -> Self {
        let start = |arm: &String| policy.start(arm, policy.feature_version().dimension());
        let starts: Vec<&Model> = arms.iter().map(start).collect();
        match policy.feature_version() {
            FeatureVersion::V1 => {
                let ridges = starts.into_iter().filter_map(|it| match it {
                    Model::Seven(ridge) => Some((**ridge).clone()),
                    Model::Twelve(_) => None,
                });
                Self::Seven(Arms::new(policy, ridges.collect()))
            }
            FeatureVersion::V2 => {
                let ridges = starts.into_iter().filter_map(|it| match it {
                    Model::Twelve(ridge) => Some((**ridge).clone()),
                    Model::Seven(_) => None,
                });
                Self::Twelve(Arms::new(policy, ridges.collect()))
            }
        }
    }
}

impl Player for Learner<'_> {
    type Error = PolicyError;

    fn choose(&mut self, situation: &Situation, draw: u64) -> Result<usize, PolicyError> {
        match self {
            Self::Seven(arms) => arms.choose(situation, draw),
            Self::Twelve(arms) => arms.choose(situation, draw),
        }
    }

    fn reward(&mut self, reward: f64) -> Result<(), PolicyError> {
        match self {
            Self::Seven(arms) => arms.reward(reward),
            Self::Twelve(arms) => arms.reward(reward),
        }
    }

    fn replay(
        &mut self,
        situation: &Situation,
        chosen: usize,
        reward: f64,
    ) -> Result<(), PolicyError> {
        match self {
            Self::Seven(arms) => arms.replay(situation, chosen, reward),
            Self::Twelve(arms) => arms.replay(situation, chosen, reward),
        }
    }
}

#[derive(Debug)]
pub(super) struct Arms<'a, const D: usize> {
    policy: &'a Policy,
    ridges: Vec<Ridge<D>>,
    scores: Vec<f64>,
    /// Choices without a reward yet, oldest first.
    waiting: VecDeque<(usize, [f64; D])>,
}

impl<'a, const D: usize> Arms<'a, D> {
    fn new(policy: &'a Policy, ridges: Vec<Ridge<D>>) -> Self {
        Self {
            policy,
            ridges,
            scores: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    fn choose(&mut self, situation: &Situation, draw: u64) -> Result<usize, PolicyError> {
        let mut x = first(situation)?;
        self.scores.clear();
        for (ridge, task_match) in self.ridges.iter().zip(&situation.task_matches) {
            x[TASK_MATCH] = *task_match;
            self.scores.push(self.policy.score_ridge(ridge, &x));
        }
        let chosen = choose(&self.scores, self.policy.settings().epsilon, draw)?.index;
        x[TASK_MATCH] = situation.task_matches[chosen];
        self.waiting.push_back((chosen, x));
        Ok(chosen)
    }

    fn reward(&mut self, reward: f64) -> Result<(), PolicyError> {
        match self.waiting.pop_front() {
            Some((chosen, x)) => self.learn(chosen, &x, reward),
            None => Ok(()),
        }
    }

    fn replay(
        &mut self,
        situation: &Situation,
        chosen: usize,
        reward: f64,
    ) -> Result<(), PolicyError> {
        let mut x = first(situation)?;
        x[TASK_MATCH] = situation.task_matches[chosen];
        self.learn(chosen, &x, reward)
    }

    fn learn(&mut self, chosen: usize, x: &[f64; D], reward: f64) -> Result<(), PolicyError> {
        let settings = self.policy.settings();
        if settings.gamma < 1.0 {
            let (gamma, lambda) = (settings.gamma, settings.lambda);
            for (arm, ridge) in self.ridges.iter_mut().enumerate() {
                if arm == chosen {
                    ridge.forget_and_update(gamma, lambda, x, reward)?;
                } else {
                    ridge.forget(gamma, lambda)?;
                }
            }
            return Ok(());
        }
        self.ridges[chosen].update(x, reward)
    }
}

/// The first D features of version 2: those of version 1 are its first seven.
fn first<const D: usize>(situation: &Situation) -> Result<[f64; D], PolicyError> {
    let features = situation.features.as_ref();
    let first = features.and_then(|it| it.first_chunk::<D>().copied());
    first.ok_or(PolicyError::Simulation {
        problem: "a situation was used before it was filled in",
    })
}
