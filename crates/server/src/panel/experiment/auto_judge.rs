//! An automatic judge over what waits: which model, how many cases, for how much; then its job.

use askama::Template;
use assize_domain::job::JobKind;
use assize_store::{JudgingCounts, Queue as _};
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
use crate::panel::page::{Frame, PageError, Paged, Visit, blocking, with_status};

#[derive(Template)]
#[template(path = "auto_judge.html")]
struct AutoJudgePage {
    frame: Frame,
    top: Top,
    /// Cells that no automatic judge has scored.
    waiting: u64,
    found: HostModels,
    other: String,
    limit: String,
    inputs: OptionInputs,
    problems: Vec<String>,
}

pub(crate) async fn page(State(app): State<App>, Path(experiment): Path, visit: Visit) -> Paged {
    form(&app, experiment, visit, Fields::default(), Vec::new()).await
}

/// Queues the judge, and goes to its live page.
pub(crate) async fn start(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(fields): Form,
) -> Paged {
    let ask = request(&experiment, &fields);
    let by = visit.name.clone();
    let queued = blocking(&app, move |app| match plan(app, JobKind::Judge, &ask) {
        Err(problems) => Ok(Err(problems)),
        Ok(plan) => {
            let request = Value::Object(ask).to_string();
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

/// The form as a request of the API: what is blank is left to the defaults.
fn request(experiment: &str, fields: &Fields) -> Map<String, Value> {
    let mut ask = Map::new();
    ask.insert("experiment".to_owned(), json!(experiment));
    if let Some(judge) = fields.get("other").or_else(|| fields.get("judge")) {
        ask.insert("judge".to_owned(), json!(judge));
    }
    if let Some(text) = fields.get("limit") {
        ask.insert("limit".to_owned(), number::<u64>(text));
    }
    fill(JobKind::Judge, fields, &mut ask);
    ask
}

async fn form(
    app: &App,
    experiment: String,
    visit: Visit,
    fields: Fields,
    problems: Vec<String>,
) -> Paged {
    let top = Top::at_a_glance(app, &experiment, "judges").await?;
    let picked = fields.owned("judge").unwrap_or_default();
    let (found, counts) = blocking(app, move |app| {
        let counts: JudgingCounts = app.store.judging_count(&experiment)?;
        Ok::<_, PageError>((HostModels::look(app, &[&picked]), counts))
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
            waiting: counts.auto_pending,
            found,
            other: text("other"),
            limit: text("limit"),
            inputs: OptionInputs::new(JobKind::Judge, &app.config.options, &fields),
            problems,
        },
    )
}
