//! The judge's desk: blind, one case at a time.
//!
//! A plain form that works without JavaScript; the module adds keys and keeps a draft. Every
//! verdict is durable before the next case is shown. Nothing on these pages names a model or a
//! prompt until the sitting is over.

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
use super::page::{Frame, PageError, Paged, Visit, blocking, show};
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
    waiting: Vec<Waiting>,
}

/// An experiment with something to do for this judge.
struct Waiting {
    name: String,
    pending: u64,
    /// A sitting of this judge is open.
    goes_on: bool,
}

#[derive(Template)]
#[template(path = "desk_start.html")]
struct StartPage {
    frame: Frame,
    experiment: String,
    pending: u64,
    goes_on: bool,
    /// Nothing is left for this judge, and the sitting can be ended.
    is_over: bool,
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
    criteria: Vec<Scale>,
    flags: Vec<Mark>,
    reason: String,
    problems: Vec<String>,
    before: Option<String>,
    is_revision: bool,
    done: usize,
    all: u64,
    left: Option<String>,
    rubric: String,
}

struct Scale {
    name: String,
    question: String,
    levels: Vec<Level>,
}

struct Level {
    number: i64,
    text: String,
    chosen: bool,
}

struct Mark {
    name: String,
    description: String,
    key: char,
    set: bool,
}

/// Where something waits, and first of all where this judge sits already.
pub(crate) async fn list(State(app): State<App>, visit: Visit) -> Paged {
    let experiments = Boards::experiments(&app).await?;
    blocking(&app, move |app| {
        let judge = visit.session_judge();
        let sits = app.judging.has_open_sitting(&judge)?;
        let mut waiting = Vec::new();
        for it in experiments.iter() {
            let goes_on = sits && app.judging.is_open(&judge, &it.name)?;
            if goes_on || it.pending > 0 {
                waiting.push(Waiting {
                    name: it.name.clone(),
                    pending: it.pending,
                    goes_on,
                });
            }
        }
        waiting.sort_by_key(|it| !it.goes_on);
        show(&DeskPage {
            frame: Frame::new("desk", &visit),
            waiting,
        })
    })
    .await
}

/// The case at batch, or how to start.
pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> Paged {
    let again = fields.owned("case");
    blocking(&app, move |app| {
        at_hand(app, &visit, &experiment, again.as_deref())
    })
    .await
}

fn at_hand(app: &App, visit: &Visit, experiment: &str, again: Option<&str>) -> Paged {
    let judge = visit.session_judge();
    if app.judging.progress(&judge, experiment).is_none() {
        return start_page(app, visit, experiment);
    }
    let Some(batch) = app.judging.next(&judge, experiment, 1)? else {
        return start_page(app, visit, experiment);
    };
    let scored = again.and_then(|case| app.judging.scored(&judge, experiment, case));
    if let Some(it) = scored {
        let sheet = Sheet::of_verdict(&it.verdict);
        let page = case_page(
            visit,
            experiment,
            &batch.rubric,
            &it.case,
            &sheet,
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
            goes_on: false,
            is_over: true,
            done: batch.pace.progress.done,
        });
    };
    let sheet = Sheet::of_case(case);
    let page = case_page(visit, experiment, &batch.rubric, case, &sheet, batch.pace);
    show(&CasePage {
        before: app.judging.last_scored(&judge, experiment),
        ..page
    })
}

fn start_page(app: &App, visit: &Visit, experiment: &str) -> Paged {
    use assize_store::Queue as _;
    let counts = app.store.judging_count(experiment)?;
    show(&StartPage {
        frame: Frame::new("desk", visit),
        experiment: experiment.to_owned(),
        pending: counts.expert_pending,
        goes_on: app.judging.is_open(&visit.session_judge(), experiment)?,
        is_over: false,
        done: 0,
    })
}

/// What is filled in.
#[derive(Default)]
struct Sheet {
    scores: Map<String, Value>,
    reason: String,
}

impl Sheet {
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

    /// A checkbox that is not ticked is not sent, so every flag is taken as it stands.
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
    sheet: &Sheet,
    pace: Pace,
) -> CasePage {
    let progress = pace.progress;
    let open = progress.held as u64 + progress.left;
    let score = |name: &str| sheet.scores.get(name).unwrap_or(&Value::Null);
    let scale = |it: &assize_domain::rubric::Criterion| Scale {
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
    let flags = rubric.flags.iter().zip(keys(&names)).map(|(it, key)| Mark {
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
        reason: sheet.reason.clone(),
        problems: Vec::new(),
        before: None,
        is_revision: false,
        done: progress.done,
        all: progress.done as u64 + open,
        left: pace.seconds_per_case.map(|it| span(it * open as f64)),
        rubric: rubric.text.clone(),
    }
}

/// A letter for each flag: the first of its name that is free.
fn keys(names: &[&str]) -> Vec<char> {
    // What the desk uses itself.
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

/// Sits down.
pub(crate) async fn start(State(app): State<App>, Path(experiment): Path, visit: Visit) -> Paged {
    blocking(&app, move |app| {
        app.judging.next(&visit.session_judge(), &experiment, 1)?;
        Ok(desk(&experiment).into_response())
    })
    .await
}

/// Takes a verdict, and goes on with the next case.
pub(crate) async fn submit(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(fields): Form,
) -> Paged {
    blocking(&app, move |app| take(app, &visit, &experiment, &fields)).await
}

/// The longest reason for a verdict.
const LONGEST_REASON: usize = 4000;

fn take(app: &App, visit: &Visit, experiment: &str, fields: &Fields) -> Paged {
    let judge = visit.session_judge();
    // A form from before the end of a sitting must not begin another.
    if !app.judging.is_open(&judge, experiment)? {
        let message = "This sitting is over, so the form was not taken.";
        return Err(PageError::new(ErrorKind::Conflict, message));
    }
    let Some(batch) = app.judging.next(&judge, experiment, 1)? else {
        return Ok(desk(experiment).into_response());
    };
    let sheet = Sheet::of_form(fields, &batch.rubric);
    let submission = Submission {
        case: fields.owned("case").unwrap_or_default(),
        scores: sheet.scores.clone(),
        rationale: Some(sheet.reason.clone()).filter(|it| !it.is_empty()),
    };
    let problems = match too_long(&sheet.reason) {
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
        let message = format!("{}. The next case waits at the desk.", problems.join("; "));
        return Err(PageError::new(ErrorKind::Conflict, message));
    };
    let page = case_page(visit, experiment, &batch.rubric, &case, &sheet, batch.pace);
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
    (length > LONGEST_REASON).then(|| {
        format!(
            "the reason has {length} characters, and at most {LONGEST_REASON} are kept: shorten it"
        )
    })
}

/// Problems with the field that each is about.
fn named(problems: &[FileProblem]) -> Vec<String> {
    let field = |pointer: &str| pointer.rsplit('/').next().unwrap_or_default().to_owned();
    let words = problems
        .iter()
        .map(|it| format!("{} {}", field(&it.pointer), it.message));
    words.collect()
}

/// Ends the sitting.
pub(crate) async fn finish(State(app): State<App>, Path(experiment): Path, visit: Visit) -> Paged {
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
