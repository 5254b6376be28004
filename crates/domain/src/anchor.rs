//! Anchors: calibration cases whose scores are known.
//!
//! A task can carry a dozen or two of them. They are handed out among the real cases, blind
//! like those, and tell whether a judge still uses the scale as it was meant. Their scores
//! belong to the sitting, never to a board.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One calibration case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    pub id: String,
    pub context: Value,
    pub candidate: String,
    /// What the task's mechanical checks say about the candidate.
    pub flags: BTreeMap<String, bool>,
    /// The known scores: integers for criteria, booleans for flags.
    pub scores: BTreeMap<String, Value>,
}
