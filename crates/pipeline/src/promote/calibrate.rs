//! Simulation of the gate's error rates: experiments with a known truth are drawn and given to the
//! same gate that `assize promote` runs.
//!
//! A candidate's composite is a whole number from 2 to 17 around 10.8: the scenario's difficulty,
//! the model's and the pair's own turn in that scenario, and noise, with the spreads that were
//! found in real data. Cheap judges see it with noise of their own. Where all pairs are equal
//! every promotion is false; where one challenger is better by the effect that [`power`] states,
//! it should be found as often as stated.
//!
//! For comparison it also counts the rules that people use instead: the top of the board, and the top of
//! the board if its percentile-bootstrap interval is above zero.

use assize_domain::judge::Tier;
use assize_domain::promotion::Outcome;
use assize_stats::agreement::Scale;
use assize_stats::power::{self, Goal};
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::{BlockModel, seed_of};
use assize_stats::table::{Row, Table};
use assize_stats::{Alternative, StatsError, bootstrap, paired};

use super::gate::{Confirmation, DoubleScored, Evidence, FlagShares, TierEvidence, gate};
use super::thresholds::Thresholds;
use crate::compare::decision::decide;
use crate::compare::family::Family;

/// How experiments are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    pub scenarios: usize,
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
    /// Candidates that both tiers score.
    pub double_scored: usize,
}

impl Default for Design {
    /// 8 scenarios × 5 candidates with the spreads of the reference data.
    fn default() -> Self {
        Self {
            scenarios: 8,
            candidates: 5,
            prompts: 3,
            mean: 10.8,
            scenario_sd: 0.91,
            model_by_scenario_sd: 0.3,
            pair_by_scenario_sd: 0.53,
            candidate_sd: 1.67,
            judge_sd: 1.0,
            double_scored: 60,
        }
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
        let candidate = self.candidate_sd.powi(2) + 1.0 / 12.0;
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
        let mut found = Promotions {
            experiments,
            ..Promotions::default()
        };
        for index in 0..experiments {
            let seed = seed_of(seed, index as u64);
            self.promotion(effects, seed, thresholds, &mut found)?;
        }
        Ok(found)
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
            let confirmation = self.draw(&[effect.unwrap_or(0.0)], seed_of(seed, 3))?;
            evidence.confirmation = Some(confirm(&confirmation.means()));
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
            let means = self.draw(&[0.0], seed_of(seed, index as u64))?.means();
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

    /// Scores of the incumbent (pair 0) and of the challengers.
    fn draw(&self, effects: &[f64], seed: u64) -> Result<Table, StatsError> {
        Table::from_rows(effects.len() + 1, self.scenarios, &self.rows(effects, seed))
    }

    fn rows(&self, effects: &[f64], seed: u64) -> Vec<Row> {
        let pairs = BlockModel {
            treatment_effects: [0.0]
                .iter()
                .chain(effects)
                .map(|it| self.mean + it)
                .collect(),
            blocks: self.scenarios,
            replicates: self.candidates,
            block_sd: self.scenario_sd,
            treatment_by_block_sd: self.pair_by_scenario_sd,
            replicate_sd: self.candidate_sd,
        };
        let models = BlockModel {
            treatment_effects: vec![0.0; pairs.treatment_effects.len().div_ceil(self.prompts)],
            replicates: 1,
            block_sd: 0.0,
            treatment_by_block_sd: self.model_by_scenario_sd,
            replicate_sd: 0.0,
            ..pairs.clone()
        };
        let turns = models.rows(seed_of(seed, 1));
        let turn = |row: &Row| {
            let model = row.treatment / self.prompts;
            let found = turns
                .iter()
                .find(|it| (it.treatment, it.block) == (model, row.block));
            found.map_or(0.0, |it| it.value)
        };
        let mut rows = pairs.rows(seed_of(seed, 0));
        for row in &mut rows {
            row.value = score(row.value + turn(row));
        }
        rows
    }

    /// What `assize promote` would put before the gate.
    fn evidence(
        &self,
        effects: &[f64],
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Evidence, StatsError> {
        let pairs = effects.len() + 1;
        let rows = self.rows(effects, seed);
        let mut rng = SplitMix64::new(seed_of(seed, 2));
        let judged: Vec<Row> = rows
            .iter()
            .map(|row| Row {
                value: score(row.value + self.judge_sd * rng.next_normal()),
                ..*row
            })
            .collect();
        let means = Table::from_rows(pairs, self.scenarios, &rows)?.means();
        let family = Family::new(&means, Some(0), 42);
        let decision = decide(&family, &[], thresholds.decision_rule());
        let candidate = decision.leader().unwrap_or(1);
        let share = |rng: &mut SplitMix64, chance: f64| {
            let draws = self.scenarios * self.candidates;
            let set = (0..draws).filter(|_| rng.next_f64() < chance).count();
            Some(set as f64 / draws as f64)
        };
        let mut flag = |name: &str, weight: f64, chance: f64| FlagShares {
            name: name.to_owned(),
            weight,
            candidate: share(&mut rng, chance),
            incumbent: share(&mut rng, chance),
        };
        let flags = vec![flag("format_ok", 2.0, 0.95), flag("overlong", -1.0, 0.1)];
        let criteria = ["relevance", "actionability", "tone"]
            .map(|name| self.double_scored(name, &mut rng))
            .to_vec();
        let tier = |tier, means| TierEvidence {
            tier,
            means,
            flags: flags.clone(),
            missing_cells: 0,
        };
        let automatic = Table::from_rows(pairs, self.scenarios, &judged)?.means();
        Ok(Evidence {
            candidate,
            incumbent: 0,
            tiers: vec![tier(Tier::Expert, means), tier(Tier::Auto, automatic)],
            criteria,
            seed: 42,
            ..Evidence::default()
        })
    }

    /// Judges that mostly agree: one score in ten is off by one.
    fn double_scored(&self, criterion: &str, rng: &mut SplitMix64) -> DoubleScored {
        let mut draw = || {
            let expert = level(3.4 + 1.1 * rng.next_normal());
            let off = match rng.below(20) {
                0 => -1,
                1 => 1,
                _ => 0,
            };
            (Some(expert), Some((expert + off).clamp(1, 5)))
        };
        let (expert, auto) = (0..self.double_scored).map(|_| draw()).unzip();
        DoubleScored {
            criterion: criterion.to_owned(),
            scale: Scale { low: 1, high: 5 },
            expert,
            auto,
        }
    }
}

fn confirm(means: &[Vec<Option<f64>>]) -> Confirmation {
    let differences = paired::differences(&means[1], &means[0]);
    Confirmation {
        scenarios: differences.len(),
        differences: differences.into_iter().flatten().collect(),
        missing_cells: 0,
    }
}

/// A composite as the rubric allows it.
fn score(latent: f64) -> f64 {
    latent.round().clamp(2.0, 17.0)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a level between 1 and 5 after clamping"
)]
fn level(latent: f64) -> i32 {
    latent.round().clamp(1.0, 5.0) as i32
}
