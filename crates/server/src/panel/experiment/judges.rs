//! The judges tab: agreement, bias and drift of an experiment's judges.

use askama::Template;
use assize_domain::sitting::SittingState;
use assize_pipeline::judge::agreement::PairAgreement;
use assize_pipeline::judge::status::{Disagreement, SittingStatus, SpotStatus, Status};
use assize_report::svg::drift::Point;
use assize_report::{figure, svg};
use axum::extract::State;

use super::Top;
use crate::App;
use crate::boards::Boards;
use crate::panel::fields::Path;
use crate::panel::page::{Frame, PageResult, Visit, show};
use crate::panel::relative_time::RelativeTime;

/// The number of rows per list.
const SHOWN: usize = 25;
/// The number of sittings in the chart.
const CHARTED: usize = 60;

#[derive(Template)]
#[template(path = "judges.html")]
struct JudgesPage {
    frame: Frame,
    top: Top,
    sentence: String,
    auto_pending: u64,
    /// Judged candidates of the sealed confirmation split.
    sealed: usize,
    /// Ids of quarantined sittings, which do not count.
    quarantined: Vec<String>,
    judges: Vec<JudgeLine>,
    pairs: Vec<PairTable>,
    chart: Option<String>,
    sittings: Vec<SittingLine>,
    more_sittings: usize,
    delta: String,
    disagreements: Vec<DisagreementLine>,
    more_disagreements: usize,
    spot: Option<Spot>,
}

struct JudgeLine {
    name: String,
    tier: &'static str,
    verdicts: usize,
    composite: String,
    length: String,
}

/// Agreement of two raters, criterion by criterion.
struct PairTable {
    left: String,
    right: String,
    items: usize,
    rows: Vec<(String, [String; 6])>,
}

struct SittingLine {
    /// In the order of time, from 1, as in the chart.
    number: usize,
    id: String,
    judge: String,
    state: String,
    opened: RelativeTime,
    shift: String,
    ewma: String,
    counts: bool,
}

struct DisagreementLine {
    run_id: String,
    what: String,
    judge: String,
    auto: String,
    expert: String,
    difference: String,
}

struct Spot {
    drawn: usize,
    open: usize,
    rows: Vec<(String, [String; 4])>,
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
) -> PageResult {
    let top = Top::from_cache(&app, &experiment, "judges").await?;
    let status = Boards::status(&app, &experiment).await?;
    let skipped = status.sittings.len().saturating_sub(SHOWN);
    show(&JudgesPage {
        frame: Frame::new("experiments", &visit),
        top,
        sentence: sentence(&status),
        auto_pending: status.auto.pending,
        sealed: status.sealed,
        quarantined: quarantined(&status),
        judges: judges(&status),
        pairs: status.agreement.iter().map(pair).collect(),
        chart: chart(&status),
        sittings: sittings(&status, &visit),
        more_sittings: skipped,
        delta: figure::tick(status.delta),
        more_disagreements: status.disagreements.len().saturating_sub(SHOWN),
        disagreements: status
            .disagreements
            .iter()
            .take(SHOWN)
            .map(disagreement)
            .collect(),
        spot: status.spot_check.as_ref().map(spot),
    })
}

fn sentence(status: &Status) -> String {
    let (expert, auto) = (status.expert, status.auto);
    format!(
        "{} of {} cells judged by experts, {} by automatic judges.",
        expert.judged, status.runs, auto.judged
    )
}

fn quarantined(status: &Status) -> Vec<String> {
    let all = status.sittings.iter();
    all.filter(|it| it.state == SittingState::Quarantined)
        .map(|it| it.sitting.clone())
        .collect()
}

fn judges(status: &Status) -> Vec<JudgeLine> {
    let line = |it: &assize_pipeline::judge::status::JudgeStatus| JudgeLine {
        name: it.judge.clone(),
        tier: it.tier.as_str(),
        verdicts: it.verdicts,
        composite: figure::optional(it.composite, figure::plain),
        length: figure::optional(it.length_correlation, figure::signed),
    };
    status.judges.iter().map(line).collect()
}

fn pair(it: &PairAgreement) -> PairTable {
    let criteria = it.criteria.iter().map(|it| {
        let figures = [
            it.items.to_string(),
            figure::percent(it.exact),
            figure::percent(it.within_one),
            figure::optional(it.kappa_quadratic, figure::plain),
            figure::optional(it.alpha_ordinal, figure::plain),
            match it.bias_p {
                Some(p) => {
                    let p = figure::p_value(Some(p));
                    let sign = if p.starts_with('<') { "" } else { "= " };
                    format!("{} (p {sign}{p})", figure::signed(it.bias))
                }
                None => figure::signed(it.bias),
            },
        ];
        (it.name.clone(), figures)
    });
    let flags = it.flags.iter().map(|it| {
        let none = || figure::NONE.to_owned();
        let figures = [
            it.items.to_string(),
            figure::percent(it.exact),
            none(),
            figure::optional(it.kappa, figure::plain),
            figure::optional(it.gwet_ac1, figure::plain),
            none(),
        ];
        (it.name.clone(), figures)
    });
    PairTable {
        left: it.left.clone(),
        right: it.right.clone(),
        items: it.items,
        rows: criteria.chain(flags).collect(),
    }
}

fn chart(status: &Status) -> Option<String> {
    let points: Vec<Point> = status
        .sittings
        .iter()
        .zip(1..)
        .filter_map(|(it, number)| {
            let drift = it.drift?;
            Some(Point {
                number,
                judge: it.judge.clone().unwrap_or_default(),
                ewma: drift.ewma,
                limit: drift.limit,
                alarm: drift.alarm,
            })
        })
        .collect();
    svg::drift(&points[points.len().saturating_sub(CHARTED)..])
}

/// The newest first.
fn sittings(status: &Status, visit: &Visit) -> Vec<SittingLine> {
    let numbered: Vec<_> = (1..).zip(&status.sittings).collect();
    let newest = numbered.into_iter().rev().take(SHOWN);
    newest
        .map(|(number, it)| SittingLine {
            number,
            id: it.sitting.clone(),
            judge: it.judge.clone().unwrap_or_else(|| figure::NONE.to_owned()),
            state: state(it),
            opened: RelativeTime::of_text(&it.opened_at, visit.now_ms),
            shift: figure::optional(it.drift.map(|it| it.mean_shift), figure::signed),
            ewma: it.drift.map_or_else(
                || figure::NONE.to_owned(),
                |it| {
                    let limit = figure::plain(it.limit);
                    format!("{} of ±{limit}", figure::signed(it.ewma))
                },
            ),
            counts: it.state != SittingState::Quarantined,
        })
        .collect()
}

/// An alarm quarantines a sitting, so a closed sitting with an alarm was released.
fn state(it: &SittingStatus) -> String {
    match it.state {
        SittingState::Closed if it.drift.is_some_and(|it| it.alarm) => {
            "released: it counts".to_owned()
        }
        state => state.to_string(),
    }
}

fn disagreement(it: &Disagreement) -> DisagreementLine {
    let item = &it.item;
    DisagreementLine {
        run_id: item.run_id.clone(),
        what: format!(
            "{} × {} × {}, candidate {}",
            item.model, item.prompt, item.scenario, item.candidate
        ),
        judge: it.judge.clone(),
        auto: figure::plain(it.auto),
        expert: figure::plain(it.expert),
        difference: figure::signed(it.auto - it.expert),
    }
}

fn spot(it: &SpotStatus) -> Spot {
    let row = |it: &assize_pipeline::judge::spot_check::PairEstimate| {
        let mean = match (it.mean, it.se) {
            (Some(mean), Some(se)) => {
                format!("{} ±{}", figure::plain(mean), figure::plain(1.96 * se))
            }
            (Some(mean), None) => figure::plain(mean),
            (None, _) => "unknown".to_owned(),
        };
        let figures = [
            it.cases.to_string(),
            format!("{} of {}", it.judged, it.drawn),
            figure::plain(it.auto_mean),
            mean,
        ];
        (it.name(), figures)
    };
    Spot {
        drawn: it.drawn,
        open: it.open.len(),
        rows: it.estimates.iter().map(row).collect(),
    }
}
