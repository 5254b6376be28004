//! What is stored about decisions, rewards and models.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Result, StoreError};

/// Bits of an id that are not its time.
const RANDOM_BITS: u32 = 21;
/// The largest time that fits into an id, in the year 2109.
const LAST_MS: i64 = (1 << 42) - 1;

/// The id of a decision, 16 hexadecimal digits: Unix milliseconds, then 21 random bits. Ids grow
/// with time, so that new decisions are stored next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(i64);

impl DecisionId {
    /// The id that the time and the random bits give. [`super::PolicyStore::decision_id`] also
    /// ensures that it is new.
    pub fn new(at_ms: i64, random: u64) -> Self {
        let low = i64::try_from(random % (1 << RANDOM_BITS)).unwrap_or(0);
        Self((at_ms.clamp(0, LAST_MS) << RANDOM_BITS) | low)
    }

    pub(super) const fn from_number(number: i64) -> Self {
        Self(number)
    }

    pub(super) const fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for DecisionId {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let well_formed = text.len() == 16 && text.bytes().all(is_digit);
        let number = well_formed.then(|| i64::from_str_radix(text, 16).ok());
        number.flatten().map(Self).ok_or_else(|| {
            StoreError::Invalid(format!(
                "'{}' is not a valid decision id: use the decision_id of an answer, which has 16 \
                 hexadecimal digits",
                text.chars().take(40).collect::<String>()
            ))
        })
    }
}

impl Serialize for DecisionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DecisionId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What generated a candidate: `{"run": ID}` or `{"prompt": NAME}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TipSource {
    /// A run of the tracking store.
    Run(String),
    /// A champion's prompt.
    Prompt(String),
}

impl fmt::Display for TipSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(id) => write!(f, "run:{id}"),
            Self::Prompt(name) => write!(f, "prompt:{name}"),
        }
    }
}

impl TipSource {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        match kind {
            "run" => Some(Self::Run(name.to_owned())),
            "prompt" => Some(Self::Prompt(name.to_owned())),
            _ => None,
        }
    }
}

/// A decision that is to be logged.
#[derive(Debug, Clone)]
pub struct Decision {
    pub id: DecisionId,
    pub at_ms: i64,
    pub user: String,
    pub policy: String,
    pub policy_version: String,
    pub feature_version: u32,
    /// The index of the chosen candidate.
    pub chosen: u32,
    /// The features of the chosen candidate, which its reward will be applied to.
    pub features: Vec<f64>,
    pub record: DecisionRecord,
}

/// What a decision was made from, stored as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// As the client sent it.
    pub context: Box<RawValue>,
    /// As the client sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Box<RawValue>>,
    /// The seed that the client gave for the exploration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    pub candidates: Vec<CandidateRecord>,
}

/// A candidate as it was scored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CandidateRecord {
    pub id: String,
    /// The arm that the client gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_match: Option<f64>,
    /// The features that the client gave instead of the built-in ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<TipSource>,
    /// What else the client sent with the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Box<RawValue>>,
    pub score: f64,
    pub propensity: f64,
}

impl CandidateRecord {
    /// The arm whose model scores this candidate; candidates without one share the empty name.
    pub fn arm(&self) -> &str {
        self.arm.as_deref().unwrap_or_default()
    }
}

/// A model as it is stored. The store does not interpret the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub dimension: u32,
    /// The number of rewards that it has learned from.
    pub updates: u64,
    pub bytes: Vec<u8>,
}

/// The model of one arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmModel {
    pub arm: String,
    /// The position of the last reward that the model includes.
    pub position: i64,
    pub model: Model,
}

/// A decision as it was logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedDecision {
    pub id: DecisionId,
    pub at_ms: i64,
    pub user: String,
    pub policy: String,
    pub policy_version: String,
    pub feature_version: u32,
    /// The arm of the chosen candidate; empty where the client gave none.
    pub arm: String,
    pub chosen: u32,
    pub propensity: f64,
    /// The features of the chosen candidate.
    pub features: Vec<f64>,
    pub source: Option<TipSource>,
    /// A [`DecisionRecord`] as JSON.
    pub record: String,
    pub reward: Option<LoggedReward>,
    /// Whether the user's models were reset after the reward, so that replays skip it.
    pub is_before_reset: bool,
    /// What the shadows chose; only if the query asks for it.
    pub shadows: Vec<super::ShadowSignal>,
}

/// A reward as it was logged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoggedReward {
    /// The place in the order of all rewards.
    pub position: i64,
    pub at_ms: i64,
    pub value: f64,
}

impl LoggedDecision {
    pub fn record(&self) -> Result<DecisionRecord> {
        serde_json::from_str(&self.record).map_err(|error| StoreError::Unreadable {
            what: format!("the record of decision {}", self.id),
            reason: error.to_string(),
        })
    }
}

/// Counts and sums of decisions and their rewards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tally {
    pub decisions: u64,
    pub rewards: u64,
    pub reward_sum: f64,
    /// The sum of the squared rewards.
    pub reward_squares: f64,
}

impl Tally {
    pub fn mean_reward(&self) -> Option<f64> {
        (self.rewards > 0).then(|| self.reward_sum / self.rewards as f64)
    }

    pub fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.rewards += other.rewards;
        self.reward_sum += other.reward_sum;
        self.reward_squares += other.reward_squares;
    }
}

/// Features as little-endian bytes.
pub(super) fn features_encode(features: &[f64]) -> Vec<u8> {
    features.iter().flat_map(|it| it.to_le_bytes()).collect()
}

pub(super) fn features_decode(id: DecisionId, bytes: &[u8]) -> Result<Vec<f64>> {
    let (values, rest) = bytes.as_chunks::<8>();
    if rest.is_empty() {
        return Ok(values.iter().map(|it| f64::from_le_bytes(*it)).collect());
    }
    Err(StoreError::Unreadable {
        what: format!("the features of decision {id}"),
        reason: format!("{} bytes are not whole numbers of 8 bytes", bytes.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_time_and_read_back() {
        let early = DecisionId::new(1_800_000_000_000, u64::MAX);
        let late = DecisionId::new(1_800_000_000_001, 0);
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
        for id in [
            early,
            late,
            DecisionId::new(i64::MAX, 7),
            DecisionId::new(-5, 7),
        ] {
            assert_eq!(id.to_string().len(), 16);
            assert_eq!(id.to_string().parse::<DecisionId>().unwrap(), id);
        }
        for bad in [
            "",
            "1",
            "+800000000000000",
            "ffffffffffffffff",
            "0000018BCFE56800",
            "é",
        ] {
            let message = bad.parse::<DecisionId>().unwrap_err().to_string();
            assert!(message.contains("not a valid decision id"), "{message}");
        }
    }

    #[test]
    fn damaged_features_are_named() {
        let id = DecisionId::new(5, 5);
        let bytes = features_encode(&[1.5, -0.0]);
        assert_eq!(features_decode(id, &bytes).unwrap(), [1.5, -0.0]);
        let error = features_decode(id, &bytes[..9]).unwrap_err().to_string();
        assert!(error.contains(&id.to_string()), "{error}");
    }
}
