//! Ways in which experiments are really run, each with the rule that the gate has against it.
//!
//! All challengers equal the incumbent, so that every promotion is false. Each experiment is judged
//! twice: by the gate as it is, and by the gate without the checks that the practice is about.

use assize_domain::promotion::{Check, Outcome};
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;
use assize_stats::table::{Cell, Row, Table};
use assize_stats::{Alternative, Draws, StatsError, describe, max_t, paired};

use super::draw::{in_threads, means};
use super::{Design, Evidence, Thresholds, gate};
use crate::collect::adaptive::halve;
use crate::promote::gate::{Confirmation, Ruling};

/// Scenarios that are added to the confirmation split before it is looked at again.
const ADDED_SCENARIOS: usize = 2;
/// Scenarios of pairs that were collected on a part of the grid.
const SHORT_SCENARIOS: usize = 5;

/// How an experiment is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Practice {
    /// All pairs are collected and judged alike.
    Sound,
    /// This share of the challengers' verdicts comes from a later sitting, whose scores are higher
    /// by so many points of the composite.
    LaterJudge { share: f64, kinder: f64 },
    /// The automatic tier picks the challenger that the experts judge beside the incumbent.
    Preselection,
    /// All challengers but one were collected on five scenarios only.
    RaggedCells,
    /// This share of the challengers' candidates is lost, the worst ones.
    FailedCandidates { share: f64 },
    /// Collected by halving on automatic scores.
    Adaptive,
    /// The confirmation split is looked at so many times, each time with two more scenarios.
    Peeking { looks: usize },
}

/// How often an experiment promoted a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Experiments that count.
    pub experiments: usize,
    /// Without the checks that the practice is about.
    pub before: usize,
    /// By the gate, for a task without a confirmation split.
    pub after: usize,
    /// By the gate, for a task with one.
    pub confirmed: usize,
}

impl Rates {
    /// A share of the experiments, and the bound that it is below with 95 % confidence (Wilson's,
    /// one-sided).
    pub fn share(&self, count: usize) -> (f64, f64) {
        const Z: f64 = 1.644_853_626_951_472_7;
        let n = self.experiments.max(1) as f64;
        let p = count as f64 / n;
        let centre = p + Z * Z / (2.0 * n);
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        (p, (centre + half) / (1.0 + Z * Z / n))
    }
}

impl Practice {
    /// The checks that guard against it.
    const fn guards(self) -> &'static [&'static str] {
        match self {
            Self::LaterJudge { .. } => &["judged_alike", "judge_bias"],
            Self::Preselection => &["family"],
            Self::FailedCandidates { .. } => &["failed_candidates"],
            Self::Sound | Self::RaggedCells | Self::Adaptive | Self::Peeking { .. } => &[],
        }
    }
}

impl Design {
    /// How often experiments that are run like this promote a challenger with one of these effects;
    /// with effects of zero every promotion is false.
    pub fn rates(
        &self,
        practice: Practice,
        effects: &[f64],
        experiments: usize,
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Rates, StatsError> {
        let parts = in_threads(experiments, |indexes| {
            let mut found = Rates::default();
            for index in indexes {
                let seed = seed_of(seed, index as u64);
                match practice {
                    Practice::Peeking { looks } => {
                        self.peek(looks, seed, thresholds, &mut found)?;
                    }
                    _ => self.run(practice, effects, seed, thresholds, &mut found)?,
                }
            }
            Ok::<_, StatsError>(found)
        })?;
        let mut all = Rates::default();
        for part in parts {
            all.experiments += part.experiments;
            all.before += part.before;
            all.after += part.after;
            all.confirmed += part.confirmed;
        }
        Ok(all)
    }

    fn run(
        &self,
        practice: Practice,
        effects: &[f64],
        seed: u64,
        thresholds: &Thresholds,
        found: &mut Rates,
    ) -> Result<(), StatsError> {
        found.experiments += 1;
        let mut evidence = self.practised(practice, effects, seed, thresholds)?;
        let ruling = gate(&evidence, thresholds);
        found.before += usize::from(self.before(practice, &evidence, &ruling, thresholds));
        // What was chosen on other scores needs a confirmation split.
        let needs_split = matches!(practice, Practice::Adaptive);
        found.after += usize::from(ruling.passed && !needs_split);
        let effect = effects.get(evidence.candidate - 1).copied().unwrap_or(0.0);
        evidence.confirmation = Some(self.confirmation(&evidence, effect, seed)?);
        found.confirmed += usize::from(gate(&evidence, thresholds).passed);
        Ok(())
    }

    /// What the gate without the practice's guards would have decided.
    fn before(
        &self,
        practice: Practice,
        evidence: &Evidence,
        ruling: &Ruling,
        thresholds: &Thresholds,
    ) -> bool {
        let stands = |it: &Check| !matches!(it.outcome, Outcome::Failed | Outcome::Sealed);
        let all_but = |left_out: &[&str]| {
            let mut checks = ruling.checks.iter();
            checks.all(|it| stands(it) || left_out.contains(&it.name.as_str()))
        };
        match practice {
            Practice::Sound => all_but(&["worst_scenario"]) && self.raw_floor(evidence, thresholds),
            Practice::RaggedCells => {
                all_but(&["p_adjusted"]) && raw_max_t(evidence) <= thresholds.level
            }
            Practice::FailedCandidates { .. } => {
                let mut unpenalised = evidence.clone();
                unpenalised.comparability.lost = [0.0; 2];
                gate(&unpenalised, thresholds).passed
            }
            _ => all_but(practice.guards()),
        }
    }

    /// The earlier rule about scenarios: none may be observed below the floor.
    fn raw_floor(&self, evidence: &Evidence, thresholds: &Thresholds) -> bool {
        let floor = thresholds.scenario_floor_within(self.composite_range);
        let deciding = &evidence.tiers[0].means;
        let differences =
            paired::differences(&deciding[evidence.candidate], &deciding[evidence.incumbent]);
        differences.into_iter().flatten().all(|it| it >= floor)
    }

    /// Looks at a confirmation split that grows. The candidate leads on the selection split by
    /// luck alone: on every other scenario it equals the incumbent. Only experiments count in
    /// which the selection passes, because nothing else is confirmed.
    fn peek(
        &self,
        looks: usize,
        seed: u64,
        thresholds: &Thresholds,
        found: &mut Rates,
    ) -> Result<(), StatsError> {
        let lucky = 0.2 * (self.composite_range.1 - self.composite_range.0);
        let mut evidence = self.evidence(&[lucky], seed, thresholds)?;
        if !gate(&evidence, thresholds).passed {
            return Ok(());
        }
        found.experiments += 1;
        let most = Self {
            confirmation: self.confirmation + ADDED_SCENARIOS * (looks - 1),
            ..self.clone()
        };
        let all = most.confirmation(&evidence, 0.0, seed)?;
        let (mut by_t, mut by_gate) = (false, false);
        for look in 0..looks {
            let scenarios = self.confirmation + ADDED_SCENARIOS * look;
            let differences = all.differences[..scenarios].to_vec();
            let mean = describe::mean(&differences).unwrap_or(0.0);
            let p = paired::paired_diff(&differences, 0.95)?.p_greater;
            let is_ahead = p.map_or(mean > 0.0, |p| p <= thresholds.level);
            by_t |= is_ahead;
            evidence.confirmation = Some(Confirmation {
                differences,
                scenarios,
                ..all.clone()
            });
            by_gate |= gate(&evidence, thresholds).passed;
        }
        found.before += usize::from(by_t);
        found.after += usize::from(by_gate);
        found.confirmed += usize::from(by_gate);
        Ok(())
    }

    /// The evidence of an experiment that was run like this.
    fn practised(
        &self,
        practice: Practice,
        effects: &[f64],
        seed: u64,
        thresholds: &Thresholds,
    ) -> Result<Evidence, StatsError> {
        let mut drawn = self.draw(effects, seed)?;
        let mut rng = SplitMix64::new(seed_of(seed, 5));
        match practice {
            Practice::Sound | Practice::Peeking { .. } => {}
            Practice::LaterJudge { share, kinder } => {
                for cell in drawn.expert[1..].iter_mut().flatten().flatten() {
                    cell.mean += share * kinder;
                }
            }
            Practice::Preselection => {
                let best = best_of(&means(&drawn.auto));
                for pair in (1..drawn.expert.len()).filter(|it| *it != best) {
                    drawn.expert[pair].fill(None);
                }
            }
            Practice::RaggedCells => {
                for pair in 2..drawn.expert.len() {
                    let mut left: Vec<usize> = (0..self.scenarios).collect();
                    while left.len() > SHORT_SCENARIOS {
                        let scenario = left.swap_remove(rng.below(left.len()));
                        drawn.expert[pair][scenario] = None;
                        drawn.auto[pair][scenario] = None;
                    }
                }
            }
            Practice::FailedCandidates { share } => {
                drawn.expert = self.lose(effects, share, seed)?;
            }
            Practice::Adaptive => {
                let dropped = self.halved(&means(&drawn.auto));
                for (pair, last) in dropped.into_iter().enumerate() {
                    drawn.expert[pair][last..].fill(None);
                    drawn.auto[pair][last..].fill(None);
                }
            }
        }
        let mut evidence = self.evidence_of(&drawn, seed, thresholds);
        let candidate = evidence.candidate;
        match practice {
            Practice::LaterJudge { share, .. } => {
                evidence.tiers[0].judged_apart = Some(share);
            }
            Practice::Preselection => evidence.unjudged_pairs = effects.len().saturating_sub(1),
            Practice::FailedCandidates { share } => evidence.comparability.lost = [share, 0.0],
            _ => {}
        }
        let missing = drawn.expert[candidate].iter().filter(|it| it.is_none());
        evidence.tiers[0].missing_cells = missing.count();
        Ok(evidence)
    }

    /// The experts' cells after this share of every challenger's candidates was lost, the worst
    /// first.
    fn lose(
        &self,
        effects: &[f64],
        share: f64,
        seed: u64,
    ) -> Result<Vec<Vec<Option<Cell>>>, StatsError> {
        let rows = self.rows(effects, seed);
        let pairs = effects.len() + 1;
        let requests = self.scenarios * self.candidates;
        let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
        for pair in 0..pairs {
            let mut own: Vec<Row> = rows
                .iter()
                .copied()
                .filter(|it| it.treatment == pair)
                .collect();
            if pair > 0 {
                own.sort_by(|a, b| a.value.total_cmp(&b.value));
                own.drain(..whole(share * requests as f64));
            }
            kept.extend(own);
        }
        let table = Table::from_rows(pairs, self.scenarios, &kept)?;
        Ok((0..pairs)
            .map(|pair| table.treatment_cells(pair).to_vec())
            .collect())
    }

    /// By pair: how many scenarios it was collected on before halving dropped it.
    fn halved(&self, means: &[Vec<Option<f64>>]) -> Vec<usize> {
        let pairs = means.len();
        let rounds = pairs.next_power_of_two().ilog2().max(1) as usize;
        let mut alive: Vec<usize> = (0..pairs).collect();
        let mut last = vec![self.scenarios; pairs];
        for round in 1..=rounds {
            let so_far = self.scenarios * round / rounds;
            let seen: Vec<Vec<Option<f64>>> = alive
                .iter()
                .map(|pair| means[*pair][..so_far].to_vec())
                .collect();
            let keep = alive.len().div_ceil(2).max(2);
            let Some(halved) = halve(&alive, &seen, 0, keep) else {
                break;
            };
            if round == rounds {
                break;
            }
            for it in &halved.dropped {
                last[it.pair] = so_far;
            }
            alive = halved.kept.iter().map(|it| it.pair).collect();
        }
        last
    }
}

/// The earlier rule: single-step maxT over studentised differences, however many scenarios each has.
fn raw_max_t(evidence: &Evidence) -> f64 {
    let means = &evidence.tiers[0].means;
    let challengers: Vec<usize> = (0..means.len())
        .filter(|it| *it != evidence.incumbent)
        .collect();
    let differences: Vec<_> = challengers
        .iter()
        .map(|pair| paired::differences(&means[*pair], &means[evidence.incumbent]))
        .collect();
    let place = challengers.iter().position(|it| *it == evidence.candidate);
    let draws = Draws {
        count: 10_000,
        seed: evidence.seed,
    };
    let family = max_t::max_t(&differences, Alternative::Greater, draws);
    let test = family
        .ok()
        .zip(place)
        .and_then(|(it, place)| it.tests[place]);
    test.map_or(1.0, |it| it.p_adjusted)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of candidates"
)]
fn whole(number: f64) -> usize {
    number.round().max(0.0) as usize
}

/// The challenger with the largest mean difference to the incumbent.
fn best_of(means: &[Vec<Option<f64>>]) -> usize {
    let mean_of = |pair: usize| {
        let shared = paired::differences(&means[pair], &means[0]);
        let shared: Vec<f64> = shared.into_iter().flatten().collect();
        describe::mean(&shared).unwrap_or(f64::NEG_INFINITY)
    };
    let best = (1..means.len()).max_by(|a, b| mean_of(*a).total_cmp(&mean_of(*b)));
    best.unwrap_or(1)
}
