//! The thresholds of the promotion gate: `[gate]` of the settings.

use assize_domain::judge::Tier;
use serde::{Deserialize, Serialize};

use crate::compare::DecisionRule;

/// The thresholds of the promotion gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Tiers that must rank the candidate above the incumbent. The tests use the expert tier
    /// where it is among them, else the automatic one.
    pub require: Vec<Tier>,
    /// Level of the adjusted p, of the lower bound and of the confirmation.
    pub level: f64,
    /// The smallest difference that is of practical use, in points of the composite.
    pub margin: f64,
    /// How much worse a flag's share may get.
    pub flag_margin: f64,
    /// No scenario may lose more than this, as a difference in points (so it is negative).
    pub scenario_floor: f64,
    /// Cells of the two pairs that may be failed, missing or unjudged.
    pub missing_cells: u32,
    /// Candidates that both tiers must have judged before their agreement counts.
    pub double_scored: u32,
    /// Krippendorff's α from which judges can rank.
    pub agreement: f64,
    /// α from which their agreement is at least tentative.
    pub agreement_tentative: f64,
    /// What tentative agreement does.
    pub tentative: Tentative,
    /// How far the automatic tier may be off the experts on average, in points of a criterion.
    pub bias: f64,
}

/// What agreement between the two bounds does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tentative {
    /// It passes and is marked where the tests use the expert tier; it blocks where they use the
    /// automatic tier, because then the decision would depend on it.
    Warn,
    Block,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            require: vec![Tier::Auto, Tier::Expert],
            level: 0.05,
            margin: 0.5,
            flag_margin: 0.1,
            scenario_floor: -2.0,
            missing_cells: 0,
            double_scored: 30,
            agreement: 0.8,
            agreement_tentative: 0.667,
            tentative: Tentative::Warn,
            bias: 0.25,
        }
    }
}

impl Thresholds {
    /// The tier whose scores the tests use.
    pub fn deciding_tier(&self) -> Tier {
        if self.require.contains(&Tier::Expert) {
            Tier::Expert
        } else {
            Tier::Auto
        }
    }

    /// What the board and the gate hold a lead against.
    pub const fn decision_rule(&self) -> DecisionRule {
        DecisionRule {
            level: self.level,
            margin: self.margin,
        }
    }

    /// What is wrong, by key.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let at_least_zero = |value: f64| value >= 0.0 && value.is_finite();
        let checks = [
            (
                "require",
                !self.require.is_empty(),
                "is empty: name expert, auto or both".to_owned(),
            ),
            (
                "level",
                self.level > 0.0 && self.level < 0.5,
                format!("is {}: use a level between 0 and 0.5", self.level),
            ),
            (
                "margin",
                at_least_zero(self.margin),
                format!("is {}: use 0 or more points", self.margin),
            ),
            (
                "flag_margin",
                (0.0..=1.0).contains(&self.flag_margin),
                format!("is {}: use a share from 0 to 1", self.flag_margin),
            ),
            (
                "scenario_floor",
                self.scenario_floor <= 0.0 && self.scenario_floor.is_finite(),
                format!("is {}: use 0 or fewer points", self.scenario_floor),
            ),
            (
                "double_scored",
                self.double_scored >= 2,
                format!("is {}: use 2 or more", self.double_scored),
            ),
            (
                "agreement",
                (-1.0..=1.0).contains(&self.agreement),
                format!("is {}: use a coefficient up to 1", self.agreement),
            ),
            (
                "agreement_tentative",
                (-1.0..=self.agreement).contains(&self.agreement_tentative),
                format!(
                    "is {}: use a coefficient up to agreement ({})",
                    self.agreement_tentative, self.agreement
                ),
            ),
            (
                "bias",
                at_least_zero(self.bias),
                format!("is {}: use 0 or more points", self.bias),
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, is_right, _)| !is_right);
        wrong.map(|(key, _, message)| (key, message)).collect()
    }
}
