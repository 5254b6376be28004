//! The pooled prior: what all users together have shown, as the start of a new user's model.
//!
//! For each arm A_pool = Σ xxᵀ, b_pool = Σ r·x and n_pool over the rewarded decisions of all users;
//! a new model starts with A = λI + κ·A_pool/n_pool and b = κ·b_pool/n_pool. It is worth κ average
//! observations: enough to order the arms at first, and soon outweighed by the user's own rewards.
//! A is a mean of outer products, so the start is uncertain in the directions that were rarely
//! seen.
//!
//! Reference: Li, Chu, Langford, Schapire (2010), "A contextual-bandit approach to personalized
//! news article recommendation", WWW (shared and disjoint models); the weight κ is the effective
//! prior sample size of Bayesian linear regression (Gelman et al. 2013, chapter 14).

use crate::model::Sums;
use crate::{Model, PolicyError, UserModels, features};
use std::collections::BTreeMap;

const POOL_VERSION: u8 = 0x81;

/// Sums of all users, by arm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pool {
    arms: BTreeMap<String, Sums>,
}

impl Pool {
    /// Adds one rewarded decision. The first one fixes the arm's length.
    pub fn add(&mut self, arm: &str, x: &[f64], reward: f64) -> Result<(), PolicyError> {
        features::check_features(x)?;
        crate::policy::check_reward(reward)?;
        let dimension = x.len();
        // Looked up before it is created: most decisions meet a known arm, and need no new key.
        if !self.arms.contains_key(arm) {
            Model::new(dimension, 1.0)?;
            self.arms.insert(arm.to_owned(), Sums::zero(dimension));
        }
        let Some(sums) = self.arms.get_mut(arm) else {
            return Ok(());
        };
        if sums.dimension != dimension {
            return Err(PolicyError::Dimension {
                expected: sums.dimension,
                found: dimension,
            });
        }
        sums.n += 1;
        let products = (0..dimension).flat_map(|row| x[row..].iter().map(move |it| x[row] * it));
        for (entry, product) in sums.a.iter_mut().zip(products) {
            *entry += product;
        }
        for (entry, value) in sums.b.iter_mut().zip(x) {
            *entry += reward * value;
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// The arms and how many rewarded decisions each has.
    pub fn arms(&self) -> impl Iterator<Item = (&str, u64)> {
        self.arms.iter().map(|(arm, sums)| (arm.as_str(), sums.n))
    }

    /// The bytes to store for one arm.
    pub fn arm_bytes(&self, arm: &str) -> Option<Vec<u8>> {
        self.arms.get(arm).map(|it| it.to_bytes(POOL_VERSION))
    }

    /// Adds an arm that [`Self::arm_bytes`] stored, in place of what was there.
    pub fn insert_arm_bytes(
        &mut self,
        arm: impl Into<String>,
        bytes: &[u8],
    ) -> Result<(), PolicyError> {
        let sums = Sums::from_bytes(POOL_VERSION, bytes)?;
        self.arms.insert(arm.into(), sums);
        Ok(())
    }

    /// Adds the sums of another pool. An arm that has another length there is left as it is.
    pub fn merge(&mut self, other: &Self) {
        for (arm, theirs) in &other.arms {
            let dimension = theirs.dimension;
            let ours = self.arms.entry(arm.clone());
            let ours = ours.or_insert_with(|| Sums::zero(dimension));
            if ours.dimension == dimension {
                ours.n += theirs.n;
                add_to(&mut ours.a, &theirs.a);
                add_to(&mut ours.b, &theirs.b);
            }
        }
    }

    /// A model of all users for each arm: A = λI + A_pool, b = b_pool.
    pub fn fit(&self, lambda: f64) -> Result<UserModels, PolicyError> {
        let mut models = UserModels::default();
        for (arm, sums) in &self.arms {
            models.insert(arm.clone(), regularised(sums.clone(), lambda)?);
        }
        Ok(models)
    }

    /// The model with which a new user starts in each arm.
    pub(crate) fn starts(
        &self,
        lambda: f64,
        kappa: f64,
    ) -> Result<BTreeMap<String, Model>, PolicyError> {
        let start = |(arm, sums): (&String, &Sums)| {
            let weight = kappa / (sums.n.max(1) as f64);
            let mut start = sums.clone();
            start.n = 0;
            start.a.iter_mut().for_each(|entry| *entry *= weight);
            start.b.iter_mut().for_each(|entry| *entry *= weight);
            Ok((arm.clone(), regularised(start, lambda)?))
        };
        self.arms.iter().map(start).collect()
    }
}

fn regularised(mut sums: Sums, lambda: f64) -> Result<Model, PolicyError> {
    let mut diagonal = 0;
    for row in 0..sums.dimension {
        sums.a[diagonal] += lambda;
        diagonal += sums.dimension - row;
    }
    sums.model()
}

fn add_to(target: &mut [f64], values: &[f64]) {
    for (entry, value) in target.iter_mut().zip(values) {
        *entry += value;
    }
}
