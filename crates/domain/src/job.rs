//! The kinds of work that `assize serve` runs as jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// `assize collect`
    Collect,
    /// `assize judge auto`
    Judge,
    /// `assize simulate`
    Simulate,
    /// `assize optimise start` and `step`
    Optimise,
}

impl JobKind {
    pub const ALL: [Self; 4] = [Self::Collect, Self::Judge, Self::Simulate, Self::Optimise];
    /// The kinds that ask models.
    pub const WITH_MODELS: [Self; 3] = [Self::Collect, Self::Judge, Self::Optimise];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Collect => "collect",
            Self::Judge => "judge",
            Self::Simulate => "simulate",
            Self::Optimise => "optimise",
        }
    }

    /// What a job of this kind counts.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Collect | Self::Optimise => "cells",
            Self::Judge => "cases",
            Self::Simulate => "simulations",
        }
    }

    /// Whether this kind is in a list; usable in constants.
    pub const fn is_in(self, kinds: &[Self]) -> bool {
        let mut at = 0;
        while at < kinds.len() {
            if kinds[at] as u8 == self as u8 {
                return true;
            }
            at += 1;
        }
        false
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| {
            format!("'{text}' is not a valid kind of job: use collect, judge, simulate or optimise")
        })
    }
}
