//! `assize collect`: generate what is missing of a grid, and track it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use assize_domain::task::Task;
use assize_pipeline::collect::grid::Grid;
use assize_pipeline::collect::{self, CellEvent, CollectOptions, Collection, Event, Summary};
use assize_pipeline::gate::{Rejected, Sized, admit};
use assize_pipeline::{PipelineError, count};
use assize_store::Tracking;
use serde_json::json;

use crate::Exit;
use crate::cli::Collect;
use crate::environment;
use crate::output::progress::{CollectProgress, billions, duration};
use crate::output::{Output, complain};
use crate::session::{self, Session};
use crate::settings::Settings;

/// What a collection is about to do.
#[derive(Debug)]
pub struct Plan {
    pub task: Task,
    pub options: CollectOptions,
    pub admitted: Vec<Sized>,
    pub rejected: Vec<Rejected>,
    pub evict: bool,
}

pub fn run(session: &Session, args: &Collect) -> anyhow::Result<Exit> {
    let task = session.task()?;
    let settings = settings(session, &task, args)?;
    let plan = plan(session, task, &settings, args.shard, args.provider.evict)?;
    if args.dry_run {
        return dry_run(session, &plan);
    }
    let stop = session::stop_flag()?;
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
    let described: Vec<Sized> = ids
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
    recorded.insert("ollama_url".to_owned(), settings.ollama_url.join(","));
    recorded.insert("jobs".to_owned(), settings.jobs.to_string());
    recorded.insert("timeout".to_owned(), settings.timeout.to_string());
    recorded.insert("retries".to_owned(), settings.retries.to_string());
    recorded.insert("judge_kind".to_owned(), settings.judge_kind.clone());
    recorded.insert("threads".to_owned(), settings.threads.to_string());
    recorded.insert("fast".to_owned(), settings.fast.to_string());
    for (key, value) in [
        ("base_url", settings.base_url.clone()),
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
    let store = session.store(false)?;
    let guard = session.guard(plan.evict)?;
    let collection = Collection {
        task: &plan.task,
        options: &plan.options,
        models: plan.admitted.clone(),
        rejected: plan.rejected.clone(),
        store: store.as_ref(),
        guard: &guard,
        locks: Path::new(environment::STATE_DIR).join("locks"),
        clock: environment::now_ms,
        stop,
        version: env!("CARGO_PKG_VERSION"),
    };
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
    let result = std::thread::scope(|scope| {
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
        let result = collect::run(&collection, &observe);
        done.store(true, Ordering::SeqCst);
        result
    });
    Ok(result)
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
    let output = &session.output;
    if output.json {
        let mut line = serde_json::to_value(summary)?;
        line["event"] = json!("summary");
        line["rejected_models"] = summary
            .rejected_models
            .iter()
            .map(|it| json!(it.model))
            .collect();
        line["rejections"] = json!(summary.rejected_models);
        output.json_line(&line)?;
    }
    output.say(&closing_line(summary, &plan.options.experiment));
    if let Some(error) = error {
        return Err(error.into());
    }
    if summary.interrupted {
        output.say("Interrupted; the work so far is kept. The same command continues.");
        return Ok(Exit::Interrupted);
    }
    if summary.failed > 0 {
        complain(&format!(
            "{} of {} cells failed; the same command tries them again.",
            summary.failed, summary.cells
        ));
        return Ok(Exit::CellsFailed);
    }
    output.say(&format!(
        "Next: assize judge export --experiment {} --out judge.json",
        plan.options.experiment
    ));
    Ok(Exit::Done)
}

fn closing_line(summary: &Summary, experiment: &str) -> String {
    let mut parts = vec![
        format!("{} collected", summary.collected),
        format!("{} there already", summary.skipped),
    ];
    if summary.failed > 0 {
        parts.push(format!("{} failed", summary.failed));
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

/// Shows what would happen.
fn dry_run(session: &Session, plan: &Plan) -> anyhow::Result<Exit> {
    let grid = Grid::new(&plan.task, &plan.options)?;
    let known = match session.store(true) {
        Ok(store) => count_known(&grid, plan, store.as_ref())?,
        Err(_) => vec![0; plan.admitted.len()],
    };
    let prompts: Vec<&str> = grid.prompts().map(|prompt| prompt.name.as_str()).collect();
    let n_tips = u64::from(plan.options.n_tips);
    let counts: Vec<u64> = plan
        .admitted
        .iter()
        .map(|model| grid.count(model))
        .collect();
    let missing: Vec<u64> = counts
        .iter()
        .zip(&known)
        .map(|(cells, known)| cells - known)
        .collect();
    let outputs = missing.iter().sum::<u64>() * n_tips;
    let loads = missing.iter().filter(|missing| **missing > 0).count();
    if session.output.json {
        let models: Vec<_> = plan
            .admitted
            .iter()
            .zip(counts.iter().zip(&missing))
            .map(|(model, (cells, missing))| {
                json!({"model": model.id, "parameter_count": model.parameter_count, "digest": model.info.digest,
                       "cells": cells, "missing": missing})
            })
            .collect();
        session.output.json_pretty(&json!({
            "experiment": plan.options.experiment, "models": models, "prompts": prompts,
            "scenarios": grid.scenarios().iter().map(|it| &it.id).collect::<Vec<_>>(),
            "cells": counts.iter().sum::<u64>(), "missing": missing.iter().sum::<u64>(), "outputs": outputs,
            "loads": loads, "rejected_models": plan.rejected,
        }))?;
        return Ok(Exit::Done);
    }
    let mut text = format!(
        "{} × {} × {} × {n_tips} = {} outputs, {outputs} of them missing · {}\n\n",
        count(plan.admitted.len(), "model"),
        count(prompts.len(), "prompt"),
        count(grid.scenarios().len(), "scenario"),
        counts.iter().sum::<u64>() * n_tips,
        count(loads, "load"),
    );
    for (model, (cells, missing)) in plan.admitted.iter().zip(counts.iter().zip(&missing)) {
        let size = billions(model.parameter_count);
        text.push_str(&format!(
            "  {:<28} {size:>6}  {missing} of {cells} cells to generate\n",
            model.id.to_string()
        ));
    }
    text.push_str(&format!("\n  prompts    {}\n", prompts.join(", ")));
    let scenarios = grid
        .scenarios()
        .iter()
        .map(|it| it.id.as_str())
        .take(12)
        .collect::<Vec<_>>()
        .join(", ");
    let more = grid.scenarios().len().saturating_sub(12);
    let more = if more > 0 {
        format!(", … {more} more")
    } else {
        String::new()
    };
    text.push_str(&format!("  scenarios  {scenarios}{more}\n"));
    text.push_str(&format!("  estimate   {}\n", estimate(plan, &missing)));
    session.output.data(&text)?;
    Ok(Exit::Done)
}

fn count_known(grid: &Grid<'_>, plan: &Plan, store: &dyn Tracking) -> anyhow::Result<Vec<u64>> {
    let mut counts = Vec::new();
    for model in &plan.admitted {
        let keys: Vec<String> = grid
            .cells(model)
            .map(|cell| cell.map(|it| it.key))
            .collect::<Result<_, _>>()?;
        let known = store.cells_known(&plan.options.experiment, &keys)?;
        counts.push(known.iter().flatten().filter(|it| !it.failed).count() as u64);
    }
    Ok(counts)
}

/// A rough guess: memory-bound decoding of a 4-bit model reads its weights once a token, at
/// some 10 GB/s on a laptop's CPU.
fn estimate(plan: &Plan, missing: &[u64]) -> String {
    let seconds: f64 = plan
        .admitted
        .iter()
        .zip(missing)
        .map(|(model, cells)| {
            let tokens_per_s = (10e9 / (model.parameter_count as f64 * 0.6)).clamp(1.0, 200.0);
            let tokens = *cells as f64
                * f64::from(plan.options.n_tips)
                * f64::from(plan.options.max_tokens)
                * 0.4;
            tokens / tokens_per_s
        })
        .sum();
    if plan
        .admitted
        .iter()
        .all(|model| model.providers.iter().all(|it| it.host().is_none()))
    {
        return "no weights are loaded here; as fast as the provider answers".to_owned();
    }
    format!(
        "about {} on a CPU, less on a GPU (a guess from the models' sizes)",
        duration(seconds)
    )
}
