//! `assize judge amend`, `reopen` and `release`: corrections that keep the history.

use assize_domain::judge::Tier;
use assize_pipeline::count;
use assize_pipeline::judge::amend::{self, Amendment};
use assize_pipeline::judge::recompute::{RecomputeOptions, recompute};
use assize_pipeline::judge::reopen::{self, ReopenOptions};
use assize_pipeline::seal::RunSeal;
use assize_pipeline::task_files;
use assize_report::figure;
use assize_report::text::clean;
use serde_json::Value;

use crate::Exit;
use crate::cli::verdicts::{Amend, Recompute, Reopen};
use crate::environment;
use crate::output::complain;
use crate::session::{Session, stop_flag};

pub fn amend(session: &Session, args: &Amend) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    if session.task_given.is_some() {
        let run = store.run_get(&args.run)?;
        session.check_task(store.as_ref(), &run.experiment)?;
    }
    let name = args
        .judged_by
        .clone()
        .or_else(|| session.environment.user());
    let amendment = Amendment {
        run: args.run.clone(),
        candidate: args.candidate,
        tier: args.tier,
        scores: args.set.clone(),
        reason: args.reason.clone(),
        name: name.unwrap_or_else(|| "human".to_owned()),
    };
    let now = environment::now();
    let amended = amend::amend(store.as_ref(), &amendment, &now, environment::entropy)?;
    let run = store.run_get(&amended.run_id)?;
    let is_sealed = RunSeal::new(store.as_ref(), None).hides(&run)?;
    if session.output.json {
        let mut shown = serde_json::to_value(&amended)?;
        if is_sealed {
            shown["before"] = Value::Null;
            shown["after"] = Value::Null;
        }
        session.output.json_line(&shown)?;
    }
    let change = if is_sealed {
        "amended (the confirmation split is sealed)".to_owned()
    } else {
        format!(
            "composite {} → {}",
            figure::tick(amended.before.composite),
            figure::tick(amended.after.composite)
        )
    };
    session.output.say(&format!(
        "Candidate {} of run {} ({} tier): {change}. The earlier verdict stays in the history.",
        amended.candidate, amended.run_id, amended.tier,
    ));
    Ok(Exit::Done)
}

pub fn reopen_runs(session: &Session, args: &Reopen) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let rubric = if args.rubric {
        let task = session.task_of(store.as_ref(), &args.experiment)?;
        Some(task.need()?.task.rubric)
    } else {
        session.check_task(store.as_ref(), &args.experiment)?;
        None
    };
    let under = rubric.as_ref().map(|rubric| rubric.id.clone());
    let options = ReopenOptions {
        experiment: args.experiment.clone(),
        runs: args.runs.clone(),
        pairs: args.pairs.clone(),
        split: args.split,
        rubric,
        tier: args.tier,
    };
    let selection = reopen::select(store.as_ref(), &options)?;
    let selected = selection.run_ids.len();
    session.output.say(&format!(
        "{} selected, {} with verdicts of the {} tier.",
        count(selected, "run"),
        selection.judged,
        args.tier
    ));
    let reopened = if args.dry_run {
        0
    } else {
        reopen::reopen(store.as_ref(), &options, &selection)?
    };
    if session.output.json {
        let report = serde_json::json!({
            "experiment": args.experiment, "reopened": reopened,
            "selected": selected, "judged": selection.judged, "dry_run": args.dry_run,
        });
        session.output.json_line(&report)?;
    }
    if args.dry_run {
        session
            .output
            .say("Nothing was changed, because of --dry-run.");
        return Ok(Exit::Done);
    }
    session.output.say(&match (reopened, under) {
        (0, Some(rubric)) => format!("All runs are under {rubric} as the task has it already."),
        (runs, Some(rubric)) => format!(
            "{} now under {rubric} and pending again; earlier verdicts stay in the history.",
            runs_of(runs)
        ),
        (0, None) => format!(
            "No run has {} verdicts that count: nothing was reopened.",
            args.tier
        ),
        (runs, None) => format!(
            "{} pending again for the {} tier; earlier verdicts stay in the history.",
            runs_of(runs),
            args.tier
        ),
    });
    if reopened > 0 {
        let experiment = ("--experiment", args.experiment.as_str());
        let next = match args.tier {
            Tier::Auto if !args.rubric => {
                "Next: run the same assize judge auto again, or with another --judge.".to_owned()
            }
            _ => session.next("judge export", &[experiment, ("--out", "judge.json")]),
        };
        session.output.say(&next);
    }
    Ok(Exit::Done)
}

pub fn recompute_runs(session: &Session, args: &Recompute) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let found = session.task_of(store.as_ref(), &args.experiment)?.need()?;
    session.check_commands(&found.task)?;
    let stop = stop_flag()?;
    let source = task_files::source_of(&found.place);
    let options = RecomputeOptions {
        experiment: &args.experiment,
        task: &found.task,
        task_source: &source,
        dry_run: args.dry_run,
        stop: &stop,
    };
    let done = recompute(store.as_ref(), &options, &environment::now())?;
    if session.output.json {
        let mut report = serde_json::to_value(&done)?;
        report["experiment"] = Value::from(args.experiment.as_str());
        report["rubric"] = Value::from(found.task.rubric.id.as_str());
        report["dry_run"] = Value::from(args.dry_run);
        session.output.json_line(&report)?;
    }
    let say = |text: &str| session.output.say(text);
    let candidates = usize::try_from(done.candidates).unwrap_or(usize::MAX);
    say(&format!(
        "{} of {} scored by the rules of {}: {} {}.",
        count(candidates, "candidate"),
        runs_of(done.runs),
        found.task.rubric.id,
        runs_of(done.changed),
        if args.dry_run {
            "would change"
        } else {
            "changed"
        },
    ));
    if done.under_new_rubric > 0 && found.task.rubric.needs_judge() && !args.dry_run {
        say(&format!(
            "{} now under {} and pending again; earlier verdicts stay in the history.",
            runs_of(done.under_new_rubric),
            found.task.rubric.id
        ));
        let experiment = ("--experiment", args.experiment.as_str());
        say(&session.next("judge export", &[experiment, ("--out", "judge.json")]));
    }
    if done.other_scenario > 0 {
        say(&format!(
            "{} of scenarios that the task has changed or removed since: scored with the fields as they were \
             collected. Only reference and expect can change afterwards; for other fields run the same assize collect \
             again, which generates the changed scenarios anew.",
            runs_of(done.other_scenario)
        ));
    }
    if done.incomplete == 0 {
        return Ok(Exit::Done);
    }
    let incomplete = usize::try_from(done.incomplete).unwrap_or(usize::MAX);
    complain(&format!(
        "{} could not be scored, and the runs stay as they are; the same command tries again. {}",
        count(incomplete, "candidate"),
        clean(done.problem.as_deref().unwrap_or_default())
    ));
    Ok(Exit::CellsFailed)
}

fn runs_of(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), "run")
}

pub fn release(session: &Session, sitting: &str) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    let experiment = amend::release(store.as_ref(), sitting, &environment::now())?;
    if session.output.json {
        let report = serde_json::json!({"sitting": sitting, "state": "closed"});
        session.output.json_line(&report)?;
    }
    session
        .output
        .say(&format!("The verdicts of sitting {sitting} count again."));
    let next = session.next("compare", &[("--experiment", &experiment)]);
    session.output.say(&next);
    Ok(Exit::Done)
}
