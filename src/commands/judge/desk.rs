//! `assize judge desk`: the queue for a person at a terminal.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use assize_desk::app::App;
use assize_desk::view::Theme;
use assize_desk::{Ended, Progress, Refused, Source, Verdict};
use assize_domain::case::Case;
use assize_domain::submission::Submission;
use assize_pipeline::judge::held_sitting::{self, HeldSitting};
use assize_pipeline::judge::queue::Queue;
use assize_pipeline::{PipelineError, count};

use super::say_not_computed;
use super::sitting::{checked_judge, locks, notify, sit_options};
use crate::Exit;
use crate::cli::Desk;
use crate::environment;
use crate::output::safe;
use crate::session::Session;

/// How many cases are fetched at once.
const AHEAD: usize = 10;

pub fn run(session: &Session, args: &Desk) -> anyhow::Result<Exit> {
    let user = session.environment.user();
    let name = args.judged_by.as_deref().or(user.as_deref());
    let judge = checked_judge(&args.judge_kind, name)?;
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let message =
            "the desk needs a terminal: use assize judge export and apply, or judge agent";
        return Err(PipelineError::Invalid(message.to_owned()).into());
    }
    let store = session.store(true)?;
    say_not_computed(session, store.as_ref(), &args.experiment, judge.tier())?;
    let anchors = session.anchors(store.as_ref(), &args.experiment, args.no_anchors)?;
    let mut options = sit_options(&args.experiment, judge, anchors);
    options.desk.clone_from(&args.waits_on);
    options.seed = args.seed;
    let held = held_sitting::resume_or_open(&store, options, &locks(), &environment::now())?;
    let Some(mut held) = held else {
        session
            .output
            .say(&format!("Nothing is pending in {}.", args.experiment));
        return Ok(Exit::Done);
    };
    let mut app = App::new(&args.experiment, held.queue.rubric().clone());
    if held.resumed {
        "Resumed the sitting that you left.".clone_into(&mut app.message);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let theme = Theme {
        color: session.output.color,
    };
    let mut source = AtQueue(&mut held.queue);
    let ended = assize_desk::run(&mut app, &mut source, theme, &stop);
    leave(session, held, ended.context("the terminal failed")?)
}

/// Ends the sitting where it is over, and says how to go on where it is not.
fn leave(session: &Session, held: HeldSitting, ended: Ended) -> anyhow::Result<Exit> {
    let progress = held.queue.progress();
    let is_over = progress.held == 0 && progress.left == 0;
    if ended == Ended::Finished || (ended == Ended::Left && is_over) {
        let finished = held.queue.finish(&environment::now())?;
        session.output.say(&safe(&format!(
            "{} judged by {} in sitting {}, which is {}.",
            count(finished.done, "case"),
            finished.judge.name,
            finished.sitting,
            finished.state
        )));
        notify(session, &finished);
        if finished.is_quarantined() {
            let (sitting, tier) = (&finished.sitting, finished.tier);
            let words = super::quarantined(session, sitting, tier, finished.drift);
            session.output.say(&words);
            return Ok(Exit::Refused);
        }
        let next = session.next("compare", &[("--experiment", &finished.experiment)]);
        session.output.say(&next);
        return Ok(Exit::Done);
    }
    session.output.say(&format!(
        "{} judged; sitting {} stays open, {} to go. The same command continues.",
        count(progress.done, "case"),
        held.queue.id(),
        progress.left + progress.held as u64
    ));
    Ok(match ended {
        Ended::Stopped => Exit::Interrupted,
        _ => Exit::Done,
    })
}

/// The queue, as the desk sees it.
struct AtQueue<'a>(&'a mut Queue);

impl Source for AtQueue<'_> {
    fn next(&mut self, skipped: usize) -> Result<Vec<Case>, String> {
        let cases = self.0.next(AHEAD + skipped, &environment::now());
        cases.map_err(|error| error.to_string())
    }

    fn submit(&mut self, verdict: Verdict) -> Result<(), Refused> {
        let case = verdict.case.clone();
        let submission = Submission {
            case: verdict.case,
            scores: verdict.scores,
            rationale: verdict.rationale,
        };
        let done = self.0.submit(&[submission], &environment::now());
        done.map(|_| ()).map_err(|error| Refused {
            message: match &error {
                PipelineError::JudgeFile { problems, .. } => problems
                    .iter()
                    .map(|it| it.message.clone())
                    .collect::<Vec<_>>()
                    .join("; "),
                other => other.to_string(),
            },
            gone: !self.0.holds(&case),
        })
    }

    fn progress(&self) -> Progress {
        let progress = self.0.progress();
        Progress {
            done: progress.done as u64,
            left: progress.left + progress.held as u64,
        }
    }

    fn renew(&mut self) -> Result<(), String> {
        let renewed = self.0.renew(&environment::now());
        renewed.map_err(|error| error.to_string())
    }
}
