//! The alarm: the reward of the active policy has fallen below a bound.
//!
//! The mean of the latest rewards is compared with the bound by its upper confidence bound, so that
//! a few unlucky rewards raise no alarm: mean + 1.645·sd/√n < bound, over the latest `window` rewards
//! of the active policy, and only rewards since it became active count.

use assize_policy::PolicyKind;
use assize_store::policies::{PolicyAction, PolicyFile};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::log::{active_of, changes_active};
use super::rollout::{Signed, before, rollback};
use crate::Result;

/// One-sided 95 %.
const Z: f64 = 1.644_853_626_951_472_7;

/// When there is an alarm, and whether it rolls back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmRule {
    /// The lowest mean reward that is accepted; 0 raises no alarm.
    pub bound: f64,
    /// The latest rewards that are looked at; fewer raise no alarm.
    pub window: u32,
    /// Whether the policy before is made active again.
    pub rollback: bool,
}

/// An alarm about the active policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Alarm {
    pub policy: PolicyKind,
    pub mean: f64,
    /// The upper bound of the mean, with 95 % confidence.
    pub upper: f64,
    pub rewards: u32,
    pub rolled_back_to: Option<PolicyKind>,
}

/// Looks at the latest rewards, and rolls back where the rule says so and a policy was active
/// before.
pub fn look(
    file: &PolicyFile,
    setting: PolicyKind,
    rule: &AlarmRule,
    now_ms: i64,
) -> Result<Option<Alarm>> {
    let history = file.history_list()?;
    let policy = active_of(&history, setting);
    let since = history.iter().rfind(|it| changes_active(it));
    let since_ms = since.map_or(i64::MIN, |it| it.at_ms);
    let latest = file.rewards_recent(policy.name(), rule.window)?;
    let values: Vec<f64> = latest
        .iter()
        .filter(|(_, reward)| reward.at_ms >= since_ms)
        .map(|(_, reward)| reward.value)
        .collect();
    let Some((mean, upper)) = upper_bound(&values).filter(|_| is_full(&values, rule)) else {
        return Ok(None);
    };
    if upper >= rule.bound {
        return Ok(None);
    }
    let mut alarm = Alarm {
        policy,
        mean,
        upper,
        rewards: rule.window,
        rolled_back_to: None,
    };
    if rule.rollback && before(&history, setting).is_some() {
        let reason = format!(
            "the mean of the latest {} rewards is {mean:.3}, below the bound {}",
            rule.window, rule.bound
        );
        let signed = Signed {
            author: "assize",
            reason: &reason,
            now_ms,
        };
        let evidence = json!({"mean": mean, "upper": upper, "rule": rule});
        let action = PolicyAction::AutomaticRollback;
        let entry = rollback(file, setting, action, &signed, evidence)?;
        alarm.rolled_back_to = entry.to.and_then(|it| it.parse().ok());
    }
    Ok(Some(alarm))
}

fn is_full(values: &[f64], rule: &AlarmRule) -> bool {
    rule.window > 1 && values.len() >= usize::try_from(rule.window).unwrap_or(usize::MAX)
}

/// The mean and its upper bound; `None` for fewer than two values.
fn upper_bound(values: &[f64]) -> Option<(f64, f64)> {
    let mean = assize_stats::describe::mean(values)?;
    let sd = assize_stats::describe::sd(values)?;
    Some((mean, mean + Z * sd / (values.len() as f64).sqrt()))
}
