//! Starting, listing and stopping jobs.

use assize_domain::job::JobKind;
use assize_store::state::jobs::{JobRecord, JobStatus};
use assize_store::{RunQuery, Runs as _};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::App;
use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::jobs::plan::{FieldProblem, Plan};
use crate::mlflow::fields::Nothing;

/// How many jobs a list shows.
const LISTED: u32 = 200;

/// `POST /api/bench/run`.
pub(crate) fn run(app: &App, caller: &Caller, ask: &Map<String, Value>) -> ApiResult<Queued> {
    submit(app, caller, JobKind::Collect, ask)
}

/// `POST /api/bench/judge`.
pub(crate) fn judge(app: &App, caller: &Caller, ask: &Map<String, Value>) -> ApiResult<Queued> {
    submit(app, caller, JobKind::Judge, ask)
}

/// Checks and queues a job.
pub(crate) fn submit(
    app: &App,
    caller: &Caller,
    kind: JobKind,
    ask: &Map<String, Value>,
) -> ApiResult<Queued> {
    let plan = plan(app, kind, ask).map_err(ApiError::fields)?;
    let request = Value::Object(ask.clone()).to_string();
    let job = app.jobs.submit(plan, request, &caller.name)?;
    Ok(Queued {
        job_id: job.id,
        status: job.status,
        experiment: Some(job.experiment),
    })
}

/// What a request comes to, or every bad field of it. Only a collection makes its experiment.
pub(crate) fn plan(
    app: &App,
    kind: JobKind,
    ask: &Map<String, Value>,
) -> Result<Plan, Vec<FieldProblem>> {
    let named = ask.get("experiment").and_then(Value::as_str);
    let missing = named
        .filter(|_| kind == JobKind::Judge)
        .and_then(|name| no_runs(app, name));
    match (app.config.plan.plan(kind, ask), missing) {
        (Ok(plan), None) => Ok(plan),
        (planned, missing) => {
            let mut problems = planned.err().unwrap_or_default();
            problems.extend(missing.map(|message| FieldProblem {
                field: "experiment".to_owned(),
                message,
            }));
            Err(problems)
        }
    }
}

/// Why an experiment cannot be judged, if so.
fn no_runs(app: &App, experiment: &str) -> Option<String> {
    let one = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    match app.store.run_list(experiment, &one) {
        Ok(page) if page.runs.is_empty() => Some(format!("has '{experiment}', which has no runs")),
        Ok(_) => None,
        Err(error) => Some(format!("cannot be judged: {error}")),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ById {
    job_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Jobs {
    jobs: Vec<JobView>,
}

pub(crate) fn list(app: &App, _: &Caller, _: &Nothing) -> ApiResult<Jobs> {
    let jobs = app.jobs.list(LISTED)?;
    let jobs: Vec<JobView> = jobs.iter().map(|job| shown(app, job)).collect();
    Ok(Jobs { jobs })
}

pub(crate) fn get(app: &App, _: &Caller, ask: &ById) -> ApiResult<JobView> {
    let job = app.jobs.get(&ask.job_id)?;
    let mut body = shown(app, &job);
    body.log = Some(app.jobs.log_tail(&job.id));
    Ok(body)
}

pub(crate) fn cancel(app: &App, caller: &Caller, ask: &ById) -> ApiResult<Queued> {
    let job = app.jobs.cancel(&ask.job_id)?;
    tracing::info!(job = job.id, by = caller.name, "job cancelled");
    Ok(Queued {
        job_id: job.id,
        status: job.status,
        experiment: None,
    })
}

pub(crate) fn resume(app: &App, caller: &Caller, ask: &ById) -> ApiResult<Queued> {
    let job = app.jobs.resume(&ask.job_id, &caller.name)?;
    Ok(Queued {
        job_id: job.id,
        status: job.status,
        experiment: None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn whole_seconds(seconds: f64) -> i64 {
    seconds as i64
}

/// A job that was queued, resumed or told to stop.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Queued {
    job_id: String,
    status: JobStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<String>,
}

/// A job as programs see it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub(crate) struct JobView {
    job_id: String,
    kind: JobKind,
    status: JobStatus,
    experiment: String,
    by: String,
    /// The request as it was sent.
    request: Value,
    cells: Cells,
    /// Seconds until it is done, at its pace so far.
    eta_seconds: Option<i64>,
    created_at: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
    error: Option<String>,
    /// The end of its log; only where one job is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cells {
    done: u32,
    failed: u32,
    total: u32,
}

pub(crate) fn shown(app: &App, job: &JobRecord) -> JobView {
    let now_ms = (app.config.clock)().ms;
    let eta_s = app.jobs.eta_seconds(job, now_ms);
    let time = |ms: Option<i64>| {
        let time = ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.map(|it| format!("{it:.3}"))
    };
    JobView {
        job_id: job.id.clone(),
        kind: job.kind,
        status: job.status,
        experiment: job.experiment.clone(),
        by: job.by.clone(),
        request: serde_json::from_str(&job.request).unwrap_or_default(),
        cells: Cells {
            done: job.done,
            failed: job.failed,
            total: job.total,
        },
        eta_seconds: eta_s.map(whole_seconds),
        created_at: time(Some(job.created_ms)),
        started_at: time(job.started_ms),
        finished_at: time(job.finished_ms),
        error: job.error.clone(),
        log: None,
    }
}
