//! The whole record of one promotion or rollback.

use askama::Template;
use assize_domain::error_kind::ErrorKind;
use assize_domain::promotion::{Action, Promotion};
use assize_report::gate_table::sentence;
use axum::extract::State;

use super::fields::Query;
use super::gate_checks::CheckLine;
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::pair_name::PairName;
use super::relative_time::RelativeTime;
use crate::App;

#[derive(Template)]
#[template(path = "promotion_record.html")]
struct RecordPage {
    frame: Frame,
    number: u32,
    task: String,
    is_rollback: bool,
    pair: PairName,
    restores: Option<u32>,
    experiment: String,
    by: String,
    at: RelativeTime,
    note: Option<String>,
    version: u32,
    model_digest: String,
    prompt: String,
    prompt_sha256: String,
    settings: Vec<(String, String)>,
    system: Option<String>,
    body: String,
    gate: Option<Gate>,
}

struct Gate {
    sentence: String,
    incumbent: PairName,
    tier: &'static str,
    checks: Vec<CheckLine>,
}

pub(crate) async fn page(State(app): State<App>, Query(fields): Query, visit: Visit) -> PageResult {
    let task = fields.owned("task").unwrap_or_default();
    let number: u32 = fields.read("number")?.unwrap_or_default();
    let found = blocking(&app, move |app| {
        let list = app.tracking.promotion_list(&task)?;
        list.into_iter()
            .find(|it| it.number == number)
            .ok_or_else(|| {
                let message = format!("The task “{task}” has no entry {number} in its history.");
                PageError::new(ErrorKind::NotFound, message)
            })
    })
    .await?;
    show(&record(found, &visit))
}

fn record(it: Promotion, visit: &Visit) -> RecordPage {
    let gate = it.gate.as_ref().map(|gate| Gate {
        sentence: sentence(gate),
        incumbent: PairName::of(&gate.incumbent),
        tier: gate.tier.as_str(),
        checks: gate.checks.iter().map(CheckLine::from).collect(),
    });
    let settings = it.champion.settings.iter();
    RecordPage {
        frame: Frame::new("promotions", visit),
        number: it.number,
        is_rollback: it.action == Action::Rollback,
        pair: PairName::of(&it.champion.pair()),
        restores: it.restores,
        at: RelativeTime::of_text(&it.at, visit.now_ms),
        version: it.version,
        settings: settings
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect(),
        task: it.task,
        experiment: it.experiment,
        by: it.by,
        note: it.note,
        model_digest: it.champion.model_digest,
        prompt: it.champion.prompt,
        prompt_sha256: it.champion.prompt_sha256,
        system: it.champion.system,
        body: it.champion.body,
        gate,
    }
}
