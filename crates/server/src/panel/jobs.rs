//! The list of jobs, and the live page of one job with its cells.
//!
//! Without JavaScript the page of a running job reloads every few seconds; with it, the page is
//! updated as events arrive.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use askama::Template;
use assize_domain::job::JobKind;
use assize_pipeline::collect::CellStatus;
use assize_pipeline::events::{JobEvent, SettledCell};
use assize_store::state::jobs::{JobRecord, JobStatus};
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::Value;

use super::fields::Path;
use super::job_hosts::{HostRow, HostRows};
use super::page::{Frame, PageResult, Visit, blocking, show};
use super::relative_time::{RelativeTime, span};
use crate::App;
use crate::boards::Boards;
use crate::jobs::EVENTS;

const SHOWN: u32 = 100;
/// Jobs with more cells show only a progress bar.
const MAX_CELLS: u32 = 3_000;
/// How many failures are listed.
const MAX_FAILURES: usize = 20;

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: Frame,
    jobs: Vec<JobRow>,
}

/// One job in the list.
struct JobRow {
    id: String,
    kind: JobKind,
    experiment: String,
    status: &'static str,
    done: u32,
    failed: u32,
    total: u32,
    by: String,
    when: RelativeTime,
    /// The page of the run on another engine.
    engine_page: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    job: JobRecord,
    status: &'static str,
    is_over: bool,
    headline: String,
    /// Whether the experiment has runs.
    has_runs: bool,
    /// The headline while the job runs; the script shows it when the job starts.
    running: String,
    pace: String,
    noun: &'static str,
    created: RelativeTime,
    rows: Vec<GridRow>,
    hosts: Vec<HostRow>,
    failures: Vec<(String, String)>,
    log: String,
    /// The page of the run on another engine.
    engine_page: Option<String>,
}

/// The cells of a model with a prompt.
struct GridRow {
    name: String,
    cells: Vec<Square>,
}

#[derive(Clone)]
struct Square {
    class: &'static str,
    title: String,
}

pub(crate) async fn list(State(app): State<App>, visit: Visit) -> PageResult {
    blocking(&app, move |app| {
        let jobs = app.jobs.list(SHOWN)?;
        let mut frame = Frame::new("jobs", &visit);
        if jobs.iter().any(|it| !it.status.is_over()) {
            frame.refresh_s = 5;
        }
        let row = |it: JobRecord| JobRow {
            engine_page: app.jobs.engine_page(&it),
            status: it.status.as_str(),
            when: RelativeTime::of_ms(it.created_ms, visit.now_ms),
            id: it.id,
            kind: it.kind,
            experiment: it.experiment,
            done: it.done,
            failed: it.failed,
            total: it.total,
            by: it.by,
        };
        let jobs = jobs.into_iter().map(row).collect();
        show(&JobsPage { frame, jobs })
    })
    .await
}

pub(crate) async fn page(State(app): State<App>, Path(id): Path, visit: Visit) -> PageResult {
    let experiments = Boards::experiments(&app).await?;
    blocking(&app, move |app| {
        let job = app.jobs.get(&id)?;
        let (cells, hosts) = read_events(app, &job);
        let mut frame = Frame::new("jobs", &visit);
        let is_over = job.status.is_over();
        if !is_over {
            frame.refresh_s = 3;
        }
        show(&JobPage {
            frame,
            status: job.status.as_str(),
            is_over,
            has_runs: experiments.iter().any(|it| it.name == job.experiment),
            headline: headline(&job, job.status),
            running: headline(&job, JobStatus::Running),
            pace: pace(app, &job, visit.now_ms),
            noun: job.kind.unit(),
            created: RelativeTime::of_ms(job.created_ms, visit.now_ms),
            rows: grid(&job, &cells),
            hosts,
            failures: failures(&cells),
            log: app.jobs.log_tail(&job.id),
            engine_page: app.jobs.engine_page(&job),
            job,
        })
    })
    .await
}

fn headline(job: &JobRecord, status: JobStatus) -> String {
    let what = match job.kind {
        JobKind::Judge => "Automatic judging",
        JobKind::Collect => "Collection",
        JobKind::Simulate => "Simulation",
        JobKind::Optimise => "Step of the prompt loop",
    };
    match status {
        JobStatus::Queued => format!("{what} of {} is queued", job.experiment),
        JobStatus::Running => format!("{what} of {} is running", job.experiment),
        JobStatus::Done if job.failed > 0 => {
            format!(
                "{what} of {} is done; {} {} failed",
                job.experiment,
                job.failed,
                job.kind.unit()
            )
        }
        JobStatus::Done => format!("{what} of {} is done", job.experiment),
        JobStatus::Failed => format!("{what} of {} failed", job.experiment),
        JobStatus::Cancelled => format!("{what} of {} was cancelled", job.experiment),
    }
}

/// The rate and the remaining time, in the format of the page's script.
fn pace(app: &App, job: &JobRecord, now_ms: i64) -> String {
    let (Some(seconds), Some(started)) = (app.jobs.eta_seconds(job, now_ms), job.started_ms) else {
        return String::new();
    };
    let per_second = f64::from(job.done) * 1000.0 / (now_ms - started).max(1) as f64;
    let rate = if per_second < 1.0 {
        format!("{:.0} {} per minute", per_second * 60.0, job.kind.unit())
    } else {
        format!("{per_second:.1} {} per second", job.kind.unit())
    };
    format!("{rate}, about {} left", span(seconds))
}

/// The cells that the job has printed so far, and what its hosts do.
fn read_events(app: &App, job: &JobRecord) -> (Vec<SettledCell>, Vec<HostRow>) {
    let (mut cells, mut hosts) = (Vec::new(), HostRows::default());
    let Ok(file) = File::open(app.jobs.folder(&job.id).join(EVENTS)) else {
        return (cells, hosts.0);
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    for event in lines.filter_map(|line| serde_json::from_str::<JobEvent>(&line).ok()) {
        hosts.add(&event);
        if let JobEvent::Cell(cell) = event {
            cells.push(cell);
        }
    }
    (cells, hosts.0)
}

/// A list of names in a request: an array, or a string that is separated by commas.
fn names(request: &Value, key: &str) -> Vec<String> {
    match &request[key] {
        Value::Array(list) => list
            .iter()
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect(),
        Value::String(text) => text.split(',').map(|it| it.trim().to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// One row per pair and one square per cell: finished cells in order of time, then hollow squares
/// for pending ones.
fn grid(job: &JobRecord, cells: &[SettledCell]) -> Vec<GridRow> {
    if job.kind != JobKind::Collect || job.total > MAX_CELLS {
        return Vec::new();
    }
    let request: Value = serde_json::from_str(&job.request).unwrap_or_default();
    let mut rows: Vec<GridRow> = Vec::new();
    for model in names(&request, "models") {
        for prompt in names(&request, "prompts") {
            rows.push(GridRow {
                name: format!("{model} × {prompt}"),
                cells: Vec::new(),
            });
        }
    }
    let known = rows.len();
    for cell in cells {
        let name = format!("{} × {}", cell.model, cell.prompt);
        let place = rows.iter().position(|it| it.name == name);
        let place = place.unwrap_or_else(|| {
            rows.push(GridRow {
                name,
                cells: Vec::new(),
            });
            rows.len() - 1
        });
        let status = match cell.status {
            CellStatus::Collected => "collected",
            CellStatus::Skipped => "skipped",
            CellStatus::Failed => "failed",
        };
        rows[place].cells.push(Square {
            class: status,
            title: match &cell.error {
                None => format!("{}: {status}", cell.scenario),
                Some(error) => format!("{}: {status}, {error}", cell.scenario),
            },
        });
    }
    let each = job.total as usize / known.max(1);
    for row in rows.iter_mut().take(known) {
        let missing = each.saturating_sub(row.cells.len());
        let hollow = Square {
            class: "hollow",
            title: "pending".to_owned(),
        };
        row.cells.extend(std::iter::repeat_n(hollow, missing));
    }
    rows
}

fn failures(cells: &[SettledCell]) -> Vec<(String, String)> {
    let failed = cells.iter().filter(|it| it.status == CellStatus::Failed);
    failed
        .take(MAX_FAILURES)
        .map(|it| {
            let name = format!("{} × {} × {}", it.model, it.prompt, it.scenario);
            (name, it.error.clone().unwrap_or_default())
        })
        .collect()
}

pub(crate) async fn cancel(State(app): State<App>, Path(id): Path, visit: Visit) -> PageResult {
    blocking(&app, move |app| {
        app.jobs.cancel(&id)?;
        tracing::info!(job = id, by = visit.name, "job cancelled");
        Ok(Redirect::to(&format!("/jobs/{id}")).into_response())
    })
    .await
}

pub(crate) async fn resume(State(app): State<App>, Path(id): Path, visit: Visit) -> PageResult {
    blocking(&app, move |app| {
        let job = app.jobs.resume(&id, &visit.name)?;
        Ok(Redirect::to(&format!("/jobs/{}", job.id)).into_response())
    })
    .await
}
