//! Simulation of the gate's error rates: experiments with a known truth are drawn and given to the
//! same gate that `assize promote` runs. `assize plan` asks the same code for the power of a
//! design that is not collected yet.
//!
//! A candidate's composite is the sum of the scenario's difficulty, the model's and the pair's own
//! turn in that scenario, and noise, with the spreads that were found in real data; by default a
//! whole number from 2 to 17 around 10.8. Cheap judges see it with noise of their own. Where all
//! pairs are equal every promotion is false; where one challenger is better by the effect that
//! [`power`] states, it should be found as often as stated.
//!
//! For comparison it also counts the rules that people use instead: the top of the board, and the top of
//! the board if its percentile-bootstrap interval is above zero.

use std::ops::Range;

use assize_domain::judge::Tier;
use assize_domain::promotion::Outcome;
use assize_stats::power::{self, Goal};
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;
use assize_stats::table::Cell;
use assize_stats::two_tier::{Both, TierCell};
use assize_stats::{Alternative, Draws, StatsError, bootstrap, paired};

use super::evidence;
use super::gate::{Confirmation, Evidence, FlagShares, TierEvidence, gate};
use super::thresholds::Thresholds;
use crate::compare::comparability::Comparability;
use crate::compare::decision::decide;
use crate::compare::family::{DRAWS, Family};
use draw::{Drawn, means};

mod draw;
mod nominees;
mod practice;

pub(crate) use draw::in_threads;
pub use nominees::Ruled;
pub use practice::{Practice, Rates};

/// How experiments are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    pub scenarios: usize,
    /// Scenarios of the confirmation split.
    pub confirmation: usize,
    pub candidates: usize,
    /// Pairs of one model follow each other, so many to a model.
    pub prompts: usize,
    pub mean: f64,
    pub scenario_sd: f64,
    pub model_by_scenario_sd: f64,
    pub pair_by_scenario_sd: f64,
    pub candidate_sd: f64,
    /// How far the automatic tier's composite is off the expert's.
    pub judge_sd: f64,
    pub composite_range: (f64, f64),
    /// Whether composites are whole numbers within their range, as most rubrics make them.
    /// Otherwise they are as drawn, so that the spreads and effects are exactly those given.
    pub whole_numbers: bool,
    pub flags: Vec<FlagRate>,
    /// Sign vectors of the test, where there are too many to enumerate.
    pub draws: usize,
}

/// A flag of the rubric, and how often it is set for every pair.
#[derive(Debug, Clone, PartialEq)]
pub struct FlagRate {
    pub name: String,
    /// Its weight in the composite.
    pub weight: f64,
    pub share: f64,
}

impl Default for Design {
    /// 8 scenarios × 5 candidates with the spreads of the reference data.
    fn default() -> Self {
        let flag = |name: &str, weight, share| FlagRate {
            name: name.to_owned(),
            weight,
            share,
        };
        Self {
            scenarios: 8,
            confirmation: 8,
            candidates: 5,
            prompts: 3,
            mean: 10.8,
            scenario_sd: 0.91,
            model_by_scenario_sd: 0.3,
            pair_by_scenario_sd: 0.53,
            candidate_sd: 1.67,
            judge_sd: 1.0,
            composite_range: (2.0, 17.0),
            whole_numbers: true,
            flags: vec![flag("format_ok", 2.0, 0.95), flag("overlong", -1.0, 0.1)],
            draws: DRAWS,
        }
    }
}

/// How often the gate promoted, of so many experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passes {
    pub experiments: usize,
    /// For a task without a confirmation split.
    pub gate: usize,
    /// With a confirmation split.
    pub confirmed: usize,
}

impl Passes {
    /// Adds those of other experiments.
    pub const fn add(&mut self, other: Self) {
        self.experiments += other.experiments;
        self.gate += other.gate;
        self.confirmed += other.confirmed;
    }

    /// The share of experiments in which the gate promoted, without and with confirmation.
    pub fn shares(&self) -> (f64, f64) {
        let share = |count: usize| count as f64 / self.experiments.max(1) as f64;
        (share(self.gate), share(self.confirmed))
    }
}

/// How often each rule promoted, of so many experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promotions {
    pub experiments: usize,
    /// The adjusted p alone.
    pub max_t: usize,
    /// The one-sided lower bound alone, which is the paired t test that [`power`] is about.
    pub lower_bound: usize,
    /// Every check, for a task without a confirmation split.
    pub gate: usize,
    /// Every check, with a confirmation split.
    pub confirmed: usize,
    /// The top of the board, if it is above the incumbent at all.
    pub top: usize,
    /// The top of the board, if its percentile-bootstrap interval is above zero.
    pub bootstrap: usize,
}

/// How often an interval held the true difference, of so many experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    pub experiments: usize,
    pub paired: usize,
    pub bootstrap: usize,
}

impl Design {
    /// The difference between pairs of two models that the paired one-sided test finds with 80 %
    /// power, as stated to users.
    pub fn detectable_effect(&self) -> Option<f64> {
        let by_scenario = self.model_by_scenario_sd.powi(2) + self.pair_by_scenario_sd.powi(2);
        // Scores are whole numbers: rounding adds a twelfth to the variance.
        let rounding = if self.whole_numbers { 1.0 / 12.0 } else { 0.0 };
        let candidate = self.candidate_sd.powi(2) + rounding;
        let se = power::predicted_se_of_difference(
            by_scenario,
            candidate,
            self.scenarios,
            self.candidates,
        )?;
        let sd = se * (self.scenarios as f64).sqrt();
        power::detectable_effect(sd, self.scenarios, Goal::usual(Alternative::Greater))
    }

    /// Experiments with one incumbent and these challengers, whose true differences to it are
    /// given.
    pub fn promotions(
        &self,
        effects: &[f64],
        experiments: usize,
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Promotions, StatsError> {
        let parts = in_threads(experiments, |indexes| {
            let mut found = Promotions::default();
            for index in indexes {
                let seed = seed_of(seed, index as u64);
                self.promotion(effects, seed, thresholds, &mut found)?;
            }
            Ok::<_, StatsError>(found)
        })?;
        let mut all = Promotions {
            experiments,
            ..Promotions::default()
        };
        for part in parts {
            all.max_t += part.max_t;
            all.lower_bound += part.lower_bound;
            all.gate += part.gate;
            all.confirmed += part.confirmed;
            all.top += part.top;
            all.bootstrap += part.bootstrap;
        }
        Ok(all)
    }

    /// How often the gate promotes the best of these challengers; where none is better than the
    /// incumbent, how often it promotes any. `experiments` are numbers, so that more can be added.
    pub fn passes(
        &self,
        effects: &[f64],
        experiments: Range<usize>,
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Passes, StatsError> {
        let best = effects.iter().copied().fold(0.0, f64::max);
        let first = experiments.start;
        let parts = in_threads(experiments.len(), |indexes| {
            let mut found = Passes::default();
            for index in indexes.map(|it| first + it) {
                let seed = seed_of(seed, index as u64);
                let mut evidence = self.evidence(effects, seed, thresholds)?;
                let effect = effects.get(evidence.candidate - 1).copied().unwrap_or(0.0);
                if effect < best || !gate(&evidence, thresholds).passed {
                    continue;
                }
                found.gate += 1;
                evidence.confirmation = Some(self.confirmation(&evidence, effect, seed)?);
                found.confirmed += usize::from(gate(&evidence, thresholds).passed);
            }
            Ok::<_, StatsError>(found)
        })?;
        let mut all = Passes {
            experiments: experiments.len(),
            ..Passes::default()
        };
        for part in parts {
            all.add(part);
        }
        Ok(all)
    }

    fn promotion(
        &self,
        effects: &[f64],
        seed: u64,
        thresholds: &Thresholds,
        found: &mut Promotions,
    ) -> Result<(), StatsError> {
        let mut evidence = self.evidence(effects, seed, thresholds)?;
        let differences = evidence.tiers.first().map_or_else(Vec::new, |it| {
            paired::differences(&it.means[evidence.candidate], &it.means[evidence.incumbent])
        });
        let differences: Vec<f64> = differences.into_iter().flatten().collect();
        let is_above = assize_stats::describe::mean(&differences).is_some_and(|it| it > 0.0);
        let interval = bootstrap::bootstrap_mean_exact(&differences, 0.95)?.interval;
        let ruling = gate(&evidence, thresholds);
        let passed = |name: &str| {
            let mut checks = ruling.checks.iter();
            checks.any(|it| it.name == name && it.outcome == Outcome::Passed)
        };
        found.max_t += usize::from(passed("p_adjusted"));
        found.lower_bound += usize::from(passed("lower_bound"));
        found.gate += usize::from(ruling.passed);
        found.top += usize::from(is_above);
        found.bootstrap += usize::from(interval.low > 0.0);
        if ruling.passed {
            let effect = effects.get(evidence.candidate - 1).copied();
            evidence.confirmation =
                Some(self.confirmation(&evidence, effect.unwrap_or(0.0), seed)?);
            found.confirmed += usize::from(gate(&evidence, thresholds).passed);
        }
        Ok(())
    }

    /// The paired 95 % interval of one challenger that is as good as the incumbent, as the board
    /// shows it.
    pub fn coverage(&self, experiments: usize, seed: u64) -> Result<Coverage, StatsError> {
        let mut found = Coverage {
            experiments,
            ..Coverage::default()
        };
        for index in 0..experiments {
            let means = means(&self.draw(&[0.0], seed_of(seed, index as u64))?.expert);
            let family = Family::new(&means, Some(0), 42);
            let ci95 = family.versus(1).and_then(|it| it.ci95);
            let differences = paired::differences(&means[1], &means[0]);
            let differences: Vec<f64> = differences.into_iter().flatten().collect();
            let drawn = bootstrap::bootstrap_mean_exact(&differences, 0.95)?.interval;
            let holds_truth = |[low, high]: [f64; 2]| low <= 0.0 && high >= 0.0;
            found.paired += usize::from(ci95.is_some_and(holds_truth));
            found.bootstrap += usize::from(holds_truth([drawn.low, drawn.high]));
        }
        Ok(found)
    }

    /// A candidate with this effect and the incumbent on the confirmation split.
    fn confirmation(
        &self,
        evidence: &Evidence,
        effect: f64,
        seed: u64,
    ) -> Result<Confirmation, StatsError> {
        let there = Self {
            scenarios: self.confirmation,
            ..self.clone()
        };
        let means = means(&there.draw(&[effect], seed_of(seed, 3))?.expert);
        let differences = paired::differences(&means[1], &means[0]);
        Ok(Confirmation {
            scenarios: differences.len(),
            differences: differences.into_iter().flatten().collect(),
            missing_cells: 0,
            scale: spread(evidence).unwrap_or(1.0),
            flags: Vec::new(),
            judged_apart: Some(0.0),
            comparability: Comparability::default(),
        })
    }

    /// What `assize promote` would put before the gate.
    fn evidence(
        &self,
        effects: &[f64],
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Evidence, StatsError> {
        let drawn = self.draw(effects, seed)?;
        Ok(self.evidence_of(&drawn, seed, thresholds))
    }

    fn evidence_of(&self, drawn: &Drawn, seed: u64, thresholds: &Thresholds) -> Evidence {
        let mut rng = SplitMix64::new(seed_of(seed, 4));
        let expert = means(&drawn.expert);
        let vectors = Draws {
            count: self.draws,
            seed: 42,
        };
        let family = Family::drawn(&expert, Some(0), vectors);
        let rule = thresholds.decision_rule().within(self.composite_range);
        let decision = decide(&family, &[], rule);
        let candidate = decision.leader().unwrap_or(1);
        let share = |rng: &mut SplitMix64, chance: f64| {
            let requests = self.scenarios * self.candidates;
            let set = (0..requests).filter(|_| rng.next_f64() < chance).count();
            Some(set as f64 / requests as f64)
        };
        let flags: Vec<FlagShares> = self
            .flags
            .iter()
            .map(|flag| FlagShares {
                name: flag.name.clone(),
                weight: flag.weight,
                candidate: share(&mut rng, flag.share),
                incumbent: share(&mut rng, flag.share),
            })
            .collect();
        let tier = |tier, means: Vec<Vec<Option<f64>>>, cells: &[Vec<Option<Cell>>]| TierEvidence {
            tier,
            means,
            cells: [candidate, 0].map(|pair| cells[pair].clone()),
            judged_apart: Some(0.0),
            flags: flags.clone(),
            missing_cells: 0,
        };
        Evidence {
            candidate,
            incumbent: 0,
            tiers: vec![
                tier(Tier::Expert, expert, &drawn.expert),
                tier(Tier::Auto, means(&drawn.auto), &drawn.auto),
            ],
            two_tiers: [candidate, 0].map(|pair| double_scored(drawn, pair)),
            composite_range: self.composite_range,
            seed: 42,
            family: Some(family),
            ..Evidence::default()
        }
    }
}

/// The cells of a pair of which both tiers judged every candidate.
fn double_scored(drawn: &Drawn, pair: usize) -> Vec<Option<TierCell>> {
    let cells = drawn.expert[pair].iter().zip(&drawn.auto[pair]);
    let cell = |(expert, auto): (&Option<Cell>, &Option<Cell>)| {
        let (expert, auto) = ((*expert)?, (*auto)?);
        Some(TierCell {
            cheap: auto.mean,
            both: Some(Both {
                items: expert.rows,
                trusted: expert.mean,
                cheap: auto.mean,
            }),
        })
    };
    cells.map(cell).collect()
}

/// The spread of the two pairs' differences over scenarios.
fn spread(evidence: &Evidence) -> Option<f64> {
    let deciding = evidence.tiers.first()?;
    let of = |pair: usize| deciding.means.get(pair);
    evidence::spread(of(evidence.candidate)?, of(evidence.incumbent)?)
}
