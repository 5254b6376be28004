//! The forms of a loop's page: its next step as a job, and its end.

use assize_domain::job::JobKind;
use assize_pipeline::optimise::{LoopLog, turn};
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::{Map, Value, json};

use super::{render, unfinished_job};
use crate::App;
use crate::api::jobs::plan;
use crate::panel::experiment::segment;
use crate::panel::fields::{Fields, Form, Path, named};
use crate::panel::page::{PageResult, Visit, blocking};

const LONGEST_REASON: usize = 500;

/// Queues the next step and redirects to its job; where one is queued or running already, to that one.
pub(crate) async fn step(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(_): Form,
) -> PageResult {
    blocking(&app, move |app| {
        LoopLog::open(&app.state, &experiment)?;
        let to_job = |id: &str| Ok(Redirect::to(&format!("/jobs/{id}")).into_response());
        if let Some(job) = unfinished_job(app, &experiment)? {
            return to_job(&job.id);
        }
        let mut request = Map::new();
        request.insert("experiment".to_owned(), json!(experiment));
        match plan(app, JobKind::Optimise, &request) {
            Ok(plan) => {
                let request = Value::Object(request).to_string();
                let job = app.jobs.submit(plan, request, &visit.name)?;
                to_job(&job.id)
            }
            Err(problems) => {
                let problems = named(&problems, JobKind::Optimise);
                render(app, &visit, &experiment, &Fields::default(), problems)
            }
        }
    })
    .await
}

/// Ends the loop, unless a step of it is running.
pub(crate) async fn stop(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        let _turn = turn(&app.config.locks, &experiment)?;
        let mut log = LoopLog::open(&app.state, &experiment)?;
        if !log.tree()?.is_finished() {
            let given = fields.get("reason").map(str::trim).unwrap_or_default();
            let given: String = given.chars().take(LONGEST_REASON).collect();
            let reason = match given.as_str() {
                "" => format!("by request of {}", visit.name),
                given => format!("{given} ({})", visit.name),
            };
            log.stop(&reason, visit.now_ms)?;
        }
        let back = format!("/optimise/{}?done=stopped", segment(&experiment));
        Ok(Redirect::to(&back).into_response())
    })
    .await
}
