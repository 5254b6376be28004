//! Models from the store, and from a replay of the log.
//!
//! A policy with a start ([`PolicyStart`](stored::PolicyStart)) learns from the rewards that other policies earned
//! before: a user's part of the log is replayed when the user is first loaded, and the result is
//! stored before any decision that was made with it. Whoever has no rewards there starts from the
//! pooled prior.

use std::sync::{Arc, PoisonError};

use assize_pipeline::policies::log::{arm_key, replayed, stored_arm};
use assize_policy::replay::learn;
use assize_policy::{Model, Policy, PolicyError, UserModels};
use assize_store::StoreError;
use assize_store::policies::{self as stored, LogQuery, ModelWrite, PolicyFile};

use super::Engine;
use super::live::{ServedPolicy, index_of};

impl Engine {
    /// The user's models from disk, or from a replay that is not stored yet.
    pub(super) fn load(&self, served: &ServedPolicy, user: &str) -> Result<UserModels, StoreError> {
        let policy = served.policy.kind().name();
        let file = self.store.file();
        let arms = file.model_list(user, policy)?;
        let is_replayed = arms.iter().any(|it| it.position >= served.start);
        if served.start > 0 && !is_replayed {
            let replayed = user_replay(file, &served.policy, user, served.start)?;
            if !replayed.is_empty() {
                self.store_replayed(served, user, &replayed)?;
                return Ok(replayed);
            }
        }
        let mut models = UserModels::default();
        for arm in arms {
            let model = decode(&arm.model.bytes, user, &arm.arm)?;
            models.insert(arm_key(&arm.arm), model);
        }
        Ok(models)
    }

    /// Queues the models for the writer, before any decision that is made with them.
    fn store_replayed(
        &self,
        served: &ServedPolicy,
        user: &str,
        models: &UserModels,
    ) -> Result<(), StoreError> {
        let reset_position = self.store.file().reset_position(user)?;
        let kind = served.policy.kind();
        let write = |(arm, model): (&str, &Model)| ModelWrite {
            user: user.to_owned(),
            policy: kind.name().to_owned(),
            arm: stored_arm(arm).to_owned(),
            position: served.start,
            reset_position,
            model: encode(model),
        };
        let writes = models.iter().map(write).collect();
        let failed = Arc::clone(&self.failed_loads);
        let user = user.to_owned();
        self.store.model_write(writes, None, move |outcome| {
            if outcome.is_err() {
                // The cache's lock may be held here, if the write was refused at once.
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push((index_of(kind), user));
            }
        });
        Ok(())
    }
}

/// A model as the store keeps it.
pub(super) fn encode(model: &Model) -> stored::Model {
    stored::Model {
        dimension: u32::try_from(model.dimension()).unwrap_or(u32::MAX),
        updates: model.n(),
        bytes: model.to_bytes(),
    }
}

pub(super) fn decode(bytes: &[u8], user: &str, arm: &str) -> Result<Model, StoreError> {
    Model::from_bytes(bytes).map_err(|error| StoreError::Unreadable {
        what: format!("the model of user '{user}' and arm '{}'", arm_key(arm)),
        reason: error.to_string(),
    })
}

/// The user's models after the rewards up to a position of the log, whichever policy earned them.
pub(super) fn user_replay(
    file: &PolicyFile,
    policy: &Policy,
    user: &str,
    until: i64,
) -> Result<UserModels, StoreError> {
    let query = LogQuery {
        user: Some(user.to_owned()),
        rewarded: true,
        until: Some(until),
        ..LogQuery::default()
    };
    let mut models = UserModels::default();
    file.log_each(&query, |it| {
        if let Some(decision) = replayed(&it)? {
            // A decision that this policy cannot learn from is left out.
            let _: Result<_, PolicyError> = learn(policy, &mut models, &decision);
        }
        Ok(true)
    })?;
    Ok(models)
}
