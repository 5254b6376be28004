//! `assize promote ledger`: looks at the confirmation split, and attempts at a promotion.

use assize_domain::ledger::{ConfirmationUse, Entry, Kind};
use serde_json::json;

use crate::Exit;
use crate::output::text_table::{Align, render};
use crate::session::Session;

pub fn run(session: &Session, experiment: &str) -> anyhow::Result<Exit> {
    let entries = session.store(true)?.ledger_list(experiment)?;
    let used = ConfirmationUse::of(&entries);
    let output = &session.output;
    if output.json {
        output.json_pretty(
            &json!({"experiment": experiment, "confirmation": used, "entries": entries}),
        )?;
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        output.say(
            "The ledger is empty: nobody has looked at the confirmation split or tried to promote.",
        );
        return Ok(Exit::Done);
    }
    let headings = [
        ("#", Align::Right),
        ("when (UTC)", Align::Left),
        ("who", Align::Left),
        ("via", Align::Left),
        ("what", Align::Left),
        ("result", Align::Left),
        ("confirmation", Align::Right),
        ("candidate", Align::Left),
    ];
    let rows: Vec<Vec<String>> = entries.iter().rev().map(row).collect();
    output.data(&render(&headings, &rows, output.width))?;
    output.say(&match used {
        Some(used) => format!("Confirmation: {used}."),
        None => "Nobody has seen the scores of the confirmation split.".to_owned(),
    });
    Ok(Exit::Done)
}

fn row(it: &Entry) -> Vec<String> {
    let what = match it.kind {
        Kind::Look => "look",
        Kind::Attempt => "attempt",
    };
    let none = || "–".to_owned();
    let outcome = it.outcome.map(|it| it.as_words().to_owned());
    let figure = it.figures.get("confirmation");
    let candidate = it.candidate.as_ref().map(ToString::to_string);
    vec![
        it.number.to_string(),
        it.at.get(..16).unwrap_or(&it.at).replace('T', " "),
        it.by.clone(),
        it.via.as_str().to_owned(),
        what.to_owned(),
        outcome.unwrap_or_else(none),
        figure.map_or_else(none, |it| format!("{it:.3}")),
        candidate.unwrap_or_else(none),
    ]
}
