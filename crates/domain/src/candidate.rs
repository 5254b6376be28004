//! Candidates: one completion each, as `candidates.json` keeps them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One generated output of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub index: u32,
    #[serde(default)]
    pub seed: u32,
    /// What judges see; `None` where generation failed.
    pub text: Option<String>,
    /// Flags that the task's mechanical checks computed.
    #[serde(default)]
    pub flags: BTreeMap<String, bool>,
    /// Computed criteria, in their own scales.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, f64>,
    /// Computed criteria that have no score because computing it failed. While there are any, judges
    /// do not get the run; `judge recompute` tries again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_computed: Vec<String>,
    /// Why checks and rules do not hold, and what could not be computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Why the output does not fit the task's contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Why generation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angle: Option<String>,
    #[serde(default)]
    pub truncated: bool,
    #[serde(default)]
    pub prompt_tokens: u64,
    #[serde(default)]
    pub completion_tokens: u64,
    /// Those of the completion's tokens that are thoughts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thinking_tokens: u64,
    /// Wall time, with whatever else was in the batch.
    #[serde(default)]
    pub latency_ms: f64,
    /// How many candidates an engine decoded together with this one, on average, itself included;
    /// 0 where the provider does not say.
    #[serde(default, skip_serializing_if = "is_none")]
    pub batch: f64,
}

impl Candidate {
    /// Leaves out what was computed, where scores are sealed.
    pub fn hide_computed(&mut self) {
        self.flags.clear();
        self.scores.clear();
        self.reasons.clear();
    }

    /// Why the output does not fit the contract and the rules, one reason each.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        let problem = self.problem.iter();
        problem.chain(&self.reasons).map(String::as_str)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(number: &f64) -> bool {
    *number <= 0.0
}

/// How different the candidates of a cell are: one minus the mean Jaccard similarity of
/// their sets of words, over all pairs. 0 is all the same, 1 is no word in common; `None`
/// below two candidates.
pub fn diversity<'a>(texts: impl Iterator<Item = &'a str>) -> Option<f64> {
    let words: Vec<BTreeSet<String>> = texts.map(words_of).collect();
    let mut pairs = 0_u32;
    let mut similarity = 0.0;
    for (position, one) in words.iter().enumerate() {
        for other in &words[position + 1..] {
            let union = one.union(other).count();
            let shared = one.intersection(other).count();
            similarity += if union == 0 {
                1.0
            } else {
                shared as f64 / union as f64
            };
            pairs += 1;
        }
    }
    (pairs > 0).then(|| 1.0 - similarity / f64::from(pairs))
}

fn words_of(text: &str) -> BTreeSet<String> {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diversity_runs_from_none_to_one() {
        let of = |texts: &[&str]| diversity(texts.iter().copied());
        assert_eq!(of(&["a"]), None);
        assert_eq!(of(&["Walk now.", "walk, now"]), Some(0.0));
        assert_eq!(of(&["walk", "rest"]), Some(1.0));
        assert_eq!(of(&["", ""]), Some(0.0));
        assert_eq!(of(&["a b", "b c"]), Some(1.0 - 1.0 / 3.0));
    }
}
