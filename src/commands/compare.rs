//! `assize compare`: the leaderboard, in every format.

use std::path::Path;

use assize_domain::leaderboard::Leaderboard;
use assize_pipeline::PipelineError;
use assize_pipeline::compare::{CompareOptions, compare};
use assize_report::terminal::Style;

use crate::Exit;
use crate::cli::{Compare, Format};
use crate::environment;
use crate::output::files::write_whole;
use crate::session::Session;

pub fn run(session: &Session, args: &Compare) -> anyhow::Result<Exit> {
    // A wrong ending is noticed before anything is computed or written.
    let outputs: Vec<(&Path, Format)> = args
        .output
        .iter()
        .map(|path| Ok((path.as_path(), format_of(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let store = session.store(true)?;
    let options = CompareOptions {
        experiment: args.experiment.clone(),
        tier: args.tier,
        incumbent: args.incumbent.clone(),
        split: args.split,
        seed: 42,
    };
    let board = compare(store.as_ref(), &options)?;
    for (path, format) in &outputs {
        write_whole(path, &render(session, &board, *format, false)?)?;
        session.output.say(&format!("Wrote {}", path.display()));
    }
    let default = if session.output.json {
        Format::Json
    } else {
        Format::Table
    };
    if outputs.is_empty() || args.format.is_some() || session.output.json {
        let format = args.format.unwrap_or(default);
        session
            .output
            .data(&render(session, &board, format, session.output.color)?)?;
    }
    Ok(Exit::Done)
}

/// Prints the board as people read it.
pub fn print(session: &Session, board: &Leaderboard) -> anyhow::Result<()> {
    Ok(session.output.data(&render(
        session,
        board,
        Format::Table,
        session.output.color,
    )?)?)
}

fn render(
    session: &Session,
    board: &Leaderboard,
    format: Format,
    color: bool,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => {
            let style = Style {
                width: session.output.width,
                color,
                promote_exists: true,
            };
            assize_report::terminal::table(board, style)
        }
        Format::Json => serde_json::to_string_pretty(board)? + "\n",
        Format::Csv => assize_report::csv::render(board),
        Format::Md => assize_report::markdown::render(board),
        Format::Html => assize_report::html::render(board, &environment::now_rfc3339()),
    })
}

fn format_of(path: &Path) -> anyhow::Result<Format> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some("md") => Ok(Format::Md),
        Some("html" | "htm") => Ok(Format::Html),
        Some("txt") => Ok(Format::Table),
        _ => Err(PipelineError::Invalid(format!(
            "{}: the ending names no format; use .json, .csv, .md, .html or .txt",
            path.display()
        ))
        .into()),
    }
}
