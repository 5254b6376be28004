//! `assize judge agent`: judges the queue with an agent's command line, without interaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use assize_domain::hash::sha256_hex;
use assize_domain::judge::Judge;
use assize_domain::prompt::short_hash;
use assize_pipeline::judge::agent::{self, AgentOptions, AgentSummary};
use assize_pipeline::judge::held_sitting;
use assize_pipeline::judge::queue::Finished;
use assize_pipeline::{PipelineError, count};
use serde_json::json;

use super::say_not_computed;
use super::sitting::{checked_judge, kind_of_program, locks, notify, sit_options};
use crate::Exit;
use crate::cli::Headless;
use crate::environment;
use crate::output::progress::Counter;
use crate::output::safe;
use crate::session::{self, Session};

mod process;

/// How much of a reason is shown; `--json` has all.
const REASON_CHARS: usize = 140;

pub fn run(session: &Session, args: &Headless) -> anyhow::Result<Exit> {
    let first = process::first_word(&args.cmd);
    let kind = args.judge_kind.as_deref();
    let kind = kind.unwrap_or_else(|| kind_of_program(&first));
    let judge = checked_judge(kind, args.judged_by.as_deref())?;
    if first.is_empty() {
        let message = "--cmd is empty: give a command that reads a judge file and prints one";
        return Err(PipelineError::Invalid(message.to_owned()).into());
    }
    let stop = session::stop_flag()?;
    let stopped = || stop.load(Ordering::Relaxed);
    let judge = Judge {
        version: Some(version(&first, &args.cmd, &stopped)),
        ..judge
    };
    let store = session.store(true)?;
    say_not_computed(session, store.as_ref(), &args.experiment, judge.tier())?;
    let anchors = session.anchors(store.as_ref(), &args.experiment, args.no_anchors)?;
    let options = sit_options(&args.experiment, judge, anchors);
    let held = held_sitting::resume_or_open(&store, options, &locks(), &environment::now())?;
    let Some(mut held) = held else {
        session
            .output
            .say(&format!("Nothing is pending in {}.", args.experiment));
        return Ok(Exit::Done);
    };
    let options = AgentOptions {
        batch: args.batch as usize,
        limit: args.limit as usize,
        now: environment::now,
    };
    let timeout = Duration::from_secs(args.timeout.into());
    let progress = Counter::new(&session.output, "judging", "cases");
    let mut ask =
        |file: &str| process::ask(&args.cmd, file, timeout, !session.output.quiet, &stopped);
    let told = |done: usize, left: u64| progress.set_plain(done as u64, done as u64 + left);
    let cleared = agent::clear(&mut held.queue, &options, &mut ask, &told);
    progress.finish();
    let summary = cleared?;
    // An interrupted sitting stays open: the same command continues it.
    let finished = if summary.interrupted {
        None
    } else {
        Some(held.queue.finish(&environment::now())?)
    };
    report(session, args, &summary, finished.as_ref())?;
    if let Some(finished) = &finished {
        notify(session, finished);
    }
    Ok(match &summary {
        it if it.interrupted => Exit::Interrupted,
        _ if finished.as_ref().is_some_and(Finished::is_quarantined) => Exit::Refused,
        it if it.left_pending.is_empty() && !it.gave_up => Exit::Done,
        _ => Exit::CellsFailed,
    })
}

/// The program's version where it is a known one, and a hash of the command: other instructions or
/// another model make another judge.
fn version(program: &str, command: &str, stopped: &dyn Fn() -> bool) -> String {
    let hash = sha256_hex(command.trim().as_bytes());
    let command_hash = format!("command {}", short_hash(&hash));
    let is_known = kind_of_program(program) != "agent";
    let version = is_known.then(|| process::version(command, stopped));
    match version.flatten() {
        Some(version) => format!("{version}, {command_hash}"),
        None => command_hash,
    }
}

fn report(
    session: &Session,
    args: &Headless,
    summary: &AgentSummary,
    finished: Option<&Finished>,
) -> anyhow::Result<()> {
    if session.output.json {
        let mut line = serde_json::to_value(summary)?;
        line["sitting"] = json!(finished.map(|it| &it.sitting));
        line["experiment"] = json!(args.experiment);
        session.output.json_line(&line)?;
    }
    let left = summary.left_pending.len();
    session.output.say(&format!(
        "{} judged in {}, {left} left pending.",
        count(summary.judged, "case"),
        count(summary.calls, "call")
    ));
    for (case, reason) in summary.left_pending.iter().take(5) {
        let reason = one_line(reason);
        session
            .output
            .say(&format!("  left pending: case {case}: {reason}"));
    }
    if left > 5 {
        session.output.say(&format!("  … and {} more", left - 5));
    }
    if summary.gave_up && summary.judged == 0 {
        let reason = summary.left_pending.values().next();
        anyhow::bail!(
            "the command failed on every case, so the rest was not tried: {}",
            reason.map_or_else(String::new, |it| one_line(it))
        );
    }
    let next = if summary.interrupted {
        "Interrupted; what was judged is kept. The same command continues.".to_owned()
    } else if let Some(finished) = finished.filter(|it| it.is_quarantined()) {
        super::quarantined(session, &finished.sitting, finished.tier, finished.drift)
    } else if summary.limit_reached && summary.untried > 0 {
        let more = count(
            usize::try_from(summary.untried).unwrap_or(usize::MAX),
            "case",
        );
        format!("The limit is reached; {more} to go. The same command continues.")
    } else {
        session.next("compare", &[("--experiment", &args.experiment)])
    };
    session.output.say(&next);
    Ok(())
}

/// What an agent printed may be long and hostile: its start, on one line, made harmless.
fn one_line(reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().take(REASON_CHARS).collect();
    let line = safe(&words.join(" "));
    match line.char_indices().nth(REASON_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
