//! `assize optimise step`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use assize_domain::options::Options;
use assize_domain::task::Task;
use assize_optimise::State;
use assize_pipeline::collect::{CellStatus, Event};
use assize_pipeline::events::{JobEvent, JobProgress, LoopEntry, LoopStepped};
use assize_pipeline::judge::auto::Prices;
use assize_pipeline::optimise::{Extent, LoopContext, LoopLog, Stepped, turn};
use assize_pipeline::task_files;
use assize_report::shell::{command_lines, shell_word};

use super::models::Models;
use super::{say_next, setup_of, show, state};
use crate::Exit;
use crate::cli::{GivenOptions, OptimiseStep};
use crate::commands::promote::say_steps;
use crate::environment::{self, STATE_DIR};
use crate::output::progress::{CollectProgress, Counter};
use crate::output::{Output, safe};
use crate::session::{self, Session};
use crate::settings::Settings;

pub fn run(session: &Session, args: &OptimiseStep) -> anyhow::Result<Exit> {
    let _turn = turn(&Path::new(STATE_DIR).join("locks"), &args.experiment)?;
    let extent = if args.once {
        Extent::One
    } else {
        Extent::Everything
    };
    let which = Which {
        experiment: &args.experiment,
        given: &args.options.0,
        events: args.events,
    };
    let stepped = with_context(session, which, |context, log, task| {
        let stepped = context.step(log, task, extent)?;
        bring_up_to_date(session, context, task, log);
        Ok((stepped, context.task_place.to_owned()))
    })?;
    finish(session, args, &stepped.0, &stepped.1)
}

/// Brings what is derived from the log up to date after a loop was stopped. The loop has ended whether that
/// succeeds or not.
pub fn after_stop(session: &Session, experiment: &str) {
    let which = Which {
        experiment,
        given: &GivenOptions::default(),
        events: false,
    };
    let done = with_context(session, which, |context, log, task| {
        bring_up_to_date(session, context, task, log);
        Ok(())
    });
    if let Err(error) = done {
        not_up_to_date(session, &error);
    }
}

/// The run for MLflow's pages is derived from the log. An earlier step may have been killed before it
/// wrote the run, so every step compares both; where that fails the next one does it.
fn bring_up_to_date(session: &Session, context: &LoopContext<'_>, task: &Task, log: &LoopLog<'_>) {
    if let Err(error) = context.mirror(task, log) {
        not_up_to_date(session, &error);
    }
}

fn not_up_to_date(session: &Session, error: &dyn std::fmt::Display) {
    let words = format!("The loop's run was not brought up to date: {error}");
    session.output.say(&safe(&words));
}

/// A loop, and how it is continued.
#[derive(Clone, Copy)]
struct Which<'a> {
    experiment: &'a str,
    given: &'a GivenOptions,
    /// Whether events are printed as they happen.
    events: bool,
}

/// Opens everything that a loop works with. The caller holds the loop's turn.
fn with_context<T>(
    session: &Session,
    which: Which<'_>,
    work: impl FnOnce(&LoopContext<'_>, &mut LoopLog<'_>, &mut Task) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Which {
        experiment,
        given,
        events,
    } = which;
    let state = state()?;
    let locks = Path::new(STATE_DIR).join("locks");
    let stop = session::stop_flag()?;
    let mut log = LoopLog::open(&state, experiment)?;
    let (setup, loop_settings) = setup_of(&log)?;
    let place = session.task_given.as_deref().unwrap_or(&setup.task);
    let mut task = task_files::load(place)?;
    session.check_commands(&task)?;
    setup.check(&task)?;
    let settings = settings(session, &task, &setup.options, given)?;
    let session = &session.tracking_at(&setup.tracking_uri)?;
    let opened = session.open_store(false)?;
    let guard = session.guard(&settings.options)?;
    let models = Models::new(session, &settings);
    let source = task_files::source_of(place);
    let progress = StepProgress::new(&session.output, events);
    let context = LoopContext {
        experiment,
        settings: &loop_settings,
        setup: &setup,
        state: &state,
        store: &*opened.store,
        cells: &*opened.cells,
        journal: opened.journal.as_deref(),
        guard: &guard,
        locks,
        task_source: &source,
        task_place: place,
        values: &settings.options,
        models: &models,
        prices: prices(&settings),
        thresholds: &settings.gate,
        author: &|| session.author(),
        clock: environment::now_ms,
        now: environment::now,
        entropy: environment::entropy,
        stop: &stop,
        version: env!("CARGO_PKG_VERSION"),
        observer: &|event| progress.collected(&event),
        progress: &|now| {
            progress.judged(JobProgress {
                done: now.done,
                total: now.total,
                cost_usd: now.cost_usd,
            });
        },
        logged: &|entry| progress.logged(entry),
        tell: &|words| session.output.say(&safe(words)),
    };
    let done = work(&context, &mut log, &mut task)?;
    progress.finish();
    Ok(done)
}

/// `place` is how the user names the task.
fn finish(
    session: &Session,
    args: &OptimiseStep,
    stepped: &Stepped,
    place: &str,
) -> anyhow::Result<Exit> {
    let (tree, experiment) = (&stepped.tree, args.experiment.as_str());
    if stepped.events == 0 && tree.is_finished() {
        session
            .output
            .say("The loop has ended; there is nothing to do.");
    }
    if session.output.json && args.events {
        let event = JobEvent::Stepped(Box::new(LoopStepped {
            refused: stepped.refused,
            status: tree.status(experiment),
        }));
        session.output.json_line(&event)?;
        say_rest(session, stepped, experiment);
    } else if session.output.json {
        session.output.json_pretty(&tree.status(experiment))?;
    } else {
        session.output.data(&show::status(tree, experiment))?;
        say_rest(session, stepped, experiment);
    }
    if stepped.events > 0
        && tree.state() == State::Promoted
        && let Some(nominee) = &tree.nominee
    {
        let show = [
            ("--experiment", experiment),
            ("--text", nominee.child.as_str()),
        ];
        let command = command_lines("optimise show", &session.flags(&show), session.output.width);
        let file = Path::new(place).join(format!("prompts/{}.md", nominee.pair.prompt));
        // A built-in task has no folder.
        let to = if Path::new(place).is_dir() {
            format!(" \\\n     > {}", shell_word(&file.display().to_string()))
        } else {
            String::new()
        };
        session
            .output
            .say(&format!("To keep it as a file:\n{command}{to}"));
    }
    Ok(if stepped.refused {
        Exit::Refused
    } else {
        Exit::Done
    })
}

/// Says what has to be done before the next step.
fn say_rest(session: &Session, stepped: &Stepped, experiment: &str) {
    if stepped.repairs.is_empty() {
        say_next(session, &stepped.tree, experiment);
    } else {
        session.output.say(
            "Nominee and incumbent were not judged alike, so their scores cannot be compared yet. Next:",
        );
        say_steps(session, &stepped.repairs);
    }
}

/// The settings of a step: those that were recorded at the start, then its own flags.
pub fn settings(
    session: &Session,
    task: &Task,
    recorded: &serde_json::Map<String, serde_json::Value>,
    given: &GivenOptions,
) -> anyhow::Result<Settings> {
    let mut layers = session.layers(&task.defaults)?;
    layers.given(&GivenOptions::from_json(recorded));
    layers.given(given);
    Ok(layers.finish()?)
}

/// What tokens cost, where the user says so.
pub fn prices(settings: &Settings) -> Option<Prices> {
    settings.prices().map(|(input_usd, output_usd)| Prices {
        input_usd,
        output_usd,
    })
}

/// Progress on a terminal, and events for programs; elsewhere only what failed.
struct StepProgress<'a> {
    output: &'a Output,
    has_events: bool,
    /// Cells that are settled, and cells that were begun.
    done: AtomicU64,
    total: AtomicU64,
    bars: Option<(CollectProgress, Counter)>,
}

impl<'a> StepProgress<'a> {
    fn new(output: &'a Output, events: bool) -> Self {
        let bars = output.is_interactive.then(|| {
            let cells = CollectProgress::new(output, 24, &Options::default());
            (cells, Counter::new(output, "judging", "cases"))
        });
        Self {
            output,
            has_events: events && output.json,
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            bars,
        }
    }

    fn emit(&self, event: &JobEvent) {
        if self.has_events {
            // A reader that has gone away does not stop the loop.
            let _ = self.output.json_line(event);
        }
    }

    fn count(&self, done: u64, total: u64) {
        let done = self.done.fetch_add(done, Ordering::Relaxed) + done;
        let total = self.total.fetch_add(total, Ordering::Relaxed) + total;
        self.emit(&JobEvent::Progress(JobProgress {
            done,
            total,
            cost_usd: None,
        }));
    }

    /// One thing was done and recorded.
    fn logged(&self, entry: LoopEntry) {
        self.output.say(&safe(&entry.text));
        self.emit(&JobEvent::Logged(entry));
    }

    fn collected(&self, event: &Event<'_>) {
        if let Some((cells, _)) = &self.bars {
            cells.take(event);
        }
        match event {
            Event::ModelStarted { cells, .. } => self.count(0, *cells),
            Event::Cell(_) => self.count(1, 0),
            _ => {}
        }
        if let Event::Cell(cell) = event
            && cell.status == CellStatus::Failed
        {
            let words = format!(
                "  failed: {} × {} × {}: {}",
                cell.model.id,
                cell.prompt,
                cell.scenario,
                cell.error.unwrap_or_default()
            );
            self.output.say(&safe(&words));
        }
    }

    fn judged(&self, now: JobProgress) {
        if let Some((_, cases)) = &self.bars {
            cases.set_plain(now.done, now.total);
        }
        self.emit(&JobEvent::Judging(now));
    }

    fn finish(self) {
        if let Some((_, cases)) = self.bars {
            cases.finish();
        }
    }
}
