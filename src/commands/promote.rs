//! `assize promote`: the gate, the champion, its history and the rollback.

use assize_domain::ledger::ConfirmationUse;
use assize_domain::promotion::{Outcome, Promotion};
use assize_domain::task::TaskScenarios;
use assize_pipeline::PipelineError;
use assize_pipeline::compare::SEED;
use assize_pipeline::experiment_task::{ExperimentTask, FoundTask};
use assize_pipeline::ledger::confirmation_use;
use assize_pipeline::promote::{self, Assessment, LONGEST_NOTE, PromoteOptions, Signature, Step};
use assize_report::gate_table::{sentence, table};
use assize_report::shell::{command_line, command_lines};
use serde_json::{Value, json};

use crate::Exit;
use crate::cli::{Promote, PromoteAction};
use crate::environment;
use crate::output::safe;
use crate::output::text_table::{Align, render};
use crate::session::Session;

mod ledger;

/// How many experiments are looked at for one to suggest.
const LOOKED_AT: usize = 20;

pub fn run(session: &Session, args: &Promote) -> anyhow::Result<Exit> {
    match &args.action {
        None => gate(session, args),
        Some(PromoteAction::History) => history(session),
        Some(PromoteAction::Ledger { experiment }) => ledger::run(session, experiment),
        Some(PromoteAction::Rollback { note }) => rollback(session, note.clone()),
    }
}

fn gate(session: &Session, args: &Promote) -> anyhow::Result<Exit> {
    let Some(experiment) = &args.experiment else {
        let message = "name the experiment with --experiment NAME".to_owned();
        return Err(PipelineError::Invalid(message).into());
    };
    let store = session.store(true)?;
    let author = session.author();
    let FoundTask { task, place } = session.task_of(store.as_ref(), experiment)?.need()?;
    let settings = session.layers(&task.defaults)?.finish()?;
    let options = PromoteOptions {
        experiment,
        task: &task,
        task_name: &place,
        candidate: args.candidate.as_deref(),
        incumbent: args.incumbent.as_deref(),
        thresholds: &settings.gate,
        seed: SEED,
        author: Some(&author),
        dry_run: args.dry_run,
    };
    let assessment = promote::assess(store.as_ref(), &options)?;
    let promotion = if args.dry_run {
        None
    } else {
        let signature = signature(session, args.note.clone())?;
        promote::promote(store.as_ref(), &assessment, signature)?
    };
    let used = confirmation_use(store.as_ref(), experiment)?;
    show(
        session,
        args,
        (&task.name, &place),
        &assessment,
        promotion.as_ref(),
        used,
    )?;
    Ok(if assessment.report.passed {
        Exit::Done
    } else {
        Exit::Refused
    })
}

fn show(
    session: &Session,
    args: &Promote,
    (task, place): (&str, &str),
    assessment: &Assessment,
    promotion: Option<&Promotion>,
    used: Option<ConfirmationUse>,
) -> anyhow::Result<()> {
    let output = &session.output;
    let report = &assessment.report;
    for warning in &assessment.warnings {
        output.say(&format!("Note: {}", safe(warning)));
    }
    if output.json {
        let steps = assessment.next.iter();
        let next: Vec<String> = steps.map(|step| step_line(session, step)).collect();
        output.json_pretty(&json!({
            "experiment": args.experiment,
            "task": task,
            "candidate": report.candidate,
            "incumbent": report.incumbent,
            "tier": report.tier,
            "passed": report.passed,
            "dry_run": args.dry_run,
            "promoted": promotion.is_some(),
            "promotion": promotion.map(entry),
            "checks": report.checks,
            "confirmation": used,
            "warnings": assessment.warnings,
            "next": next,
        }))?;
        return Ok(());
    }
    output.data(&table(report, output.width, output.color))?;
    output.say(&format!("\n{}", sentence(report)));
    if let Some(used) = used {
        output.say(&format!("Confirmation: {used}."));
    }
    if !assessment.next.is_empty() {
        output.say("Next:");
    }
    say_steps(session, &assessment.next);
    // A rollback names no experiment, so it must be told which task.
    let is_default = place == session.default_task();
    let undo = [("--task", place)];
    let undo = if is_default { &[][..] } else { &undo[..] };
    match promotion {
        Some(it) => {
            let undo = if it.number == 1 {
                "It is the first one, so there is none to roll back to.".to_owned()
            } else {
                let undo = command_line("promote rollback", &session.flags(undo));
                format!("To undo: {undo}")
            };
            output.say(&safe(&format!(
                "{} is the champion of {task} now (version {}, entry {}).\n{undo}",
                it.champion.pair(),
                it.version,
                it.number,
            )));
        }
        None if report.passed => output.say("Nothing was promoted, because of --dry-run."),
        None => {}
    }
    Ok(())
}

/// Steps that would repair what failed, ready for a shell.
pub fn say_steps(session: &Session, steps: &[Step]) {
    let output = &session.output;
    for step in steps {
        output.say(&match step {
            Step::Words(words) => format!("  {words}"),
            Step::Command { verb, flags } => {
                command_lines(verb, &with_globals(session, flags), output.width)
            }
        });
    }
}

fn with_globals<'a>(session: &'a Session, flags: &'a [(String, String)]) -> Vec<(&'a str, String)> {
    let flags: Vec<(&str, &str)> = flags.iter().map(|it| (&*it.0, &*it.1)).collect();
    session.flags(&flags)
}

fn step_line(session: &Session, step: &Step) -> String {
    match step {
        Step::Words(words) => words.to_string(),
        Step::Command { verb, flags } => command_line(verb, &with_globals(session, flags)),
    }
}

fn signature(session: &Session, note: Option<String>) -> anyhow::Result<Signature> {
    let note = note.map(|it| it.trim().to_owned());
    if note
        .as_ref()
        .is_some_and(|it| it.chars().count() > LONGEST_NOTE)
    {
        let message = format!("--note is longer than {LONGEST_NOTE} characters: shorten it");
        return Err(PipelineError::Invalid(message).into());
    }
    Ok(Signature {
        by: session.user(),
        at: environment::now_rfc3339(),
        note: note.filter(|it| !it.is_empty()),
    })
}

fn rollback(session: &Session, note: Option<String>) -> anyhow::Result<Exit> {
    let task = session.task()?.name;
    let store = session.store(true)?;
    let signature = signature(session, note)?;
    let promotion = promote::rollback(store.as_ref(), &task, signature)?;
    if session.output.json {
        session.output.json_pretty(&entry(&promotion))?;
    } else {
        session.output.say(&safe(&format!(
            "{} is the champion of {task} again (version {}, entry {}).",
            promotion.champion.pair(),
            promotion.version,
            promotion.number,
        )));
    }
    Ok(Exit::Done)
}

fn history(session: &Session) -> anyhow::Result<Exit> {
    let task = session.task()?.name;
    let entries = if session.store_exists()? {
        session.store(true)?.promotion_list(&task)?
    } else {
        Vec::new()
    };
    let output = &session.output;
    if output.json {
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        output.json_pretty(&json!({"task": task, "promotions": entries}))?;
        return Ok(Exit::Done);
    }
    let Some(latest) = entries.last() else {
        output.say(&format!("Nothing was promoted for {task} yet."));
        if let Some(experiment) = latest_experiment(session, &task)? {
            let flags = [("--experiment", experiment.as_str()), ("--dry-run", "")];
            output.say(&session.next("promote", &flags));
        }
        return Ok(Exit::Done);
    };
    let headings = [
        ("#", Align::Right),
        ("when (UTC)", Align::Left),
        ("who", Align::Left),
        ("champion", Align::Left),
        ("gain", Align::Right),
        ("p", Align::Right),
        ("why", Align::Left),
    ];
    let rows: Vec<Vec<String>> = entries.iter().rev().map(row).collect();
    output.data(&render(&headings, &rows, output.width))?;
    let compared = entries.iter().rev();
    let compared: Vec<String> = compared
        .filter_map(|it| Some(format!("  {:>2}  {}", it.number, against(it)?)))
        .collect();
    if !compared.is_empty() {
        let lines = compared.join("\n");
        output.data(&safe(&format!("\nThe gate compared them with:\n{lines}\n")))?;
    }
    output.say(&safe(&format!(
        "Champion of {task}: {}",
        latest.champion.pair()
    )));
    Ok(Exit::Done)
}

/// The pair that the gate compared the champion with.
fn against(it: &Promotion) -> Option<String> {
    let gate = it.gate.as_ref().filter(|_| it.restores.is_none())?;
    Some(gate.incumbent.to_string())
}

/// The experiment of this task that changed last.
fn latest_experiment(session: &Session, task: &str) -> anyhow::Result<Option<String>> {
    if !session.store_exists()? {
        return Ok(None);
    }
    let store = session.store(true)?;
    let mut experiments = store.experiment_list()?;
    experiments.sort_by_key(|it| std::cmp::Reverse(it.last_updated));
    let is_of_task = |name: &str| {
        let found = session.task_of::<TaskScenarios>(store.as_ref(), name);
        found.is_ok_and(|it| matches!(it, ExperimentTask::Found(found) if found.task.task == task))
    };
    let names = experiments.into_iter().map(|it| it.name);
    Ok(names.take(LOOKED_AT).find(|name| is_of_task(name)))
}

fn row(it: &Promotion) -> Vec<String> {
    let figure = |name: &str| {
        let check = it.gate.as_ref()?.check(name)?;
        check.figure.filter(|_| it.restores.is_none())
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let why = match (it.restores, &it.note) {
        (Some(number), Some(note)) => format!("back to {number}: {note}"),
        (Some(number), None) => format!("back to {number}"),
        (None, note) => or_none(note.clone()),
    };
    vec![
        it.number.to_string(),
        it.at.get(..16).unwrap_or(&it.at).replace('T', " "),
        it.by.clone(),
        it.champion.pair().to_string(),
        or_none(figure("margin").map(|it| format!("{it:+.2}").replace('-', "−"))),
        or_none(figure("p_adjusted").map(|it| {
            let text = format!("{it:.3}");
            text.trim_start_matches('0').to_owned()
        })),
        why,
    ]
}

/// An entry as programs read it, with a word for what is left out of the gate's record.
fn entry(it: &Promotion) -> Value {
    let tentative = it.gate.as_ref().is_some_and(|gate| {
        let mut checks = gate.checks.iter();
        checks.any(|check| check.outcome == Outcome::Tentative)
    });
    let mut value = serde_json::to_value(it).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("tentative".to_owned(), Value::from(tentative));
    }
    value
}
