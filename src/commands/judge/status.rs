//! `assize judge status`: how far judging has come, and how far the judges can be trusted.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use assize_domain::scenario::Split;
use assize_pipeline::judge::agreement::PairAgreement;
use assize_pipeline::judge::ratings::short_version;
use assize_pipeline::judge::status::{SittingStatus, SpotStatus, Status, status};
use assize_pipeline::{count, seal};
use assize_report::figure;
use assize_report::text::wrap;

use crate::Exit;
use crate::output::safe;
use crate::output::text_table::{Align, render};
use crate::session::Session;

/// Rows that each list shows; `--json` has all.
const SHOWN: usize = 10;

pub fn run(
    session: &Session,
    experiment: &str,
    delta: Option<f64>,
    unseal: bool,
) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    session.check_task(store.as_ref(), experiment)?;
    let splits = if unseal {
        let author = session.author();
        seal::check(
            store.as_ref(),
            experiment,
            Split::Confirmation,
            Some(&author),
        )?;
        Split::ALL.to_vec()
    } else {
        seal::visible_splits(store.as_ref(), experiment)?
    };
    let status = status(store.as_ref(), experiment, &splits, delta)?;
    if session.output.json {
        session.output.json_pretty(&status)?;
        return Ok(Exit::Done);
    }
    session.output.data(&page(&status, session.output.width))?;
    session.output.say(&next(session, &status));
    Ok(Exit::Done)
}

fn next(session: &Session, status: &Status) -> String {
    let experiment = ("--experiment", status.experiment.as_str());
    if status.expert.pending > 0 {
        return session.next("judge export", &[experiment, ("--out", "judge.json")]);
    }
    session.next("compare", &[experiment])
}

fn page(status: &Status, width: usize) -> String {
    let mut text = counts(status);
    if status.sealed > 0 {
        let _ = write!(
            text,
            "\n  The figures below leave out {} of the sealed confirmation split.\n",
            count(status.sealed, "candidate")
        );
    }
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(text, "\n{title}\n{body}");
        }
    };
    section("Judges", judges(status, width) + &warnings(status, width));
    for pair in &status.agreement {
        let name = |name: &str| safe(&name.chars().take(24).collect::<String>());
        let title = format!(
            "Agreement: {} and {}, {}",
            name(&pair.left),
            name(&pair.right),
            count(pair.items, "candidate")
        );
        section(&title, agreement(pair, width));
    }
    section("Sittings", sittings(status, width));
    let title = format!("Disagreements above {} points", status.delta);
    section(&title, disagreements(status, width));
    if let Some(spot) = &status.spot_check {
        let title = format!(
            "Spot check {}: {} drawn, {} open",
            spot.sitting,
            spot.drawn,
            spot.open.len()
        );
        section(&title, spot_check(spot, width));
    }
    if let Some(out) = &status.spot_check_out {
        section(
            &format!("Spot check {} is out", out.sitting),
            format!(
                "  {} drawn, {} still to be judged\n{}",
                out.drawn,
                out.open.len(),
                still_open(out, width)
            ),
        );
    }
    text
}

fn counts(status: &Status) -> String {
    let desks: Vec<String> = status
        .pending_by_kind
        .iter()
        .map(|(kind, runs)| format!("{runs} pending for {kind}"))
        .collect();
    let desks = if desks.is_empty() {
        String::new()
    } else {
        format!("  ({})", safe(&desks.join(", ")))
    };
    let mut text = format!(
        "{}: {}, {}\n\n  tier     judged  pending\n  expert  {:>7}  {:>7}{desks}\n  auto    {:>7}  {:>7}\n",
        safe(&status.experiment),
        count(whole(status.runs), "run"),
        count(whole(status.candidates), "candidate"),
        status.expert.judged,
        status.expert.pending,
        status.auto.judged,
        status.auto.pending,
    );
    if status.failed > 0 {
        let _ = write!(
            text,
            "\n  {} failed: the same collect tries again\n",
            count(whole(status.failed), "cell")
        );
    }
    text
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn judges(status: &Status, width: usize) -> String {
    let rows: Vec<Vec<String>> = status
        .judges
        .iter()
        .map(|judge| {
            vec![
                judge.judge.clone(),
                judge.tier.to_string(),
                judge.verdicts.to_string(),
                plain(judge.composite),
                plain(judge.length_correlation),
            ]
        })
        .collect();
    let headings = [
        ("judge", Align::Left),
        ("tier", Align::Left),
        ("verdicts", Align::Right),
        ("composite", Align::Right),
        ("r(length)", Align::Right),
    ];
    table(&headings, &rows, width)
}

fn warnings(status: &Status, width: usize) -> String {
    let mut text = String::new();
    for warning in &status.warnings {
        for line in wrap(&safe(&format!("Note: {warning}.")), width.saturating_sub(3)) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn agreement(pair: &PairAgreement, width: usize) -> String {
    let criteria = pair.criteria.iter().map(|it| {
        vec![
            it.name.clone(),
            figure::percent(it.exact),
            figure::percent(it.within_one),
            plain(it.kappa_linear),
            plain(it.kappa_quadratic),
            plain(it.alpha_ordinal),
            String::new(),
            figure::signed(it.bias),
            figure::p_value(it.bias_p),
        ]
    });
    let flags = pair.flags.iter().map(|it| {
        let mut row = vec![String::new(); 9];
        row[0].clone_from(&it.name);
        row[1] = figure::percent(it.exact);
        row[6] = plain(it.gwet_ac1);
        row
    });
    let rows: Vec<Vec<String>> = criteria.chain(flags).collect();
    let headings = [
        ("", Align::Left),
        ("exact", Align::Right),
        ("±1", Align::Right),
        ("κ lin", Align::Right),
        ("κ quad", Align::Right),
        ("α", Align::Right),
        ("AC1", Align::Right),
        ("bias", Align::Right),
        ("p", Align::Right),
    ];
    table(&headings, &rows, width) + "  bias above 0: the second is more generous\n"
}

fn sittings(status: &Status, width: usize) -> String {
    let rows: Vec<Vec<String>> = status
        .sittings
        .iter()
        .rev()
        .take(SHOWN)
        .map(|it| {
            let (shift, ewma) = match &it.drift {
                Some(drift) => (
                    figure::signed(drift.mean_shift),
                    format!("{} of ±{:.2}", figure::signed(drift.ewma), drift.limit),
                ),
                None => (figure::NONE.to_owned(), figure::NONE.to_owned()),
            };
            vec![
                it.sitting.clone(),
                judge_of(it, status),
                it.state.to_string(),
                shift,
                ewma,
                it.drift
                    .map_or_else(String::new, |it| it.charts().join(", ")),
            ]
        })
        .collect();
    let headings = [
        ("sitting", Align::Left),
        ("judge", Align::Left),
        ("state", Align::Left),
        ("shift", Align::Right),
        ("drift", Align::Right),
        ("alarm", Align::Left),
    ];
    table(&headings, &rows, width) + &alarms(status, width) + &more(status.sittings.len())
}

/// What the alarms of the shown sittings have seen.
fn alarms(status: &Status, width: usize) -> String {
    let mut text = String::new();
    for it in status.sittings.iter().rev().take(SHOWN) {
        let Some(drift) = it.drift.filter(|it| it.alarm) else {
            continue;
        };
        let seen = drift.seen(it.tier).join(", and ");
        let line = format!("{}: {seen}.", it.sitting);
        for line in wrap(&safe(&line), width.saturating_sub(3)) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// The judge of a sitting, with the version where several versions of this judge took part.
fn judge_of(sitting: &SittingStatus, status: &Status) -> String {
    let Some(judge) = &sitting.judge else {
        return figure::NONE.to_owned();
    };
    let namesakes = status
        .sittings
        .iter()
        .filter(|it| it.judge == sitting.judge);
    let versions: BTreeSet<_> = namesakes.map(|it| &it.version).collect();
    match &sitting.version {
        _ if versions.len() < 2 => judge.clone(),
        Some(version) => format!("{judge} ({})", short_version(version)),
        None => format!("{judge} (no version)"),
    }
}

fn disagreements(status: &Status, width: usize) -> String {
    let rows: Vec<Vec<String>> = status
        .disagreements
        .iter()
        .take(SHOWN)
        .map(|it| {
            vec![
                it.item.run_id.chars().take(8).collect(),
                it.item.candidate.to_string(),
                it.item.scenario.clone(),
                it.judge.clone(),
                figure::tick(it.auto),
                figure::tick(it.expert),
            ]
        })
        .collect();
    let headings = [
        ("run", Align::Left),
        ("no", Align::Right),
        ("scenario", Align::Left),
        ("judge", Align::Left),
        ("auto", Align::Right),
        ("expert", Align::Right),
    ];
    table(&headings, &rows, width) + &more(status.disagreements.len())
}

fn spot_check(spot: &SpotStatus, width: usize) -> String {
    let rows: Vec<Vec<String>> = spot
        .estimates
        .iter()
        .take(SHOWN)
        .map(|it| {
            vec![
                it.name(),
                it.cases.to_string(),
                format!("{}/{}", it.judged, it.drawn),
                figure::plain(it.auto_mean),
                match (it.mean, it.se) {
                    (Some(mean), Some(se)) => {
                        format!("{} ±{:.2}", figure::plain(mean), 1.96 * se)
                    }
                    _ => "unknown".to_owned(),
                },
            ]
        })
        .collect();
    let headings = [
        ("model × prompt", Align::Left),
        ("cases", Align::Right),
        ("checked", Align::Right),
        ("auto", Align::Right),
        ("both tiers", Align::Right),
    ];
    table(&headings, &rows, width) + &more(spot.estimates.len()) + &still_open(spot, width)
}

/// The drawn cases that no expert has judged yet. They are in the file of the spot check.
fn still_open(spot: &SpotStatus, width: usize) -> String {
    if spot.open.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = spot
        .open
        .iter()
        .take(SHOWN)
        .map(|it| {
            vec![
                it.run_id.chars().take(8).collect(),
                it.candidate.to_string(),
                figure::plain(it.probability),
            ]
        })
        .collect();
    let headings = [
        ("open: run", Align::Left),
        ("no", Align::Right),
        ("drawn with probability", Align::Right),
    ];
    table(&headings, &rows, width)
        + &more(spot.open.len())
        + "  score them in the file of judge export --spot-check, then judge apply it\n"
}

fn table(headings: &[(&str, Align)], rows: &[Vec<String>], width: usize) -> String {
    if rows.is_empty() {
        return String::new();
    }
    render(headings, rows, width)
}

fn more(all: usize) -> String {
    if all > SHOWN {
        format!("  … and {} more (--json has all)\n", all - SHOWN)
    } else {
        String::new()
    }
}

fn plain(value: Option<f64>) -> String {
    figure::optional(value, figure::plain)
}
