//! `assize experiments`: what is tracked.

use serde_json::json;

use crate::Exit;
use crate::environment::now_ms;
use crate::output::text_table::{Align, render};
use crate::session::Session;

/// Lists the experiments that hold runs.
pub fn list(session: &Session) -> anyhow::Result<Exit> {
    // A folder where nothing was collected yet has no experiments, which is not an error.
    let experiments = if session.store_exists()? {
        session.store(true)?.experiment_list()?
    } else {
        Vec::new()
    };
    if session.output.json {
        session
            .output
            .json_pretty(&json!({"experiments": experiments}))?;
        return Ok(Exit::Done);
    }
    if experiments.is_empty() {
        session.output.say("No experiment yet. Next: assize demo");
        return Ok(Exit::Done);
    }
    let headings = [
        ("experiment", Align::Left),
        ("runs", Align::Right),
        ("pending", Align::Right),
        ("judged", Align::Right),
        ("last", Align::Left),
    ];
    let rows: Vec<Vec<String>> = experiments
        .iter()
        .map(|it| {
            let ago = ago(now_ms() - it.last_updated);
            vec![
                it.name.clone(),
                it.runs.to_string(),
                it.pending.to_string(),
                it.judged.to_string(),
                ago,
            ]
        })
        .collect();
    session
        .output
        .data(&render(&headings, &rows, session.output.width))?;
    Ok(Exit::Done)
}

/// `just now`, `5 min ago`, `2 h ago`, `3 days ago`.
pub fn ago(ms: i64) -> String {
    let minutes = ms / 60_000;
    match minutes {
        ..1 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..2880 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / 1440),
    }
}
