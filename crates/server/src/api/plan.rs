//! The plan operation: power, hours and cost of a collection that is not started.
//!
//! It runs this program as a subprocess, as the preview of a new run does, so that the server, the
//! panel and the command line always agree.

use assize_domain::job::JobKind;
use assize_domain::plan::Plan;
use serde_json::{Map, Value};

use crate::App;
use crate::access::Caller;
use crate::api::table::Field;
use crate::error::{ApiError, ApiResult};
use crate::jobs::plan::FieldProblem;
use crate::panel::models::run_program;

/// The fields of the request besides those of a collection.
pub(crate) const FIELDS: [Field; 3] = [
    (
        "power",
        "number",
        false,
        "The power that is asked for, 0.05 to 0.99; 0.8 by default",
    ),
    (
        "effect",
        "number",
        false,
        "How many points better one challenger is; twice the gate's margin by default",
    ),
    (
        "simulations",
        "integer",
        false,
        "How many experiments are simulated, 50 to 100000; 2000 by default",
    ),
];

/// `POST /api/bench/plan`.
pub(crate) fn get(app: &App, _: &Caller, request: &Map<String, Value>) -> ApiResult<Plan> {
    let words = words(app, request).map_err(ApiError::fields)?;
    run_program(app, &words).map_err(ApiError::invalid)
}

/// The command line of a plan, or all invalid fields of its request.
pub(crate) fn words(
    app: &App,
    request: &Map<String, Value>,
) -> Result<Vec<String>, Vec<FieldProblem>> {
    let is_own = |key: &str| FIELDS.iter().any(|it| it.0 == key);
    let (own, collection): (Vec<_>, Vec<_>) =
        request.iter().partition(|(key, _)| is_own(key.as_str()));
    let collection = collection.into_iter();
    let collection: Map<String, Value> = collection.map(|(k, v)| (k.clone(), v.clone())).collect();
    let planned = app.config.plan.plan(JobKind::Collect, &collection);
    let wrong = own
        .iter()
        .filter(|(_, value)| !value.is_number() && !value.is_null());
    let wrong: Vec<FieldProblem> = wrong
        .map(|(key, _)| FieldProblem {
            field: (*key).clone(),
            message: "must be a number".to_owned(),
        })
        .collect();
    let mut words = match planned {
        Ok(plan) if wrong.is_empty() => plan.words,
        Ok(_) => return Err(wrong),
        Err(problems) => return Err(problems.into_iter().chain(wrong).collect()),
    };
    // The command line of a collection, without what only a job has.
    words.retain(|it| it != "--events");
    if let Some(command) = words.first_mut() {
        "plan".clone_into(command);
    }
    let given = own.iter().filter(|(_, value)| value.is_number());
    words.extend(given.map(|(key, value)| format!("--{key}={value}")));
    Ok(words)
}
