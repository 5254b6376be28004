//! `assize collect`: generate what is missing of a grid, and track it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use assize_domain::task::Task;
use assize_pipeline::collect::grid::Grid;
use assize_pipeline::collect::{
    self, CollectOptions, Collection, Event, Observer, Speeds, Summary, recorded_params,
};
use assize_pipeline::events::{JobEvent, JobProgress};
use assize_pipeline::guard::Guard;
use assize_pipeline::size_gate::{Rejected, SizedModel, admit};
use assize_pipeline::{PipelineError, count, counted, task_files};
use assize_providers::Provider;
use assize_providers::cache::CachedProvider;

use crate::Exit;
use crate::cli::Collect;
use crate::environment;
use crate::output::progress::{CollectProgress, billions, duration};
use crate::output::{Output, complain, safe};
use crate::session::{self, Session};
use crate::settings::Settings;
use crate::tracking::OpenStore;
use crate::webhook;

mod adaptive;
mod dry_run;
mod watch;

/// How often progress is shown between two cells.
const TICK_EVERY: Duration = Duration::from_millis(250);

/// What a collection is about to do.
#[derive(Debug)]
pub struct Plan {
    pub task: Task,
    pub task_source: String,
    pub options: CollectOptions,
    pub admitted: Vec<SizedModel>,
    pub rejected: Vec<Rejected>,
}

pub fn run(session: &Session, args: &Collect) -> anyhow::Result<Exit> {
    let task = session.task()?;
    let settings = settings(session, &task, args)?;
    session.check_default_task(&settings.options.experiment)?;
    // Before the models are asked anything: a missing judge is a mistake of the command line.
    let judge = if args.adaptive {
        adaptive::judge_of(session, &task.rubric, args)?
    } else {
        None
    };
    let mut plan = plan(session, task, &settings, args.shard)?;
    if args.cache || args.watch {
        plan.admitted = cached(&plan.admitted);
    }
    if args.watch {
        return watch::run(session, plan, args);
    }
    if args.adaptive {
        plan.options.adaptive = true;
        return adaptive::run(session, &plan, args, judge);
    }
    if args.dry_run {
        return dry_run::show(session, &plan);
    }
    let stop = session::stop_flag()?;
    if args.events && session.output.json {
        let grid = Grid::new(&plan.task, &plan.options)?;
        let total: u64 = plan.admitted.iter().map(|it| grid.count(it)).sum();
        let event = JobEvent::Progress(JobProgress {
            total,
            ..JobProgress::default()
        });
        session.output.json_line(&event)?;
    }
    let (summary, error) = execute(session, &plan, &stop, args.events)?;
    finish(session, &plan, &summary, error)
}

/// The models with providers that keep their answers.
fn cached(models: &[SizedModel]) -> Vec<SizedModel> {
    let folder = Path::new(environment::STATE_DIR).join("cache");
    // A provider stays one provider, because hosts are told apart by it.
    let mut made: Vec<(Arc<dyn Provider>, Arc<dyn Provider>)> = Vec::new();
    let mut wrap = |provider: &Arc<dyn Provider>| {
        if let Some((_, known)) = made.iter().find(|it| Arc::ptr_eq(&it.0, provider)) {
            return Arc::clone(known);
        }
        let digests = models.iter();
        let digests = digests.map(|it| (it.id.name.clone(), it.info.digest.clone()));
        let cached = CachedProvider::new(Arc::clone(provider), &folder, digests.collect());
        let cached: Arc<dyn Provider> = Arc::new(cached);
        made.push((Arc::clone(provider), Arc::clone(&cached)));
        cached
    };
    let with_cache = models.iter().map(|model| SizedModel {
        providers: model.providers.iter().map(&mut wrap).collect(),
        ..model.clone()
    });
    with_cache.collect()
}

fn settings(session: &Session, task: &Task, args: &Collect) -> anyhow::Result<Settings> {
    let mut layers = session.layers(&task.defaults)?;
    layers.given(&args.options.0);
    Ok(layers.finish()?)
}

/// Asks every model for its size, before anything is generated.
pub fn plan(
    session: &Session,
    task: Task,
    settings: &Settings,
    shard: Option<(u32, u32)>,
) -> anyhow::Result<Plan> {
    session.check_commands(&task)?;
    let ids = session.models(settings)?;
    let mut providers = session.providers(settings);
    let described: Vec<SizedModel> = ids
        .iter()
        .map(|id| providers.describe(id, settings))
        .collect::<anyhow::Result<_>>()?;
    for host in providers.silent() {
        let line = format!("  {} It is used if it answers later.", safe(&host.reason));
        session.output.say(&line);
    }
    let (admitted, rejected) = admit(described, settings.options.max_model_b);
    let mut values = settings.options.clone();
    values.models = ids.iter().map(ToString::to_string).collect();
    if values.prompts.is_empty() {
        values.prompts = task.prompts.iter().map(|it| it.name.clone()).collect();
    }
    let options = CollectOptions {
        params: recorded_params(&values, session.tracking_uri(), shard),
        values,
        models: ids,
        adaptive: false,
        shard,
    };
    let grid = Grid::new(&task, &options)?;
    for model in &admitted {
        grid.check(model)?;
    }
    drop(grid);
    let plan = Plan {
        task_source: task_files::source_of(&session.task_name),
        task,
        options,
        admitted,
        rejected,
    };
    for rejected in &plan.rejected {
        let line = format!(
            "  {}  {}  rejected: {}",
            rejected.model,
            billions(rejected.parameter_count),
            rejected.reason
        );
        session.output.say(&line);
    }
    if plan.admitted.is_empty() {
        bail!(PipelineError::Invalid(
            "no model remains: every one was rejected by the size gate".to_owned()
        ));
    }
    Ok(plan)
}

/// Collects, with progress for people and events for programs.
pub fn execute(
    session: &Session,
    plan: &Plan,
    stop: &AtomicBool,
    has_events: bool,
) -> anyhow::Result<(Summary, Option<PipelineError>)> {
    let opened = session.open_store(false)?;
    let guard = session.guard(&plan.options.values)?;
    let speeds = Speeds::default();
    let collection = collection(plan, &opened, &guard, &speeds, stop);
    Ok(observed(session, plan, stop, has_events, |observer| {
        collect::run(&collection, observer)
    }))
}

fn collection<'a>(
    plan: &'a Plan,
    opened: &'a OpenStore,
    guard: &'a Guard,
    speeds: &'a Speeds,
    stop: &'a AtomicBool,
) -> Collection<'a> {
    Collection {
        task: &plan.task,
        task_source: &plan.task_source,
        options: &plan.options,
        models: plan.admitted.clone(),
        rejected: plan.rejected.clone(),
        only: None,
        store: &*opened.store,
        cells: &*opened.cells,
        journal: opened.journal.as_deref(),
        guard,
        speeds,
        locks: Path::new(environment::STATE_DIR).join("locks"),
        clock: environment::now_ms,
        stop,
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// Runs a collection and shows its events as progress.
fn observed<T>(
    session: &Session,
    plan: &Plan,
    stop: &AtomicBool,
    has_events: bool,
    work: impl FnOnce(Observer<'_>) -> T,
) -> T {
    let name_width = plan
        .admitted
        .iter()
        .map(|model| model.id.to_string().chars().count())
        .max()
        .unwrap_or(0)
        .min(24);
    let progress = CollectProgress::new(&session.output, name_width, &plan.options.values);
    // A closed pipe does not stop the collection.
    let unread = AtomicBool::new(false);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| watch_over(&progress, plan, stop, &done));
        let observe = |event: Event<'_>| {
            progress.take(&event);
            let line = match &event {
                Event::Cell(cell) => JobEvent::Cell(cell.into()),
                Event::Host(host) if has_events => JobEvent::Host(host.into()),
                _ => return,
            };
            if session.output.json
                && !unread.load(Ordering::Relaxed)
                && session.output.json_line(&line).is_err()
            {
                unread.store(true, Ordering::Relaxed);
            }
        };
        let result = work(&observe);
        done.store(true, Ordering::SeqCst);
        result
    })
}

/// Shows what engines do between two cells, and says when the collection is about to stop.
fn watch_over(progress: &CollectProgress, plan: &Plan, stop: &AtomicBool, done: &AtomicBool) {
    let activity = |id: &str| {
        let mut models = plan.admitted.iter();
        let model = models.find(|it| it.id.to_string() == id)?;
        model.providers.iter().find_map(|it| it.activity())
    };
    let mut has_said = false;
    let mut ticked = Instant::now();
    while !done.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) && !has_said {
            progress.note("  Stopping: finishing what is in flight. Ctrl-C again stops at once.");
            has_said = true;
        }
        if ticked.elapsed() >= TICK_EVERY {
            ticked = Instant::now();
            progress.tick(activity);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Prints the summary and turns it into an exit code.
fn finish(
    session: &Session,
    plan: &Plan,
    summary: &Summary,
    error: Option<PipelineError>,
) -> anyhow::Result<Exit> {
    emit_summary(&session.output, summary)?;
    session
        .output
        .say(&closing_line(summary, &plan.options.values.experiment));
    say_hosts(&session.output, summary);
    let event = webhook::Event::Collected {
        experiment: &plan.options.values.experiment,
        summary,
    };
    webhook::notify(session, &event);
    if let Some(error) = error {
        return Err(error.into());
    }
    let exit = exit_of(&session.output, summary);
    let experiment = ("--experiment", plan.options.values.experiment.as_str());
    if summary.unscored_candidates > 0 && summary.failed == 0 && exit == Exit::CellsFailed {
        session
            .output
            .say(&session.next("judge recompute", &[experiment]));
    }
    if exit == Exit::Done {
        let next = if plan.task.rubric.needs_judge() {
            session.next("judge export", &[experiment, ("--out", "judge.json")])
        } else {
            session.next("compare", &[experiment])
        };
        session.output.say(&next);
    }
    Ok(exit)
}

/// The last line of JSON.
fn emit_summary(output: &Output, summary: &Summary) -> anyhow::Result<()> {
    if output.json {
        output.json_line(&JobEvent::Summary(Box::new(summary.clone())))?;
    }
    Ok(())
}

/// What each host did, where there are several.
fn say_hosts(output: &Output, summary: &Summary) {
    if summary.hosts.len() < 2 {
        return;
    }
    let names = summary.hosts.iter().map(|it| it.host.chars().count());
    let width = names.max().unwrap_or(0);
    for it in &summary.hosts {
        let failures = match it.failures {
            0 => String::new(),
            n => format!(", failed {}", times(n)),
        };
        let left_out = it.error.as_ref().map_or("", |_| " and was left out");
        output.say(&format!(
            "  {:<width$}  {} cells, {} in {}{failures}{left_out}",
            safe(&it.host),
            it.cells,
            count(usize::try_from(it.loads).unwrap_or(usize::MAX), "load"),
            duration(it.seconds)
        ));
    }
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

/// The exit code that the summary stands for.
fn exit_of(output: &Output, summary: &Summary) -> Exit {
    if summary.interrupted {
        output.say("Interrupted; the work so far is kept. The same command continues.");
        return Exit::Interrupted;
    }
    if summary.undelivered > 0 {
        complain(&undelivered(summary.undelivered));
        return Exit::Undelivered;
    }
    if summary.failed > 0 {
        complain(&format!(
            "{} of {} failed; the same command tries again.",
            summary.failed,
            counted(summary.cells, "cell", "cells")
        ));
        return Exit::CellsFailed;
    }
    if summary.unscored_candidates > 0 {
        let reason = summary.unscored_reason.as_deref().unwrap_or_default();
        complain(&safe(&format!(
            "{} no computed score and cannot be judged yet ({reason}); assize judge recompute tries again.",
            counted(
                summary.unscored_candidates,
                "candidate has",
                "candidates have"
            ),
        )));
        return Exit::CellsFailed;
    }
    Exit::Done
}

/// What to do about cells that wait.
fn undelivered(cells: u64) -> String {
    format!(
        "{} in {}/state.db until the tracking server answers again. Nothing is lost: the next command that \
         uses the server delivers what waits, and so does `assize sync`.",
        counted(cells, "cell waits", "cells wait"),
        environment::STATE_DIR
    )
}

fn closing_line(summary: &Summary, experiment: &str) -> String {
    let mut parts = vec![
        format!("{} collected", summary.collected),
        format!("{} there already", summary.skipped),
    ];
    if summary.failed > 0 {
        parts.push(format!("{} failed", summary.failed));
    }
    if summary.undelivered > 0 {
        parts.push(format!("{} to be delivered", summary.undelivered));
    }
    if summary.failed_candidates > 0 {
        parts.push(format!(
            "{} failed",
            counted(
                summary.failed_candidates,
                "single candidate",
                "single candidates"
            )
        ));
    }
    format!(
        "{experiment}: {}, {} in {}.",
        counted(summary.cells, "cell", "cells"),
        parts.join(", "),
        duration(summary.seconds)
    )
}
