//! `assize judge …`: export and apply judge files, automatic judging, status and corrections.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use assize_domain::judge::{Tier, is_kind, is_name};
use assize_domain::sitting::SittingState;
use assize_pipeline::judge::apply::{self, Applied, ApplyOptions};
use assize_pipeline::judge::drift::Drift;
use assize_pipeline::judge::export::{Export, ExportOptions};
use assize_pipeline::judge::file::{self, Source};
use assize_pipeline::judge::{Entropy, not_computed, not_computed_words};
use assize_pipeline::{PipelineError, count};
use assize_report::shell::shell_word;
use assize_store::Tracking;

use crate::Exit;
use crate::cli::Judge;
use crate::commands::optimise;
use crate::environment;
use crate::output::safe;
use crate::session::Session;
use crate::webhook::{self, Event, Sat};

mod agent;
pub mod auto;
mod desk;
pub mod sitting;
mod status;
mod verdicts;

/// Half-scored cases that are listed by name.
const HALF_SCORED_SHOWN: usize = 20;

/// Said where a task has calibration cases that cannot be used.
const OTHER_RUBRIC: &str = "There are no calibration cases among them, because the task's rubric \
    has changed since these runs were collected: assize judge reopen --rubric puts the runs under \
    the present one.";

pub fn run(session: &Session, args: &Judge) -> anyhow::Result<Exit> {
    match args {
        Judge::Export {
            experiment,
            out,
            limit,
            judge_kind,
            seed,
            no_anchors,
            spot_check,
        } => {
            let store = session.store(true)?;
            let options = ExportOptions {
                experiment: experiment.clone(),
                judge_kind: judge_kind.clone(),
                limit: *limit,
                seed: *seed,
                anchors: session.anchors(store.as_ref(), experiment, *no_anchors)?,
                spot_check: *spot_check,
            };
            export(session, store.as_ref(), &options, out)
        }
        Judge::Apply {
            file,
            judge_kind,
            judged_by,
            partial,
        } => {
            let options = ApplyOptions {
                file: if file == Path::new("-") {
                    "standard input".to_owned()
                } else {
                    file.display().to_string()
                },
                judge_kind: judge_kind.clone(),
                judged_by: judged_by.clone(),
                user: session.environment.user(),
                partial: *partial,
                task: session.task_given.clone(),
            };
            apply(session, file, &options)
        }
        Judge::Auto {
            experiment,
            judge,
            no_anchors,
            flags,
        } => auto::run(session, experiment, judge, *no_anchors, flags),
        Judge::Desk(args) => desk::run(session, args),
        Judge::Agent(args) => agent::run(session, args),
        Judge::Status {
            experiment,
            delta,
            unseal,
        } => status::run(session, experiment, *delta, *unseal),
        Judge::Amend(args) => verdicts::amend(session, args),
        Judge::Reopen(args) => verdicts::reopen_runs(session, args),
        Judge::Recompute(args) => verdicts::recompute_runs(session, args),
        Judge::Release { sitting } => verdicts::release(session, sitting),
    }
}

fn export(
    session: &Session,
    store: &dyn Tracking,
    options: &ExportOptions,
    out: &Path,
) -> anyhow::Result<Exit> {
    let kept = |older: &Path| {
        session.output.say(&format!(
            "{} was there already and is now {}.",
            safe(&out.display().to_string()),
            safe(&older.display().to_string())
        ));
    };
    let now = environment::now();
    let drawn = (&now, environment::entropy as Entropy);
    let exported = if out == Path::new("-") {
        let mut stdout = session.output.writer();
        file::export_to_stream(store, options, &mut stdout, drawn)?
    } else {
        file::export_to_file(store, options, out, &kept, drawn)?
    };
    let Some(export) = exported else {
        let why = if options.spot_check {
            "No case was drawn (only automatic verdicts that no expert has seen can be)"
        } else {
            "Nothing is pending"
        };
        session.output.say(&format!(
            "{why} in {}: no file was written.",
            options.experiment
        ));
        return Ok(Exit::Done);
    };
    say_exported(session, &export, out);
    if export.sitting.anchors.cases.is_empty() && !options.anchors.cases.is_empty() {
        session.output.say(OTHER_RUBRIC);
    }
    Ok(Exit::Done)
}

fn say_exported(session: &Session, export: &Export, out: &Path) {
    let output = &session.output;
    if export.left_under_other_rubrics > 0 {
        output.say(&format!(
            "Under an older rubric {} still: export again once these are judged.",
            wait(export.left_under_other_rubrics)
        ));
    }
    if export.held > 0 {
        output.say(&format!(
            "{} left out, because other judges hold leases on them.",
            count(export.held, "run")
        ));
    }
    if export.not_computed > 0 {
        let words = not_computed_words(&export.sitting.experiment, export.not_computed);
        output.say(&format!("Left out: {words}."));
    }
    let is_stdout = out == Path::new("-");
    let place = if is_stdout {
        "on stdout".to_owned()
    } else {
        format!("in {}", safe(&out.display().to_string()))
    };
    output.say(&format!(
        "{} of {} {place} (sitting {}).",
        count(export.cases, "case"),
        count(export.sitting.runs.len(), "run"),
        export.sitting.id,
    ));
    let file = if is_stdout {
        "judge.json".to_owned()
    } else {
        shell_word(&out.display().to_string())
    };
    let first = if is_stdout {
        "save it as judge.json, fill in the scores, then "
    } else {
        "fill in the scores, then "
    };
    let apply = format!("judge apply {file}");
    output.say(&session.next_after(first, &apply, &[]));
}

fn wait(runs: usize) -> String {
    let verb = if runs == 1 { "waits" } else { "wait" };
    format!("{} {verb}", count(runs, "run"))
}

fn apply(session: &Session, file: &Path, options: &ApplyOptions) -> anyhow::Result<Exit> {
    options.judge_kind.as_deref().map_or(Ok(()), check_kind)?;
    options.judged_by.as_deref().map_or(Ok(()), check_name)?;
    let mut text = String::new();
    let source = if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
        Source::Text(&text)
    } else {
        Source::File(file)
    };
    let store = session.store(true)?;
    let applied = apply::apply(store.as_ref(), source, options, &environment::now_rfc3339())?;
    if session.output.json {
        session.output.json_line(&applied)?;
    }
    say_applied(session, &applied);
    Ok(if applied.state == SittingState::Quarantined {
        Exit::Refused
    } else {
        Exit::Done
    })
}

/// Checks what the user gave as `--judge-kind`.
pub fn check_kind(kind: &str) -> Result<(), PipelineError> {
    if is_kind(kind) {
        return Ok(());
    }
    let message = format!("--judge-kind is '{kind}': use a kind such as human or claude-code");
    Err(PipelineError::Invalid(message))
}

/// Checks what the user gave as `--judged-by`.
pub fn check_name(name: &str) -> Result<(), PipelineError> {
    if is_name(name) {
        return Ok(());
    }
    let message = format!("--judged-by is '{name}': use a name without control characters");
    Err(PipelineError::Invalid(message))
}

fn say_applied(session: &Session, applied: &Applied) {
    let written = applied.committed.runs_written;
    let judge = &applied.judge;
    session.output.say(&match written {
        0 => format!(
            "Nothing to write: {} there already.",
            if applied.cases == 1 {
                "this verdict was".to_owned()
            } else {
                format!("these {} verdicts were", applied.cases)
            }
        ),
        _ => safe(&format!(
            "{} by {} ({}, {} tier) on {} of {}.",
            count(applied.cases, "verdict"),
            judge.name,
            judge.kind,
            applied.tier,
            count(usize::try_from(written).unwrap_or(usize::MAX), "run"),
            applied.experiment
        )),
    });
    if applied.dropped > 0 {
        session.output.say(&format!(
            "{} skipped, because the run was deleted.",
            count(applied.dropped, "case")
        ));
    }
    if applied.judge_assumed && written > 0 {
        session.output.say(&format!(
            "Neither the file nor --judge-kind says who judged: it counts as {}, the kind that the runs were pending for.",
            judge.kind
        ));
    }
    say_half_scored(session, &applied.half_scored);
    if applied.unscored > 0 {
        session.output.say(&format!(
            "{} unscored and still pending.",
            count(applied.unscored, "case")
        ));
    }
    if applied.changed {
        let ended = Event::SittingEnded(Sat {
            experiment: &applied.experiment,
            sitting: Some(&applied.sitting),
            judge,
            state: applied.state,
            judged: applied.cases as u64,
            left: applied.unscored as u64,
        });
        webhook::notify(session, &ended);
    }
    if applied.state == SittingState::Quarantined {
        let words = quarantined(session, &applied.sitting, applied.tier, applied.drift);
        session.output.say(&words);
        return;
    }
    let experiment = applied.experiment.as_str();
    let verb = if optimise::is_loop_open(experiment) == Some(true) {
        "optimise step"
    } else {
        "compare"
    };
    let next = session.next(verb, &[("--experiment", experiment)]);
    session.output.say(&next);
}

fn say_half_scored(session: &Session, pointers: &[String]) {
    if pointers.is_empty() {
        return;
    }
    session.output.say("Partly scored, so still pending:");
    for pointer in pointers.iter().take(HALF_SCORED_SHOWN) {
        session.output.say(&format!("  {pointer} is missing"));
    }
    if pointers.len() > HALF_SCORED_SHOWN {
        let more = pointers.len() - HALF_SCORED_SHOWN;
        session.output.say(&format!("  … and {more} more"));
    }
}

/// Says that runs are not handed to judges, because a computed score is missing.
fn say_not_computed(
    session: &Session,
    store: &dyn Tracking,
    experiment: &str,
    tier: Tier,
) -> anyhow::Result<()> {
    let runs = not_computed(store, experiment, tier)?;
    if runs > 0 {
        let words = not_computed_words(experiment, runs);
        session.output.say(&format!("Left out: {words}."));
    }
    Ok(())
}

/// What an alarm has seen and what to do about it.
pub fn quarantined(session: &Session, sitting: &str, tier: Tier, drift: Option<Drift>) -> String {
    let first = match tier {
        Tier::Expert => "read the rubric's examples again and judge anew, or ",
        Tier::Auto => "find out what has changed and judge anew, or ",
    };
    let seen = drift.map_or_else(Vec::new, |it| it.seen(tier));
    let charts = drift.map_or_else(Vec::new, |it| it.charts());
    let seen = match seen.join(", and ") {
        seen if seen.is_empty() => "the judge has drifted".to_owned(),
        seen => format!("{seen}: too much for chance ({} chart)", charts.join(", ")),
    };
    let release = format!("judge release {sitting}");
    format!(
        "Quarantined: on the calibration cases {seen}.\nIts verdicts are kept and do not count; \
         the cases are pending again.\n{}",
        session.next_after(first, &release, &[])
    )
}
