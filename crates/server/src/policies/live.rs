//! Which policy is active, with what each policy starts, and which shadows score.
//!
//! The store's history has the last word: its newest entry about a policy or a shadow counts, and
//! the settings count where it has none. Another process may append to it at any time.

use std::sync::Arc;

use assize_pipeline::policies::log::{active_of, arm_key, is_shadow_enabled};
use assize_policy::{Policy, PolicyError, PolicyKind, PolicySettings, Pool};
use assize_store::StoreError;
use assize_store::policies::{PolicyFile, PolicyStart};

use super::PoliciesConfig;

/// A policy as it is served now.
#[derive(Debug)]
pub(super) struct ServedPolicy {
    pub policy: Policy,
    /// The settings and the start, for the log.
    pub version: String,
    /// The position of the log up to which a user's rewards are replayed; 0 for none.
    pub start: i64,
}

/// A consistent view of the policies.
#[derive(Debug)]
pub(super) struct Live {
    /// The number of the newest entry of the history; 0 before the first.
    pub number: u32,
    pub active: PolicyKind,
    policies: [ServedPolicy; PolicyKind::ALL.len()],
    /// For each configured shadow, whether it scores.
    pub shadows: Vec<bool>,
    /// The names of the shadows that score.
    pub shadow_names: Arc<[String]>,
}

/// The index of a policy, for tables.
pub(super) const fn index_of(kind: PolicyKind) -> usize {
    match kind {
        PolicyKind::EgreedyV1 => 0,
        PolicyKind::EgreedyV2 => 1,
        PolicyKind::LinUcb => 2,
    }
}

impl Live {
    pub fn read(file: &PolicyFile, config: &PoliciesConfig) -> Result<Self, StoreError> {
        let history = file.history_list()?;
        let active = active_of(&history, config.active);
        let served = |kind: PolicyKind| {
            let start = file.start_get(kind.name())?;
            served(kind, config.settings_of(kind), start.as_ref())
        };
        let [one, two, three] = PolicyKind::ALL;
        let policies = [served(one)?, served(two)?, served(three)?];
        let shadows: Vec<bool> = config
            .shadows
            .iter()
            .map(|it| it.policy != active && is_shadow_enabled(&history, &it.name, it.enabled))
            .collect();
        let scoring = config.shadows.iter().zip(&shadows);
        let names = scoring.filter(|it| *it.1).map(|it| it.0.name.clone());
        Ok(Self {
            number: history.last().map_or(0, |it| it.number),
            active,
            policies,
            shadow_names: names.collect(),
            shadows,
        })
    }

    pub fn policy(&self, kind: PolicyKind) -> &ServedPolicy {
        &self.policies[index_of(kind)]
    }

    /// Whether a reward changes more models of the user than that of its arm.
    pub fn forgets(&self) -> bool {
        self.policies
            .iter()
            .any(|it| it.policy.settings().gamma < 1.0)
    }
}

fn served(
    kind: PolicyKind,
    settings: PolicySettings,
    start: Option<&PolicyStart>,
) -> Result<ServedPolicy, StoreError> {
    let policy = with_start(kind, settings, start)?;
    let PolicySettings {
        alpha,
        lambda,
        epsilon,
        gamma,
        prior,
    } = settings;
    let start = start.map_or(0, |it| it.position);
    Ok(ServedPolicy {
        policy,
        version: format!(
            "alpha={alpha},lambda={lambda},epsilon={epsilon},gamma={gamma},prior={prior},start={start}"
        ),
        start,
    })
}

/// A policy with the pooled prior of its start.
pub(super) fn with_start(
    kind: PolicyKind,
    settings: PolicySettings,
    start: Option<&PolicyStart>,
) -> Result<Policy, StoreError> {
    let invalid = |error: PolicyError| StoreError::Unreadable {
        what: format!("the start of policy {kind}"),
        reason: error.to_string(),
    };
    let policy = Policy::new(kind, settings).map_err(invalid)?;
    let Some(start) = start else {
        return Ok(policy);
    };
    let mut pool = Pool::default();
    for prior in &start.priors {
        let arm = arm_key(&prior.arm);
        pool.insert_arm_bytes(arm, &prior.model.bytes)
            .map_err(invalid)?;
    }
    policy.with_pool(&pool).map_err(invalid)
}
