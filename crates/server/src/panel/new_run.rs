//! The form for a new collection: choose models and options, preview the result, start the job.
//!
//! The preview is a dry run of this program ([`super::models`]), so that it always agrees with the
//! job. With JavaScript it is updated on every change, without it by a button.

use askama::Template;
use assize_domain::job::JobKind;
use assize_domain::plan::Plan;
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_pipeline::estimate::Basis;
use assize_pipeline::events::DryRun;
use assize_pipeline::{count, task_files};
use assize_report::plan_lines::{self, Line};
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::{Map, Value, json};

use super::fields::{Fields, Form, Query, named};
use super::models::{HostModels, run_program};
use super::option_inputs::{OptionInputs, fill};
use super::page::{Frame, PageError, PageResult, Visit, blocking, show, with_status};
use super::relative_time::span;
use crate::App;
use crate::api::plan;

#[derive(Template)]
#[template(path = "new_run.html")]
struct NewRunPage {
    frame: Frame,
    found: HostModels,
    prompts: Vec<(String, bool)>,
    splits: Vec<(&'static str, usize, bool)>,
    inputs: OptionInputs,
    /// Models that were not found on the hosts.
    others: String,
    preview: Preview,
    planned: Option<Planned>,
}

/// What the plan says, if it was asked for.
enum Planned {
    Invalid(Vec<String>),
    Valid {
        heading: String,
        lines: Vec<Line>,
        sentences: Vec<String>,
        chart: Option<String>,
    },
}

/// The result of the dry run.
enum Preview {
    /// No models are chosen yet.
    Blank,
    Invalid(Vec<String>),
    Planned {
        line: String,
        known: u64,
        rejected: Vec<String>,
    },
}

pub(crate) async fn page(State(app): State<App>, Query(fields): Query, visit: Visit) -> PageResult {
    blocking(&app, move |app| {
        let preview = preview(app, &fields);
        let mut page = form(app, &visit, &fields, preview)?;
        page.planned = fields.get("plan").map(|_| power(app, &fields));
        show(&page)
    })
    .await
}

/// Queues the collection and redirects to the job's page.
pub(crate) async fn start(State(app): State<App>, visit: Visit, Form(fields): Form) -> PageResult {
    blocking(&app, move |app| {
        let request = request(&fields);
        match app.config.plan.plan(JobKind::Collect, &request) {
            Ok(plan) => {
                let request = Value::Object(request).to_string();
                let job = app.jobs.submit(plan, request, &visit.name)?;
                Ok(Redirect::to(&format!("/jobs/{}", job.id)).into_response())
            }
            Err(problems) => {
                let wrong = Preview::Invalid(named(&problems, JobKind::Collect));
                let page = form(app, &visit, &fields, wrong)?;
                with_status(axum::http::StatusCode::BAD_REQUEST, &page)
            }
        }
    })
    .await
}

fn chosen(fields: &Fields) -> Vec<String> {
    let others = fields.get("other_models").unwrap_or_default();
    let others = others.split([',', '\n', ' ']).map(str::trim);
    let mut models: Vec<String> = fields.all("model").into_iter().map(str::to_owned).collect();
    models.extend(others.filter(|it| !it.is_empty()).map(str::to_owned));
    models.dedup();
    models
}

/// Converts the form to an API request; blank fields are omitted.
fn request(fields: &Fields) -> Map<String, Value> {
    let mut request = Map::new();
    let models = chosen(fields);
    if !models.is_empty() {
        request.insert("models".to_owned(), json!(models));
    }
    let prompts = fields.all("prompt");
    if !prompts.is_empty() {
        request.insert("prompts".to_owned(), json!(prompts));
    }
    if let Some(split) = fields.get("split") {
        request.insert("split".to_owned(), json!(split));
    }
    fill(JobKind::Collect, fields, &mut request);
    request
}

fn form(
    app: &App,
    visit: &Visit,
    fields: &Fields,
    preview: Preview,
) -> Result<NewRunPage, PageError> {
    let task: Task = task_files::load(&app.config.task)?;
    let defaults = &app.config.options;
    let picked = if fields.is_empty() {
        defaults.models.iter().map(String::as_str).collect()
    } else {
        fields.all("model")
    };
    let found = HostModels::find(app, &picked);
    let others = if fields.is_empty() {
        let is_found = |name: &String| found.models.iter().any(|it| it.name == *name);
        let others = defaults.models.iter().filter(|it| !is_found(it));
        others.cloned().collect::<Vec<_>>().join(", ")
    } else {
        fields.owned("other_models").unwrap_or_default()
    };
    let mut prompts = fields.all("prompt");
    if prompts.is_empty() {
        prompts = defaults.prompts.iter().map(String::as_str).collect();
    }
    let split = fields.get("split").unwrap_or(defaults.split.as_str());
    let scenarios = |it: Split| task.scenarios.iter().filter(|s| s.split == it).count();
    let mut inputs = OptionInputs::new(JobKind::Collect, defaults, fields);
    if task.angles.is_empty() {
        inputs.more.retain(|it| it.key != "diversity");
    }
    Ok(NewRunPage {
        frame: Frame::new("experiments", visit),
        prompts: task
            .prompts
            .iter()
            .map(|it| {
                let is_on = prompts.is_empty() || prompts.contains(&it.name.as_str());
                (it.name.clone(), is_on)
            })
            .collect(),
        splits: Split::ALL
            .map(|it| (it.as_str(), scenarios(it), it.as_str() == split))
            .into_iter()
            .filter(|(_, count, _)| *count > 0)
            .collect(),
        inputs,
        others,
        found,
        preview,
        planned: None,
    })
}

/// Simulates the gate for the chosen grid.
fn power(app: &App, fields: &Fields) -> Planned {
    let words = match plan::words(app, &request(fields)) {
        Ok(words) => words,
        Err(problems) => return Planned::Invalid(named(&problems, JobKind::Collect)),
    };
    match run_program::<Plan>(app, &words) {
        Err(error) => Planned::Invalid(vec![error]),
        Ok(plan) => Planned::Valid {
            heading: plan_lines::heading(&plan),
            lines: plan_lines::lines(&plan),
            sentences: plan_lines::sentences(&plan),
            chart: plan_lines::chart(&plan),
        },
    }
}

fn preview(app: &App, fields: &Fields) -> Preview {
    if chosen(fields).is_empty() {
        return Preview::Blank;
    }
    let plan = match app.config.plan.plan(JobKind::Collect, &request(fields)) {
        Ok(plan) => plan,
        Err(problems) => return Preview::Invalid(named(&problems, JobKind::Collect)),
    };
    let mut words = plan.words;
    words.push("--dry-run".to_owned());
    match run_program(app, &words) {
        Err(error) => Preview::Invalid(vec![error]),
        Ok(dry_run) => planned(dry_run),
    }
}

fn planned(dry_run: DryRun) -> Preview {
    let (cells, missing, outputs) = (dry_run.cells, dry_run.missing, dry_run.outputs);
    let each = outputs.checked_div(missing).unwrap_or(0);
    let mut line = format!(
        "{} × {} × {} × {each} = {outputs} outputs · {}",
        count(dry_run.models.len(), "model"),
        count(dry_run.prompts.len(), "prompt"),
        count(dry_run.scenarios.len(), "scenario"),
        count(dry_run.loads, "load"),
    );
    if missing < cells {
        line = format!("{outputs} outputs in {missing} of {cells} cells that are still missing");
    }
    if let Some(estimate) = dry_run.estimate.filter(|it| it.seconds >= 1.0) {
        line.push_str(&format!(" · about {}", span(estimate.seconds)));
        if estimate.basis == Basis::ModelSizes {
            line.push_str(" on a CPU (estimated from the models' sizes)");
        }
    }
    let rejected = dry_run.rejected_models.into_iter();
    Preview::Planned {
        line,
        known: cells - missing.min(cells),
        rejected: rejected
            .map(|it| format!("{}: {}", it.model, it.reason))
            .collect(),
    }
}
