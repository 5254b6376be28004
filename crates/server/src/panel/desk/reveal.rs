//! The page after a sitting: the pairs that were scored, and the agreement with other judges.

use askama::Template;
use assize_domain::error_kind::ErrorKind;
use assize_domain::judge::Tier;
use assize_domain::sitting::SittingState;
use assize_pipeline::judge::agreement::PairAgreement;
use assize_pipeline::judge::drift::Drift;
use assize_pipeline::judge::reveal::{Revealed, reveal};
use assize_report::figure;
use axum::extract::State;

use crate::App;
use crate::boards::Boards;
use crate::panel::fields::{Path, Query};
use crate::panel::page::{Frame, PageError, PageResult, Visit, blocking, show};

#[derive(Template)]
#[template(path = "desk_reveal.html")]
struct RevealPage {
    frame: Frame,
    experiment: String,
    done: usize,
    sealed: usize,
    quarantined: Option<String>,
    shift: Option<String>,
    rows: Vec<(String, usize, String)>,
    agreements: Vec<Agreement>,
    pending: u64,
}

struct Agreement {
    with: String,
    items: usize,
    rows: Vec<(String, String, String, String)>,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    Query(fields): Query,
    visit: Visit,
) -> PageResult {
    let sitting = fields.owned("sitting").unwrap_or_default();
    let visitor = visit.clone();
    let (record, revealed) = blocking(&app, move |app| {
        let judge = visitor.session_judge();
        if app.judging.has_open_sitting(&judge)? {
            let message = "Judges cannot see results while one of their sittings is open. Finish yours first.";
            return Err(PageError::new(ErrorKind::Forbidden, message));
        }
        let record = app.tracking.sitting_record_get(&sitting)?;
        let revealed = reveal(app.tracking.as_ref(), &sitting)?;
        let own = record.filter(|it| {
            let name = it.judge.as_ref().map(|it| it.name.as_str());
            visitor.may_read || name == Some(visitor.name.as_str())
        });
        let message = "This sitting belongs to another judge.";
        let record = own.ok_or_else(|| PageError::new(ErrorKind::Forbidden, message))?;
        Ok((record, revealed))
    })
    .await?;
    let status = Boards::status(&app, &experiment).await?;
    let judge = record.judge.as_ref().map_or("", |it| it.name.as_str());
    let drift: Option<Drift> = record
        .drift
        .as_deref()
        .and_then(|it| serde_json::from_str(it).ok());
    let is_quarantined = record.state == SittingState::Quarantined;
    show(&RevealPage {
        frame: Frame::new("desk", &visit),
        done: revealed.pairs.iter().map(|it| it.cases).sum(),
        sealed: revealed.sealed_cases,
        quarantined: is_quarantined.then(|| {
            let seen = drift.map_or_else(Vec::new, |it| it.seen(Tier::Expert));
            format!(
                "On the calibration cases {}. This sitting does not count, and its cases are \
                 pending again.",
                seen.join(", and ")
            )
        }),
        shift: drift.map(|it| figure::signed(it.mean_shift)),
        rows: revealed.pairs.iter().map(row).collect(),
        agreements: status
            .agreement
            .iter()
            .filter_map(|it| agreement(it, judge))
            .collect(),
        pending: status.expert.pending,
        experiment,
    })
}

fn row(it: &Revealed) -> (String, usize, String) {
    let composite = figure::optional(it.composite, figure::plain);
    (it.pair.to_string(), it.cases, composite)
}

/// The agreement with another rater; `None` if it does not involve this judge or the experts.
fn agreement(it: &PairAgreement, judge: &str) -> Option<Agreement> {
    let is_own = |label: &str| label == "expert" || label == judge || label.starts_with(judge);
    let with = match (is_own(&it.left), is_own(&it.right)) {
        (true, _) => &it.right,
        (_, true) => &it.left,
        _ => return None,
    };
    let rows = it.criteria.iter().map(|it| {
        (
            it.name.clone(),
            figure::percent(it.exact),
            figure::percent(it.within_one),
            figure::optional(it.alpha_ordinal, figure::plain),
        )
    });
    Some(Agreement {
        with: with.clone(),
        items: it.items,
        rows: rows.collect(),
    })
}
