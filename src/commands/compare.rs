//! `assize compare`: the leaderboard in every format, and its checks for CI.

use std::path::Path;

use assize_domain::leaderboard::Leaderboard;
use assize_domain::leaderboard::answers::Answers;
use assize_domain::leaderboard::check::Check;
use assize_domain::leaderboard::{Pareto, Resource};
use assize_domain::task::{TaskDefaults, TaskScenarios};
use assize_pipeline::compare::{
    CompareOptions, CurrentScenarios, DecisionRule, Scored, Wanted, by_scenario, compare_finding,
};
use assize_pipeline::{PipelineError, seal, whole_file};
use assize_report::sentences::{self, Next};
use assize_report::shell::shell_word;
use assize_report::terminal::Style;
use assize_report::{markdown, terminal};
use assize_store::Tracking;
use serde::Serialize;

use crate::Exit;
use crate::cli::{Compare, Format, ParetoBy};
use crate::commands::optimise;
use crate::environment;
use crate::output::{complain, safe};
use crate::session::Session;

/// What a rendering needs besides the board.
#[derive(Default)]
struct Ask {
    check: Check,
    pareto: bool,
    /// What the flags ask for.
    answers: Answers,
    /// What the HTML report has in any case.
    report: Answers,
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
    let mut scored = compare_finding(store.as_ref(), options, rule, || {
        let found = session.task_of::<TaskScenarios>(store.as_ref(), &args.experiment)?;
        anyhow::Ok(found.task().map(CurrentScenarios::from))
    })?;
    let formats = formats(session, args, &outputs)?;
    let report = answers(store.as_ref(), &scored, args, &formats)?;
    let board = &mut scored.compared.board;
    let chosen = match args.pareto {
        Some(ParetoBy::Latency) => Some(Resource::Latency),
        Some(ParetoBy::Cost) => Some(Resource::Cost),
        Some(ParetoBy::Measured) | None => None,
    };
    if let Some(resource) = chosen {
        board.pareto = Pareto::against(&board.rows, resource);
    }
    let ask = Ask {
        check: check(board, args)?,
        pareto: args.pareto.is_some(),
        answers: Answers {
            by_scenario: report.by_scenario.clone().filter(|_| args.by.is_some()),
            examples: report.examples.clone().filter(|_| args.examples.is_some()),
            outputs: None,
        },
        report,
    };
    for (path, format) in &outputs {
        whole_file::write(path, &render(session, board, &ask, *format, false)?)?;
        session.output.say(&format!("Wrote {}", path.display()));
    }
    if let Some(format) = printed(session, args) {
        let color = session.output.color;
        session
            .output
            .data(&render(session, board, &ask, format, color)?)?;
    }
    let objections = ask.check.objections(board);
    for objection in &objections {
        complain(&format!("Failed: {}.", safe(objection)));
    }
    Ok(if objections.is_empty() {
        Exit::Done
    } else {
        Exit::Refused
    })
}

/// The format that is printed, if any.
fn printed(session: &Session, args: &Compare) -> Option<Format> {
    let default = if session.output.json {
        Format::Json
    } else {
        Format::Table
    };
    let is_printed = args.output.is_empty() || args.format.is_some() || session.output.json;
    is_printed.then(|| args.format.unwrap_or(default))
}

/// All formats that are asked for. CSV and `JUnit` have no place for outputs.
fn formats(
    session: &Session,
    args: &Compare,
    outputs: &[(&Path, Format)],
) -> anyhow::Result<Vec<Format>> {
    let written = outputs.iter().map(|(_, format)| *format);
    let formats: Vec<Format> = written.chain(printed(session, args)).collect();
    let refused = formats.iter().find_map(|format| match format {
        Format::Csv if args.examples.is_some() => Some(("--examples", "CSV")),
        Format::Junit if args.examples.is_some() => Some(("--examples", "JUnit")),
        Format::Junit if args.by.is_some() => Some(("--by scenario", "JUnit")),
        _ => None,
    });
    if let Some((flag, format)) = refused {
        let message = format!(
            "{flag} cannot be shown as {format}: use table, json, md or html, or assize runs export for all outputs"
        );
        return Err(PipelineError::Invalid(message).into());
    }
    Ok(formats)
}

/// What is read besides the board. The HTML report always has all of it.
fn answers(
    store: &dyn Tracking,
    scored: &Scored,
    args: &Compare,
    formats: &[Format],
) -> anyhow::Result<Answers> {
    let is_html = formats.contains(&Format::Html);
    let always = if is_html {
        Wanted::REPORT
    } else {
        Wanted::default()
    };
    let wanted = Wanted {
        examples: args.examples.map_or(always.examples, usize::from),
        ..always
    };
    let mut answers = scored.answers(store, wanted)?;
    if args.by.is_some() || is_html {
        answers.by_scenario = Some(by_scenario(&scored.compared.board, &scored.compared.cells));
    }
    Ok(answers)
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
            let by = ask.answers.by_scenario.as_ref();
            let by = by.map(|it| terminal::by_scenario::render(board, it, style) + "\n");
            let examples = ask.answers.examples.as_ref();
            let examples = examples.map(|it| terminal::examples::render(it, style) + "\n");
            // The decision and the next step come last, where the cursor is.
            let board = terminal::table_with(board, style, next_step(session, board));
            by.unwrap_or_default() + &examples.unwrap_or_default() + &board
        }
        Format::Json => {
            let answers = &ask.answers;
            serde_json::to_string_pretty(&BoardJson { board, answers })? + "\n"
        }
        Format::Csv => match &ask.answers.by_scenario {
            Some(by) => assize_report::csv::by_scenario::render(board, by),
            None => assize_report::csv::render(board),
        },
        Format::Md => {
            let by = ask.answers.by_scenario.as_ref();
            let by = by.map(|it| "\n".to_owned() + &markdown::answers::by_scenario(it));
            let examples = ask.answers.examples.as_ref();
            let examples = examples.map(|it| "\n".to_owned() + &markdown::answers::examples(it));
            markdown::render(board) + &by.unwrap_or_default() + &examples.unwrap_or_default()
        }
        Format::Junit => assize_report::junit::render(board, &ask.check),
        Format::Html => {
            assize_report::html::render_with(board, &ask.report, &environment::now_rfc3339())
        }
    })
}

/// What to do after the board, with this session's global flags. A prompt loop promotes its own
/// winner, by runs on scenarios that the search did not use: there its next step is due instead.
fn next_step(session: &Session, board: &Leaderboard) -> Next {
    let mut parts = match sentences::next(board) {
        Next::Command(parts) => parts,
        advice @ Next::Advice(_) => return advice,
    };
    if parts[0] == "assize promote" {
        parts[0] = match optimise::is_loop_open(&board.experiment) {
            Some(true) => "assize optimise step".to_owned(),
            Some(false) => "assize optimise show".to_owned(),
            None => parts[0].clone(),
        };
    }
    let globals = session.flags(&[]).into_iter();
    parts.extend(globals.map(|(name, value)| format!("{name} {}", shell_word(&value))));
    Next::Command(parts)
}

/// The leaderboard as programs read it, with what was asked for besides.
#[derive(Serialize)]
struct BoardJson<'a> {
    #[serde(flatten)]
    board: &'a Leaderboard,
    #[serde(flatten)]
    answers: &'a Answers,
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
