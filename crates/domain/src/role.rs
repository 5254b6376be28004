//! Roles: what the holder of a token may do at `assize serve`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    Admin,
    /// The judge's desk, blind; reading only while no sitting of theirs is open.
    Judge,
    /// Reading.
    Viewer,
    /// The policies, and nothing else.
    Service,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Admin, Self::Judge, Self::Viewer, Self::Service];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Judge => "judge",
            Self::Viewer => "viewer",
            Self::Service => "service",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|role| role.as_str() == text);
        known.ok_or_else(|| {
            format!("'{text}' is not a valid role: use admin, judge, viewer or service")
        })
    }
}
