//! Operations on jobs: start, list, cancel and resume.

use assize_domain::job::JobKind;
use assize_store::RunQuery;
use assize_store::state::jobs::{JobRecord, JobStatus};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::App;
use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::jobs::plan::{FieldProblem, Plan};
use crate::mlflow::fields::NoFields;

/// How many jobs are listed.
const MAX_LISTED: u32 = 200;

/// `POST /api/bench/run`.
pub(crate) fn run(app: &App, caller: &Caller, request: &Map<String, Value>) -> ApiResult<Queued> {
    submit(app, caller, JobKind::Collect, request)
}

/// `POST /api/bench/judge`.
pub(crate) fn judge(app: &App, caller: &Caller, request: &Map<String, Value>) -> ApiResult<Queued> {
    submit(app, caller, JobKind::Judge, request)
}

/// `POST /api/sim/run`.
pub(crate) fn simulate(
    app: &App,
    caller: &Caller,
    request: &Map<String, Value>,
) -> ApiResult<Queued> {
    submit(app, caller, JobKind::Simulate, request)
}

/// `POST /api/bench/optimise`.
pub(crate) fn optimise(
    app: &App,
    caller: &Caller,
    request: &Map<String, Value>,
) -> ApiResult<Queued> {
    submit(app, caller, JobKind::Optimise, request)
}

/// Checks a request and queues the job.
pub(crate) fn submit(
    app: &App,
    caller: &Caller,
    kind: JobKind,
    request: &Map<String, Value>,
) -> ApiResult<Queued> {
    let plan = plan(app, kind, request).map_err(ApiError::fields)?;
    let request = Value::Object(request.clone()).to_string();
    let job = app.jobs.submit(plan, request, &caller.name)?;
    Ok(Queued {
        job_id: job.id,
        status: job.status,
        experiment: Some(job.experiment),
    })
}

/// The plan of a request, or all its invalid fields. Judging requires an experiment with runs; a
/// collection creates its experiment.
pub(crate) fn plan(
    app: &App,
    kind: JobKind,
    request: &Map<String, Value>,
) -> Result<Plan, Vec<FieldProblem>> {
    let named = request.get("experiment").and_then(Value::as_str);
    let missing = named
        .filter(|_| kind == JobKind::Judge)
        .and_then(|name| no_runs(app, name));
    match (app.config.plan.plan(kind, request), missing) {
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

/// Why an experiment cannot be judged; `None` if it can.
fn no_runs(app: &App, experiment: &str) -> Option<String> {
    let one = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    match app.tracking.run_list(experiment, &one) {
        Ok(page) if page.runs.is_empty() => Some(format!("is '{experiment}', which has no runs")),
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

pub(crate) fn list(app: &App, _: &Caller, _: &NoFields) -> ApiResult<Jobs> {
    let jobs = app.jobs.list(MAX_LISTED)?;
    let jobs: Vec<JobView> = jobs.iter().map(|job| job_view(app, job)).collect();
    Ok(Jobs { jobs })
}

pub(crate) fn get(app: &App, _: &Caller, request: &ById) -> ApiResult<JobView> {
    let job = app.jobs.get(&request.job_id)?;
    let mut body = job_view(app, &job);
    body.log = Some(app.jobs.log_tail(&job.id));
    Ok(body)
}

pub(crate) fn cancel(app: &App, caller: &Caller, request: &ById) -> ApiResult<Queued> {
    let job = app.jobs.cancel(&request.job_id)?;
    tracing::info!(job = job.id, by = caller.name, "job cancelled");
    Ok(Queued {
        job_id: job.id,
        status: job.status,
        experiment: None,
    })
}

pub(crate) fn resume(app: &App, caller: &Caller, request: &ById) -> ApiResult<Queued> {
    let job = app.jobs.resume(&request.job_id, &caller.name)?;
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

/// A job that was queued, resumed or cancelled.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Queued {
    job_id: String,
    status: JobStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<String>,
}

/// A job in responses of the API.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub(crate) struct JobView {
    job_id: String,
    kind: JobKind,
    status: JobStatus,
    experiment: String,
    by: String,
    /// The original request.
    request: Value,
    cells: Cells,
    /// The estimated seconds until the job is done.
    eta_seconds: Option<i64>,
    created_at: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
    error: Option<String>,
    /// The page of the run on another engine (Airflow), where one does the work.
    engine_url: Option<String>,
    /// The end of the log; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cells {
    done: u32,
    failed: u32,
    total: u32,
}

pub(crate) fn job_view(app: &App, job: &JobRecord) -> JobView {
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
        engine_url: app.jobs.engine_page(job),
        log: None,
    }
}
