//! The thresholds of the promotion gate: `[gate]` of the settings.
//!
//! A threshold in points means nothing without the scale that the points are counted on. Those
//! that are not set are therefore shares of the scale's range: the defaults suit a composite from
//! 0 to 1 as well as one from 2 to 17.

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
    /// The smallest difference that is of practical use, in points of the composite; by default
    /// a share of its range ([`Thresholds::margin_within`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// How much worse a flag's share may get.
    pub flag_margin: f64,
    /// No scenario may lose more than this, as a difference in points (so it is negative); by
    /// default a share of the composite's range ([`Thresholds::scenario_floor_within`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_floor: Option<f64>,
    /// No segment of the scenarios may lose more than this, as a difference in points; by default a
    /// share of the composite's range ([`Thresholds::segment_floor_within`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_floor: Option<f64>,
    /// The share of the two pairs' verdicts that may come from different judges or sittings.
    pub judged_apart: f64,
    /// How far the shares of failed requests of the two pairs may be apart.
    pub failed_margin: f64,
    /// By which share the candidate may be slower than the incumbent; not checked where it is not
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_margin: Option<f64>,
    /// By which share it may cost more; not checked where it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_margin: Option<f64>,
    /// Cells of the two pairs that may be failed, missing or unjudged.
    pub missing_cells: u32,
    /// Candidates that both tiers must have judged before their agreement counts.
    pub double_scored: u32,
    /// By how much the automatic tier may favour one of the two pairs over the other, compared with
    /// the experts, in points of the composite; by default a share of its range
    /// ([`Thresholds::bias_within`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<f64>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            require: vec![Tier::Auto, Tier::Expert],
            level: 0.05,
            margin: None,
            flag_margin: 0.1,
            scenario_floor: None,
            segment_floor: None,
            judged_apart: 0.1,
            failed_margin: 0.05,
            latency_margin: None,
            cost_margin: None,
            missing_cells: 0,
            double_scored: 30,
            bias: None,
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

    /// The margin in points of a composite with this range: what is set, else a thirtieth of it.
    pub fn margin_within(&self, range: (f64, f64)) -> f64 {
        DecisionRule::from(self).margin_within(range)
    }

    /// The floor in points of a composite with this range: what is set, else two fifteenths of it
    /// below zero.
    pub fn scenario_floor_within(&self, range: (f64, f64)) -> f64 {
        let default = || -2.0 * (range.1 - range.0) / 15.0;
        self.scenario_floor.unwrap_or_else(default)
    }

    /// The floor of segments in points of a composite with this range: what is set, else a fifteenth
    /// of it below zero.
    pub fn segment_floor_within(&self, range: (f64, f64)) -> f64 {
        let default = || -(range.1 - range.0) / 15.0;
        self.segment_floor.unwrap_or_else(default)
    }

    /// The largest bias in points of a composite with this range: what is set, else a thirtieth of
    /// it.
    pub fn bias_within(&self, range: (f64, f64)) -> f64 {
        self.bias.unwrap_or_else(|| (range.1 - range.0) / 30.0)
    }

    /// What the board and the gate hold a lead against.
    pub fn decision_rule(&self) -> DecisionRule {
        DecisionRule::from(self)
    }

    /// What is wrong, by key.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let at_least_zero = |value: f64| value >= 0.0 && value.is_finite();
        let shown = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
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
                self.margin.is_none_or(at_least_zero),
                format!("is {}: use 0 or more points", shown(self.margin)),
            ),
            (
                "flag_margin",
                (0.0..=1.0).contains(&self.flag_margin),
                format!("is {}: use a share from 0 to 1", self.flag_margin),
            ),
            (
                "scenario_floor",
                self.scenario_floor.is_none_or(|it| at_least_zero(-it)),
                format!("is {}: use 0 or fewer points", shown(self.scenario_floor)),
            ),
            (
                "latency_margin",
                self.latency_margin.is_none_or(at_least_zero),
                format!("is {}: use a share from 0", shown(self.latency_margin)),
            ),
            (
                "cost_margin",
                self.cost_margin.is_none_or(at_least_zero),
                format!("is {}: use a share from 0", shown(self.cost_margin)),
            ),
            (
                "double_scored",
                self.double_scored >= 2,
                format!("is {}: use 2 or more", self.double_scored),
            ),
            (
                "segment_floor",
                self.segment_floor
                    .is_none_or(|it| it <= 0.0 && it.is_finite()),
                format!("is {}: use 0 or fewer points", shown(self.segment_floor)),
            ),
            (
                "judged_apart",
                (0.0..=1.0).contains(&self.judged_apart),
                format!("is {}: use a share from 0 to 1", self.judged_apart),
            ),
            (
                "failed_margin",
                (0.0..=1.0).contains(&self.failed_margin),
                format!("is {}: use a share from 0 to 1", self.failed_margin),
            ),
            (
                "bias",
                self.bias.is_none_or(at_least_zero),
                format!("is {}: use 0 or more points", shown(self.bias)),
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, is_right, _)| !is_right);
        wrong.map(|(key, _, message)| (key, message)).collect()
    }
}

impl From<&Thresholds> for DecisionRule {
    fn from(thresholds: &Thresholds) -> Self {
        Self {
            level: thresholds.level,
            margin: thresholds.margin,
            judged_apart: thresholds.judged_apart,
            failed_margin: thresholds.failed_margin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_in_points_follow_the_scale() {
        let thresholds = Thresholds::default();
        let figures = |range| {
            let floor = thresholds.scenario_floor_within(range);
            (thresholds.margin_within(range), floor)
        };
        assert_eq!(figures((2.0, 17.0)), (0.5, -2.0));
        let (margin, floor) = figures((0.0, 1.0));
        assert!((margin - 1.0 / 30.0).abs() < 1e-12 && (floor + 2.0 / 15.0).abs() < 1e-12);
        assert!((thresholds.bias_within((2.0, 17.0)) - 0.5).abs() < 1e-12);
        assert!((thresholds.segment_floor_within((2.0, 17.0)) + 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_set_is_in_points_on_every_scale() {
        let thresholds = Thresholds {
            margin: Some(0.7),
            scenario_floor: Some(-3.0),
            bias: Some(0.1),
            ..Thresholds::default()
        };
        for range in [(2.0, 17.0), (0.0, 1.0)] {
            assert!((thresholds.margin_within(range) - 0.7).abs() < 1e-12);
            assert!((thresholds.scenario_floor_within(range) + 3.0).abs() < 1e-12);
        }
        assert!((thresholds.bias_within((0.0, 1.0)) - 0.1).abs() < 1e-12);
        assert_eq!(thresholds.problems(), []);
        let wrong = Thresholds {
            margin: Some(-1.0),
            scenario_floor: Some(1.0),
            bias: Some(f64::NAN),
            ..Thresholds::default()
        };
        let keys: Vec<&str> = wrong.problems().iter().map(|it| it.0).collect();
        assert_eq!(keys, ["margin", "scenario_floor", "bias"]);
    }
}
