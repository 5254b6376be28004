//! A new run: choose from what is really there, see what it comes to, start it.
//!
//! What a collection would do is asked of this very program ([`super::models`]), so that the
//! page never says something else than the job does. Without JavaScript the preview is a button;
//! with it, it follows every change.

use askama::Template;
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_pipeline::task_files;
use assize_store::{RunQuery, Runs as _};
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::{Map, Value, json};

use super::fields::{Fields, Form, Query, named, number};
use super::models::{HostModels, ask_program};
use super::page::{Frame, PageError, Paged, Visit, blocking, show, with_status};
use super::when::span;
use crate::App;

#[derive(Template)]
#[template(path = "new_run.html")]
struct NewRunPage {
    frame: Frame,
    found: HostModels,
    prompts: Vec<(String, bool)>,
    splits: Vec<(&'static str, usize, bool)>,
    /// Whether the task has angles to give to outputs.
    has_angles: bool,
    sheet: Sheet,
    preview: Preview,
}

/// What is filled in besides the ticks.
struct Sheet {
    experiment: String,
    others: String,
    n_tips: String,
    n_scenarios: String,
    temperature: String,
    script: String,
    more: More,
}

/// What is asked for rarely; blank leaves it to the server's settings.
struct More {
    seed: String,
    max_tokens: String,
    max_model_b: String,
    judge_kind: String,
    diversity: bool,
}

impl More {
    fn is_used(&self) -> bool {
        let texts = [
            &self.seed,
            &self.max_tokens,
            &self.max_model_b,
            &self.judge_kind,
        ];
        self.diversity || texts.iter().any(|it| !it.is_empty())
    }
}

/// What the form calls the fields of a request.
const LABELS: [(&str, &str); 11] = [
    ("models", "Models"),
    ("prompts", "Prompts"),
    ("split", "Scenarios"),
    ("n_tips", "outputs per cell"),
    ("n_scenarios", "at most so many scenarios"),
    ("script", "script (for scripted models)"),
    ("seed", "seed"),
    ("max_tokens", "longest output, in tokens"),
    ("max_model_b", "largest model, in billions of parameters"),
    ("judge_kind", "kind of judge that is to score it"),
    ("diversity", "each output gets an angle of its own"),
];

/// What the collection would come to.
enum Preview {
    /// Nothing was chosen yet.
    Blank,
    Wrong(Vec<String>),
    Planned {
        line: String,
        known: u64,
        rejected: Vec<String>,
    },
}

pub(crate) async fn page(State(app): State<App>, Query(fields): Query, visit: Visit) -> Paged {
    blocking(&app, move |app| {
        let preview = preview(app, &fields);
        show(&form(app, &visit, &fields, preview)?)
    })
    .await
}

/// Queues the collection, and goes to its live page.
pub(crate) async fn start(State(app): State<App>, visit: Visit, Form(fields): Form) -> Paged {
    blocking(&app, move |app| {
        let ask = request(&fields);
        match app.config.plan.plan("collect", &ask) {
            Ok(plan) => {
                let request = Value::Object(ask).to_string();
                let job = app.jobs.submit(plan, request, &visit.name)?;
                Ok(Redirect::to(&format!("/jobs/{}", job.id)).into_response())
            }
            Err(problems) => {
                let wrong = Preview::Wrong(named(&problems, &LABELS));
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

/// The form as a request of the API: what is blank is left to the defaults.
fn request(fields: &Fields) -> Map<String, Value> {
    let mut ask = Map::new();
    let models = chosen(fields);
    if !models.is_empty() {
        ask.insert("models".to_owned(), json!(models));
    }
    let prompts = fields.all("prompt");
    if !prompts.is_empty() {
        ask.insert("prompts".to_owned(), json!(prompts));
    }
    for key in ["experiment", "split", "script", "judge_kind"] {
        if let Some(text) = fields.get(key) {
            ask.insert(key.to_owned(), json!(text));
        }
    }
    for key in ["n_tips", "n_scenarios", "seed", "max_tokens"] {
        if let Some(text) = fields.get(key) {
            ask.insert(key.to_owned(), number::<i64>(text));
        }
    }
    for key in ["temperature", "max_model_b"] {
        if let Some(text) = fields.get(key) {
            ask.insert(key.to_owned(), number::<f64>(text));
        }
    }
    if fields.get("diversity").is_some() {
        ask.insert("diversity".to_owned(), json!(true));
    }
    ask
}

fn form(
    app: &App,
    visit: &Visit,
    fields: &Fields,
    preview: Preview,
) -> Result<NewRunPage, PageError> {
    let task: Task = task_files::load(&app.config.task)?;
    let found = HostModels::look(app, &fields.all("model"));
    let prompts = fields.all("prompt");
    let split = fields.get("split").unwrap_or("selection");
    let text =
        |name: &str, otherwise: &str| fields.owned(name).unwrap_or_else(|| otherwise.to_owned());
    let splits = [Split::Selection, Split::Feedback, Split::Confirmation];
    let scenarios = |it: Split| task.scenarios.iter().filter(|s| s.split == it).count();
    Ok(NewRunPage {
        frame: Frame::new("experiments", visit),
        found,
        prompts: task
            .prompts
            .iter()
            .map(|it| {
                let is_on = prompts.is_empty() || prompts.contains(&it.name.as_str());
                (it.name.clone(), is_on)
            })
            .collect(),
        splits: splits
            .map(|it| (it.as_str(), scenarios(it), it.as_str() == split))
            .into_iter()
            .filter(|(_, count, _)| *count > 0)
            .collect(),
        has_angles: !task.angles.is_empty(),
        sheet: Sheet {
            experiment: text("experiment", &format!("{}-bench", task.name)),
            others: text("other_models", ""),
            n_tips: text("n_tips", "5"),
            n_scenarios: text("n_scenarios", "0"),
            temperature: text("temperature", "0.7"),
            script: text("script", ""),
            more: More {
                seed: text("seed", ""),
                max_tokens: text("max_tokens", ""),
                max_model_b: text("max_model_b", ""),
                judge_kind: text("judge_kind", ""),
                diversity: fields.get("diversity").is_some(),
            },
        },
        preview,
    })
}

fn preview(app: &App, fields: &Fields) -> Preview {
    if chosen(fields).is_empty() {
        return Preview::Blank;
    }
    let plan = match app.config.plan.plan("collect", &request(fields)) {
        Ok(plan) => plan,
        Err(problems) => return Preview::Wrong(named(&problems, &LABELS)),
    };
    let mut words = plan.words;
    words.push("--dry-run".to_owned());
    match ask_program(app, &words) {
        Err(error) => Preview::Wrong(vec![error]),
        Ok(dry) => planned(app, &plan.experiment, &dry),
    }
}

fn planned(app: &App, experiment: &str, dry: &Value) -> Preview {
    let list = |key: &str| dry[key].as_array().map_or(0, Vec::len);
    let count = |key: &str| dry[key].as_u64().unwrap_or(0);
    let (cells, missing, outputs) = (count("cells"), count("missing"), count("outputs"));
    let each = outputs.checked_div(missing).unwrap_or(0);
    let mut line = format!(
        "{} × {} × {} × {each} = {outputs} outputs · {}",
        assize_pipeline::count(list("models"), "model"),
        assize_pipeline::count(list("prompts"), "prompt"),
        assize_pipeline::count(list("scenarios"), "scenario"),
        assize_pipeline::count(usize::try_from(count("loads")).unwrap_or(0), "load"),
    );
    if missing < cells {
        line = format!("{outputs} outputs in {missing} of {cells} cells that are still missing");
    }
    if let Some(seconds) = estimate(app, experiment, dry) {
        line.push_str(&format!(" · about {}", span(seconds)));
    }
    let rejected = dry["rejected_models"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let rejected = rejected.iter().map(|it| match it {
        Value::String(text) => text.clone(),
        it => [&it["model"], &it["reason"]]
            .map(|it| it.as_str().unwrap_or_default())
            .join(": "),
    });
    Preview::Planned {
        line,
        known: cells - missing.min(cells),
        rejected: rejected.collect(),
    }
}

/// From how long this experiment's last cell of each model took; `None` where one has none.
fn estimate(app: &App, experiment: &str, dry: &Value) -> Option<f64> {
    let mut seconds = 0.0;
    for it in dry["models"].as_array()? {
        let missing = it["missing"].as_f64()?;
        let query = RunQuery {
            model: Some(it["model"].as_str()?.to_owned()),
            newest_first: true,
            max_results: 1,
            ..RunQuery::default()
        };
        let last = app.store.run_list(experiment, &query).ok()?.runs.pop()?;
        let took = last.end_time_ms? - last.start_time_ms;
        seconds += missing * took as f64 / 1000.0;
    }
    (seconds >= 1.0).then_some(seconds)
}
