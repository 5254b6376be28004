//! What a request for a job comes to.

use std::fmt;

use assize_domain::job::JobKind;
use serde_json::{Map, Value};

type Check = dyn Fn(JobKind, &Map<String, Value>) -> Result<Plan, Vec<FieldProblem>> + Send + Sync;

/// Checks a request for a job of a kind, and turns it into a command line of this program.
pub struct Planner(Box<Check>);

impl Planner {
    pub fn new(
        check: impl Fn(JobKind, &Map<String, Value>) -> Result<Plan, Vec<FieldProblem>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Box::new(check))
    }

    pub(crate) fn plan(
        &self,
        kind: JobKind,
        fields: &Map<String, Value>,
    ) -> Result<Plan, Vec<FieldProblem>> {
        (self.0)(kind, fields)
    }
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

/// A request that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub kind: JobKind,
    pub experiment: String,
    /// The command line after the program's name.
    pub words: Vec<String>,
    /// Hosts whose memory it fills: no two jobs share one at a time.
    pub hosts: Vec<String>,
    /// Cells in all; 0 where that is not known before.
    pub total: u32,
}

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct FieldProblem {
    pub field: String,
    pub message: String,
}
