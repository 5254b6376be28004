//! What a simulation found, and paired comparisons with the persona as the unit.

use super::{Plan, Trajectory, Variant, checkpoints};
use crate::PolicyError;
use assize_stats::describe::{mean, sd};
use assize_stats::dist::t_quantile;
use assize_stats::paired::paired_diff;
use serde::{Deserialize, Serialize};

pub(super) const FINGERPRINT_START: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a over the indices of the chosen candidates.
pub(super) const fn fingerprint(so_far: u64, chosen: usize) -> u64 {
    (so_far ^ chosen as u64).wrapping_mul(0x0100_0000_01B3)
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    pub variant: Variant,
    /// Measured decisions for each persona, seed and policy.
    pub steps: usize,
    pub seeds: usize,
    pub seed: u64,
    pub warm_up: usize,
    /// The steps at which the curves have a point.
    pub checkpoints: Vec<usize>,
    pub entrants: Vec<EntrantResult>,
}

/// One policy's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntrantResult {
    pub name: String,
    /// Mean of the personas' expected rewards for each decision.
    pub expected_reward: f64,
    /// Mean of the personas' total regrets.
    pub regret: f64,
    /// Means of the personas, with the interval of 95 % over personas for the regret.
    pub curve: Vec<CurvePoint>,
    pub personas: Vec<PersonaResult>,
}

/// Cumulated figures at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    pub step: usize,
    pub reward: f64,
    pub regret: f64,
    pub regret_low: f64,
    pub regret_high: f64,
}

/// One policy's result for one persona: means over seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonaResult {
    pub persona: String,
    pub family: String,
    pub is_held_out: bool,
    /// For each decision.
    pub expected_reward: f64,
    /// For each decision.
    pub realised_reward: f64,
    /// In total.
    pub regret: f64,
    /// Share of decisions in which the best candidate was chosen.
    pub best_share: f64,
    /// With the interval of 95 % over seeds.
    pub curve: Vec<CurvePoint>,
    pub runs: Vec<SeedRun>,
}

/// One repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedRun {
    pub expected_reward: f64,
    pub realised_reward: f64,
    pub regret: f64,
    pub best_share: f64,
    /// A hash of all choices in order, in hexadecimal: equal for equal choices.
    pub choices: String,
}

/// A paired comparison of two policies. Differences are of expected rewards for each decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub candidate: String,
    pub baseline: String,
    pub variant: Variant,
    /// Measured decisions for each persona and seed.
    pub steps: usize,
    /// Seeds averaged for each persona.
    pub seeds: usize,
    pub mean: f64,
    pub se: f64,
    /// One-sided lower bound of the mean.
    pub lower_bound: f64,
    /// Two-sided interval of the same confidence.
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
    pub personas: Vec<PersonaDifference>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonaDifference {
    pub persona: String,
    pub family: String,
    pub is_held_out: bool,
    pub difference: f64,
    /// Standard error over seeds; 0 for one seed.
    pub se: f64,
}

impl Comparison {
    /// The persona that is worst off with the candidate.
    pub fn worst(&self) -> Option<&PersonaDifference> {
        let by_difference = |left: &&PersonaDifference, right: &&PersonaDifference| {
            left.difference.total_cmp(&right.difference)
        };
        self.personas.iter().min_by(by_difference)
    }

    /// The mean difference over the personas of held-out families.
    pub fn held_out_mean(&self) -> Option<f64> {
        let held_out = self.personas.iter().filter(|it| it.is_held_out);
        mean(&held_out.map(|it| it.difference).collect::<Vec<_>>())
    }
}

impl Simulation {
    /// Compares two entrants over the personas for which `include` holds; at least two are needed.
    pub fn compare(
        &self,
        candidate: &str,
        baseline: &str,
        confidence: f64,
        include: impl Fn(&PersonaResult) -> bool,
    ) -> Result<Comparison, PolicyError> {
        let find = |name: &str| {
            let found = self.entrants.iter().find(|it| it.name == name);
            found.ok_or_else(|| PolicyError::UnknownPolicy {
                name: name.to_owned(),
            })
        };
        let (ours, theirs) = (find(candidate)?, find(baseline)?);
        let pairs = ours.personas.iter().zip(&theirs.personas);
        let personas: Vec<PersonaDifference> = pairs
            .filter(|(it, _)| include(it))
            .map(|(ours, theirs)| difference(ours, theirs))
            .collect();
        let differences: Vec<f64> = personas.iter().map(|it| it.difference).collect();
        let problem = "a comparison needs at least two personas and a confidence in (0, 1)";
        let found = paired_diff(&differences, confidence)
            .map_err(|_| PolicyError::Simulation { problem })?;
        Ok(Comparison {
            candidate: candidate.to_owned(),
            baseline: baseline.to_owned(),
            variant: self.variant,
            steps: self.steps,
            seeds: self.seeds,
            mean: found.mean,
            se: found.se,
            lower_bound: found.lower_bound,
            low: found.interval.low,
            high: found.interval.high,
            confidence,
            personas,
        })
    }
}

fn difference(ours: &PersonaResult, theirs: &PersonaResult) -> PersonaDifference {
    let pairs = ours.runs.iter().zip(&theirs.runs);
    let by_seed: Vec<f64> = pairs
        .map(|(l, r)| l.expected_reward - r.expected_reward)
        .collect();
    PersonaDifference {
        persona: ours.persona.clone(),
        family: ours.family.clone(),
        is_held_out: ours.is_held_out,
        difference: mean(&by_seed).unwrap_or(0.0),
        se: sd(&by_seed).map_or(0.0, |it| it / (by_seed.len() as f64).sqrt()),
    }
}

/// Brings the trajectories, ordered by persona and repetition, into a result.
pub(super) fn summarise(plan: &Plan<'_>, runs: &[Vec<Trajectory>]) -> Simulation {
    let steps = plan.measured_steps();
    let checkpoints = checkpoints(steps);
    let entrant = |entrant: usize| {
        let personas: Vec<PersonaResult> = runs
            .chunks(plan.seeds)
            .enumerate()
            .map(|(persona, runs)| {
                let runs: Vec<&Trajectory> = runs.iter().map(|it| &it[entrant]).collect();
                persona_result(plan, persona, &runs, &checkpoints)
            })
            .collect();
        let point = |at: usize| {
            let cumulated = |figure: fn(&CurvePoint) -> f64| {
                let values = personas.iter().map(|it| figure(&it.curve[at]));
                values.collect::<Vec<f64>>()
            };
            let rewards = cumulated(|it| it.reward);
            curve_point(checkpoints[at], &rewards, &cumulated(|it| it.regret))
        };
        let mean_of = |figure: fn(&PersonaResult) -> f64| {
            mean(&personas.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        EntrantResult {
            name: plan.entrants[entrant].name.clone(),
            expected_reward: mean_of(|it| it.expected_reward),
            regret: mean_of(|it| it.regret),
            curve: (0..checkpoints.len()).map(point).collect(),
            personas,
        }
    };
    Simulation {
        variant: plan.variant,
        steps,
        seeds: plan.seeds,
        seed: plan.seed,
        warm_up: plan.warm_up_steps(),
        entrants: (0..plan.entrants.len()).map(entrant).collect(),
        checkpoints,
    }
}

fn persona_result(
    plan: &Plan<'_>,
    persona: usize,
    runs: &[&Trajectory],
    checkpoints: &[usize],
) -> PersonaResult {
    let persona = &plan.personas.personas[persona];
    let mean_of = |figure: fn(&SeedRun) -> f64| {
        mean(&runs.iter().map(|it| figure(&it.run)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let point = |(at, step): (usize, &usize)| {
        let figures =
            |figure: usize| -> Vec<f64> { runs.iter().map(|it| it.curve[at][figure]).collect() };
        curve_point(*step, &figures(0), &figures(1))
    };
    PersonaResult {
        persona: persona.name.clone(),
        family: persona.family.clone(),
        is_held_out: plan.personas.is_held_out(persona),
        expected_reward: mean_of(|it| it.expected_reward),
        realised_reward: mean_of(|it| it.realised_reward),
        regret: mean_of(|it| it.regret),
        best_share: mean_of(|it| it.best_share),
        curve: checkpoints.iter().enumerate().map(point).collect(),
        runs: runs.iter().map(|it| it.run.clone()).collect(),
    }
}

fn curve_point(step: usize, rewards: &[f64], regrets: &[f64]) -> CurvePoint {
    let units = regrets.len() as f64;
    let regret = mean(regrets).unwrap_or(0.0);
    let se = sd(regrets).map_or(0.0, |it| it / units.sqrt());
    let half = t_quantile(0.975, units - 1.0).unwrap_or(0.0) * se;
    CurvePoint {
        step,
        reward: mean(rewards).unwrap_or(0.0),
        regret,
        regret_low: regret - half,
        regret_high: regret + half,
    }
}
