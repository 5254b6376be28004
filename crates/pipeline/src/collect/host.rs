//! What is reported about the hosts of a collection: while it runs, and at its end.

use serde::{Deserialize, Serialize};

use crate::size_gate::SizedModel;

/// What a host is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    /// Nothing, until another host or process is done.
    Waiting,
    Loading,
    Working,
    /// It is left out, and asked now and then whether it answers.
    Failed,
    /// It answers again.
    Recovered,
}

impl HostState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Loading => "loading",
            Self::Working => "working",
            Self::Failed => "failed",
            Self::Recovered => "recovered",
        }
    }
}

/// A host begins something else.
#[derive(Debug)]
pub struct HostEvent<'a> {
    pub host: &'a str,
    pub state: HostState,
    /// The model that it loads or holds.
    pub model: Option<&'a SizedModel>,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// How many hosts the collection has.
    pub hosts: usize,
}

/// What a host did in a collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostSummary {
    pub host: String,
    /// Cells that were generated there, failed ones included.
    pub cells: u64,
    pub loads: u64,
    /// Seconds of loading, generating and unloading.
    pub seconds: f64,
    /// How often it failed and was left out.
    pub failures: u64,
    /// Why it was left out, if it had not come back at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl HostSummary {
    /// Adds what the same host did in a later part of the collection.
    pub(super) fn add(&mut self, later: Self) {
        self.cells += later.cells;
        self.loads += later.loads;
        self.seconds += later.seconds;
        self.failures += later.failures;
        self.error = later.error;
    }
}
