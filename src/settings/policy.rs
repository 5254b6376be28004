//! `[policy]`: the settings of the online policies.

use std::collections::BTreeMap;
use std::path::Path;

use assize_pipeline::policies::alarm::AlarmRule;
use assize_policy::gate::GateThresholds;
use assize_policy::{PolicyError, PolicyKind, PolicySettings};
use assize_server::{PoliciesConfig, ShadowConfig};
use assize_store::policies::Durability;
use serde::Deserialize;

use crate::environment;

/// The shadow that exists by default.
pub(super) const DEFAULT_SHADOW: &str = "egreedy-v2-shadow";

/// The policies' file, in the folder of this machine's state.
const FILE: &str = "policies.db";

/// The longest name of a shadow.
const LONGEST_NAME: usize = 60;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySection {
    pub active: PolicyKind,
    durability: Durability,
    cache_mib: u32,
    #[serde(rename = "egreedy-v1")]
    egreedy_v1: PolicySettings,
    #[serde(rename = "egreedy-v2")]
    egreedy_v2: PolicySettings,
    linucb: PolicySettings,
    shadows: BTreeMap<String, Shadow>,
    alarm: AlarmRule,
    pub gate: GateThresholds,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shadow {
    policy: PolicyKind,
    #[serde(default)]
    enabled: bool,
}

impl PolicySection {
    /// The settings of one policy.
    pub const fn of(&self, kind: PolicyKind) -> PolicySettings {
        match kind {
            PolicyKind::EgreedyV1 => self.egreedy_v1,
            PolicyKind::EgreedyV2 => self.egreedy_v2,
            PolicyKind::LinUcb => self.linucb,
        }
    }

    /// What is wrong, each with its key.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.cache_mib == 0 {
            let message = "is 0: use 1 or more MiB".to_owned();
            problems.push(("cache_mib".to_owned(), message));
        }
        for kind in PolicyKind::ALL {
            problems.extend(match self.of(kind).check() {
                Ok(()) => None,
                Err(PolicyError::OutOfRange {
                    field,
                    value,
                    range,
                }) => Some((
                    format!("{kind}.{field}"),
                    format!("is {value}: use a number in {range}"),
                )),
                Err(error) => Some((kind.to_string(), format!("is invalid: {error}"))),
            });
        }
        if !(0.0..=1.0).contains(&self.alarm.bound) {
            let message = format!("is {}: use a number in [0, 1]", self.alarm.bound);
            problems.push(("alarm.bound".to_owned(), message));
        }
        if let Err(error) = self.gate.check() {
            problems.push(("gate".to_owned(), format!("is invalid: {error}")));
        }
        if self.alarm.window < 10 {
            let message = format!("is {}: use 10 or more rewards", self.alarm.window);
            problems.push(("alarm.window".to_owned(), message));
        }
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        for name in self.shadows.keys() {
            let is_policy = name.parse::<PolicyKind>().is_ok();
            if is_policy || name.len() > LONGEST_NAME || !name.chars().all(is_part) {
                problems.push((
                    format!("shadows.{name}"),
                    format!(
                        "is not a valid name: use up to {LONGEST_NAME} of a-z, 0-9 and -, and no \
                         policy's name"
                    ),
                ));
            }
        }
        problems
    }

    /// How the server serves the policies, with its file in this folder.
    pub fn config(&self, folder: &Path) -> PoliciesConfig {
        let settings = PolicyKind::ALL.map(|kind| (kind, self.of(kind)));
        let shadows = self.shadows.iter().map(|(name, shadow)| ShadowConfig {
            name: name.clone(),
            policy: shadow.policy,
            enabled: shadow.enabled,
        });
        PoliciesConfig {
            path: folder.join(FILE),
            active: self.active,
            durability: self.durability,
            cache_bytes: usize::try_from(self.cache_mib).unwrap_or(usize::MAX) << 20,
            settings: BTreeMap::from(settings),
            shadows: shadows.collect(),
            alarm: self.alarm,
            gate: self.gate,
            now_ms: environment::now_ms,
            entropy: environment::entropy,
        }
    }
}
