//! `assize optimise`: the prompt loop.

use std::path::Path;

use assize_optimise::{LoopSettings, Tree, WaitingFor};
use assize_pipeline::PipelineError;
use assize_pipeline::optimise::{LoopLog, Setup, turn, waiting};
use assize_report::shell::command_line;
use assize_store::state::State;

use crate::Exit;
use crate::cli::{Optimise, OptimiseStart, OptimiseStep};
use crate::environment::{self, STATE_DIR};
use crate::output::{complain, safe};
use crate::session::Session;

mod models;
mod show;
mod start;
mod step;

pub fn run(session: &Session, action: &Optimise) -> anyhow::Result<Exit> {
    let ended = match action {
        Optimise::Start(args) if args.then_step => start_and_step(session, args),
        Optimise::Start(args) => start::run(session, args),
        Optimise::Step(args) => step::run(session, args),
        Optimise::Status(which) => status(session, &which.experiment),
        Optimise::Show {
            which,
            text: Some(id),
            ..
        } => show::text(session, &which.experiment, id),
        Optimise::Show {
            which,
            format,
            output,
            ..
        } => show::lineage(session, &which.experiment, *format, output),
        Optimise::Diff { which, from, to } => show::diff(session, &which.experiment, from, to),
        Optimise::Stop { which, reason } => stop(session, &which.experiment, reason),
    };
    // Both are results that a script can tell apart, and not failures of a service.
    ended.or_else(|error| match error.downcast_ref::<PipelineError>() {
        Some(PipelineError::Refused(words)) => {
            complain(&safe(words));
            Ok(Exit::Refused)
        }
        Some(PipelineError::CellsFailed(words)) => {
            complain(&safe(words));
            Ok(Exit::CellsFailed)
        }
        _ => Err(error),
    })
}

/// Starts a loop where there is none, and takes its first step. A job of the server runs this, so that
/// the same command can be run again wherever it was interrupted.
fn start_and_step(session: &Session, args: &OptimiseStart) -> anyhow::Result<Exit> {
    let is_there = LoopLog::find(&state()?, &args.experiment)?.is_some();
    if !is_there {
        let exit = start::run(session, args)?;
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    let step = OptimiseStep {
        experiment: args.experiment.clone(),
        once: false,
        events: true,
        options: args.options.clone(),
    };
    step::run(session, &step)
}

/// Whether the prompt loop of an experiment on this machine goes on; `None` where there is none.
pub fn is_loop_open(experiment: &str) -> Option<bool> {
    let folder = Path::new(STATE_DIR);
    let state = folder
        .is_dir()
        .then(|| State::open(folder).ok())
        .flatten()?;
    let tree = LoopLog::find(&state, experiment).ok()??.tree().ok()?;
    Some(!tree.is_finished())
}

fn state() -> anyhow::Result<State> {
    Ok(State::open(Path::new(STATE_DIR))?)
}

/// The loop's settings, as the command line gives them.
fn settings_of(args: &OptimiseStart, models: Vec<String>, seed: u64) -> LoopSettings {
    LoopSettings {
        prompt: args.prompt.clone().unwrap_or_default(),
        models,
        judge: args.judge.clone().unwrap_or_default(),
        reflector: args.reflector.clone(),
        rounds: args.rounds,
        children: args.children,
        max_auto: args.max_auto,
        max_children: args.max_children,
        max_cost_usd: args.max_cost,
        max_hours: args.max_hours,
        stale_rounds: args.stale_rounds,
        ceiling: args.ceiling,
        seed,
        ..LoopSettings::default()
    }
}

fn status(session: &Session, experiment: &str) -> anyhow::Result<Exit> {
    let state = state()?;
    let log = LoopLog::open(&state, experiment)?;
    let tree = log.tree()?;
    if session.output.json {
        session.output.json_pretty(&tree.status(experiment))?;
    } else {
        session.output.data(&show::status(&tree, experiment))?;
        say_next(session, &tree, experiment);
    }
    Ok(Exit::Done)
}

fn stop(session: &Session, experiment: &str, reason: &str) -> anyhow::Result<Exit> {
    let state = state()?;
    let _turn = turn(&Path::new(STATE_DIR).join("locks"), experiment)?;
    let mut log = LoopLog::open(&state, experiment)?;
    // Before its first step a loop has left nothing but its log.
    let has_begun = log.events().len() > 1;
    if log.tree()?.is_finished() {
        session.output.say("The loop has ended already.");
    } else {
        log.stop(reason, environment::now_ms())?;
    }
    if has_begun {
        step::after_stop(session, experiment);
    }
    let tree = log.tree()?;
    if session.output.json {
        session.output.json_pretty(&tree.status(experiment))?;
    } else {
        session.output.data(&show::status(&tree, experiment))?;
        say_left_over(session, &tree, experiment);
    }
    Ok(Exit::Done)
}

/// Says that outputs of a loop that ended without a promotion are still in the queue.
fn say_left_over(session: &Session, tree: &Tree, experiment: &str) {
    use assize_optimise::State::Rejected;
    if tree.state() == Rejected && tree.nominee.is_some() {
        session.output.say(&safe(&format!(
            "Outputs of {experiment} that nobody has judged stay in the queue; nobody needs to judge them now."
        )));
    }
}

/// Says whom the loop waits for, and the command to run next.
fn say_next(session: &Session, tree: &Tree, experiment: &str) {
    let output = &session.output;
    if let Some(words) = waiting(tree) {
        output.say(&safe(&words));
    }
    let this = ("--experiment", experiment);
    let step = command(session, "optimise step", &[this]);
    let next = match tree.waiting_for() {
        None if tree.is_finished() => return,
        Some(WaitingFor::Reflector) if tree.settings.reflector == "agent" => format!(
            "Next: open an agent session here and say /reflect (set up once with `assize agent install`), \
             then\n  {step}",
        ),
        None | Some(WaitingFor::Reflector) => session.next("optimise step", &[this]),
        Some(WaitingFor::Judge | WaitingFor::Confirmation) => {
            let export = [this, ("--out", "judge.json")];
            format!(
                "{}\n  or judge at any other door (/judge, assize judge desk, the panel); then\n  {step}",
                session.next("judge export", &export),
            )
        }
    };
    output.say(&next);
}

/// A command with the global flags of this one, on one line.
fn command(session: &Session, verb: &str, flags: &[(&str, &str)]) -> String {
    command_line(verb, &session.flags(flags))
}

/// The setup of a loop, and its settings.
fn setup_of(log: &LoopLog<'_>) -> anyhow::Result<(Setup, LoopSettings)> {
    Ok((Setup::of(log)?, log.tree()?.settings))
}
