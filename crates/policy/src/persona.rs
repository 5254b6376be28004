//! Personas: synthetic users with known tastes, as data.
//!
//! A persona has a schedule (when it is shown tips, with how many open tasks and how much urgency),
//! a profile (what an application would know of its behaviour) and tastes. The chance that a tip of
//! an arm is acted on is linear in the features of version 2:
//!
//! μ(arm) = Σ_f taste(arm, f)·x_f, kept in [0.01, 0.99]; with probability `noise` the reward is a
//! coin flip instead, so E(reward) = (1 − noise)·μ + noise/2.
//!
//! A profile value is mean + swing·phase + growth·step/1000 + jitter·u, with u uniform in [−1, 1]. The
//! phase is −1 or 1 and constant for `phase_steps` decisions; it is drawn anew for each stretch, so
//! that only the profile shows it. Whether a profile matters is a property of the tastes: for a user
//! with a model of their own a constant profile adds nothing that the intercept does not have, and a
//! constant preferred hour nothing that the sine and cosine of the hour do not have.
//!
//! Personas of a *family* share the reason for their tastes. Families that are *held out* are not
//! for choosing settings; the gate looks at them separately, so that a policy cannot pass because
//! it was tuned to the personas that judge it.
//!
//! The built-in set is `data/personas.toml`.

use crate::FeatureVersion;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

const BUILT_IN: &str = include_str!("../data/personas.toml");
pub(crate) const LOWEST_CHANCE: f64 = 0.01;
pub(crate) const HIGHEST_CHANCE: f64 = 0.99;

/// Why a file of personas cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PersonaError {
    #[error("the personas are not valid TOML: {0}")]
    Syntax(String),
    #[error("{place}: {problem}")]
    Invalid { place: String, problem: String },
}

/// Personas that can be compared: all choose among the same arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonaSet {
    /// One candidate of each arm is offered at every step, in this order.
    pub arms: Vec<String>,
    /// Families that are kept apart.
    #[serde(default)]
    pub held_out: Vec<String>,
    #[serde(rename = "persona")]
    pub personas: Vec<Persona>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    pub name: String,
    pub family: String,
    /// Share of rewards that are a coin flip.
    #[serde(default)]
    pub noise: f64,
    /// How far the tastes move during a simulation, from 0 to 1: at 1 each arm ends with the tastes
    /// of the next one.
    #[serde(default)]
    pub drift: f64,
    pub schedule: Schedule,
    /// Absent where the application reports no profile.
    #[serde(default)]
    pub profile: Option<ProfileModel>,
    pub tastes: BTreeMap<String, Taste>,
}

/// When and in what situations a persona is shown tips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The hours of a day's decisions; every sixth and seventh day is a weekend.
    pub hours: Vec<f64>,
    /// Each hour varies uniformly by this much to both sides.
    #[serde(default)]
    pub hour_jitter: f64,
    /// Least and most open tasks.
    pub open_tasks: [f64; 2],
    /// Least and most urgency.
    pub urgency: [f64; 2],
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileModel {
    /// Decisions between two draws of the phase.
    #[serde(default = "default_phase_steps")]
    pub phase_steps: usize,
    #[serde(default)]
    pub completion_rate: Option<Varying>,
    #[serde(default)]
    pub dismiss_rate: Option<Varying>,
    #[serde(default)]
    pub mean_dwell_s: Option<Varying>,
    #[serde(default)]
    pub preferred_hour: Option<Varying>,
    #[serde(default)]
    pub tip_volume: Option<Varying>,
}

const fn default_phase_steps() -> usize {
    50
}

/// A profile value over time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Varying {
    pub mean: f64,
    pub swing: f64,
    pub jitter: f64,
    /// In a thousand steps.
    pub growth: f64,
}

/// The weight of each feature in the chance of a reward.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Taste {
    pub intercept: f64,
    pub hour_sin: f64,
    pub hour_cos: f64,
    pub weekend: f64,
    pub open_task_load: f64,
    pub urgency: f64,
    pub task_match: f64,
    pub completion_rate: f64,
    pub dismiss_rate: f64,
    pub mean_dwell: f64,
    pub preferred_hour_alignment: f64,
    pub tip_volume: f64,
}

impl Taste {
    /// The weights in the order of the features.
    pub const fn weights(&self) -> [f64; 12] {
        [
            self.intercept,
            self.hour_sin,
            self.hour_cos,
            self.weekend,
            self.open_task_load,
            self.urgency,
            self.task_match,
            self.completion_rate,
            self.dismiss_rate,
            self.mean_dwell,
            self.preferred_hour_alignment,
            self.tip_volume,
        ]
    }
}

impl Persona {
    /// Whether the tastes follow a profile that is reported.
    pub fn profile_matters(&self) -> bool {
        let first = FeatureVersion::V1.dimension();
        let has_weight = |taste: &Taste| taste.weights()[first..].iter().any(|it| *it != 0.0);
        self.profile.is_some() && self.tastes.values().any(has_weight)
    }
}

impl PersonaSet {
    /// The built-in personas.
    pub fn built_in() -> Result<Self, PersonaError> {
        Self::parse(BUILT_IN)
    }

    /// The text of the built-in personas, as a start for one's own.
    pub const fn built_in_text() -> &'static str {
        BUILT_IN
    }

    /// Reads and checks personas in TOML.
    pub fn parse(text: &str) -> Result<Self, PersonaError> {
        let syntax = |error: toml::de::Error| PersonaError::Syntax(error.to_string());
        let set: Self = toml::from_str(text).map_err(syntax)?;
        set.check()?;
        Ok(set)
    }

    pub fn is_held_out(&self, persona: &Persona) -> bool {
        self.held_out.contains(&persona.family)
    }

    /// An error that names the first mistake.
    pub fn check(&self) -> Result<(), PersonaError> {
        let arms: BTreeSet<&String> = self.arms.iter().collect();
        if self.arms.len() < 2 || arms.len() < self.arms.len() {
            return invalid("arms", "name at least two arms, each once");
        }
        if self.personas.is_empty() {
            return invalid("persona", "there is none; add a [[persona]]");
        }
        let mut names = BTreeSet::new();
        for persona in &self.personas {
            if !names.insert(&persona.name) {
                let problem = "two personas have this name; rename one";
                return invalid(&persona.name, problem);
            }
            persona.check(&arms)?;
        }
        let families: BTreeSet<&String> = self.personas.iter().map(|it| &it.family).collect();
        match self.held_out.iter().find(|it| !families.contains(it)) {
            Some(family) => invalid("held_out", &format!("no persona has the family {family}")),
            None => Ok(()),
        }
    }
}

impl Persona {
    fn check(&self, arms: &BTreeSet<&String>) -> Result<(), PersonaError> {
        let place = |field: &str| format!("persona {}: {field}", self.name);
        let tastes: BTreeSet<&String> = self.tastes.keys().collect();
        if tastes != *arms {
            return invalid(&place("tastes"), "give exactly one taste for each arm");
        }
        let weights = self.tastes.values().flat_map(Taste::weights);
        if weights.into_iter().any(|it| !(-10.0..=10.0).contains(&it)) {
            return invalid(&place("tastes"), "weights must be between -10 and 10");
        }
        for (field, value) in [("noise", self.noise), ("drift", self.drift)] {
            if !(0.0..=1.0).contains(&value) {
                return invalid(&place(field), &format!("{value} is not between 0 and 1"));
            }
        }
        self.schedule.check(&place("schedule"))?;
        match &self.profile {
            Some(profile) => profile.check(&place("profile")),
            None => Ok(()),
        }
    }
}

impl Schedule {
    fn check(&self, place: &str) -> Result<(), PersonaError> {
        let is_hour = |hour: &f64| (0.0..24.0).contains(hour);
        if self.hours.is_empty() || !self.hours.iter().all(is_hour) {
            return invalid(place, "hours must list hours from 0 up to but not 24");
        }
        if !(0.0..=12.0).contains(&self.hour_jitter) {
            return invalid(place, "hour_jitter must be between 0 and 12");
        }
        let [least, most] = self.open_tasks;
        if !(least >= 0.0 && most >= least && most <= 1e6) {
            return invalid(place, "open_tasks must be [least, most] from 0");
        }
        let [least, most] = self.urgency;
        if !(least >= 0.0 && most >= least && most <= 1.0) {
            return invalid(place, "urgency must be [least, most] between 0 and 1");
        }
        Ok(())
    }
}

impl ProfileModel {
    fn check(&self, place: &str) -> Result<(), PersonaError> {
        if self.phase_steps == 0 {
            return invalid(place, "phase_steps must be at least 1");
        }
        let values = [
            self.completion_rate,
            self.dismiss_rate,
            self.mean_dwell_s,
            self.preferred_hour,
            self.tip_volume,
        ];
        let numbers = values.into_iter().flatten();
        let mut numbers = numbers.flat_map(|it| [it.mean, it.swing, it.jitter, it.growth]);
        if numbers.any(|it| !it.is_finite() || it.abs() > 1e9) {
            return invalid(place, "its numbers must be between -1e9 and 1e9");
        }
        Ok(())
    }
}

fn invalid<T>(place: &str, problem: &str) -> Result<T, PersonaError> {
    Err(PersonaError::Invalid {
        place: place.to_owned(),
        problem: problem.to_owned(),
    })
}

#[cfg(test)]
mod tests;
