//! The pages of prompt loops: their list; one loop's tree, budget, differences and packets.
//!
//! Hypotheses, reasons, prompts and outputs were written by models; the templates escape them like
//! all text. Packets hold cells of the feedback split only.

use askama::Template;
use assize_domain::job::JobKind;
use assize_optimise::diff::{Change, DiffLine};
use assize_optimise::packet::{FeedbackCell, Packet};
use assize_optimise::{SEED, Tree, WaitingFor, judge_words};
use assize_pipeline::optimise::{LoopLog, waiting};
use assize_report::figure;
use assize_report::lineage as report;
use assize_report::shell::command_line;
use assize_store::state::jobs::JobRecord;
use axum::extract::State;

use super::experiment::segment;
use super::fields::{Fields, Path, Query};
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::relative_time::RelativeTime;
use crate::App;

pub(crate) mod changes;

/// Levels of the tree that are indented.
const MOST_LEVELS: usize = 8;

#[derive(Template)]
#[template(path = "optimise_list.html")]
struct ListPage {
    frame: Frame,
    loops: Vec<LoopLine>,
}

struct LoopLine {
    experiment: String,
    state: String,
    sentence: String,
    last: RelativeTime,
}

#[derive(Template)]
#[template(path = "optimise.html")]
struct LoopPage {
    frame: Frame,
    experiment: String,
    /// The command that shows what a loop would use.
    start: String,
    /// `None` where the experiment has no loop.
    found: Option<Loop>,
    /// The loop's job that is queued or running.
    job: Option<String>,
    problems: Vec<String>,
    done: Option<&'static str>,
}

struct Loop {
    heading: String,
    sentence: String,
    waiting: Option<String>,
    /// Whether experts are to judge the nominee.
    is_for_judges: bool,
    /// Whether an agent session is to write new versions.
    is_for_agent: bool,
    is_finished: bool,
    /// Already escaped.
    chart: Option<String>,
    versions: Vec<VersionLine>,
    /// The settings, then what is used of the budget.
    facts: Vec<(&'static str, String)>,
    from: String,
    to: String,
    diff: Result<Vec<Line>, String>,
    packets: Vec<PacketPart>,
}

struct VersionLine {
    id: String,
    level: usize,
    parent: String,
    hypothesis: String,
    score: String,
    lead: String,
    fate: String,
    reason: String,
    /// Who wrote it, where that is not the loop's reflector as it was named at the start.
    by: String,
    /// The page with the difference to the parent.
    link: String,
}

/// One line of a difference, and the element that shows it.
struct Line {
    element: &'static str,
    text: String,
}

struct PacketPart {
    id: String,
    round: u32,
    parent: String,
    children: u32,
    /// A heading and its cells.
    groups: Vec<(&'static str, Vec<CellPart>)>,
    rejected: Vec<(String, String, String)>,
}

struct CellPart {
    scenario: String,
    model: String,
    mean: String,
    fields: Vec<(String, String)>,
    outputs: Vec<(String, String, String)>,
}

pub(crate) async fn list(State(app): State<App>, visit: Visit) -> PageResult {
    blocking(&app, move |app| {
        let mut loops = Vec::new();
        for it in app.state.optimise_loops()? {
            // A log that cannot be read is listed; its own page has the error.
            let tree = LoopLog::open(&app.state, &it.experiment).and_then(|log| log.tree());
            let (state, sentence) = match tree {
                Ok(tree) => {
                    let lineage = tree.lineage(&it.experiment);
                    (
                        report::state_words(tree.state()),
                        report::conclusion(&lineage),
                    )
                }
                Err(error) => ("not readable".to_owned(), error.to_string()),
            };
            loops.push(LoopLine {
                experiment: it.experiment,
                state,
                sentence,
                last: RelativeTime::of_ms(it.last_ms, visit.now_ms),
            });
        }
        show(&ListPage {
            frame: Frame::new("optimise", &visit),
            loops,
        })
    })
    .await
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> PageResult {
    blocking(&app, move |app| {
        render(app, &visit, &experiment, &fields, Vec::new())
    })
    .await
}

fn render(
    app: &App,
    visit: &Visit,
    experiment: &str,
    fields: &Fields,
    problems: Vec<String>,
) -> PageResult {
    let log = LoopLog::find(&app.state, experiment)?;
    let tree = log.map(|it| it.tree()).transpose()?;
    let job = unfinished_job(app, experiment)?.map(|it| it.id);
    let mut frame = Frame::new("optimise", visit);
    // While a step is running, the tree grows.
    frame.refresh_s = if job.is_some() { 5 } else { 0 };
    show(&LoopPage {
        frame,
        experiment: experiment.to_owned(),
        start: command_line(
            "optimise start",
            &[
                ("--experiment", experiment.to_owned()),
                ("--judge", "MODEL".to_owned()),
                ("--dry-run", String::new()),
            ],
        ),
        found: tree.map(|it| shown(&it, experiment, fields)),
        job,
        problems,
        done: match fields.get("done") {
            Some("stopped") => Some("The loop has ended. What it has recorded stays."),
            _ => None,
        },
    })
}

/// The loop's job that is not over.
fn unfinished_job(app: &App, experiment: &str) -> Result<Option<JobRecord>, PageError> {
    let mut jobs = app.state.job_unfinished()?.into_iter();
    Ok(jobs.find(|it| it.kind == JobKind::Optimise && it.experiment == experiment))
}

fn shown(tree: &Tree, experiment: &str, fields: &Fields) -> Loop {
    let lineage = tree.lineage(experiment);
    let newest = tree.nodes.last().map_or(SEED, |it| it.id.as_str());
    let nominee = tree.nominee.as_ref().map(|it| it.child.as_str());
    let from = fields.owned("from").unwrap_or_else(|| SEED.to_owned());
    let to = fields.owned("to");
    let to = to.unwrap_or_else(|| nominee.unwrap_or(newest).to_owned());
    let diff = tree.diff(&from, &to).map_err(|error| error.to_string());
    let base = format!("/optimise/{}", segment(experiment));
    let version = |it: &report::Branch<'_>| {
        let own = it.version;
        let parent = own.parent.clone().unwrap_or_default();
        let compared = [
            ("from", own.parent.as_deref().or(Some(SEED))),
            ("to", Some(own.id.as_str())),
        ];
        VersionLine {
            id: own.id.clone(),
            level: it.depth.min(MOST_LEVELS),
            link: format!("{base}{}#diff", super::fields::query(&compared)),
            parent,
            hypothesis: own.hypothesis.clone(),
            score: report::score(own),
            lead: report::lead(own),
            fate: report::fate(own),
            reason: own.reason.clone().unwrap_or_default(),
            by: own
                .reflector
                .clone()
                .filter(|it| *it != tree.settings.reflector)
                .unwrap_or_default(),
        }
    };
    Loop {
        heading: report::heading(&lineage),
        sentence: report::conclusion(&lineage),
        waiting: waiting(tree),
        is_for_judges: matches!(
            tree.waiting_for(),
            Some(WaitingFor::Judge | WaitingFor::Confirmation)
        ),
        is_for_agent: tree.waiting_for() == Some(WaitingFor::Reflector)
            && tree.settings.reflector == "agent",
        is_finished: tree.is_finished(),
        chart: report::chart(&lineage),
        versions: report::branches(&lineage).iter().map(version).collect(),
        facts: facts(tree, report::budget(&lineage)),
        from,
        to,
        diff: diff.map(|lines| lines.iter().map(Line::from).collect()),
        packets: tree.packets.iter().rev().map(PacketPart::from).collect(),
    }
}

fn facts(tree: &Tree, budget: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let settings = &tree.settings;
    let mut facts = vec![
        ("models", settings.models.join(", ")),
        ("judge", judge_words(settings).to_owned()),
        ("reflector", settings.reflector.clone()),
    ];
    facts.extend(budget);
    facts
}

impl From<&DiffLine> for Line {
    fn from(line: &DiffLine) -> Self {
        let element = match line.change {
            Change::Same => "span",
            Change::Removed => "del",
            Change::Added => "ins",
        };
        Self {
            element,
            text: line.as_text(),
        }
    }
}

impl From<&Packet> for PacketPart {
    fn from(packet: &Packet) -> Self {
        let cells = |list: &[FeedbackCell]| list.iter().map(CellPart::from).collect::<Vec<_>>();
        let groups = [
            ("Where the parent did worst", cells(&packet.worst)),
            ("Where it did well", cells(&packet.good)),
        ];
        let rejected = packet.rejected.iter();
        Self {
            id: packet.id.clone(),
            round: packet.round,
            parent: packet.parent.clone(),
            children: packet.children,
            groups: groups.into_iter().filter(|it| !it.1.is_empty()).collect(),
            rejected: rejected
                .map(|it| (it.id.clone(), it.hypothesis.clone(), it.reason.clone()))
                .collect(),
        }
    }
}

impl From<&FeedbackCell> for CellPart {
    fn from(cell: &FeedbackCell) -> Self {
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let fields = cell.fields().iter();
        let outputs = cell.outputs().iter();
        Self {
            scenario: cell.scenario().to_owned(),
            model: cell.model().to_owned(),
            mean: figure::plain(cell.mean()),
            fields: fields.map(|(key, it)| (key.clone(), text(it))).collect(),
            outputs: outputs
                .map(|it| {
                    let reasons = it.rationale.clone().unwrap_or_default();
                    (it.text.clone(), figure::plain(it.composite), reasons)
                })
                .collect(),
        }
    }
}
