//! The policies page: what is active, what it earns, shadows, the gate, promotion and rollback.

use std::sync::Mutex;

use askama::Template;
use assize_domain::error_kind::ErrorKind;
use assize_domain::job::JobKind;
use assize_pipeline::policies::alarm::Alarm;
use assize_pipeline::policies::log::active_of;
use assize_pipeline::policies::rollout::{
    ConfiguredShadow, GateOptions, Signed, before, gate, promote as make_active, status,
};
use assize_pipeline::simulation::{self, RESULTS};
use assize_policy::gate::{Effort, GateReport};
use assize_policy::study::Study;
use assize_policy::{Policy, PolicyKind};
use assize_report::simulation as report;
use assize_report::svg;
use assize_report::svg::curves::{BandCurve, BandPoint, CurveLabels};
use assize_store::RunQuery;
use assize_store::policies::{HistoryEntry, HourTally, PolicyFile};
use assize_store::state::jobs::JobStatus;
use axum::extract::State;

use super::fields::{Fields, Query};
use super::gate_checks::CheckLine;
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::relative_time::RelativeTime;
use crate::App;

pub(crate) mod changes;

const HOUR_MS: i64 = 60 * 60 * 1000;
/// How far back the chart of rewards goes.
const CHART_MS: i64 = 7 * 24 * HOUR_MS;
/// The latest decisions whose propensities are shown.
const RECENT: u32 = 1000;
const SHOWN: usize = 50;
const LONGEST_REASON: usize = 500;
/// Jobs that are searched for the latest simulation.
const JOBS_SEARCHED: u32 = 200;

#[derive(Template)]
#[template(path = "policies.html")]
struct PoliciesPage {
    frame: Frame,
    active: String,
    since: Option<RelativeTime>,
    policies: Vec<PolicyLine>,
    /// Already escaped.
    rewards: Option<String>,
    propensities: Option<String>,
    shadows: Vec<ShadowLine>,
    others: Vec<&'static str>,
    asked: Option<String>,
    gate: Option<Result<Gate, String>>,
    before: Option<String>,
    simulation: Option<LatestSimulation>,
    history: Vec<HistoryLine>,
    /// The number of the latest entry, which a change must follow.
    number: u32,
    problems: Vec<String>,
    alarm: Option<String>,
    done: Option<&'static str>,
}

struct PolicyLine {
    name: String,
    is_active: bool,
    features: u8,
    decisions: u64,
    rewards: u64,
    mean: String,
    users: u64,
}

struct ShadowLine {
    name: String,
    policy: String,
    enabled: bool,
    signals: u64,
    users: u64,
    agreement: String,
    trained: u64,
}

struct Gate {
    sentence: String,
    passed: bool,
    candidate: String,
    checks: Vec<CheckLine>,
}

struct LatestSimulation {
    heading: String,
    conclusion: String,
    experiment: String,
    /// Already escaped.
    chart: Option<String>,
}

struct HistoryLine {
    number: u32,
    what: &'static str,
    from: String,
    to: String,
    by: String,
    at: RelativeTime,
    reason: String,
}

pub(crate) async fn page(State(app): State<App>, Query(fields): Query, visit: Visit) -> PageResult {
    blocking(&app, move |app| render(app, &visit, &fields, Vec::new())).await
}

fn render(app: &App, visit: &Visit, fields: &Fields, problems: Vec<String>) -> PageResult {
    let file = app.policies.file();
    let setting = app.policies.config().active;
    let shadows = configured(app);
    let found = status(file, setting, &shadows)?;
    let history = file.history_list()?;
    let asked = fields.owned("candidate");
    let gate = asked.as_deref().map(|name| {
        let report = run_gate(app, visit, name, None).map_err(|error| error.message)?;
        Ok(shown_gate(&report.0))
    });
    let others = PolicyKind::ALL.into_iter().filter(|it| *it != found.active);
    let tally = |kind: PolicyKind| found.policies.iter().find(|it| it.policy == kind.name());
    let line = |kind: PolicyKind| {
        let own = tally(kind);
        let counts = own.map(|it| it.tally).unwrap_or_default();
        PolicyLine {
            name: kind.name().to_owned(),
            is_active: kind == found.active,
            features: kind.feature_version().number(),
            decisions: counts.decisions,
            rewards: counts.rewards,
            mean: counts
                .mean_reward()
                .map_or_else(|| "–".to_owned(), |it| format!("{it:.3}")),
            users: own.map_or(0, |it| it.users),
        }
    };
    show(&PoliciesPage {
        frame: Frame::new("policies", visit),
        active: found.active.name().to_owned(),
        since: found
            .since
            .as_ref()
            .map(|it| RelativeTime::of_ms(it.at_ms, visit.now_ms)),
        policies: PolicyKind::ALL.into_iter().map(line).collect(),
        rewards: reward_chart(file, found.active, visit.now_ms)?,
        propensities: propensities(file, found.active)?,
        shadows: found.shadows.iter().map(ShadowLine::from).collect(),
        others: others.map(PolicyKind::name).collect(),
        asked,
        gate,
        before: before(&history, setting).map(|it| it.name().to_owned()),
        simulation: latest_simulation(app)?,
        number: history.last().map_or(0, |it| it.number),
        history: history
            .iter()
            .rev()
            .take(SHOWN)
            .map(|it| history_line(it, visit))
            .collect(),
        problems,
        alarm: app.policies.alarm().map(|it| alarm_sentence(&it)),
        done: match fields.get("done") {
            Some("promoted") => Some("Promoted: another policy is active now."),
            Some("rolled-back") => Some("Rolled back: the policy before is active again."),
            Some("shadow") => Some("The shadow is switched."),
            _ => None,
        },
    })
}

impl From<&assize_pipeline::policies::rollout::ShadowStatus> for ShadowLine {
    fn from(it: &assize_pipeline::policies::rollout::ShadowStatus) -> Self {
        let scored = it.scored.as_ref();
        let signals = scored.map_or(0, |own| own.signals);
        let agreed = scored.map_or(0, |own| own.agreed);
        Self {
            name: it.shadow.name.clone(),
            policy: it.shadow.policy.name().to_owned(),
            enabled: it.shadow.enabled,
            signals,
            users: scored.map_or(0, |own| own.users),
            agreement: if signals == 0 {
                "–".to_owned()
            } else {
                format!("{:.0} %", 100.0 * agreed as f64 / signals as f64)
            },
            trained: scored.map_or(0, |own| own.trained),
        }
    }
}

fn alarm_sentence(alarm: &Alarm) -> String {
    let Alarm {
        policy,
        mean,
        rewards,
        ..
    } = alarm;
    let after = alarm.rolled_back_to.map_or_else(
        || "Consider a rollback.".to_owned(),
        |it| format!("{it} was made active again."),
    );
    format!(
        "Alarm: the mean of the latest {rewards} rewards of {policy} is {mean:.3}, below the bound. {after}"
    )
}

fn history_line(it: &HistoryEntry, visit: &Visit) -> HistoryLine {
    HistoryLine {
        number: it.number,
        what: it.action.as_str(),
        from: it.from.clone().unwrap_or_default(),
        to: it.to.clone().unwrap_or_default(),
        by: it.author.clone(),
        at: RelativeTime::of_ms(it.at_ms, visit.now_ms),
        reason: it.reason.clone(),
    }
}

fn configured(app: &App) -> Vec<ConfiguredShadow> {
    let shadows = app.policies.config().shadows.iter();
    let shadow = |it: &crate::ShadowConfig| ConfiguredShadow {
        name: it.name.clone(),
        policy: it.policy,
        enabled: it.enabled,
    };
    shadows.map(shadow).collect()
}

/// The mean reward of each hour, with the interval of 95 %.
fn reward_chart(
    file: &PolicyFile,
    active: PolicyKind,
    now_ms: i64,
) -> Result<Option<String>, PageError> {
    let hours = file.policy_hours(active.name(), now_ms - CHART_MS, now_ms)?;
    let point = |it: &HourTally| {
        let n = it.tally.rewards as f64;
        let mean = it.tally.mean_reward()?;
        let variance = (it.tally.reward_squares / n - mean * mean).max(0.0);
        let half = 1.96 * (variance / n).sqrt();
        Some(BandPoint {
            position: (it.start_ms - now_ms) as f64 / HOUR_MS as f64,
            value: mean,
            low: mean - half,
            high: mean + half,
        })
    };
    let curve = BandCurve {
        name: active.name().to_owned(),
        points: hours.iter().filter_map(point).collect(),
    };
    let labels = CurveLabels {
        title: "Mean reward by hour",
        across: "hours until now; the band is the 95 % interval",
        up: "mean reward",
    };
    let is_drawn = curve.points.len() > 1;
    Ok(svg::curves(&[curve], labels).filter(|_| is_drawn))
}

/// How likely what was shown lately had been, in one sentence.
fn propensities(file: &PolicyFile, active: PolicyKind) -> Result<Option<String>, PageError> {
    let found = file.propensities_recent(active.name(), RECENT)?;
    if found.is_empty() {
        return Ok(None);
    }
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    let least = found.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Some(format!(
        "Propensities of the latest {} decisions: mean {mean:.2}, smallest {least:.3}.",
        found.len()
    )))
}

/// The results of the latest simulation that this server ran.
fn latest_simulation(app: &App) -> Result<Option<LatestSimulation>, PageError> {
    let jobs = app.state.job_list(JOBS_SEARCHED)?;
    let is_done = |it: &&assize_store::state::jobs::JobRecord| {
        it.kind == JobKind::Simulate && it.status == JobStatus::Done
    };
    let Some(job) = jobs.iter().find(is_done) else {
        return Ok(None);
    };
    let query = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    let runs = app.tracking.run_list(&job.experiment, &query)?.runs;
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    let stored = app.tracking.artifact_get_bytes(&first.run_id, RESULTS)?;
    let study = stored.and_then(|it| serde_json::from_slice::<Study>(&it).ok());
    Ok(study.map(|study| LatestSimulation {
        heading: report::heading(&study),
        conclusion: report::conclusion(&study),
        experiment: job.experiment.clone(),
        chart: study.base().and_then(report::regret_chart),
    }))
}

fn policy(app: &App, kind: PolicyKind) -> Result<Policy, PageError> {
    let settings = app.policies.config().settings_of(kind);
    Policy::new(kind, settings).map_err(|error| PageError::invalid(error.to_string()))
}

fn kind_of(name: &str) -> Result<PolicyKind, PageError> {
    name.parse()
        .map_err(|error: assize_policy::PolicyError| PageError::invalid(error.to_string()))
}

/// Held while the gate runs.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs the gate, and promotes the candidate if that is signed. It uses a core for seconds, so only
/// admins may run it, and one at a time.
fn run_gate(
    app: &App,
    visit: &Visit,
    candidate: &str,
    signed: Option<&Signed<'_>>,
) -> Result<(GateReport, Option<HistoryEntry>), PageError> {
    if !visit.may_write {
        let message = "Only admins may run the gate.";
        return Err(PageError::new(ErrorKind::Forbidden, message));
    }
    let Ok(_running) = RUNNING.try_lock() else {
        let message = "The gate is running already: try again in a few seconds.";
        return Err(PageError::new(ErrorKind::Unavailable, message));
    };
    let file = app.policies.file();
    let shadows = configured(app);
    let history = file.history_list()?;
    let active = active_of(&history, app.policies.config().active);
    let (personas, _) = simulation::personas(None)?;
    let (incumbent, candidate) = (policy(app, active)?, policy(app, kind_of(candidate)?)?);
    let options = GateOptions {
        history: &history,
        incumbent: &incumbent,
        candidate: &candidate,
        shadows: &shadows,
        personas: &personas,
        effort: Effort::default(),
        thresholds: app.policies.config().gate,
    };
    let report = gate(file, &options)?;
    let entry = match signed {
        Some(signed) => make_active(file, &report, &options, signed)?,
        None => None,
    };
    Ok((report, entry))
}

fn shown_gate(report: &GateReport) -> Gate {
    let failed = report.failures().count();
    Gate {
        sentence: if report.passed {
            format!("{} passes the gate.", report.candidate)
        } else {
            let checks = if failed == 1 { "check" } else { "checks" };
            format!(
                "{} does not pass the gate: {failed} {checks} failed.",
                report.candidate
            )
        },
        passed: report.passed,
        candidate: report.candidate.clone(),
        checks: report.checks.iter().map(CheckLine::from).collect(),
    }
}
