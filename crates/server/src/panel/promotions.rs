//! The promotions page: champions, the gate's report, promotion and rollback.

use std::collections::BTreeSet;

use askama::Template;
use assize_domain::error_kind::ErrorKind;
use assize_domain::judge::Tier;
use assize_domain::ledger::Via;
use assize_domain::promotion::{Promotion, before};
use assize_domain::run::param;
use assize_domain::scenario::Split;
use assize_pipeline::compare::SEED;
use assize_pipeline::judge::reopen::{self, ReopenOptions};
use assize_pipeline::ledger::{Author, confirmation_use};
use assize_pipeline::promote::{self, Assessment, LONGEST_NOTE, PromoteOptions, Signature};
use assize_pipeline::task_files;
use assize_report::figure::NONE;
use assize_report::gate_table::sentence;
use assize_store::RunQuery;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};

use super::experiment::runs::value;
use super::experiment::{path, segment};
use super::fields::{Fields, Form, Query, query};
use super::gate_actions::{self, Action, GateCheck};
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::relative_time::RelativeTime;
use crate::App;
use crate::unsealing::author;

const SHOWN: usize = 100;

#[derive(Template)]
#[template(path = "promotions.html")]
struct PromotionsPage {
    frame: Frame,
    champions: Vec<Champion>,
    experiments: Vec<String>,
    asked: Option<String>,
    /// The gate's report on the selected experiment, or why the gate cannot be run.
    gate: Option<Result<Gate, String>>,
    history: Vec<HistoryEntry>,
    done: Option<&'static str>,
}

struct Champion {
    task: String,
    pair: String,
    /// The number of the promotion.
    number: u32,
    version: u32,
    by: String,
    since: RelativeTime,
    /// The pair that a rollback would restore.
    before: Option<String>,
}

struct Gate {
    sentence: String,
    passed: bool,
    candidate: String,
    incumbent: String,
    checks: Vec<GateCheck>,
    candidate_id: String,
    incumbent_id: String,
    warnings: Vec<String>,
    /// Next steps in words.
    advice: Vec<String>,
    /// Next steps as commands.
    commands: Vec<String>,
    /// Whether every other check passed and the confirmation split is sealed.
    awaits_confirmation: bool,
    /// How often the confirmation split was used.
    used: Option<String>,
}

struct HistoryEntry {
    number: u32,
    task: String,
    action: String,
    pair: String,
    /// The pair that it was compared with.
    against: String,
    experiment: String,
    by: String,
    at: RelativeTime,
    note: String,
}

pub(crate) async fn page(State(app): State<App>, Query(fields): Query, visit: Visit) -> PageResult {
    blocking(&app, move |app| render(app, &visit, &fields)).await
}

fn render(app: &App, visit: &Visit, fields: &Fields) -> PageResult {
    let tasks = tasks(app)?;
    let mut champions = Vec::new();
    let mut history = Vec::new();
    for task in &tasks {
        let list = app.tracking.promotion_list(task)?;
        if let Some(latest) = list.last() {
            champions.push(Champion {
                task: task.clone(),
                pair: latest.champion.pair().to_string(),
                number: latest.number,
                version: latest.version,
                by: latest.by.clone(),
                since: RelativeTime::of_text(&latest.at, visit.now_ms),
                before: before(&list).map(|it| it.champion.pair().to_string()),
            });
        }
        history.extend(list);
    }
    history.sort_by(|a, b| b.at.cmp(&a.at));
    history.truncate(SHOWN);
    let asked = fields.owned("experiment");
    let gate = asked.as_deref().map(|experiment| {
        let found = assess(app, experiment, None, true).and_then(|it| {
            let used = confirmation_use(app.tracking.as_ref(), experiment)?;
            Ok(gate(&it, experiment, used.map(|it| it.to_string())))
        });
        found.map_err(|error| error.message)
    });
    let experiments = app.tracking.experiment_list()?;
    show(&PromotionsPage {
        frame: Frame::new("promotions", visit),
        champions,
        experiments: experiments.into_iter().map(|it| it.name).collect(),
        asked,
        gate,
        history: history.iter().map(|it| entry(it, visit)).collect(),
        done: match fields.get("done") {
            Some("promoted") => Some("Promoted: the champion has changed."),
            Some("rolled-back") => Some("Rolled back: the previous champion is champion again."),
            _ => None,
        },
    })
}

/// The server's task and the tasks of all experiments.
fn tasks(app: &App) -> Result<Vec<String>, PageError> {
    let mut tasks = BTreeSet::new();
    if let Ok(task) = task_files::load(&app.config.task) {
        tasks.insert(task.name);
    }
    for experiment in app.tracking.experiment_list()? {
        tasks.insert(task_of(app, &experiment.name)?);
    }
    Ok(tasks.into_iter().filter(|it| !it.is_empty()).collect())
}

fn task_of(app: &App, experiment: &str) -> Result<String, PageError> {
    let first = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    let found = app.tracking.run_list(experiment, &first)?;
    let task = found.runs.first().map(|it| value(&it.params, param::TASK));
    Ok(task.unwrap_or_default().to_owned())
}

/// Runs the gate. Without an author the confirmation split stays sealed.
fn assess(
    app: &App,
    experiment: &str,
    author: Option<&Author>,
    dry_run: bool,
) -> Result<Assessment, PageError> {
    let found = app
        .config
        .task_of(app.tracking.as_ref(), experiment)?
        .need()?;
    let options = PromoteOptions {
        experiment,
        task: &found.task,
        task_name: &found.place,
        candidate: None,
        incumbent: None,
        thresholds: &app.config.thresholds,
        seed: SEED,
        author,
        dry_run,
    };
    Ok(promote::assess(app.tracking.as_ref(), &options)?)
}

fn gate(it: &Assessment, experiment: &str, used: Option<String>) -> Gate {
    let report = &it.report;
    let (commands, advice) = gate_actions::steps(it);
    Gate {
        sentence: sentence(report),
        passed: report.passed,
        candidate: report.candidate.to_string(),
        incumbent: report.incumbent.to_string(),
        checks: gate_actions::checks(it, experiment),
        candidate_id: report.candidate.id(),
        incumbent_id: report.incumbent.id(),
        warnings: it.warnings.clone(),
        advice,
        commands,
        awaits_confirmation: it.awaits_confirmation,
        used,
    }
}

fn entry(it: &Promotion, visit: &Visit) -> HistoryEntry {
    HistoryEntry {
        number: it.number,
        task: it.task.clone(),
        action: it.action.to_string(),
        pair: it.champion.pair().to_string(),
        against: it
            .gate
            .as_ref()
            .filter(|_| it.restores.is_none())
            .map_or_else(|| NONE.to_owned(), |gate| gate.incumbent.to_string()),
        experiment: it.experiment.clone(),
        by: it.by.clone(),
        at: RelativeTime::of_text(&it.at, visit.now_ms),
        note: it.note.clone().unwrap_or_default(),
    }
}

/// Decisions are made on the current data of the team's tracking server.
fn refresh(app: &App) -> Result<(), PageError> {
    if let Some(team) = &app.team {
        team.refresh()?;
    }
    Ok(())
}

fn signature(app: &App, visit: &Visit, fields: &Fields) -> Result<Signature, PageError> {
    let note = fields.owned("note");
    let length = note.as_ref().map_or(0, |it| it.chars().count());
    if length > LONGEST_NOTE {
        let message = format!("The note has {length} characters; the limit is {LONGEST_NOTE}.");
        return Err(PageError::invalid(message));
    }
    Ok(Signature {
        by: visit.name.clone(),
        at: (app.config.clock)().rfc3339,
        note,
    })
}

/// Tries the candidate on the confirmation split, which opens it. The ledger records the attempt.
pub(crate) async fn attempt(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        refresh(app)?;
        let experiment = fields.owned("experiment").unwrap_or_default();
        let author = author(app, &visit.name, Via::Panel);
        assess(app, &experiment, Some(&author), true)?;
        let back = query(&[("experiment", Some(experiment.as_str()))]);
        Ok(Redirect::to(&format!("/promotions{back}")).into_response())
    })
    .await
}

/// Runs the gate again and promotes the pair that the page showed. If another pair leads by now,
/// nothing is promoted.
pub(crate) async fn promote(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        refresh(app)?;
        let experiment = fields.owned("experiment").unwrap_or_default();
        let author = author(app, &visit.name, Via::Panel);
        let assessment = assess(app, &experiment, Some(&author), false)?;
        let seen = fields.get("candidate").unwrap_or_default();
        if assessment.report.candidate.to_string() != seen {
            let message = format!(
                "{} is now the leader instead of {seen}: check the gate again.",
                assessment.report.candidate
            );
            return Err(PageError::new(ErrorKind::Conflict, message));
        }
        let by = signature(app, &visit, &fields)?;
        let promoted = promote::promote(app.tracking.as_ref(), &assessment, by)?;
        let mut back = vec![("experiment", Some(experiment.as_str()))];
        if promoted.is_some() {
            back = vec![("done", Some("promoted"))];
        }
        Ok(Redirect::to(&format!("/promotions{}", query(&back))).into_response())
    })
    .await
}

/// Makes the verdicts on both pairs pending again, so that they are judged side by side.
pub(crate) async fn judge_again(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        refresh(app)?;
        let experiment = fields.owned("experiment").unwrap_or_default();
        let pairs: Vec<String> = fields.all("pair").into_iter().map(str::to_owned).collect();
        let tier = fields.read::<Tier>("tier")?.unwrap_or(Tier::Expert);
        if pairs.is_empty() {
            return Err(PageError::invalid("No pair is named."));
        }
        let options = ReopenOptions {
            experiment: experiment.clone(),
            runs: Vec::new(),
            pairs,
            split: fields.read::<Split>("split")?,
            rubric: None,
            tier,
        };
        let selection = reopen::select(app.tracking.as_ref(), &options)?;
        reopen::reopen(app.tracking.as_ref(), &options, &selection)?;
        let name = segment(&experiment);
        let next = match tier {
            Tier::Expert if visit.may_judge => format!("/desk/{name}"),
            Tier::Expert => path(&experiment),
            Tier::Auto => format!("/judges/{name}/auto"),
        };
        Ok(Redirect::to(&next).into_response())
    })
    .await
}

pub(crate) async fn rollback(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        refresh(app)?;
        let task = fields.owned("task").unwrap_or_default();
        let champion = app.tracking.champion_get(&task)?;
        let seen = fields.get("number").and_then(|it| it.parse::<u32>().ok());
        if seen.is_none() || champion.map(|it| it.number) != seen {
            let message = "The champion has changed since this form was shown.";
            return Err(PageError::new(ErrorKind::Conflict, message));
        }
        let by = signature(app, &visit, &fields)?;
        promote::rollback(app.tracking.as_ref(), &task, by)?;
        Ok(Redirect::to("/promotions?done=rolled-back").into_response())
    })
    .await
}
