//! `assize sync`: copy an experiment between stores, and deliver what waits.

use anyhow::bail;
use assize_domain::task::Task;
use assize_http::{Address, place_of, redacted};
use assize_pipeline::journal::Delivery;
use assize_pipeline::sync::{self, Synced};
use assize_pipeline::{PipelineError, count, counted, lock};
use assize_report::shell::command_line;
use assize_store::{RunQuery, Tracking};
use serde_json::json;

use crate::Exit;
use crate::cli::Sync;
use crate::delivery;
use crate::output::Output;
use crate::output::progress::Counter;
use crate::session::{self, Session};
use crate::tracking::is_server;

pub fn run(session: &Session, args: &Sync) -> anyhow::Result<Exit> {
    let (Some(from), Some(to), Some(experiment)) = (&args.from, &args.to, &args.experiment) else {
        return deliver(session);
    };
    let (source_place, target_place) = (place("--from", from)?, place("--to", to)?);
    if source_place == target_place {
        bail!(PipelineError::Invalid(format!(
            "--from and --to are the same store, {target_place}: name two stores"
        )));
    }
    let stop = session::stop_flag()?;
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    // Two at once would both find that a run is not there.
    let locks = session.environment.cache_dir().join("locks");
    let what = format!("sync to {target_place}");
    let _one = lock::acquire(&locks, &what, &stopped, |holder| {
        let words = format!("Waiting for {holder}, which copies to the same place.");
        session.output.say(&words);
    })?;
    let source = session.open_store_at(from, true)?;
    // An experiment that is not there must not leave an empty database on the other side.
    let first = RunQuery {
        max_results: 1,
        ..RunQuery::default()
    };
    source.store.run_list(experiment, &first)?;
    let target = if args.dry_run && !session::exists(to)? {
        None
    } else {
        Some(session.open_store_at(to, false)?)
    };
    let opened = [Some(&source), target.as_ref()].into_iter().flatten();
    let journals: Vec<_> = opened.filter_map(|it| it.journal.clone()).collect();
    let counter = Counter::new(&session.output, "Copying", "runs");
    let synced = sync::run(
        &sync::Sync {
            from: &*source.store,
            to: target.as_ref().map(|it| &*it.store),
            journals: &journals,
            experiment,
            dry_run: args.dry_run,
        },
        &stopped,
        &|done, total| counter.set_plain(done, total),
    );
    counter.finish();
    let synced = synced?;
    if session.output.json {
        let mut line = serde_json::to_value(&synced)?;
        line["experiment"] = json!(experiment);
        line["dry_run"] = json!(args.dry_run);
        session.output.json_pretty(&line)?;
    }
    session
        .output
        .say(&closing_line(&synced, experiment, args.dry_run));
    remarks(&session.output, &synced);
    advise(session, &*source.store, args, &synced);
    Ok(Exit::Done)
}

/// What to type next.
fn advise(session: &Session, source: &dyn Tracking, args: &Sync, synced: &Synced) {
    let (Some(to), Some(experiment)) = (&args.to, &args.experiment) else {
        return;
    };
    // An address with credentials is not printed, and could not be typed without them.
    if redacted(to) == *to {
        let target = ("--tracking-uri", to.as_str());
        for task in &synced.different_histories {
            let found = session.task_of::<Task>(source, experiment);
            let found = found.and_then(|it| Ok(it.need()?));
            let place = found.ok().filter(|it| it.task.name == *task);
            let place = place.map_or_else(|| task.clone(), |it| it.place);
            let see = command_line(
                "promote history",
                &session.flags(&[("--task", &place), target]),
            );
            session.output.say(&format!("See: {see}"));
        }
        if !args.dry_run && synced.runs > 0 {
            let flags = [("--experiment", experiment.as_str()), target];
            session.output.say(&session.next("compare", &flags));
        }
    }
}

/// Where a URI leads, in one spelling. One that cannot be used is an error.
fn place(flag: &str, uri: &str) -> anyhow::Result<String> {
    if is_server(uri) {
        let address = Address::parse(uri);
        address.map_err(|error| PipelineError::Invalid(format!("{flag}: {error}")))?;
        return Ok(place_of(uri));
    }
    let path = session::usable_path(uri).map_err(|error| {
        let error = error.to_string().replace("--tracking-uri", flag);
        PipelineError::Invalid(format!("{flag}: {error}"))
    })?;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let place = absolute.canonicalize().unwrap_or(absolute);
    Ok(format!("sqlite:{}", place.display()))
}

fn closing_line(synced: &Synced, experiment: &str, dry_run: bool) -> String {
    let runs = |number: u64| count(usize::try_from(number).unwrap_or(usize::MAX), "run");
    let would = if dry_run { " would be" } else { "" };
    let mut parts = vec![
        format!("{}{would} copied", synced.copied),
        format!("{}{would} merged", synced.merged),
        format!("{} there already", synced.unchanged),
    ];
    for (number, what) in [
        (synced.experiment_tags, "tags of the experiment"),
        (synced.ledger, "entries of the ledger"),
        (synced.sittings, "sittings"),
        (synced.promotions, "promotions"),
        (synced.surplus_removed, "surplus runs removed"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    format!("{experiment}: {}, {}.", runs(synced.runs), parts.join(", "))
}

/// What was left as it is, and why.
fn remarks(output: &Output, synced: &Synced) {
    if synced.different > 0 {
        output.say(&format!(
            "{} on both sides with different outputs; verdicts on the one say nothing about the \
             other, so they stay where they are.",
            counted(synced.different, "cell is", "cells are")
        ));
    }
    if synced.other_rubric > 0 {
        output.say(&format!(
            "{} under another rubric there, and {} so; `judge reopen` with --rubric brings runs \
             under the task's rubric.",
            counted(synced.other_rubric, "run is", "runs are"),
            if synced.other_rubric == 1 {
                "stays"
            } else {
                "stay"
            }
        ));
    }
    if synced.other_values > 0 {
        output.say(&format!(
            "{} a name, params, tags or files that are not the same there; the target's stay as \
             they are.",
            counted(synced.other_values, "run has", "runs have")
        ));
    }
    for key in &synced.different_tags {
        output.say(&format!(
            "The experiment's tag '{key}' has another value there, and keeps it."
        ));
    }
    if synced.unfinished > 0 {
        output.say(&format!(
            "{} not finished, and will be copied after that: sync again then.",
            counted(synced.unfinished, "cell is", "cells are")
        ));
    }
    if synced.unreadable_files > 0 {
        output.say(&format!(
            "{} not copied: unreadable, or with a name that is taken there.",
            counted(synced.unreadable_files, "file is", "files are")
        ));
    }
    if synced.logged_models_left > 0 {
        output.say(&format!(
            "{} not copied, nor which runs took or made them.",
            counted(
                synced.logged_models_left,
                "logged model is",
                "logged models are"
            )
        ));
    }
    for task in &synced.different_histories {
        output.say(&format!(
            "The promotion histories of '{task}' differ, so the target's stays as it is."
        ));
    }
}

/// Delivers what waits in the journal, wherever it is to go.
fn deliver(session: &Session) -> anyhow::Result<Exit> {
    let places = delivery::open_state()?.journal_places()?;
    let stop = session::stop_flag()?;
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let mut sum = Delivery::default();
    for (place, cells) in places {
        // The user's URI may carry what is needed to get in. Opening a store delivers.
        let opened = if place_of(session.tracking_uri()) == place {
            session.open_store(true)?
        } else {
            session.open_store_at(&place, true)?
        };
        let delivery = opened.journal.map(|it| it.deliver(&stopped));
        let delivery = delivery.transpose()?.unwrap_or_default();
        sum.delivered += cells - delivery.waiting.min(cells);
        sum.waiting += delivery.waiting;
    }
    if session.output.json {
        session.output.json_pretty(&sum)?;
    }
    let Delivery { delivered, waiting } = sum;
    session.output.say(&match waiting {
        0 => format!(
            "{} delivered; nothing waits.",
            counted(delivered, "cell", "cells")
        ),
        _ => format!(
            "{} delivered, {waiting} not yet.",
            counted(delivered, "cell", "cells")
        ),
    });
    Ok(if waiting > 0 {
        Exit::Undelivered
    } else {
        Exit::Done
    })
}
