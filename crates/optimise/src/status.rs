//! A loop's status, as `optimise status --json` prints it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::score::FeedbackEstimate;
use crate::tree::{State, Tree, Used, WaitingFor};

/// The status of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub experiment: String,
    pub state: State,
    pub round: u32,
    pub waiting_for: Option<WaitingFor>,
    /// The nominee's id.
    pub nominee: Option<String>,
    /// What is used.
    pub budget: Used,
    /// What may be used.
    pub limits: Limits,
    /// Why the search or the loop ended, once it has.
    pub reason: Option<String>,
    pub seed: SeedStatus,
    pub children: Vec<ChildStatus>,
}

/// The budgets of a loop; `null` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub rounds: u32,
    pub children: u32,
    pub auto_verdicts: u32,
    pub cost_usd: Option<f64>,
    pub hours: Option<f64>,
}

/// The version that the loop started from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeedStatus {
    pub prompt: String,
    pub prompt_sha256: String,
    pub feedback: Option<FeedbackEstimate>,
}

/// One child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChildStatus {
    pub id: String,
    pub parent: Option<String>,
    pub round: u32,
    pub hypothesis: String,
    pub state: State,
    pub reason: Option<String>,
    pub prompt_sha256: String,
    pub feedback: Option<FeedbackEstimate>,
}

impl Tree {
    /// The status of this loop.
    pub fn status(&self, experiment: &str) -> Status {
        let settings = &self.settings;
        let seed = self.seed();
        let ended = self.search_end.as_ref().map(|(_, reason)| reason);
        Status {
            experiment: experiment.to_owned(),
            state: self.state(),
            round: self.round,
            waiting_for: self.waiting_for(),
            nominee: self.nominee.as_ref().map(|it| it.child.clone()),
            budget: self.used,
            limits: Limits {
                rounds: settings.rounds,
                children: settings.children_in_all(),
                auto_verdicts: settings.max_auto,
                cost_usd: settings.max_cost_usd,
                hours: settings.max_hours,
            },
            reason: self.reason.as_ref().or(ended).cloned(),
            seed: SeedStatus {
                prompt: seed.version.name.clone(),
                prompt_sha256: seed.version.sha256.clone(),
                feedback: seed.feedback(),
            },
            children: self.nodes.iter().skip(1).map(child).collect(),
        }
    }
}

fn child(node: &crate::tree::Node) -> ChildStatus {
    ChildStatus {
        id: node.id.clone(),
        parent: node.parent.clone(),
        round: node.round,
        hypothesis: node.hypothesis.clone(),
        state: node.state,
        reason: node.reason.clone(),
        prompt_sha256: node.version.sha256.clone(),
        feedback: node.feedback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{STEADY, settings, started};

    #[test]
    fn the_json_has_the_published_shape() {
        let mut log = vec![started(settings())];
        let tree = STEADY.play(&mut log);
        let status = serde_json::to_value(tree.status("e")).expect("JSON");
        let keys = |value: &serde_json::Value| -> Vec<String> {
            let object = value.as_object().expect("an object");
            object.keys().cloned().collect()
        };
        let published = [
            "experiment",
            "state",
            "round",
            "waiting_for",
            "nominee",
            "budget",
            "children",
        ];
        for key in published {
            assert!(keys(&status).contains(&key.to_owned()), "{key}");
        }
        assert_eq!(
            keys(&status["budget"]),
            [
                "rounds",
                "children",
                "auto_verdicts",
                "expert_verdicts",
                "cost_usd"
            ]
        );
        assert_eq!(
            keys(&status["children"][0]),
            [
                "id",
                "parent",
                "round",
                "hypothesis",
                "state",
                "reason",
                "prompt_sha256",
                "feedback"
            ]
        );
        assert_eq!(status["state"], "promoted");
        assert_eq!(status["children"][0]["state"], "rejected");
        assert!(status["children"][0]["feedback"]["ci95"][1].is_number());
        let waiting = Tree::fold(&log[..3]).expect("legal").expect("started");
        let waiting = serde_json::to_value(waiting.status("e")).expect("JSON");
        assert_eq!(waiting["waiting_for"], "reflector");
        assert_eq!(waiting["nominee"], serde_json::Value::Null);
    }
}
