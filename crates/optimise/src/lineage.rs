//! The lineage: every version with its parent, hypothesis, score and fate, in the order of the log.
//!
//! It holds no times and no run ids, so the same seed and the same answers give the same bytes.

use serde::Serialize;

use crate::diff::{DiffLine, lines};
use crate::error::OptimiseError;
use crate::event::{Nominated, RoundEnded, SearchEnd};
use crate::reply::Kind;
use crate::score::{CellScore, FeedbackEstimate};
use crate::settings::LoopSettings;
use crate::tree::{State, Tree, Used};
use crate::version::Version;

/// A loop, for readers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lineage {
    pub experiment: String,
    pub settings: LoopSettings,
    pub incumbent: String,
    /// The race's scenarios in its order.
    pub scenarios: Vec<String>,
    pub state: State,
    pub reason: Option<String>,
    pub used: Used,
    /// The seed first.
    pub versions: Vec<LineageVersion>,
    pub rounds: Vec<RoundEnded>,
    pub search_end: Option<LineageEnd>,
    pub nominee: Option<Nominated>,
    /// The gain that is shown of what was promoted.
    pub gain: Option<f64>,
}

/// Why the search ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineageEnd {
    pub end: SearchEnd,
    pub reason: String,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineageVersion {
    pub id: String,
    pub parent: Option<String>,
    pub round: u32,
    pub hypothesis: String,
    pub kind: Kind,
    pub reflector: Option<String>,
    pub state: State,
    pub reason: Option<String>,
    pub feedback: Option<FeedbackEstimate>,
    /// The mean paired difference to its parent in the race.
    pub lead: Option<f64>,
    pub version: Version,
    pub scores: Vec<CellScore>,
}

impl Lineage {
    /// Indented JSON with a line end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// The versions as a tree, depth first: each with its depth. Children are in the order of the
    /// log.
    pub fn depth_first(&self) -> Vec<(usize, &LineageVersion)> {
        let mut found = Vec::new();
        let mut waiting: Vec<(usize, &LineageVersion)> = self
            .versions
            .first()
            .map(|it| (0, it))
            .into_iter()
            .collect();
        while let Some((depth, version)) = waiting.pop() {
            found.push((depth, version));
            let is_child = |it: &&LineageVersion| it.parent.as_ref() == Some(&version.id);
            let children = self.versions.iter().filter(is_child);
            waiting.extend(children.rev().map(|it| (depth + 1, it)));
        }
        found
    }
}

impl Tree {
    /// The lineage of this loop.
    pub fn lineage(&self, experiment: &str) -> Lineage {
        let versions = self.nodes.iter().map(|it| LineageVersion {
            id: it.id.clone(),
            parent: it.parent.clone(),
            round: it.round,
            hypothesis: it.hypothesis.clone(),
            kind: it.kind,
            reflector: it.reflector.clone(),
            state: it.state,
            reason: it.reason.clone(),
            feedback: it.feedback(),
            lead: self.lead_over_parent(&it.id),
            version: it.version.clone(),
            scores: it.scores.clone(),
        });
        Lineage {
            experiment: experiment.to_owned(),
            settings: self.settings.clone(),
            incumbent: self.incumbent.id(),
            scenarios: self.scenarios.clone(),
            state: self.state(),
            reason: self.reason.clone(),
            used: self.used,
            versions: versions.collect(),
            rounds: self.rounds.clone(),
            search_end: self.search_end.as_ref().map(|(end, reason)| LineageEnd {
                end: *end,
                reason: reason.clone(),
            }),
            nominee: self.nominee.clone(),
            gain: self.gain,
        }
    }

    /// How one version differs from another.
    pub fn diff(&self, from: &str, to: &str) -> Result<Vec<DiffLine>, OptimiseError> {
        let text = |id: &str| Ok(self.node(id)?.version.as_text());
        Ok(lines(&text(from)?, &text(to)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Change;
    use crate::tree::tests::{STEADY, settings, started};

    fn played() -> Tree {
        STEADY.play(&mut vec![started(settings())])
    }

    #[test]
    fn the_same_answers_make_the_same_bytes() {
        let text = played().lineage("e").to_json();
        assert_eq!(text, played().lineage("e").to_json());
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(parsed["versions"][0]["id"], "seed");
        assert_eq!(parsed["versions"].as_array().map(Vec::len), Some(21));
        assert!(!text.contains("at_ms") && text.ends_with("}\n"));
    }

    #[test]
    fn the_tree_is_walked_depth_first_and_whole() {
        let lineage = played().lineage("e");
        let walked = lineage.depth_first();
        assert_eq!(walked.len(), lineage.versions.len());
        assert_eq!(walked[0].1.id, "seed");
        for (place, (depth, version)) in walked.iter().enumerate().skip(1) {
            let above = walked[..place].iter().rev().find(|it| it.0 < *depth);
            let parent = above.map(|it| it.1.id.as_str());
            assert_eq!(parent, version.parent.as_deref());
        }
    }

    #[test]
    fn versions_are_compared_by_their_ids() {
        let tree = played();
        let found = tree.diff("seed", "r1c1").expect("both are there");
        assert!(found.iter().any(|it| it.change == Change::Added));
        let error = tree.diff("seed", "r9c9").expect_err("unknown").to_string();
        assert!(error.contains("r9c9"), "{error}");
    }
}
