//! The judge's desk: blind scoring, one case at a time.
//!
//! The form works without JavaScript, which adds keyboard shortcuts and drafts. Every verdict is
//! durable before the next case is shown. Models and prompts are hidden until the sitting has
//! ended.

use askama::Template;
use assize_domain::case::{Case, FileProblem};
use assize_domain::error_kind::ErrorKind;
use assize_domain::rubric::Rubric;
use assize_domain::submission::Submission;
use assize_domain::verdict::Verdict;
use assize_pipeline::PipelineError;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::{Map, Value, json};

use super::experiment::segment;
use super::fields::{Fields, Form, Path, Query};
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::relative_time::span;
use super::run::context;
use crate::App;
use crate::boards::Boards;
use crate::judging_sessions::Pace;

pub(crate) mod reveal;

#[derive(Template)]
#[template(path = "desk.html")]
struct DeskPage {
    frame: Frame,
    waiting: Vec<PendingExperiment>,
}

/// An experiment with pending cells or an open sitting of this judge.
struct PendingExperiment {
    name: String,
    pending: u64,
    /// Whether this judge has an open sitting.
    is_open: bool,
}

#[derive(Template)]
#[template(path = "desk_start.html")]
struct StartPage {
    frame: Frame,
    experiment: String,
    pending: u64,
    is_open: bool,
    /// No cases are left for this judge; the sitting can be ended.
    is_complete: bool,
    done: usize,
}

#[derive(Template)]
#[template(path = "desk_case.html")]
struct CasePage {
    frame: Frame,
    experiment: String,
    case: String,
    candidate: String,
    context: Vec<(String, String)>,
    criteria: Vec<CriterionInput>,
    flags: Vec<FlagInput>,
    reason: String,
    problems: Vec<String>,
    before: Option<String>,
    is_revision: bool,
    done: usize,
    all: u64,
    left: Option<String>,
    rubric: String,
}

struct CriterionInput {
    name: String,
    question: String,
    levels: Vec<Level>,
}

struct Level {
    number: i64,
    text: String,
    chosen: bool,
}

struct FlagInput {
    name: String,
    description: String,
    key: char,
    set: bool,
}

/// Experiments with pending cells; those with an open sitting of this judge come first.
pub(crate) async fn list(State(app): State<App>, visit: Visit) -> PageResult {
    let experiments = Boards::experiments(&app).await?;
    blocking(&app, move |app| {
        let judge = visit.session_judge();
        let has_sitting = app.judging.has_open_sitting(&judge)?;
        let mut waiting = Vec::new();
        for it in experiments.iter() {
            let is_open = has_sitting && app.judging.is_open(&judge, &it.name)?;
            if is_open || it.pending > 0 {
                waiting.push(PendingExperiment {
                    name: it.name.clone(),
                    pending: it.pending,
                    is_open,
                });
            }
        }
        waiting.sort_by_key(|it| !it.is_open);
        show(&DeskPage {
            frame: Frame::new("desk", &visit),
            waiting,
        })
    })
    .await
}

/// The current case, a scored case to revise, or the start page.
pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> PageResult {
    let revised = fields.owned("case");
    blocking(&app, move |app| {
        case_or_start(app, &visit, &experiment, revised.as_deref())
    })
    .await
}

fn case_or_start(app: &App, visit: &Visit, experiment: &str, revised: Option<&str>) -> PageResult {
    let judge = visit.session_judge();
    if app.judging.progress(&judge, experiment).is_none() {
        return start_page(app, visit, experiment);
    }
    let Some(batch) = app.judging.next(&judge, experiment, 1)? else {
        return start_page(app, visit, experiment);
    };
    let scored = revised.and_then(|case| app.judging.scored(&judge, experiment, case));
    if let Some(it) = scored {
        let values = FormValues::of_verdict(&it.verdict);
        let page = case_page(
            visit,
            experiment,
            &batch.rubric,
            &it.case,
            &values,
            batch.pace,
        );
        return show(&CasePage {
            before: it.previous,
            is_revision: true,
            ..page
        });
    }
    let Some(case) = batch.cases.first() else {
        return show(&StartPage {
            frame: Frame::new("desk", visit),
            experiment: experiment.to_owned(),
            pending: 0,
            is_open: false,
            is_complete: true,
            done: batch.pace.progress.done,
        });
    };
    let values = FormValues::of_case(case);
    let page = case_page(visit, experiment, &batch.rubric, case, &values, batch.pace);
    show(&CasePage {
        before: app.judging.last_scored(&judge, experiment),
        ..page
    })
}

fn start_page(app: &App, visit: &Visit, experiment: &str) -> PageResult {
    let counts = app.tracking.judging_count(experiment)?;
    show(&StartPage {
        frame: Frame::new("desk", visit),
        experiment: experiment.to_owned(),
        pending: counts.expert_pending,
        is_open: app.judging.is_open(&visit.session_judge(), experiment)?,
        is_complete: false,
        done: 0,
    })
}

/// The values of the form.
#[derive(Default)]
struct FormValues {
    scores: Map<String, Value>,
    reason: String,
}

impl FormValues {
    fn of_case(case: &Case) -> Self {
        Self {
            scores: case.scores.clone(),
            reason: String::new(),
        }
    }

    fn of_verdict(verdict: &Verdict) -> Self {
        Self {
            scores: verdict.scores.clone().into_iter().collect(),
            reason: verdict.rationale.clone().unwrap_or_default(),
        }
    }

    /// Browsers do not send unchecked checkboxes, so a missing flag is false.
    fn of_form(fields: &Fields, rubric: &Rubric) -> Self {
        let mut scores = Map::new();
        for criterion in &rubric.criteria {
            let given = fields.get(&format!("score.{}", criterion.name));
            let number = given.map(|it| it.parse::<i64>().map_or_else(|_| json!(it), Value::from));
            scores.insert(criterion.name.clone(), number.unwrap_or(Value::Null));
        }
        for flag in &rubric.flags {
            let is_set = fields.get(&format!("flag.{}", flag.name)).is_some();
            scores.insert(flag.name.clone(), Value::Bool(is_set));
        }
        Self {
            scores,
            reason: fields.owned("reason").unwrap_or_default(),
        }
    }
}

fn case_page(
    visit: &Visit,
    experiment: &str,
    rubric: &Rubric,
    case: &Case,
    values: &FormValues,
    pace: Pace,
) -> CasePage {
    let progress = pace.progress;
    let open = progress.held as u64 + progress.left;
    let score = |name: &str| values.scores.get(name).unwrap_or(&Value::Null);
    let scale = |it: &assize_domain::rubric::Criterion| CriterionInput {
        name: it.name.clone(),
        question: it.question.clone(),
        levels: (it.min..=it.max)
            .map(|number| Level {
                number,
                text: it
                    .anchors
                    .get(&number.to_string())
                    .cloned()
                    .unwrap_or_default(),
                chosen: score(&it.name).as_i64() == Some(number),
            })
            .collect(),
    };
    let names: Vec<&str> = rubric.flags.iter().map(|it| it.name.as_str()).collect();
    let flags = rubric
        .flags
        .iter()
        .zip(keys(&names))
        .map(|(it, key)| FlagInput {
            name: it.name.clone(),
            description: it.description.clone(),
            key,
            set: score(&it.name).as_bool().unwrap_or(false),
        });
    CasePage {
        frame: Frame::new("desk", visit),
        experiment: experiment.to_owned(),
        case: case.case.clone(),
        candidate: case.candidate.clone(),
        context: context(&case.context.to_string()),
        criteria: rubric.criteria.iter().map(scale).collect(),
        flags: flags.collect(),
        reason: values.reason.clone(),
        problems: Vec::new(),
        before: None,
        is_revision: false,
        done: progress.done,
        all: progress.done as u64 + open,
        left: pace.seconds_per_case.map(|it| span(it * open as f64)),
        rubric: rubric.text.clone(),
    }
}

/// A keyboard shortcut for each flag: the first free letter of its name.
fn keys(names: &[&str]) -> Vec<char> {
    // The desk's own shortcuts.
    let mut taken = vec!['r', 'n', 'b'];
    let mut pick = |name: &&str| {
        let letters = name
            .chars()
            .chain('a'..='z')
            .map(|it| it.to_ascii_lowercase());
        let free = letters
            .filter(char::is_ascii_lowercase)
            .find(|it| !taken.contains(it))
            .unwrap_or('?');
        taken.push(free);
        free
    };
    names.iter().map(&mut pick).collect()
}

fn desk(experiment: &str) -> Redirect {
    Redirect::to(&format!("/desk/{}", segment(experiment)))
}

/// Opens or resumes a sitting.
pub(crate) async fn start(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
) -> PageResult {
    blocking(&app, move |app| {
        app.judging.next(&visit.session_judge(), &experiment, 1)?;
        Ok(desk(&experiment).into_response())
    })
    .await
}

/// Submits a verdict and redirects to the next case.
pub(crate) async fn submit(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        submit_form(app, &visit, &experiment, &fields)
    })
    .await
}

/// The maximum length of a reason, in characters.
const MAX_REASON_LENGTH: usize = 4000;

fn submit_form(app: &App, visit: &Visit, experiment: &str, fields: &Fields) -> PageResult {
    let judge = visit.session_judge();
    // An old form must not open a new sitting.
    if !app.judging.is_open(&judge, experiment)? {
        let message = "The sitting has ended, so the verdict was not saved.";
        return Err(PageError::new(ErrorKind::Conflict, message));
    }
    let Some(batch) = app.judging.next(&judge, experiment, 1)? else {
        return Ok(desk(experiment).into_response());
    };
    let values = FormValues::of_form(fields, &batch.rubric);
    let submission = Submission {
        case: fields.owned("case").unwrap_or_default(),
        scores: values.scores.clone(),
        rationale: Some(values.reason.clone()).filter(|it| !it.is_empty()),
    };
    let problems = match too_long(&values.reason) {
        Some(problem) => vec![problem],
        None => match app
            .judging
            .submit(&judge, experiment, std::slice::from_ref(&submission))
        {
            Ok(_) => return Ok(desk(experiment).into_response()),
            Err(PipelineError::JudgeFile { problems, .. }) => named(&problems),
            Err(error) => return Err(error.into()),
        },
    };
    let mut cases = batch.cases.into_iter();
    let held = cases.find(|it| it.case == submission.case);
    let scored = || app.judging.scored(&judge, experiment, &submission.case);
    let Some(case) = held.or_else(|| scored().map(|it| it.case)) else {
        let message = format!(
            "{}. Return to the desk for the next case.",
            problems.join("; ")
        );
        return Err(PageError::new(ErrorKind::Conflict, message));
    };
    let page = case_page(visit, experiment, &batch.rubric, &case, &values, batch.pace);
    super::page::with_status(
        axum::http::StatusCode::BAD_REQUEST,
        &CasePage {
            before: app.judging.last_scored(&judge, experiment),
            problems,
            ..page
        },
    )
}

fn too_long(reason: &str) -> Option<String> {
    let length = reason.chars().count();
    (length > MAX_REASON_LENGTH).then(|| {
        format!("the reason has {length} characters; shorten it to at most {MAX_REASON_LENGTH}")
    })
}

/// Problems, each with the name of its field.
fn named(problems: &[FileProblem]) -> Vec<String> {
    let field = |pointer: &str| pointer.rsplit('/').next().unwrap_or_default().to_owned();
    let words = problems
        .iter()
        .map(|it| format!("{} {}", field(&it.pointer), it.message));
    words.collect()
}

/// Ends the sitting.
pub(crate) async fn finish(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
) -> PageResult {
    blocking(&app, move |app| {
        let finished = app.judging.finish(&visit.session_judge(), &experiment)?;
        let place = format!(
            "/desk/{}/reveal?sitting={}",
            segment(&experiment),
            segment(&finished.sitting)
        );
        Ok(Redirect::to(&place).into_response())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_key_of_its_own() {
        assert_eq!(keys(&["format_ok", "overlong"]), ['f', 'o']);
        assert_eq!(keys(&["rude", "form", "fit", "off"]), ['u', 'f', 'i', 'o']);
    }
}
