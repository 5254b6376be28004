//! Features: the fixed numbers that describe a candidate in a context.
//!
//! A version fixes the features, their order and their scaling; any change is a new version. All
//! scales are constants, so a feature means the same for every user and at every time, and values
//! lie in [0, 1], or in [−1, 1] where they are a sine or cosine.
//!
//! | index | v1 and v2 | value | missing |
//! |---|---|---|---|
//! | 0 | intercept | 1 | |
//! | 1 | hour, sine | sin(2π·hour/24) | 0 |
//! | 2 | hour, cosine | cos(2π·hour/24) | 0 |
//! | 3 | weekend | 1 or 0 | 0 |
//! | 4 | open-task load | min(open_tasks, 20)/20 | 0 |
//! | 5 | urgency | urgency | 0 |
//! | 6 | tip–task match | task_match of the candidate | 0 |
//!
//! | index | v2 only | value | missing |
//! |---|---|---|---|
//! | 7 | completion rate | completion_rate | 0 |
//! | 8 | dismiss rate | dismiss_rate | 0 |
//! | 9 | mean dwell | min(mean_dwell_s, 600)/600 | 0 |
//! | 10 | preferred-hour alignment | cos(2π·(hour − preferred_hour)/24) | 0 |
//! | 11 | tip volume | min(ln(1 + tip_volume)/ln(1 + 1000), 1) | 0 |
//!
//! The hour is a point on a circle, because 23:30 and 0:30 are neighbours; a missing hour is the
//! circle's centre (0, 0), which favours no hour. The alignment is one cosine for the same reason,
//! and needs both hours. A feature of 0 adds nothing to x·θ, so a missing value is neutral; a
//! candidate without a profile has in v2 the features of v1 and five zeros. Load and dwell are
//! clipped and volume is logarithmic, because one task more matters less where there are many.
//!
//! Reference for hours as sine and cosine: Bishop (2006), "Pattern recognition and machine
//! learning", section 2.3.8 (periodic variables).

use crate::error::in_range;
use crate::{PolicyError, ridge};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::ops::Deref;

const MOST_OPEN_TASKS: f64 = 20.0;
const MOST_DWELL_S: f64 = 600.0;
const MOST_TIP_VOLUME: f64 = 1000.0;
const TASK_MATCH: usize = 6;
const LONGEST: usize = 12;
const HOURS_PER_DAY: f64 = 24.0;

/// The situation in which a candidate is chosen. Unknown keys are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Local time of day in [0, 24).
    pub hour: Option<f64>,
    pub weekend: Option<bool>,
    /// Number of the user's open tasks, from 0.
    pub open_tasks: Option<f64>,
    /// In [0, 1].
    pub urgency: Option<f64>,
}

/// What is known of the user's behaviour so far. Unknown keys are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Share of shown tips that were acted on, in [0, 1].
    pub completion_rate: Option<f64>,
    /// Share of shown tips that were dismissed, in [0, 1].
    pub dismiss_rate: Option<f64>,
    /// Mean time on a tip in seconds, from 0.
    pub mean_dwell_s: Option<f64>,
    /// The time of day at which the user likes tips, in [0, 24).
    pub preferred_hour: Option<f64>,
    /// Number of tips shown so far, from 0.
    pub tip_volume: Option<f64>,
}

/// Which features are computed. A policy has exactly one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum FeatureVersion {
    V1,
    V2,
}

impl From<FeatureVersion> for u8 {
    fn from(version: FeatureVersion) -> Self {
        version.number()
    }
}

impl TryFrom<u8> for FeatureVersion {
    type Error = PolicyError;

    fn try_from(number: u8) -> Result<Self, PolicyError> {
        match number {
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            number => Err(PolicyError::UnknownFeatureVersion { number }),
        }
    }
}

/// The features of one candidate; a slice of the version's length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeatureVector {
    values: [f64; LONGEST],
    len: usize,
}

impl Deref for FeatureVector {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values[..self.len]
    }
}

impl FeatureVersion {
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The number of features.
    pub const fn dimension(self) -> usize {
        match self {
            Self::V1 => 7,
            Self::V2 => LONGEST,
        }
    }

    /// The names of the features, in order.
    pub const fn names(self) -> &'static [&'static str] {
        const NAMES: [&str; LONGEST] = [
            "intercept",
            "hour_sin",
            "hour_cos",
            "weekend",
            "open_task_load",
            "urgency",
            "task_match",
            "completion_rate",
            "dismiss_rate",
            "mean_dwell",
            "preferred_hour_alignment",
            "tip_volume",
        ];
        NAMES.split_at(self.dimension()).0
    }

    /// The features that all candidates of a decision share; the tip–task match is still 0.
    ///
    /// Both versions check the profile, so that a bad value is reported whichever policy is active.
    pub fn prepare(
        self,
        context: &Context,
        profile: Option<&Profile>,
    ) -> Result<FeatureVector, PolicyError> {
        let mut values = [0.0; LONGEST];
        values[0] = 1.0;
        let hour = context
            .hour
            .map(|it| hour("context.hour", it))
            .transpose()?;
        if let Some(hour) = hour {
            (values[1], values[2]) = (TAU * hour / HOURS_PER_DAY).sin_cos();
        }
        values[3] = f64::from(u8::from(context.weekend.unwrap_or(false)));
        values[4] = clipped("context.open_tasks", context.open_tasks, MOST_OPEN_TASKS)?;
        values[5] = share("context.urgency", context.urgency)?;
        if let Some(profile) = profile {
            let of_profile = profile_features(profile, hour)?;
            if self == Self::V2 {
                values[TASK_MATCH + 1..].copy_from_slice(&of_profile);
            }
        }
        Ok(FeatureVector {
            values,
            len: self.dimension(),
        })
    }

    /// The features of one candidate.
    pub fn features(
        self,
        context: &Context,
        profile: Option<&Profile>,
        task_match: Option<f64>,
    ) -> Result<FeatureVector, PolicyError> {
        self.prepare(context, profile)?.with_task_match(task_match)
    }
}

impl FeatureVector {
    /// The features, with zeros after the last one.
    pub(crate) const fn padded(&self) -> &[f64; LONGEST] {
        &self.values
    }

    /// The same features for a candidate with this tip–task match, in [0, 1].
    pub fn with_task_match(mut self, task_match: Option<f64>) -> Result<Self, PolicyError> {
        self.values[TASK_MATCH] = share("task_match", task_match)?;
        Ok(self)
    }
}

/// Checks features that a caller brings: finite, and small enough that sums of squares stay exact.
pub fn check_features(features: &[f64]) -> Result<(), PolicyError> {
    let limit = ridge::LARGEST_FEATURE;
    let is_refused = |value: &f64| !value.is_finite() || value.abs() > limit;
    match features.iter().position(is_refused) {
        None => Ok(()),
        Some(index) => Err(PolicyError::Feature {
            index,
            value: features[index],
            limit,
        }),
    }
}

fn profile_features(profile: &Profile, hour_now: Option<f64>) -> Result<[f64; 5], PolicyError> {
    let preferred = profile
        .preferred_hour
        .map(|it| hour("profile_features.preferred_hour", it))
        .transpose()?;
    let alignment = hour_now.zip(preferred).map_or(0.0, |(now, preferred)| {
        (TAU * (now - preferred) / HOURS_PER_DAY).cos()
    });
    let volume = not_negative("profile_features.tip_volume", profile.tip_volume)?;
    Ok([
        share("profile_features.completion_rate", profile.completion_rate)?,
        share("profile_features.dismiss_rate", profile.dismiss_rate)?,
        clipped(
            "profile_features.mean_dwell_s",
            profile.mean_dwell_s,
            MOST_DWELL_S,
        )?,
        alignment,
        (volume.ln_1p() / MOST_TIP_VOLUME.ln_1p()).min(1.0),
    ])
}

fn hour(field: &'static str, value: f64) -> Result<f64, PolicyError> {
    in_range(
        field,
        value,
        (0.0..HOURS_PER_DAY).contains(&value),
        "[0, 24)",
    )
}

fn share(field: &'static str, value: Option<f64>) -> Result<f64, PolicyError> {
    let value = value.unwrap_or(0.0);
    in_range(field, value, (0.0..=1.0).contains(&value), "[0, 1]")
}

fn not_negative(field: &'static str, value: Option<f64>) -> Result<f64, PolicyError> {
    let value = value.unwrap_or(0.0);
    in_range(field, value, value >= 0.0, "[0, ∞)")
}

fn clipped(field: &'static str, value: Option<f64>, most: f64) -> Result<f64, PolicyError> {
    Ok(not_negative(field, value)?.min(most) / most)
}

#[cfg(test)]
mod tests;
