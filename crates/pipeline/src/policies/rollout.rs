//! The rollout of a policy: status, gate, promotion and rollback.
//!
//! A promotion first stores where the candidate starts (the end of the log and the pooled prior),
//! then appends to the history, which is what makes it active. If the process ends in between,
//! nothing has changed for users. The history is a compare-and-swap: of two promotions at once one
//! is recorded, and the other is told that the history has changed.

use assize_policy::gate::{
    Effort, GateEvidence, GateReport, GateThresholds, ShadowTraffic, assess, entrants,
    simulate_base, simulate_sensitivity,
};
use assize_policy::persona::PersonaSet;
use assize_policy::{Policy, PolicyKind};
use assize_store::policies::{HistoryEntry, PolicyAction, PolicyFile, PolicyTally, ShadowTally};
use serde::Serialize;
use serde_json::{Value, json};

use super::log::{active_of, changes_active, is_shadow_enabled, start_from_log};
use crate::{PipelineError, Result};

/// A shadow as the settings have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfiguredShadow {
    pub name: String,
    pub policy: PolicyKind,
    pub enabled: bool,
}

/// What is served now.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyStatus {
    pub active: PolicyKind,
    /// The entry of the history that made it active; `null` where it is the setting's.
    pub since: Option<HistoryEntry>,
    pub policies: Vec<PolicyTally>,
    pub shadows: Vec<ShadowStatus>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ShadowStatus {
    #[serde(flatten)]
    pub shadow: ConfiguredShadow,
    /// What it has scored; `null` if nothing.
    pub scored: Option<ShadowTally>,
}

/// Reads what is active and what it has earned.
pub fn status(
    file: &PolicyFile,
    setting: PolicyKind,
    shadows: &[ConfiguredShadow],
) -> Result<PolicyStatus> {
    let history = file.history_list()?;
    let scored = file.shadow_tallies()?;
    let shadow = |it: &ConfiguredShadow| ShadowStatus {
        shadow: ConfiguredShadow {
            enabled: is_shadow_enabled(&history, &it.name, it.enabled),
            ..it.clone()
        },
        scored: scored.iter().find(|own| own.shadow == it.name).cloned(),
    };
    Ok(PolicyStatus {
        active: active_of(&history, setting),
        since: history.iter().rfind(|it| changes_active(it)).cloned(),
        policies: file.policy_tallies()?,
        shadows: shadows.iter().map(shadow).collect(),
    })
}

/// Who changes something, and why.
#[derive(Debug, Clone)]
pub struct Signed<'a> {
    pub author: &'a str,
    pub reason: &'a str,
    /// Unix milliseconds.
    pub now_ms: i64,
}

/// What the gate looks at.
#[derive(Debug)]
pub struct GateOptions<'a> {
    /// The history when the incumbent was found to be active; a promotion must follow it.
    pub history: &'a [HistoryEntry],
    /// The policy that is active, with its settings.
    pub incumbent: &'a Policy,
    pub candidate: &'a Policy,
    pub shadows: &'a [ConfiguredShadow],
    pub personas: &'a PersonaSet,
    pub effort: Effort,
    pub thresholds: GateThresholds,
}

/// Simulates both policies, counts the candidate's shadow traffic since the active policy became
/// active, and decides. Writes nothing.
pub fn gate(file: &PolicyFile, options: &GateOptions<'_>) -> Result<GateReport> {
    let candidate = options.candidate.kind();
    if candidate == options.incumbent.kind() {
        return Err(PipelineError::Invalid(format!(
            "{candidate} is the active policy already: name another one"
        )));
    }
    let [ours, theirs] = entrants(options.incumbent, options.candidate);
    let base = simulate_base(options.personas, &ours, &theirs, &options.effort)?;
    let sensitivity = simulate_sensitivity(options.personas, &ours, &theirs, &options.effort)?;
    let evidence = GateEvidence {
        base,
        sensitivity,
        shadow: traffic(file, candidate, options)?,
    };
    Ok(assess(&evidence, &options.thresholds)?)
}

/// The traffic of the shadow with this policy that has scored most. Signals of untrained shadows do
/// not count.
fn traffic(
    file: &PolicyFile,
    policy: PolicyKind,
    options: &GateOptions<'_>,
) -> Result<ShadowTraffic> {
    let since = options.history.iter().rfind(|it| changes_active(it));
    let since_ms = since.map_or(0, |it| it.at_ms);
    let mut most = ShadowTraffic::default();
    for shadow in options.shadows.iter().filter(|it| it.policy == policy) {
        let found = file.shadow_traffic(&shadow.name, since_ms)?;
        if found.signals > most.decisions {
            most = ShadowTraffic {
                decisions: found.signals,
                users: found.users,
            };
        }
    }
    Ok(most)
}

/// Makes the candidate active; `None` where the gate says no. If anything was changed since the
/// gate was given its history, nothing is promoted.
pub fn promote(
    file: &PolicyFile,
    report: &GateReport,
    options: &GateOptions<'_>,
    signed: &Signed<'_>,
) -> Result<Option<HistoryEntry>> {
    if !report.passed {
        return Ok(None);
    }
    let (incumbent, candidate) = (options.incumbent.kind(), options.candidate.kind());
    let start = start_from_log(file, options.candidate, candidate.name(), signed.now_ms)?;
    let latest = file.history_latest()?.map_or(0, |it| it.number);
    if latest == options.history.last().map_or(0, |it| it.number) {
        file.start_put(&start)?;
    }
    let evidence = serde_json::to_value(report).unwrap_or(Value::Null);
    let change = (PolicyAction::Promote, Some(incumbent), Some(candidate));
    append(file, options.history, change, signed, evidence).map(Some)
}

/// Makes the policy active again that was active before the latest change.
pub fn rollback(
    file: &PolicyFile,
    setting: PolicyKind,
    action: PolicyAction,
    signed: &Signed<'_>,
    evidence: Value,
) -> Result<HistoryEntry> {
    let history = file.history_list()?;
    let active = active_of(&history, setting);
    let Some(before) = before(&history, setting) else {
        return Err(PipelineError::Invalid(format!(
            "{active} is the first active policy, so there is none to roll back to"
        )));
    };
    let change = (action, Some(active), Some(before));
    append(file, &history, change, signed, evidence)
}

/// The policy that a rollback makes active: the one that the promotion of the active policy
/// replaced. A rollback of a rollback goes further back.
pub fn before(history: &[HistoryEntry], setting: PolicyKind) -> Option<PolicyKind> {
    let kind = |name: &Option<String>| name.as_deref().and_then(|it| it.parse().ok());
    let mut changes = history.iter().filter(|it| changes_active(it)).peekable();
    // The settings may have changed since the first promotion, which names what it replaced.
    let first = changes.peek().and_then(|it| kind(&it.from));
    let mut stack: Vec<PolicyKind> = vec![first.unwrap_or(setting)];
    for entry in changes {
        match (entry.action, kind(&entry.to)) {
            (PolicyAction::Promote, Some(to)) if stack.last() != Some(&to) => stack.push(to),
            (PolicyAction::Promote, _) | (_, None) => {}
            (_, Some(_)) => {
                if stack.len() > 1 {
                    stack.pop();
                }
            }
        }
    }
    stack.pop();
    stack.pop()
}

/// Turns a shadow on or off from now on, whatever the settings say.
pub fn shadow_switch(
    file: &PolicyFile,
    shadow: &ConfiguredShadow,
    enable: bool,
    signed: &Signed<'_>,
) -> Result<HistoryEntry> {
    let history = file.history_list()?;
    let action = if enable {
        PolicyAction::EnableShadow
    } else {
        PolicyAction::DisableShadow
    };
    let name = Some(shadow.name.clone());
    let evidence = json!({"policy": shadow.policy.name()});
    let (from, to) = if enable { (None, name) } else { (name, None) };
    let entry = entry(&history, (action, from, to), signed, evidence);
    file.history_append(&entry)?;
    Ok(entry)
}

fn append(
    file: &PolicyFile,
    history: &[HistoryEntry],
    (action, from, to): (PolicyAction, Option<PolicyKind>, Option<PolicyKind>),
    signed: &Signed<'_>,
    evidence: Value,
) -> Result<HistoryEntry> {
    let name = |kind: Option<PolicyKind>| kind.map(|it| it.name().to_owned());
    let entry = entry(history, (action, name(from), name(to)), signed, evidence);
    file.history_append(&entry)?;
    Ok(entry)
}

fn entry(
    history: &[HistoryEntry],
    (action, from, to): (PolicyAction, Option<String>, Option<String>),
    signed: &Signed<'_>,
    evidence: Value,
) -> HistoryEntry {
    HistoryEntry {
        number: history.last().map_or(0, |it| it.number) + 1,
        at_ms: signed.now_ms,
        action,
        from,
        to,
        author: signed.author.to_owned(),
        reason: signed.reason.to_owned(),
        evidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u32, action: PolicyAction, to: PolicyKind) -> HistoryEntry {
        HistoryEntry {
            number,
            at_ms: 0,
            action,
            from: None,
            to: Some(to.name().to_owned()),
            author: "ana".to_owned(),
            reason: String::new(),
            evidence: Value::Null,
        }
    }

    #[test]
    fn a_rollback_goes_back_one_promotion_at_a_time() {
        use PolicyAction::{Promote, Rollback};
        let [v1, v2, linucb] = PolicyKind::ALL;
        let mut history = Vec::new();
        assert_eq!(before(&history, v1), None);
        history.push(change(1, Promote, v2));
        assert_eq!(before(&history, v1), Some(v1));
        history.push(change(2, Promote, linucb));
        assert_eq!(before(&history, v1), Some(v2));
        history.push(change(3, Rollback, v2));
        assert_eq!(active_of(&history, v1), v2);
        assert_eq!(before(&history, v1), Some(v1));
        history.push(change(4, Rollback, v1));
        assert_eq!(before(&history, v1), None);
    }

    #[test]
    fn a_rollback_ignores_later_settings_and_repeated_promotions() {
        let [v1, v2, linucb] = PolicyKind::ALL;
        let first = HistoryEntry {
            from: Some(v1.name().to_owned()),
            ..change(1, PolicyAction::Promote, v2)
        };
        let again = change(2, PolicyAction::Promote, v2);
        assert_eq!(before(&[first, again], linucb), Some(v1));
    }
}
