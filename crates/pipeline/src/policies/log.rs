//! The log of decisions, as policies learn from it.

use assize_policy::replay::learn_pooled;
use assize_policy::{
    LoggedCandidate, LoggedDecision, Policy, PolicyError, PolicyKind, Pool, SHARED_ARM,
};
use assize_store::StoreError;
use assize_store::policies::{
    self as stored, DecisionRecord, HistoryEntry, LogQuery, PolicyAction, PolicyFile, PolicyStart,
    Prior,
};

/// The policies' name of a stored arm.
pub fn arm_key(stored: &str) -> &str {
    if stored.is_empty() {
        SHARED_ARM
    } else {
        stored
    }
}

/// The store's name of an arm.
pub fn stored_arm(arm: &str) -> &str {
    if arm == SHARED_ARM { "" } else { arm }
}

/// The policy that the history says is active; `otherwise` where it says nothing.
pub fn active_of(history: &[HistoryEntry], otherwise: PolicyKind) -> PolicyKind {
    let newest = history.iter().rev().find(|it| changes_active(it));
    let named = newest.and_then(|it| it.to.as_deref()?.parse().ok());
    named.unwrap_or(otherwise)
}

/// Whether an entry of the history is about which policy is active.
pub const fn changes_active(entry: &HistoryEntry) -> bool {
    matches!(
        entry.action,
        PolicyAction::Promote | PolicyAction::Rollback | PolicyAction::AutomaticRollback
    )
}

/// Whether the history enables a shadow; `otherwise` where it says nothing.
pub fn is_shadow_enabled(history: &[HistoryEntry], shadow: &str, otherwise: bool) -> bool {
    let is_about = |it: &&HistoryEntry| {
        let names = [it.to.as_deref(), it.from.as_deref()];
        matches!(
            it.action,
            PolicyAction::EnableShadow | PolicyAction::DisableShadow
        ) && names.contains(&Some(shadow))
    };
    let newest = history.iter().rev().find(is_about);
    newest.map_or(otherwise, |it| it.action == PolicyAction::EnableShadow)
}

/// A rewarded decision as policies replay it; `None` without a reward, or before a reset of the
/// user, which models must not learn from again.
pub fn replayed(decision: &stored::LoggedDecision) -> Result<Option<LoggedDecision>, StoreError> {
    if decision.is_before_reset {
        return Ok(None);
    }
    rewarded(decision)
}

/// A rewarded decision; `None` without a reward.
pub fn rewarded(decision: &stored::LoggedDecision) -> Result<Option<LoggedDecision>, StoreError> {
    let Some(reward) = decision.reward else {
        return Ok(None);
    };
    let DecisionRecord {
        context,
        profile,
        candidates,
        ..
    } = decision.record()?;
    let unreadable = |error: serde_json::Error| StoreError::Unreadable {
        what: format!("the record of decision {}", decision.id),
        reason: error.to_string(),
    };
    let profile = profile.map(|it| serde_json::from_str(it.get())).transpose();
    let candidates = candidates.into_iter().map(|it| LoggedCandidate {
        arm: it.arm,
        task_match: it.task_match,
        features: it.features,
    });
    Ok(Some(LoggedDecision {
        user_id: decision.user.clone(),
        context: serde_json::from_str(context.get()).map_err(unreadable)?,
        profile_features: profile.map_err(unreadable)?,
        candidates: candidates.collect(),
        chosen: usize::try_from(decision.chosen).unwrap_or(usize::MAX),
        propensity: decision.propensity,
        reward: reward.value,
    }))
}

/// Where a policy or a shadow of this name starts now: the end of the log, and the pooled prior of
/// all rewards in it. Reads the whole log.
pub fn start_from_log(
    file: &PolicyFile,
    policy: &Policy,
    name: &str,
    now_ms: i64,
) -> Result<PolicyStart, StoreError> {
    let position = file.log_position()?;
    let query = LogQuery {
        rewarded: true,
        until: Some(position),
        ..LogQuery::default()
    };
    let mut pool = Pool::default();
    file.log_each(&query, |it| {
        if let Some(decision) = replayed(&it)? {
            // A decision that this policy cannot learn from is left out.
            let _: Result<_, PolicyError> = learn_pooled(policy, &mut pool, &decision);
        }
        Ok(true)
    })?;
    let prior = |(arm, n): (&str, u64)| {
        let bytes = pool.arm_bytes(arm)?;
        let dimension = u32::from(*bytes.get(1)?);
        Some(Prior {
            arm: stored_arm(arm).to_owned(),
            model: stored::Model {
                dimension,
                updates: n,
                bytes,
            },
        })
    };
    Ok(PolicyStart {
        policy: name.to_owned(),
        at_ms: now_ms,
        position,
        replayed: position,
        priors: pool.arms().filter_map(prior).collect(),
    })
}
