//! `assize plan`: power, hours and cost of a grid, before anything is collected.

use assize_domain::sweep;
use assize_domain::task::Task;
use assize_pipeline::PipelineError;
use assize_pipeline::collect::CollectOptions;
use assize_pipeline::collect::grid::Grid;
use assize_pipeline::estimate::guessed_output_s;
use assize_pipeline::plan::{PlanOptions, plan};
use assize_report::plan_lines::table;

use crate::Exit;
use crate::cli::Plan;
use crate::output::progress::billions;
use crate::output::safe;
use crate::session::Session;
use crate::settings::Settings;

pub fn run(session: &Session, args: &Plan) -> anyhow::Result<Exit> {
    let task = session.task()?;
    let mut layers = session.layers(&task.defaults)?;
    layers.given(&args.options.0);
    let mut settings = layers.finish()?;
    let guessed_seconds = models(session, &task, &mut settings)?;
    // Every prompt with every combination of swept settings is a prompt of its own here.
    let swept = sweep::variants(&settings.options.sweep).map_err(PipelineError::Invalid)?;
    let named = settings.options.prompts.clone();
    let labels = named
        .iter()
        .flat_map(|name| swept.iter().map(|it| it.label(name)));
    settings.options.prompts = labels.collect();
    let store = if session.store_exists()? {
        Some(session.store(true)?)
    } else {
        None
    };
    let options = PlanOptions {
        task: &task,
        values: &settings.options,
        guessed_seconds: &guessed_seconds,
        thresholds: &settings.gate,
        effect: args.effect,
        power: args.power,
        simulations: args.simulations,
    };
    let plan = plan(store.as_deref(), &options)?;
    if session.output.json {
        session.output.json_pretty(&plan)?;
    } else {
        session.output.data(&table(&plan, session.output.width))?;
        let (models, prompts) = (plan.grid.models.join(","), named.join(","));
        let rest = args.options.0.flags(&["models", "prompts"]);
        let mut flags = vec![
            ("--models", models.as_str()),
            ("--prompts", prompts.as_str()),
        ];
        flags.extend(rest.iter().map(|(name, value)| (&**name, &**value)));
        session.output.say(&session.next("collect", &flags));
    }
    Ok(Exit::Done)
}

/// Names the models and prompts, as `collect` does, and guesses how long an output of each model
/// takes. A model that cannot be asked now is planned without a guess; one that is too large is
/// left out.
fn models(
    session: &Session,
    task: &Task,
    settings: &mut Settings,
) -> anyhow::Result<Vec<Option<f64>>> {
    let ids = session.models(settings)?;
    let mut providers = session.providers(settings);
    let max_model_b = settings.options.max_model_b;
    let mut named = Vec::new();
    let mut guessed = Vec::new();
    let mut planned = Vec::new();
    for id in ids {
        let described = providers.describe(&id, settings).ok();
        if let Some(model) = described.as_ref().filter(|it| !it.is_within(max_model_b)) {
            let size = model.parameter_count.map(billions).unwrap_or_default();
            session.output.say(&safe(&format!(
                "  {id}  {size}  left out: larger than {max_model_b}B (--max-model-b)"
            )));
            continue;
        }
        let max_tokens = settings.options.max_tokens;
        guessed.push(described.and_then(|it| guessed_output_s(max_tokens, &it)));
        named.push(id.to_string());
        planned.push(id);
    }
    if named.is_empty() {
        let message = "no model remains: every one is larger than --max-model-b".to_owned();
        return Err(PipelineError::Invalid(message).into());
    }
    settings.options.models = named;
    if settings.options.prompts.is_empty() {
        let prompts = task.prompts.iter().map(|it| it.name.clone());
        settings.options.prompts = prompts.collect();
    }
    // The same checks as before a collection.
    Grid::new(
        task,
        &CollectOptions {
            params: Vec::new(),
            values: settings.options.clone(),
            models: planned,
            adaptive: false,
            shard: None,
        },
    )?;
    Ok(guessed)
}
