//! `assize compare`: the leaderboard in every format, and its checks for CI.

use std::path::Path;

use assize_domain::leaderboard::Leaderboard;
use assize_domain::leaderboard::check::Check;
use assize_domain::leaderboard::{Pareto, Resource};
use assize_domain::task::{TaskDefaults, TaskScenarios};
use assize_pipeline::compare::{CompareOptions, CurrentScenarios, DecisionRule, compare_finding};
use assize_pipeline::{PipelineError, seal, whole_file};
use assize_report::shell::shell_word;
use assize_report::terminal::Style;

use crate::Exit;
use crate::cli::{Compare, Format, ParetoBy};
use crate::environment;
use crate::output::{complain, safe};
use crate::session::Session;

/// What a rendering needs besides the board.
#[derive(Default)]
struct Ask {
    check: Check,
    pareto: bool,
}

pub fn run(session: &Session, args: &Compare) -> anyhow::Result<Exit> {
    // A wrong extension is an error before anything is computed or written.
    let outputs: Vec<(&Path, Format)> = args
        .output
        .iter()
        .map(|path| Ok((path.as_path(), format_of(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let store = session.store(true)?;
    let author = args.unseal.then(|| session.author());
    seal::check(
        store.as_ref(),
        &args.experiment,
        args.split,
        author.as_ref(),
    )?;
    let options = CompareOptions {
        tier: args.tier,
        incumbent: args.incumbent.clone(),
        split: args.split,
        ..CompareOptions::usual(&args.experiment)
    };
    let rule = decision_rule(session)?;
    let mut board = compare_finding(store.as_ref(), options, rule, || {
        let found = session.task_of::<TaskScenarios>(store.as_ref(), &args.experiment)?;
        anyhow::Ok(found.task().map(CurrentScenarios::from))
    })?;
    let chosen = match args.pareto {
        Some(ParetoBy::Latency) => Some(Resource::Latency),
        Some(ParetoBy::Cost) => Some(Resource::Cost),
        Some(ParetoBy::Measured) | None => None,
    };
    if let Some(resource) = chosen {
        board.pareto = Pareto::against(&board.rows, resource);
    }
    let ask = Ask {
        check: check(&board, args)?,
        pareto: args.pareto.is_some(),
    };
    for (path, format) in &outputs {
        whole_file::write(path, &render(session, &board, &ask, *format, false)?)?;
        session.output.say(&format!("Wrote {}", path.display()));
    }
    let default = if session.output.json {
        Format::Json
    } else {
        Format::Table
    };
    if outputs.is_empty() || args.format.is_some() || session.output.json {
        let format = args.format.unwrap_or(default);
        session.output.data(&render(
            session,
            &board,
            &ask,
            format,
            session.output.color,
        )?)?;
    }
    let objections = ask.check.objections(&board);
    for objection in &objections {
        complain(&format!("Failed: {}.", safe(objection)));
    }
    Ok(if objections.is_empty() {
        Exit::Done
    } else {
        Exit::Refused
    })
}

/// What a lead is held against, from `[gate]` of the settings.
pub fn decision_rule(session: &Session) -> anyhow::Result<DecisionRule> {
    let settings = session.layers(&TaskDefaults::default())?.finish()?;
    Ok(settings.gate.decision_rule())
}

/// The checks that the flags ask for.
fn check(board: &Leaderboard, args: &Compare) -> anyhow::Result<Check> {
    let find = |wanted: &String| {
        let mut pairs = board.rows.iter().map(assize_domain::leaderboard::Row::pair);
        pairs.find(|pair| pair.id() == *wanted).ok_or_else(|| {
            let known: Vec<String> = board.rows.iter().map(|row| row.pair().id()).collect();
            let known = match known.len() {
                0 => "nothing is judged yet".to_owned(),
                _ => format!("use one of {}", known.join(", ")),
            };
            PipelineError::Invalid(format!(
                "the candidate '{wanted}' is not a judged pair of this experiment: {known}"
            ))
        })
    };
    Ok(Check {
        fail_under: args.fail_under,
        candidates: args.candidate.iter().map(find).collect::<Result<_, _>>()?,
        unless_winner: args.fail_unless_winner,
    })
}

/// Prints the board as people read it.
pub fn print(session: &Session, board: &Leaderboard) -> anyhow::Result<()> {
    Ok(session.output.data(&render(
        session,
        board,
        &Ask::default(),
        Format::Table,
        session.output.color,
    )?)?)
}

fn render(
    session: &Session,
    board: &Leaderboard,
    ask: &Ask,
    format: Format,
    color: bool,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => {
            let style = Style {
                width: session.output.width,
                color,
                pareto: ask.pareto,
            };
            let globals = session.flags(&[]).into_iter();
            let globals: Vec<String> = globals
                .map(|(name, value)| format!("{name} {}", shell_word(&value)))
                .collect();
            assize_report::terminal::table_with(board, style, &globals)
        }
        Format::Json => serde_json::to_string_pretty(board)? + "\n",
        Format::Csv => assize_report::csv::render(board),
        Format::Md => assize_report::markdown::render(board),
        Format::Junit => assize_report::junit::render(board, &ask.check),
        Format::Html => assize_report::html::render(board, &environment::now_rfc3339()),
    })
}

fn format_of(path: &Path) -> anyhow::Result<Format> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some("md") => Ok(Format::Md),
        Some("html" | "htm") => Ok(Format::Html),
        Some("xml") => Ok(Format::Junit),
        Some("txt") => Ok(Format::Table),
        _ => Err(PipelineError::Invalid(format!(
            "{}: the extension is not a known format; use .json, .csv, .md, .html, .xml or .txt",
            path.display()
        ))
        .into()),
    }
}
