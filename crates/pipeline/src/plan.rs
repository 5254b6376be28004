//! Plan: what a grid would find, take and cost, before anything is collected.
//!
//! The power is that of the whole gate: experiments are drawn with the spreads that earlier
//! experiments showed (or documented defaults) and given to the same function that
//! `assize promote` runs ([`crate::promote::calibrate`]). One challenger is truly better by the
//! effect asked, all others equal the incumbent, judges agree as the gate asks, and nothing is
//! missing. Hours and cost are earlier paces times the number of outputs.
//!
//! Nothing is generated and nothing is written.

use assize_domain::judge::Tier;
use assize_domain::options::Options;
use assize_domain::plan::{
    Basis, Cheapest, Generation, Judging, Plan, PlannedGate, PlannedGrid, PlannedModel, Spreads,
};
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_domain::verdict::RubricRef;
use assize_stats::{MIN_TEST_BLOCKS, StatsError};
use assize_store::Tracking;

use self::history::{History, Pace};
use self::power::{Enough, Simulation};
use crate::promote::Thresholds;
use crate::promote::calibrate::{Design, FlagRate};
use crate::{PipelineError, Result, count};

pub(crate) mod history;
mod power;

/// Minutes that an expert takes for a case, where no sitting was timed.
pub const MINUTES_PER_CASE: f64 = 0.5;
/// Simulated experiments for the effect asked; searches use fewer.
pub const SIMULATIONS: u32 = 2_000;

/// What to plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions<'a> {
    pub task: &'a Task,
    /// The options of `collect`, with models and prompts named.
    pub values: &'a Options,
    /// Seconds that one output of each model takes, guessed from its size; in the order of
    /// `values.models`.
    pub guessed_seconds: &'a [Option<f64>],
    pub thresholds: &'a Thresholds,
    /// Points by which one challenger is better; twice the margin by default.
    pub effect: Option<f64>,
    pub power: f64,
    pub simulations: u32,
}

/// Plans a grid. Without a store there are no earlier experiments.
pub fn plan(store: Option<&dyn Tracking>, options: &PlanOptions<'_>) -> Result<Plan> {
    let history = store.map(History::open).transpose()?;
    let rubric = &options.task.rubric;
    let earlier = match &history {
        Some(history) => history.spreads(rubric)?,
        None => None,
    };
    let spreads = earlier.unwrap_or_else(|| history::defaults(rubric));
    let grid = grid(options)?;
    let range = rubric.composite_range();
    let gate = PlannedGate {
        tier: options.thresholds.deciding_tier(),
        level: options.thresholds.level,
        margin: options.thresholds.margin_within(range),
        scenario_floor: options.thresholds.scenario_floor_within(range),
    };
    let effect = effect(options, &gate, range)?;
    let simulation = simulation(options, &grid, &spreads);
    let power = simulation.power(effect, options.power).map_err(internal)?;
    let paces = paces(history.as_ref(), options)?;
    let judging = judging(history.as_ref(), grid.outputs)?;
    let enough = simulation
        .cheapest(effect, options.power)
        .map_err(internal)?;
    let generation = generation(options, &paces, grid.outputs);
    let cheapest = enough.map(|it| cheapest(it, options, &grid, &paces, &judging));
    Ok(Plan {
        task: options.task.name.clone(),
        rubric: RubricRef {
            id: rubric.id.clone(),
            sha256: rubric.sha256.clone(),
        },
        composite_range: range.into(),
        notes: notes(options, &grid, &gate, &spreads, effect),
        cost_usd: cost(&paces, grid.outputs),
        grid,
        gate,
        spreads,
        power,
        generation,
        judging,
        cheapest,
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "map_err passes errors by value"
)]
fn internal(error: StatsError) -> PipelineError {
    PipelineError::Internal(error.to_string())
}

fn grid(options: &PlanOptions<'_>) -> Result<PlannedGrid> {
    let of = |split: Split| {
        let scenarios = options.task.scenarios.iter();
        scenarios.filter(|it| it.split == split).count()
    };
    let scenarios = match options.values.n_scenarios as usize {
        0 => of(Split::Selection),
        asked => asked,
    };
    let (models, prompts) = (&options.values.models, &options.values.prompts);
    let pairs = models.len() * prompts.len();
    if pairs < 2 {
        return Err(PipelineError::Invalid(format!(
            "{} cannot be compared with anything: name at least two models or two prompts",
            count(pairs, "pair")
        )));
    }
    let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
    let mut grid = PlannedGrid {
        models: models.clone(),
        prompts: prompts.clone(),
        pairs: small(pairs),
        scenarios: small(scenarios),
        confirmation: small(of(Split::Confirmation)),
        candidates: options.values.n_tips,
        outputs: 0,
    };
    grid.outputs = outputs(
        &grid,
        scenarios,
        grid.confirmation as usize,
        grid.candidates,
    );
    Ok(grid)
}

/// All pairs on the selection split, and two on the confirmation split.
fn outputs(grid: &PlannedGrid, scenarios: usize, confirmation: usize, candidates: u32) -> u64 {
    let cells = u64::from(grid.pairs) * scenarios as u64 + 2 * confirmation as u64;
    cells * u64::from(candidates)
}

/// The effect asked, else twice the margin: an effect of the margin itself is estimated below it
/// in half of all experiments, however large they are.
fn effect(options: &PlanOptions<'_>, gate: &PlannedGate, range: (f64, f64)) -> Result<f64> {
    let width = range.1 - range.0;
    let usual = if gate.margin > 0.0 {
        2.0 * gate.margin
    } else {
        width / 15.0
    };
    let effect = options.effect.unwrap_or(usual);
    if effect > 0.0 && effect <= width {
        return Ok(effect);
    }
    Err(PipelineError::Invalid(format!(
        "the effect {effect} cannot be planned for: use more than 0 and at most {width} points, the \
         range of {}'s composite",
        options.task.rubric.id
    )))
}

fn simulation<'a>(
    options: &PlanOptions<'a>,
    grid: &PlannedGrid,
    spreads: &Spreads,
) -> Simulation<'a> {
    let rubric = &options.task.rubric;
    let (pairs, scenarios) = (grid.pairs as usize, grid.scenarios as usize);
    let candidates = grid.candidates as usize;
    let is_confirmed = grid.confirmation > 0;
    let flags = rubric.composite.terms().iter().filter(|(name, _)| {
        let mut flags = rubric.flags.iter();
        flags.any(|flag| flag.name == *name)
    });
    let usual = Design::default();
    let (low, high) = rubric.composite_range();
    let (usual_low, usual_high) = usual.composite_range;
    Simulation {
        design: Design {
            scenarios,
            confirmation: if is_confirmed {
                grid.confirmation as usize
            } else {
                scenarios
            },
            candidates,
            prompts: 1,
            mean: spreads.mean,
            scenario_sd: spreads.scenario_sd,
            model_by_scenario_sd: 0.0,
            pair_by_scenario_sd: spreads.pair_by_scenario_sd,
            candidate_sd: spreads.candidate_sd,
            judge_sd: usual.judge_sd * (high - low) / (usual_high - usual_low),
            composite_range: (low, high),
            whole_numbers: false,
            // Power needs no p to four digits.
            draws: 1_000,
            flags: flags
                .map(|(name, weight)| FlagRate {
                    name: name.clone(),
                    weight: *weight,
                    share: if *weight > 0.0 { 0.95 } else { 0.1 },
                })
                .collect(),
        },
        challengers: pairs - 1,
        is_confirmed,
        thresholds: options.thresholds,
        simulations: options.simulations as usize,
    }
}

fn paces(history: Option<&History<'_>>, options: &PlanOptions<'_>) -> Result<Vec<Pace>> {
    let models = options.values.models.iter();
    let pace = |model: &String| match history {
        Some(history) => history.pace(model),
        None => Ok(Pace::default()),
    };
    models.map(pace).collect()
}

fn generation(options: &PlanOptions<'_>, paces: &[Pace], outputs: u64) -> Generation {
    let jobs = f64::from(options.values.jobs.max(1));
    let each = outputs / paces.len().max(1) as u64;
    let models: Vec<PlannedModel> = options
        .values
        .models
        .iter()
        .zip(paces)
        .enumerate()
        .map(|(place, (model, pace))| {
            let earlier = pace.seconds_per_output.map(|it| it / jobs);
            let guessed = options.guessed_seconds.get(place).copied().flatten();
            PlannedModel {
                model: model.clone(),
                outputs: each,
                seconds_per_output: earlier.or(guessed),
                basis: match (earlier, guessed) {
                    (Some(_), _) => Basis::Earlier,
                    (None, Some(_)) => Basis::ModelSizes,
                    (None, None) => Basis::Unknown,
                },
                cost_usd_per_1000: pace.cost_usd_per_output.map(|it| it * 1000.0),
            }
        })
        .collect();
    let seconds: Option<Vec<f64>> = models.iter().map(|it| it.seconds_per_output).collect();
    Generation {
        hours: seconds.map(|it| it.iter().sum::<f64>() * each as f64 / 3600.0),
        models,
    }
}

/// What so many outputs cost; `None` where a model's price is not known.
fn cost(paces: &[Pace], outputs: u64) -> Option<f64> {
    let prices: Option<Vec<f64>> = paces.iter().map(|it| it.cost_usd_per_output).collect();
    let prices = prices.filter(|it| !it.is_empty())?;
    Some(prices.iter().sum::<f64>() / prices.len() as f64 * outputs as f64)
}

fn judging(history: Option<&History<'_>>, cases: u64) -> Result<Judging> {
    let earlier = match history {
        Some(history) => history.minutes_per_case()?,
        None => None,
    };
    let minutes_per_case = earlier.unwrap_or(MINUTES_PER_CASE);
    Ok(Judging {
        cases,
        minutes_per_case,
        basis: earlier.map_or(Basis::Defaults, |_| Basis::Earlier),
        hours: cases as f64 * minutes_per_case / 60.0,
    })
}

fn cheapest(
    enough: Enough,
    options: &PlanOptions<'_>,
    grid: &PlannedGrid,
    paces: &[Pace],
    judging: &Judging,
) -> Cheapest {
    let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
    let candidates = small(enough.candidates);
    let confirmation = if grid.confirmation > 0 {
        enough.confirmation
    } else {
        0
    };
    let outputs = outputs(grid, enough.scenarios, confirmation, candidates);
    Cheapest {
        scenarios: small(enough.scenarios),
        confirmation: small(confirmation),
        candidates,
        outputs,
        power: enough.power,
        generation_hours: generation(options, paces, outputs).hours,
        judging_hours: outputs as f64 * judging.minutes_per_case / 60.0,
        cost_usd: cost(paces, outputs),
    }
}

fn notes(
    options: &PlanOptions<'_>,
    grid: &PlannedGrid,
    gate: &PlannedGate,
    spreads: &Spreads,
    effect: f64,
) -> Vec<String> {
    let mut notes = Vec::new();
    let selection = options.task.scenarios.iter();
    let there = selection.filter(|it| it.split == Split::Selection).count();
    let wanted = grid.scenarios as usize;
    if wanted > there {
        notes.push(format!(
            "the task has {} in the selection split: add {} to collect this grid",
            count(there, "scenario"),
            wanted - there
        ));
    }
    if wanted < MIN_TEST_BLOCKS {
        notes.push(format!(
            "{} cannot carry a test, so the gate never promotes: use {MIN_TEST_BLOCKS} or more",
            count(wanted, "scenario")
        ));
    }
    let confirmation = grid.confirmation as usize;
    if (1..MIN_TEST_BLOCKS).contains(&confirmation) {
        notes.push(format!(
            "the confirmation split has {}, and {MIN_TEST_BLOCKS} are needed: the gate never \
             promotes before the task has more",
            count(confirmation, "scenario")
        ));
    }
    let both = 2 * u64::from(grid.scenarios) * u64::from(grid.candidates);
    let double = u64::from(options.thresholds.double_scored);
    if options.thresholds.require.contains(&Tier::Auto) && both < double {
        notes.push(format!(
            "the gate asks for {double} candidates of two pairs that both tiers have judged \
             (double_scored in [gate]), and this grid has {both}: it never promotes"
        ));
    }
    if effect <= gate.margin {
        notes.push(format!(
            "the effect is not above the margin of the gate ({}), so at least half of the estimates \
             fall below it, however much is collected",
            gate.margin
        ));
    }
    let most = options.task.rubric.composite_range().1;
    if spreads.mean + effect > most {
        notes.push(format!(
            "the mean composite is {:.2} of {most}, which leaves no room for an effect of {effect}",
            spreads.mean
        ));
    }
    notes
}
