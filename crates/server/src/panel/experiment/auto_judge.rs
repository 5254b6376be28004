//! The form for automatic judging: the model, the number of cases and the budget.

use askama::Template;
use assize_domain::job::JobKind;
use assize_store::JudgingCounts;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::{Map, Value, json};

use super::Top;
use crate::App;
use crate::api::jobs::plan;
use crate::panel::fields::{Fields, Form, Path, named, number};
use crate::panel::models::HostModels;
use crate::panel::option_inputs::{OptionInputs, fill};
use crate::panel::page::{Frame, PageError, PageResult, Visit, blocking, with_status};

#[derive(Template)]
#[template(path = "auto_judge.html")]
struct AutoJudgePage {
    frame: Frame,
    top: Top,
    /// Cells that no automatic judge has scored.
    pending: u64,
    found: HostModels,
    other: String,
    limit: String,
    inputs: OptionInputs,
    problems: Vec<String>,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
) -> PageResult {
    form(&app, experiment, visit, Fields::default(), Vec::new()).await
}

/// Queues the job and redirects to its page.
pub(crate) async fn start(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    let request = request(&experiment, &fields);
    let by = visit.name.clone();
    let queued = blocking(&app, move |app| match plan(app, JobKind::Judge, &request) {
        Err(problems) => Ok(Err(problems)),
        Ok(plan) => {
            let request = Value::Object(request).to_string();
            Ok(Ok(app.jobs.submit(plan, request, &by)?))
        }
    })
    .await?;
    match queued {
        Ok(job) => Ok(Redirect::to(&format!("/jobs/{}", job.id)).into_response()),
        Err(problems) => {
            let problems = named(&problems, JobKind::Judge);
            form(&app, experiment, visit, fields, problems).await
        }
    }
}

/// Converts the form to an API request; blank fields are omitted.
fn request(experiment: &str, fields: &Fields) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("experiment".to_owned(), json!(experiment));
    if let Some(judge) = fields.get("other").or_else(|| fields.get("judge")) {
        request.insert("judge".to_owned(), json!(judge));
    }
    if let Some(text) = fields.get("limit") {
        request.insert("limit".to_owned(), number::<u64>(text));
    }
    fill(JobKind::Judge, fields, &mut request);
    request
}

async fn form(
    app: &App,
    experiment: String,
    visit: Visit,
    fields: Fields,
    problems: Vec<String>,
) -> PageResult {
    let top = Top::from_cache(app, &experiment, "judges").await?;
    let picked = fields.owned("judge").unwrap_or_default();
    let (found, counts) = blocking(app, move |app| {
        let counts: JudgingCounts = app.tracking.judging_count(&experiment)?;
        Ok::<_, PageError>((HostModels::find(app, &[&picked]), counts))
    })
    .await?;
    let text = |name| fields.owned(name).unwrap_or_default();
    let status = if problems.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::BAD_REQUEST
    };
    with_status(
        status,
        &AutoJudgePage {
            frame: Frame::new("experiments", &visit),
            top,
            pending: counts.auto_pending,
            found,
            other: text("other"),
            limit: text("limit"),
            inputs: OptionInputs::new(JobKind::Judge, &app.config.options, &fields),
            problems,
        },
    )
}
