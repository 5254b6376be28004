//! The history tab: sittings, promotions and the ledger of an experiment, latest first.

use askama::Template;
use assize_domain::ledger::{Entry, Kind};
use assize_domain::run::param;
use assize_domain::sitting::SittingState;
use assize_pipeline::judge::drift::Drift;
use assize_store::RunQuery;
use assize_store::queue::SittingRecord;
use axum::extract::State;

use super::Top;
use super::runs::value;
use crate::App;
use crate::panel::fields::Path;
use crate::panel::page::{Frame, PageError, PageResult, Visit, blocking, show};
use crate::panel::relative_time::RelativeTime;

const SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    top: Top,
    events: Vec<Event>,
    more: usize,
}

struct Event {
    /// RFC 3339, for sorting.
    at: String,
    when: RelativeTime,
    what: String,
    who: String,
    note: String,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
) -> PageResult {
    let top = Top::from_cache(&app, &experiment, "history").await?;
    let now_ms = visit.now_ms;
    let mut events = blocking(&app, move |app| events(app, &experiment, now_ms)).await?;
    // Latest first; of events at the same time, the one that was added last comes first.
    events.sort_by(|a, b| a.at.cmp(&b.at));
    events.reverse();
    let more = events.len().saturating_sub(SHOWN);
    events.truncate(SHOWN);
    show(&HistoryPage {
        frame: Frame::new("experiments", &visit),
        top,
        events,
        more,
    })
}

fn events(app: &App, experiment: &str, now_ms: i64) -> Result<Vec<Event>, PageError> {
    let mut events = Vec::new();
    let mut add = |at: &str, what: String, who: &str, note: &str| {
        events.push(Event {
            at: at.to_owned(),
            when: RelativeTime::of_text(at, now_ms),
            what,
            who: who.to_owned(),
            note: note.to_owned(),
        });
    };
    for record in app.tracking.sitting_list(experiment)? {
        let who = record.judge.as_ref().map_or("", |it| it.name.as_str());
        let sitting = &record.sitting;
        let what = format!("opened a sitting ({} tier)", sitting.tier);
        add(&sitting.opened_at, what, who, &sitting.id);
        if let Some(at) = &record.closed_at {
            add(at, closed(&record), who, &sitting.id);
        }
    }
    for it in app.tracking.ledger_list(experiment)? {
        let note = format!("ledger entry {} ({})", it.number, it.via.as_str());
        add(&it.at, in_ledger(&it), &it.by, &note);
    }
    let first = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    let first = app.tracking.run_list(experiment, &first)?;
    let task = first.runs.first().map(|it| value(&it.params, param::TASK));
    for it in app.tracking.promotion_list(task.unwrap_or_default())? {
        if it.experiment == experiment {
            let what = format!("{}: {} is the champion", it.action, it.champion.pair());
            add(&it.at, what, &it.by, it.note.as_deref().unwrap_or_default());
        }
    }
    Ok(events)
}

fn in_ledger(it: &Entry) -> String {
    let pair = |pair: &Option<_>| match pair {
        Some(pair) => format!("{pair}"),
        None => String::new(),
    };
    let outcome = it.outcome.map_or("", |it| it.as_words());
    match it.kind {
        Kind::Look => "looked at the sealed confirmation split".to_owned(),
        Kind::Attempt if it.has_seen_confirmation() => format!(
            "tried {} against {} on the confirmation split: {outcome}",
            pair(&it.candidate),
            pair(&it.incumbent)
        ),
        Kind::Attempt => format!(
            "tried to promote {} against {}: {outcome}",
            pair(&it.candidate),
            pair(&it.incumbent)
        ),
    }
}

fn closed(record: &SittingRecord) -> String {
    match record.state {
        SittingState::Quarantined => {
            "was quarantined: the judge has drifted; the cases are pending again".to_owned()
        }
        // The record has the time of closing, not of the release.
        SittingState::Closed if has_alarm(record) => {
            "was quarantined for drift, and released since: its verdicts count".to_owned()
        }
        state => format!("{state} the sitting"),
    }
}

fn has_alarm(record: &SittingRecord) -> bool {
    let drift = record.drift.as_deref();
    let drift = drift.and_then(|it| serde_json::from_str::<Drift>(it).ok());
    drift.is_some_and(|it| it.alarm)
}
