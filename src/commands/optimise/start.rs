//! `assize optimise start`: checks, the plan, and the first event.

use anyhow::bail;
use assize_domain::options::{Identity, OptionSpec, Place};
use assize_domain::promotion::Promotion;
use assize_http::redacted;
use assize_optimise::judge_words;
use assize_pipeline::events::{JobEvent, LoopStarted};
use assize_pipeline::optimise::{LoopPlan, StartOptions, Starting, searched_experiment};
use assize_pipeline::{PipelineError, count};
use serde_json::{Map, Value, json};

use super::models::Models;
use super::step::prices;
use super::{settings_of, state};
use crate::Exit;
use crate::cli::{GivenOptions, OptimiseStart};
use crate::environment;
use crate::output::safe;
use crate::session::Session;
use crate::settings::Settings;

pub fn run(session: &Session, args: &OptimiseStart) -> anyhow::Result<Exit> {
    if searched_experiment(&args.experiment).is_some() {
        bail!(PipelineError::Invalid(format!(
            "the experiment '{}' has the name of a race: the cells of a loop's race are kept in NAME.search, so choose \
             a name without .search at its end",
            args.experiment
        )));
    }
    let task = session.task()?;
    let mut layers = session.layers(&task.defaults)?;
    layers.given(&args.options.0);
    layers.flag("experiment", Some(args.experiment.clone()));
    let settings = layers.finish()?;
    let opened = if session.store_exists()? {
        Some(session.open_store(true)?)
    } else {
        None
    };
    let store = opened.as_ref().map(|it| &*it.store);
    let champion = store.map(|it| it.champion_get(&task.name)).transpose()?;
    let models = models(session, &settings, champion.flatten())?;
    let state = state()?;
    let given = recorded(session, &settings, &args.options.0);
    let finder = Models::new(session, &settings);
    let starting = Starting::prepare(&StartOptions {
        experiment: &args.experiment,
        task: &task,
        task_place: &session.task_name,
        settings: &settings_of(args, models, settings.options.seed),
        given: &given,
        values: &settings.options,
        thresholds: &settings.gate,
        models: &finder,
        prices: prices(&settings),
        force: args.force,
        state: &state,
        store,
        tracking_uri: session.tracking_uri(),
    })?;
    let is_refused = !starting.objections.is_empty() && !args.force;
    show(session, args, &starting)?;
    if is_refused {
        session
            .output
            .say("Nothing was started and nothing was spent. Start it anyway with --force.");
        return Ok(Exit::Refused);
    }
    if args.dry_run {
        session
            .output
            .say("Nothing was started, because of --dry-run.");
        return Ok(Exit::Done);
    }
    starting.start(&state, &args.experiment, environment::now_ms())?;
    if !args.then_step {
        session.output.say(&format!(
            "Started.\n{}",
            session.next("optimise step", &[("--experiment", &args.experiment)])
        ));
    }
    Ok(Exit::Done)
}

/// The models that were named, else the champion's, else the first one that is there: every further
/// model multiplies what the race costs.
fn models(
    session: &Session,
    settings: &Settings,
    champion: Option<Promotion>,
) -> anyhow::Result<Vec<String>> {
    if let (true, Some(promotion)) = (settings.options.models.is_empty(), champion) {
        return Ok(vec![promotion.champion.model]);
    }
    let most = if settings.options.models.is_empty() {
        1
    } else {
        usize::MAX
    };
    let found = session.models(settings)?;
    Ok(found.iter().take(most).map(ToString::to_string).collect())
}

/// The options that later steps use again: those that were given, and all that change what is generated,
/// whatever the settings say then. Addresses with credentials are left out.
fn recorded(session: &Session, settings: &Settings, given: &GivenOptions) -> Map<String, Value> {
    let all = serde_json::to_value(&settings.options).unwrap_or_default();
    let mut recorded = Map::new();
    for (key, value) in all.as_object().into_iter().flatten() {
        let spec = OptionSpec::find(key);
        let identity = spec.map(|it| it.identity);
        if matches!(identity, Some(Identity::Always | Identity::WhereChanged)) {
            recorded.insert(key.clone(), value.clone());
        }
    }
    recorded.extend(given.to_json());
    for key in ["models", "prompts", "split", "experiment"] {
        recorded.remove(key);
    }
    recorded.retain(|key, value| {
        let is_url = OptionSpec::find(key).is_some_and(|it| it.place == Place::Url);
        let text = value.to_string();
        let is_kept = !is_url || redacted(&text) == text;
        if !is_kept {
            session.output.say(&format!(
                "Note: {key} contains credentials, so it is not recorded: set it in the environment or name it \
                 at every step."
            ));
        }
        is_kept
    });
    recorded
}

fn show(session: &Session, args: &OptimiseStart, starting: &Starting) -> anyhow::Result<()> {
    let output = &session.output;
    let is_started = !args.dry_run && (starting.objections.is_empty() || args.force);
    if output.json && args.then_step {
        output.say(&plan_text(&starting.plan));
        output.json_line(&JobEvent::Started(LoopStarted {
            experiment: args.experiment.clone(),
            started: is_started,
            objections: starting.objections.clone(),
        }))?;
    } else if output.json {
        output.json_pretty(&json!({
            "experiment": args.experiment,
            "started": is_started,
            "plan": starting.plan,
            "objections": starting.objections,
        }))?;
    } else {
        output.data(&plan_text(&starting.plan))?;
    }
    for note in &starting.plan.notes {
        output.say(&safe(&format!("Note: {note}.")));
    }
    for objection in &starting.objections {
        output.say(&safe(&format!("Preflight: {objection}.")));
    }
    Ok(())
}

fn children(number: u32) -> String {
    match number {
        1 => "1 child".to_owned(),
        more => format!("{more} children"),
    }
}

fn automatic_row(plan: &LoopPlan) -> (&'static str, String) {
    let name = if plan.settings.judge.is_empty() {
        "computed"
    } else {
        "automatic"
    };
    let words = format!(
        "at most {} verdicts: {} in the race, {} for the gate",
        plan.settings.max_auto, plan.race_verdicts, plan.selection_verdicts
    );
    (name, words)
}

fn expert_words(plan: &LoopPlan) -> String {
    if plan.expert_verdicts == 0 {
        return "none".to_owned();
    }
    format!(
        "at most {} verdicts: nominee and incumbent on {} selection and {} confirmation scenarios",
        plan.expert_verdicts, plan.selection_scenarios, plan.confirmation_scenarios
    )
}

/// What the loop would do and use at most.
fn plan_text(plan: &LoopPlan) -> String {
    let settings = &plan.settings;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "not known".to_owned());
    let money = |usd: f64| format!("${usd:.2}");
    let hours = |hours: f64| {
        if hours < 0.95 {
            format!("{:.0} min", (hours * 60.0).ceil())
        } else {
            format!("{hours:.1} h")
        }
    };
    let mut limits = vec![
        format!(
            "{} without a leader",
            count(settings.stale_rounds as usize, "round")
        ),
        format!("{:.0} % of the scale reached", 100.0 * settings.ceiling),
    ];
    limits.extend(settings.max_cost_usd.map(money));
    limits.extend(settings.max_hours.map(hours));
    let rows = [
        ("task", plan.task.clone()),
        ("from", plan.seed.clone()),
        ("against", plan.incumbent.to_string()),
        ("models", settings.models.join(", ")),
        ("judge", judge_words(settings).to_owned()),
        ("reflector", settings.reflector.clone()),
        (
            "search",
            format!(
                "{} × {}, {} of {} feedback scenarios × {} candidates",
                count(settings.rounds as usize, "round"),
                children(settings.children),
                plan.race_scenarios,
                plan.feedback_scenarios,
                settings.candidates
            ),
        ),
        automatic_row(plan),
        ("expert", expert_words(plan)),
        ("outputs", format!("at most {}", plan.outputs)),
        (
            "cost, time",
            format!(
                "about {}, {} without waiting",
                or_none(plan.expected.cost_usd.map(money)),
                or_none(plan.expected.hours.map(hours))
            ),
        ),
        ("stops at", limits.join(", ")),
    ];
    let mut text = format!("Loop {}\n\n", safe(&plan.experiment));
    for (name, value) in rows {
        text.push_str(&format!("  {name:<11} {}\n", safe(&value)));
    }
    text
}
