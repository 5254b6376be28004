//! What is agreed before a loop starts: its models, judge and reflector, and its budgets.
//!
//! They are recorded with the first event and never change afterwards, so that a loop that goes on
//! after a week does what it was started to do.

use serde::{Deserialize, Serialize};

use crate::error::OptimiseError;

/// The most children that a reflector is asked for at once.
pub const MOST_CHILDREN: u32 = 4;

/// The settings of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopSettings {
    /// The name of the prompt that the loop starts from.
    pub prompt: String,
    pub models: Vec<String>,
    /// The automatic judge of the race; empty where every criterion is computed.
    pub judge: String,
    /// As it was given: `agent`, `cmd:COMMAND`, `script:FILE` or a model.
    pub reflector: String,
    pub rounds: u32,
    /// Children that are asked for in a round.
    pub children: u32,
    /// Candidates of a cell in the race.
    pub candidates: u32,
    /// The most automatic verdicts of the whole loop.
    pub max_auto: u32,
    /// Of these, the ones that the gate needs on the selection split; the race leaves them.
    pub reserved_auto: u32,
    /// The most children of the whole loop.
    pub max_children: Option<u32>,
    pub max_cost_usd: Option<f64>,
    pub max_hours: Option<f64>,
    /// The search ends after so many rounds without a leader in a row.
    pub stale_rounds: u32,
    /// The search ends when a version's mean on the feedback split reaches this share of the
    /// composite's range.
    pub ceiling: f64,
    pub seed: u64,
}

impl Default for LoopSettings {
    fn default() -> Self {
        Self {
            prompt: String::new(),
            models: Vec::new(),
            judge: String::new(),
            reflector: "agent".to_owned(),
            rounds: 5,
            children: 4,
            candidates: 2,
            max_auto: 300,
            reserved_auto: 0,
            max_children: None,
            max_cost_usd: None,
            max_hours: None,
            stale_rounds: 3,
            ceiling: 0.97,
            seed: 42,
        }
    }
}

/// The judge of a loop, for people.
pub fn judge_words(settings: &LoopSettings) -> &str {
    if settings.judge.is_empty() {
        "none: every criterion is computed"
    } else {
        &settings.judge
    }
}

impl LoopSettings {
    /// What is wrong, by setting; each text continues the setting's name.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let checks = self.names().into_iter().chain(self.budgets());
        let wrong = checks.filter(|(_, is_valid, _)| !is_valid);
        wrong.map(|(name, _, problem)| (name, problem)).collect()
    }

    fn names(&self) -> [(&'static str, bool, String); 3] {
        [
            (
                "prompt",
                !self.prompt.is_empty(),
                "is empty: name the prompt to start from".to_owned(),
            ),
            (
                "models",
                !self.models.is_empty(),
                "is empty: name the models that the prompt is for".to_owned(),
            ),
            (
                "reflector",
                !self.reflector.is_empty(),
                "is empty: use agent, cmd:COMMAND, script:FILE or a model".to_owned(),
            ),
        ]
    }

    fn budgets(&self) -> [(&'static str, bool, String); 9] {
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        let shown = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
        let at_least_one = |value: u32| format!("is {value}: use 1 or more");
        [
            ("rounds", self.rounds > 0, at_least_one(self.rounds)),
            (
                "children",
                (1..=MOST_CHILDREN).contains(&self.children),
                format!("is {}: use 1 to {MOST_CHILDREN}", self.children),
            ),
            (
                "candidates",
                self.candidates > 0,
                at_least_one(self.candidates),
            ),
            (
                "max_auto",
                self.max_auto > self.reserved_auto,
                format!(
                    "is {}, of which the gate needs {}: allow more automatic verdicts",
                    self.max_auto, self.reserved_auto
                ),
            ),
            (
                "max_children",
                self.max_children.is_none_or(|it| it > 0),
                at_least_one(self.max_children.unwrap_or(0)),
            ),
            (
                "max_cost_usd",
                self.max_cost_usd.is_none_or(is_positive),
                format!(
                    "is {}: use an amount above 0, or leave it out",
                    shown(self.max_cost_usd)
                ),
            ),
            (
                "max_hours",
                self.max_hours.is_none_or(is_positive),
                format!(
                    "is {}: use a number above 0, or leave it out",
                    shown(self.max_hours)
                ),
            ),
            (
                "stale_rounds",
                self.stale_rounds > 0,
                at_least_one(self.stale_rounds),
            ),
            (
                "ceiling",
                self.ceiling > 0.0 && self.ceiling <= 1.0,
                format!("is {}: use a share above 0 and up to 1", self.ceiling),
            ),
        ]
    }

    /// The settings, or the first problem.
    pub fn checked(self) -> Result<Self, OptimiseError> {
        match self.problems().into_iter().next() {
            Some((setting, problem)) => Err(OptimiseError::Setting { setting, problem }),
            None => Ok(self),
        }
    }

    /// Automatic verdicts that the race may use.
    pub const fn race_verdicts(&self) -> u32 {
        self.max_auto.saturating_sub(self.reserved_auto)
    }

    /// The most children of the whole loop.
    pub fn children_in_all(&self) -> u32 {
        let asked = self.rounds.saturating_mul(self.children);
        self.max_children.map_or(asked, |most| most.min(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> LoopSettings {
        LoopSettings {
            prompt: "v1".to_owned(),
            models: vec!["m".to_owned()],
            judge: "j".to_owned(),
            ..LoopSettings::default()
        }
    }

    #[test]
    fn every_setting_is_checked_by_name() {
        assert!(sound().problems().is_empty());
        let check = |change: fn(&mut LoopSettings), name: &str| {
            let mut settings = sound();
            change(&mut settings);
            let names: Vec<&str> = settings.problems().iter().map(|it| it.0).collect();
            assert_eq!(names, [name]);
            assert!(settings.checked().is_err(), "{name}");
        };
        check(|it| it.prompt.clear(), "prompt");
        check(|it| it.models.clear(), "models");
        check(|it| it.reflector.clear(), "reflector");
        check(|it| it.rounds = 0, "rounds");
        check(|it| it.children = 5, "children");
        check(|it| it.candidates = 0, "candidates");
        check(|it| it.reserved_auto = 300, "max_auto");
        check(|it| it.max_children = Some(0), "max_children");
        check(|it| it.max_cost_usd = Some(f64::NAN), "max_cost_usd");
        check(|it| it.max_hours = Some(0.0), "max_hours");
        check(|it| it.stale_rounds = 0, "stale_rounds");
        check(|it| it.ceiling = 1.1, "ceiling");
    }

    #[test]
    fn the_gate_and_the_total_limit_what_the_search_may_use() {
        let settings = LoopSettings {
            reserved_auto: 80,
            max_children: Some(7),
            ..sound()
        };
        assert_eq!(settings.race_verdicts(), 220);
        assert_eq!(settings.children_in_all(), 7);
        assert_eq!(sound().children_in_all(), 20);
    }
}
