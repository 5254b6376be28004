//! The plan of a job: a checked request, as a command line of this program.

use std::fmt;

use assize_domain::job::JobKind;
use serde_json::{Map, Value};

type Check = dyn Fn(JobKind, &Map<String, Value>) -> Result<Plan, Vec<FieldProblem>> + Send + Sync;

/// Checks the request for a job and converts it to a plan.
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

/// A valid request for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub kind: JobKind,
    pub experiment: String,
    /// The arguments of the command line, without the program's name.
    pub words: Vec<String>,
    /// Hosts whose memory the job uses. At most one job runs on a host.
    pub hosts: Vec<String>,
    /// The number of cells; 0 if it is unknown.
    pub total: u32,
}

/// A problem with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct FieldProblem {
    pub field: String,
    pub message: String,
}
