//! Sittings: one judge, one set of blind cases, one rubric.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::anchor::Anchors;
use crate::hash::hex;
use crate::judge::{Judge, Tier};
use crate::verdict::{RubricRef, Verdict, VerdictFile};

/// The value in place of a run's id for anchors: their verdicts belong to the sitting
/// itself, never to a run.
pub const ANCHORS: &str = "anchors";

/// The record that maps opaque case ids back to runs.
///
/// It stays in the tracking store; the salt is never handed out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    pub id: String,
    pub experiment: String,
    pub tier: Tier,
    pub rubric: RubricRef,
    /// RFC 3339, UTC.
    pub opened_at: String,
    pub seed: u64,
    pub salt: String,
    /// The runs whose cases were handed out at once, each with the candidates that were. A
    /// sitting that takes cases from the queue holds leases instead.
    pub runs: Vec<(String, Vec<u32>)>,
    /// The judge, where it is known when the sitting opens.
    #[serde(default)]
    pub judge: Option<Judge>,
    /// How many judges are to score each case.
    #[serde(default = "one")]
    pub copies: u32,
    /// The calibration cases among the others, as they were when the sitting opened.
    #[serde(default)]
    pub anchors: Anchors,
    /// Spot checks: the probability with which each case was drawn.
    #[serde(default)]
    pub inclusion: Vec<Inclusion>,
}

const fn one() -> u32 {
    1
}

/// The known probability with which a case was drawn for a spot check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inclusion {
    pub run_id: String,
    pub candidate: u32,
    pub probability: f64,
}

/// The state of a sitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SittingState {
    Open,
    Closed,
    /// Its judge had drifted: its verdicts are kept and do not count.
    Quarantined,
}

impl SittingState {
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Quarantined];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for SittingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SittingState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or_else(|| format!("'{text}' is not a valid state of a sitting"))
    }
}

impl Sitting {
    /// The file that records this judge's verdicts on one run.
    pub fn verdict_file(
        &self,
        judge: &Judge,
        judged_at: &str,
        verdicts: Vec<Verdict>,
    ) -> VerdictFile {
        VerdictFile {
            sitting: self.id.clone(),
            tier: self.tier,
            judge: judge.clone(),
            rubric: self.rubric.clone(),
            judged_at: judged_at.to_owned(),
            verdicts,
            usage: None,
            amends: None,
        }
    }

    /// The opaque id of one of this sitting's cases.
    pub fn case_id(&self, run_id: &str, candidate: u32) -> String {
        case_id(&self.salt, run_id, candidate)
    }
}

/// The opaque id of a case: an HMAC of run and index under the sitting's salt.
pub fn case_id(salt: &str, run_id: &str, candidate: u32) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(salt.as_bytes()) else {
        return String::new();
    };
    mac.update(run_id.as_bytes());
    mac.update(b"#");
    mac.update(&candidate.to_le_bytes());
    hex(&mac.finalize().into_bytes()[..10])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_ids_depend_on_salt_run_and_index() {
        let id = case_id("salt", "run", 1);
        assert_eq!(id.len(), 20);
        assert_eq!(id, case_id("salt", "run", 1));
        for other in [
            case_id("other", "run", 1),
            case_id("salt", "nur", 1),
            case_id("salt", "run", 2),
        ] {
            assert_ne!(id, other);
        }
    }
}
