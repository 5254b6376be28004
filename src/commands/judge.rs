//! `assize judge …`: hand out blind cases, take scores back, ask a model, look how far it is.

use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use assize_pipeline::PipelineError;
use assize_pipeline::judge::apply::{self, Applied, ApplyOptions, Source};
use assize_pipeline::judge::export::{self, Export, ExportOptions};
use assize_store::Tracking;
use serde_json::json;

use crate::Exit;
use crate::cli::Judge;
use crate::environment;
use crate::output::files::whole_file;
use crate::session::Session;
use crate::webhook::{self, Event, Sat};

pub mod auto;

/// Half-scored cases that are listed by name.
const HALF_SCORED_SHOWN: usize = 20;

pub fn run(session: &Session, args: &Judge) -> anyhow::Result<Exit> {
    match args {
        Judge::Export {
            experiment,
            out,
            limit,
            judge_kind,
            seed,
        } => {
            let options = ExportOptions {
                experiment: experiment.clone(),
                judge_kind: judge_kind.clone(),
                limit: *limit,
                seed: *seed,
            };
            export(session, &options, out)
        }
        Judge::Apply {
            file,
            judge_kind,
            judged_by,
            partial,
        } => {
            let options = ApplyOptions {
                file: file.display().to_string(),
                judge_kind: judge_kind.clone(),
                judged_by: judged_by.clone(),
                user: session.environment.user(),
                partial: *partial,
            };
            apply(session, file, &options)
        }
        Judge::Auto {
            experiment,
            judge,
            spending,
            provider,
        } => auto::run(session, experiment, judge, spending, provider),
        Judge::Desk(args) => super::doors::desk::run(session, args),
        Judge::Agent(args) => super::doors::headless::run(session, args),
        Judge::Status { experiment } => status(session, experiment),
    }
}

fn export(session: &Session, options: &ExportOptions, out: &Path) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let exported = export::export(
        store.as_ref(),
        options,
        &environment::now_rfc3339(),
        environment::entropy,
    )?;
    let Some(export) = exported else {
        session.output.say(&format!(
            "Nothing is pending in {}: no file was written.",
            options.experiment
        ));
        return Ok(Exit::Done);
    };
    if out == Path::new("-") {
        // The record comes first: a file without one could never be applied.
        store.sitting_open(&export.sitting)?;
        let mut pages = BufWriter::with_capacity(1 << 16, session.output.writer());
        judge_file_write(store.as_ref(), &export, &mut pages)?;
    } else {
        let written = whole_file(out, |file| judge_file_write(store.as_ref(), &export, file))?;
        if let Some(kept) = keep_aside(out)? {
            session.output.say(&format!(
                "{} was there already and is now {}.",
                out.display(),
                kept.display()
            ));
        }
        store.sitting_open(&export.sitting)?;
        written.publish()?;
    }
    let file = out.display();
    if export.left_under_other_rubrics > 0 {
        session.output.say(&format!(
            "{} runs wait under an older rubric; export again once these are judged.",
            export.left_under_other_rubrics
        ));
    }
    session.output.say(&format!(
        "{} cases of {} runs in {file} (sitting {}).\nNext: fill in the scores, then assize judge apply {file}",
        export.cases,
        export.sitting.runs.len(),
        export.sitting.id,
    ));
    Ok(Exit::Done)
}

/// Puts an older file of that name aside: it may hold scores that nobody has applied yet.
pub fn keep_aside(out: &Path) -> anyhow::Result<Option<PathBuf>> {
    if out == Path::new("-") || !out.exists() {
        return Ok(None);
    }
    let name = out
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let aside = (1..10_000)
        .map(|n| out.with_file_name(format!("{name}.{n}.bak")))
        .find(|path| !path.exists());
    let Some(aside) = aside else { return Ok(None) };
    std::fs::rename(out, &aside).with_context(|| format!("cannot put {} aside", out.display()))?;
    Ok(Some(aside))
}

/// The file, laid out so that it can be edited and diffed.
fn judge_file_write(
    store: &dyn Tracking,
    export: &Export,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let head = serde_json::to_string_pretty(&export.head)?;
    let head = head.trim_end().trim_end_matches('}').trim_end();
    write!(out, "{head},\n  \"cases\": [")?;
    let mut separator = "\n";
    export.cases_each(store, |case| {
        for line in serde_json::to_string_pretty(&case)
            .map_err(anyhow::Error::from)?
            .lines()
        {
            write!(out, "{separator}    {line}")?;
            separator = "\n";
        }
        separator = ",\n";
        Ok::<(), anyhow::Error>(())
    })?;
    out.write_all(b"\n  ]\n}\n")?;
    out.flush()?;
    Ok(())
}

fn apply(session: &Session, file: &Path, options: &ApplyOptions) -> anyhow::Result<Exit> {
    if let Some(kind) = options
        .judge_kind
        .as_deref()
        .filter(|kind| !assize_domain::judge::is_kind(kind))
    {
        let message = format!("--judge-kind is '{kind}': use a kind such as human or claude-code");
        return Err(PipelineError::Invalid(message).into());
    }
    if let Some(name) = options
        .judged_by
        .as_deref()
        .filter(|name| !assize_domain::judge::is_name(name))
    {
        let message = format!("--judged-by is '{name}': use a name without control characters");
        return Err(PipelineError::Invalid(message).into());
    }
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
    Ok(Exit::Done)
}

fn say_applied(session: &Session, applied: &Applied) {
    let written = applied.committed.runs_written;
    let judge = &applied.judge;
    session.output.say(&match written {
        0 => format!(
            "Nothing to write: these {} verdicts were there already.",
            applied.cases
        ),
        _ => format!(
            "{} verdicts by {} ({}, {} tier) on {written} runs of {}.",
            applied.cases, judge.name, judge.kind, applied.tier, applied.experiment
        ),
    });
    if applied.dropped > 0 {
        session.output.say(&format!(
            "{} cases were passed over: their runs were deleted.",
            applied.dropped
        ));
    }
    if applied.judge_assumed && written > 0 {
        session.output.say(&format!(
            "Neither the file nor --judge-kind says who judged: it counts as {}, on whose desk the runs waited.",
            judge.kind
        ));
    }
    if !applied.half_scored.is_empty() {
        session
            .output
            .say("Begun, but not complete, and so still pending:");
        for pointer in applied.half_scored.iter().take(HALF_SCORED_SHOWN) {
            session.output.say(&format!("  {pointer} is missing"));
        }
        if applied.half_scored.len() > HALF_SCORED_SHOWN {
            let more = applied.half_scored.len() - HALF_SCORED_SHOWN;
            session.output.say(&format!("  … and {more} more"));
        }
    }
    if applied.unscored > 0 {
        session.output.say(&format!(
            "{} cases are unscored and stay pending.",
            applied.unscored
        ));
    }
    let ended = Event::SittingEnded(Sat {
        experiment: &applied.experiment,
        sitting: Some(&applied.sitting),
        judge,
        judged: applied.cases as u64,
        left: applied.unscored as u64,
    });
    webhook::notify(session, &ended);
    session.output.say(&format!(
        "Next: assize compare --experiment {}",
        applied.experiment
    ));
}

fn status(session: &Session, experiment: &str) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let counts = store.judging_counts(experiment)?;
    if session.output.json {
        session.output.json_pretty(&json!({
            "experiment": experiment,
            "runs": counts.runs, "candidates": counts.candidates, "failed": counts.failed,
            "expert": {"pending": counts.expert_pending, "judged": counts.expert_judged},
            "auto": {"pending": counts.auto_pending, "judged": counts.auto_judged},
            "pending_by_kind": counts.pending_by_kind.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let desks: Vec<String> = counts
        .pending_by_kind
        .iter()
        .map(|(kind, runs)| format!("{runs} on the desk of {kind}"))
        .collect();
    let desks = if desks.is_empty() {
        String::new()
    } else {
        format!("  ({})", desks.join(", "))
    };
    let mut text = format!(
        "{experiment}: {} runs, {} candidates\n\n  tier     judged  pending\n  expert  {:>7}  {:>7}{desks}\n  auto    {:>7}  {:>7}\n",
        counts.runs,
        counts.candidates,
        counts.expert_judged,
        counts.expert_pending,
        counts.auto_judged,
        counts.auto_pending,
    );
    if counts.failed > 0 {
        text.push_str(&format!(
            "\n  {} cells failed: the same collect tries them again\n",
            counts.failed
        ));
    }
    session.output.data(&text)?;
    if counts.expert_pending > 0 {
        session.output.say(&format!(
            "Next: assize judge export --experiment {experiment} --out judge.json"
        ));
    } else {
        session
            .output
            .say(&format!("Next: assize compare --experiment {experiment}"));
    }
    Ok(Exit::Done)
}
