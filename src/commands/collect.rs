//! `assize collect`: generate what is missing of a grid, and track it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use assize_domain::task::Task;
use assize_pipeline::PipelineError;
use assize_pipeline::collect::grid::Grid;
use assize_pipeline::collect::{
    self, CellEvent, CollectOptions, Collection, Event, Observer, Summary,
};
use assize_pipeline::guard::Guard;
use assize_pipeline::size_gate::{Rejected, SizedModel, admit};
use serde_json::{Value, json};

use crate::Exit;
use crate::cli::Collect;
use crate::environment;
use crate::output::progress::{CollectProgress, billions, duration};
use crate::output::{Output, complain};
use crate::session::{self, Session};
use crate::settings::Settings;
use crate::tracking::{OpenStore, shown};
use crate::webhook;

mod adaptive;
mod dry_run;

/// What a collection is about to do.
#[derive(Debug)]
pub struct Plan {
    pub task: Task,
    pub options: CollectOptions,
    pub admitted: Vec<SizedModel>,
    pub rejected: Vec<Rejected>,
    pub evict: bool,
}

pub fn run(session: &Session, args: &Collect) -> anyhow::Result<Exit> {
    let task = session.task()?;
    let settings = settings(session, &task, args)?;
    let mut plan = plan(session, task, &settings, args.shard, args.provider.evict)?;
    if args.adaptive {
        plan.options.adaptive = true;
        return adaptive::run(session, &plan, args);
    }
    if args.dry_run {
        return dry_run::show(session, &plan);
    }
    let stop = session::stop_flag()?;
    if args.events && session.output.json {
        let grid = Grid::new(&plan.task, &plan.options)?;
        let total: u64 = plan.admitted.iter().map(|it| grid.count(it)).sum();
        let event = json!({"event": "progress", "done": 0, "total": total});
        session.output.json_line(&event)?;
    }
    let (summary, error) = execute(session, &plan, &stop)?;
    finish(session, &plan, &summary, error)
}

fn settings(session: &Session, task: &Task, args: &Collect) -> anyhow::Result<Settings> {
    let mut layers = session.layers(&task.defaults)?;
    layers.flag("models", args.models.clone());
    layers.flag("prompts", args.prompts.clone());
    layers.flag("n_tips", args.n_tips);
    layers.flag("n_scenarios", args.n_scenarios);
    layers.flag("temperature", args.temperature);
    layers.flag("experiment", args.experiment.clone());
    layers.flag("diversity", args.diversity.then_some(true));
    layers.flag("split", args.split.clone());
    layers.flag("max_tokens", args.max_tokens);
    layers.flag("judge_kind", args.judge_kind.clone());
    session::apply_provider_flags(&mut layers, &args.provider);
    Ok(layers.finish()?)
}

/// Asks every model for its size, before anything is generated.
pub fn plan(
    session: &Session,
    task: Task,
    settings: &Settings,
    shard: Option<(u32, u32)>,
    evict: bool,
) -> anyhow::Result<Plan> {
    let ids = session.models(settings)?;
    let mut providers = session.providers(settings);
    let described: Vec<SizedModel> = ids
        .iter()
        .map(|id| providers.describe(id, settings))
        .collect::<anyhow::Result<_>>()?;
    let (admitted, rejected) = admit(described, settings.max_model_b);
    let prompts = if settings.prompts.is_empty() {
        task.prompts
            .iter()
            .map(|prompt| prompt.name.clone())
            .collect()
    } else {
        settings.prompts.clone()
    };
    let options = CollectOptions {
        models: ids,
        prompts,
        n_tips: settings.n_tips,
        n_scenarios: settings.n_scenarios,
        temperature: settings.temperature,
        experiment: settings.experiment.clone(),
        max_model_b: settings.max_model_b,
        diversity: settings.diversity,
        seed: settings.seed,
        split: settings.split,
        max_tokens: settings.max_tokens,
        num_ctx: settings.num_ctx,
        judge_kind: settings.judge_kind.clone(),
        jobs: settings.jobs,
        adaptive: false,
        shard,
        recorded: BTreeMap::from([
            ("mlflow_url".to_owned(), session.tracking_uri().to_owned()),
            ("evict".to_owned(), evict.to_string()),
            (
                "shard".to_owned(),
                shard.map_or_else(|| "1/1".to_owned(), |(this, of)| format!("{this}/{of}")),
            ),
        ])
        .into_iter()
        .chain(recorded(settings))
        .collect(),
    };
    Grid::new(&task, &options)?;
    let plan = Plan {
        task,
        options,
        admitted,
        rejected,
        evict,
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

/// Options that are recorded with the run and part of no identity.
fn recorded(settings: &Settings) -> BTreeMap<String, String> {
    let mut recorded = BTreeMap::new();
    let hosts: Vec<String> = settings.ollama_url.iter().map(|it| shown(it)).collect();
    recorded.insert("ollama_url".to_owned(), hosts.join(","));
    recorded.insert("jobs".to_owned(), settings.jobs.to_string());
    recorded.insert("timeout".to_owned(), settings.timeout.to_string());
    recorded.insert("retries".to_owned(), settings.retries.to_string());
    recorded.insert("judge_kind".to_owned(), settings.judge_kind.clone());
    recorded.insert("threads".to_owned(), settings.threads.to_string());
    recorded.insert("fast".to_owned(), settings.fast.to_string());
    for (key, value) in [
        ("base_url", shown(&settings.base_url)),
        ("script", settings.script.clone()),
        ("assume_size", settings.assume_size.join(",")),
    ] {
        if !value.is_empty() {
            recorded.insert(key.to_owned(), value);
        }
    }
    recorded
}

/// Collects, with progress for people and events for programs.
pub fn execute(
    session: &Session,
    plan: &Plan,
    stop: &AtomicBool,
) -> anyhow::Result<(Summary, Option<PipelineError>)> {
    let opened = session.open_store(false)?;
    let guard = session.guard(plan.evict)?;
    let collection = collection(plan, &opened, &guard, stop);
    Ok(observed(session, plan, stop, |observer| {
        collect::run(&collection, observer)
    }))
}

fn collection<'a>(
    plan: &'a Plan,
    opened: &'a OpenStore,
    guard: &'a Guard,
    stop: &'a AtomicBool,
) -> Collection<'a> {
    Collection {
        task: &plan.task,
        options: &plan.options,
        models: plan.admitted.clone(),
        rejected: plan.rejected.clone(),
        only: None,
        store: &*opened.store,
        cells: &*opened.cells,
        journal: opened.journal.as_deref(),
        guard,
        locks: Path::new(environment::STATE_DIR).join("locks"),
        clock: environment::now_ms,
        stop,
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// Does some collecting, whose events become bars and lines.
fn observed<T>(
    session: &Session,
    plan: &Plan,
    stop: &AtomicBool,
    work: impl FnOnce(Observer<'_>) -> T,
) -> T {
    let name_width = plan
        .admitted
        .iter()
        .map(|model| model.id.to_string().chars().count())
        .max()
        .unwrap_or(0)
        .min(24);
    let progress = CollectProgress::new(&session.output, name_width);
    // Where nobody reads the events any more, the collection goes on without them.
    let unread = AtomicBool::new(false);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| tell_when_stopping(&progress, stop, &done));
        let observe = |event: Event<'_>| {
            progress.take(&event);
            if let (true, Event::Cell(cell)) = (session.output.json, &event)
                && !unread.load(Ordering::Relaxed)
                && emit(&session.output, cell).is_err()
            {
                unread.store(true, Ordering::Relaxed);
            }
        };
        let result = work(&observe);
        done.store(true, Ordering::SeqCst);
        result
    })
}

fn tell_when_stopping(progress: &CollectProgress, stop: &AtomicBool, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) {
            progress.note("  Stopping: finishing what is in flight. Ctrl-C again stops at once.");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn emit(output: &Output, cell: &CellEvent<'_>) -> std::io::Result<()> {
    let mut line = json!({
        "event": "cell", "model": cell.model.id, "prompt": cell.prompt, "scenario": cell.scenario,
        "status": cell.status, "run_id": cell.run_id,
    });
    if let Some(error) = cell.error {
        line["error"] = json!(error);
    }
    output.json_line(&line)
}

/// Prints the summary and turns it into an exit code.
fn finish(
    session: &Session,
    plan: &Plan,
    summary: &Summary,
    error: Option<PipelineError>,
) -> anyhow::Result<Exit> {
    emit_summary(&session.output, summary, None)?;
    session
        .output
        .say(&closing_line(summary, &plan.options.experiment));
    let event = webhook::Event::Collected {
        experiment: &plan.options.experiment,
        summary,
    };
    webhook::notify(session, &event);
    if let Some(error) = error {
        return Err(error.into());
    }
    let exit = exit_of(&session.output, summary);
    if exit == Exit::Done {
        let experiment = ("--experiment", plan.options.experiment.as_str());
        let next = session.next("judge export", &[experiment, ("--out", "judge.json")]);
        session.output.say(&next);
    }
    Ok(exit)
}

/// The last line of JSON; an adaptive collection adds what it saved.
fn emit_summary(output: &Output, summary: &Summary, adaptive: Option<Value>) -> anyhow::Result<()> {
    if !output.json {
        return Ok(());
    }
    let mut line = serde_json::to_value(summary)?;
    line["event"] = json!("summary");
    line["rejected_models"] = summary
        .rejected_models
        .iter()
        .map(|it| json!(it.model))
        .collect();
    line["rejections"] = json!(summary.rejected_models);
    if let Some(adaptive) = adaptive {
        line["adaptive"] = adaptive;
    }
    Ok(output.json_line(&line)?)
}

/// What the summary means for whoever waits for the exit code.
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
            "{} of {} cells failed; the same command tries them again.",
            summary.failed, summary.cells
        ));
        return Exit::CellsFailed;
    }
    Exit::Done
}

/// What to do about cells that wait.
fn undelivered(cells: u64) -> String {
    format!(
        "{cells} cells wait in {}/state.db until the tracking server answers again. Nothing is lost: \
         the next command that uses the server delivers them, and so does `assize sync`.",
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
            "{} single candidates failed",
            summary.failed_candidates
        ));
    }
    format!(
        "{experiment}: {} cells, {} in {}.",
        summary.cells,
        parts.join(", "),
        duration(summary.seconds)
    )
}
