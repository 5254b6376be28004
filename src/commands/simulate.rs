//! `assize simulate`: policies choose for personas with known tastes.

use std::path::Path;

use assize_domain::task::TaskDefaults;
use assize_pipeline::events::{JobEvent, JobProgress, SimulationSummary};
use assize_pipeline::simulation::http_player::{HttpPlayer, Service};
use assize_pipeline::{PipelineError, simulation, whole_file};
use assize_policy::Policy;
use assize_policy::persona::PersonaSet;
use assize_policy::simulate::{Entrant, Plan, Simulation, run_with};
use assize_policy::study::{Study, StudyPlan};
use assize_report::simulation as report;

use crate::Exit;
use crate::cli::Simulate;
use crate::environment;
use crate::session::Session;

/// What a file's extension asks for.
#[derive(Debug, Clone, Copy)]
enum Format {
    Json,
    Csv,
    Html,
    Svg,
    Text,
}

pub fn run(session: &Session, args: &Simulate) -> anyhow::Result<Exit> {
    if args.show_personas {
        session.output.data(PersonaSet::built_in_text())?;
        return Ok(Exit::Done);
    }
    // A wrong extension is an error before anything is computed or written.
    let outputs: Vec<(&Path, Format)> = args
        .output
        .iter()
        .map(|path| Ok((path.as_path(), format_of(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let (personas, source) = simulation::personas(args.personas.as_deref())?;
    let entrants = entrants(session, args)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = StudyPlan {
        source: &source,
        personas: &personas,
        entrants: &entrants,
        steps: args.steps as usize,
        seeds: args.seeds as usize,
        seed: args.seed,
        warm_up: args.warm_up as usize,
        threads: args.jobs.map_or(cores, usize::from),
        sensitivity: !args.no_sensitivity,
    };
    let started_ms = environment::now_ms();
    let study = simulate(session, args, &plan)?;
    for (path, format) in &outputs {
        whole_file::write(path, &render(&study, *format)?)?;
        session.output.say(&format!("Wrote {}", path.display()));
    }
    if args.events {
        // The last event comes after everything is recorded.
    } else if session.output.json {
        session.output.json_pretty(&study)?;
    } else if outputs.is_empty() {
        session
            .output
            .data(&report::terminal(&study, session.output.width))?;
    }
    let experiment = if args.no_track {
        None
    } else {
        Some(record(session, args, &study, started_ms)?)
    };
    if args.events {
        let conclusion = report::conclusion(&study);
        let summary = SimulationSummary {
            experiment,
            conclusion,
        };
        session.output.json_line(&JobEvent::Simulated(summary))?;
    }
    Ok(Exit::Done)
}

fn entrants(session: &Session, args: &Simulate) -> anyhow::Result<Vec<Entrant>> {
    let settings = session.layers(&TaskDefaults::default())?.finish()?.policy;
    let kinds = args.policies.iter();
    let policies = kinds.map(|kind| Policy::new(*kind, settings.of(*kind)));
    let entrants = policies.map(|it| it.map(Entrant::new));
    Ok(entrants
        .collect::<Result<_, _>>()
        .map_err(PipelineError::from)?)
}

fn simulate(session: &Session, args: &Simulate, plan: &StudyPlan<'_>) -> anyhow::Result<Study> {
    let variants = plan.variants().len();
    let mut begun = 0;
    let announce = |variant| {
        if args.events {
            let progress = JobProgress {
                done: begun,
                total: variants as u64,
                cost_usd: None,
            };
            // A reader that has gone away does not stop the simulation.
            let _ = session.output.json_line(&JobEvent::Progress(progress));
        }
        begun += 1;
        let text = format!("Simulating {begun} of {variants}: {variant}");
        session.output.say(&text);
    };
    let Some(url) = &args.via else {
        return Ok(plan.run(announce).map_err(PipelineError::from)?);
    };
    let token = session.environment.get("ASSIZE_TOKEN");
    let service = Service::new(url, token)?;
    // Users of this simulation only, so that an earlier one has taught them nothing.
    let nonce = assize_domain::hash::hex(&environment::entropy()?[..6]);
    Ok(plan.run_with(announce, |plan| over_http(plan, &service, &nonce))?)
}

fn over_http(plan: &Plan<'_>, service: &Service, nonce: &str) -> Result<Simulation, PipelineError> {
    let user = |persona: usize, repetition: usize, entrant: usize| {
        let variant = plan.variant;
        format!("simulation-{nonce}-{variant}-{persona}-{repetition}-{entrant}")
    };
    let simulation = run_with(plan, |persona, repetition, entrant| {
        let route = plan.entrants[entrant].policy.kind().route();
        let user = user(persona, repetition, entrant);
        Ok(HttpPlayer::new(service, route, user, &plan.personas.arms))
    })?;
    for persona in 0..plan.personas.personas.len() {
        for repetition in 0..plan.seeds {
            for entrant in 0..plan.entrants.len() {
                let user = user(persona, repetition, entrant);
                service.forget(&user)?;
            }
        }
    }
    Ok(simulation)
}

fn record(
    session: &Session,
    args: &Simulate,
    study: &Study,
    started_ms: i64,
) -> anyhow::Result<String> {
    let now = environment::now();
    let experiment = args
        .experiment
        .clone()
        .unwrap_or_else(|| simulated_experiment(&now.rfc3339));
    let store = session.store(false)?;
    let version = env!("CARGO_PKG_VERSION");
    simulation::record(
        store.as_ref(),
        &experiment,
        study,
        started_ms,
        &now,
        version,
    )?;
    session
        .output
        .say(&format!("Recorded as the experiment {experiment}"));
    Ok(experiment)
}

/// `simulation-20261116-114746-250`, from a time in RFC 3339.
pub fn simulated_experiment(time: &str) -> String {
    let digits: String = time.chars().filter(char::is_ascii_digit).take(17).collect();
    let (day, rest) = digits.split_at(8.min(digits.len()));
    let (second, fraction) = rest.split_at(6.min(rest.len()));
    format!("simulation-{day}-{second}-{fraction}")
}

fn format_of(path: &Path) -> anyhow::Result<Format> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some("html" | "htm") => Ok(Format::Html),
        Some("svg") => Ok(Format::Svg),
        Some("txt") => Ok(Format::Text),
        _ => Err(PipelineError::Invalid(format!(
            "{}: the extension is not a known format; use .json, .csv, .html, .svg or .txt",
            path.display()
        ))
        .into()),
    }
}

fn render(study: &Study, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(study)? + "\n",
        Format::Csv => report::csv::render(study),
        Format::Html => report::html::render(study, &environment::now_rfc3339()),
        Format::Svg => study
            .base()
            .and_then(report::regret_chart)
            .unwrap_or_default(),
        Format::Text => report::terminal(study, 100),
    })
}
