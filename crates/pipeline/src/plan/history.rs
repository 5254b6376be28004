//! What earlier experiments say: how much scores vary, how long outputs and verdicts take, and
//! what they cost.

use std::collections::BTreeMap;

use assize_domain::judge::Tier;
use assize_domain::plan::{Basis, Spreads};
use assize_domain::rubric::Rubric;
use assize_domain::run::{RunStatus, metric};
use assize_domain::scenario::Split;
use assize_stats::table::{Row, Table};
use assize_stats::{describe, variance};
use assize_store::{Run, RunQuery, Tracking};
use jiff::Timestamp;

use crate::compare::read::{self, Scores};
use crate::promote::calibrate::Design;
use crate::{PipelineError, Result};

/// So many experiments are read, the latest first.
const MOST_EXPERIMENTS: usize = 8;
/// So many runs of a model in an experiment are enough to time it.
const MOST_RUNS: u32 = 50;
/// A longer gap between two submissions of a sitting is a break, not work.
const LONGEST_GAP_S: f64 = 600.0;
/// Fewer timed cases say nothing about a judge's pace.
const FEWEST_TIMED_CASES: u64 = 5;

/// The latest experiments of a store.
#[derive(Debug)]
pub struct History<'a> {
    store: &'a dyn Tracking,
    experiments: Vec<String>,
}

/// What is known of one model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    /// Wall-clock seconds of one request.
    pub seconds_per_output: Option<f64>,
    pub cost_usd_per_output: Option<f64>,
}

impl<'a> History<'a> {
    pub fn open(store: &'a dyn Tracking) -> Result<Self> {
        let mut known = store.experiment_list()?;
        known.sort_by_key(|it| std::cmp::Reverse(it.last_updated));
        let experiments = known.into_iter().take(MOST_EXPERIMENTS);
        Ok(Self {
            store,
            experiments: experiments.map(|it| it.name).collect(),
        })
    }

    /// The spreads of scores under this rubric, pooled over the experiments that have some; `None`
    /// where none has two pairs on two scenarios.
    pub fn spreads(&self, rubric: &Rubric) -> Result<Option<Spreads>> {
        let mut pooled = Pooled::default();
        let mut experiments = Vec::new();
        for name in &self.experiments {
            let scores = read::read(self.store, name, Split::Selection, None)?;
            let is_same = scores
                .rubric
                .as_ref()
                .is_some_and(|it| it.sha256 == rubric.sha256);
            if is_same && pooled.add(&scores)? {
                experiments.push(name.clone());
            }
        }
        Ok(pooled.spreads(rubric, experiments))
    }

    /// How fast a model answered, and what it charged.
    pub fn pace(&self, model: &str) -> Result<Pace> {
        let (mut seconds, mut outputs) = (0.0, 0.0);
        let (mut cost, mut charged) = (0.0, 0.0);
        for name in &self.experiments {
            let query = RunQuery {
                model: Some(model.to_owned()),
                status: Some(RunStatus::Finished),
                newest_first: true,
                max_results: MOST_RUNS,
                ..RunQuery::default()
            };
            for run in self.store.run_list(name, &query)?.runs {
                let count = metric_of(&run, metric::N_CANDIDATES).filter(|it| *it > 0.0);
                let (Some(count), Some(end_ms)) = (count, run.end_time_ms) else {
                    continue;
                };
                seconds += (end_ms - run.start_time_ms).max(0) as f64 / 1000.0;
                outputs += count;
                if let Some(it) = metric_of(&run, metric::COST_USD) {
                    cost += it;
                    charged += count;
                }
            }
        }
        Ok(Pace {
            seconds_per_output: (outputs > 0.0).then(|| seconds / outputs),
            cost_usd_per_output: (charged > 0.0).then(|| cost / charged),
        })
    }

    /// How long an expert takes for a case, from the times at which verdicts of one sitting came
    /// in. A judge file comes in at one moment and says nothing.
    pub fn minutes_per_case(&self) -> Result<Option<f64>> {
        let (mut seconds, mut cases) = (0.0, 0);
        for name in &self.experiments {
            for submissions in self.sittings(name)?.into_values() {
                let mut previous: Option<f64> = None;
                for (at, count) in submissions {
                    let at = at as f64 / 1000.0;
                    let gap = previous.map(|it| at - it);
                    if let Some(gap) = gap.filter(|it| *it <= LONGEST_GAP_S) {
                        seconds += gap;
                        cases += count;
                    }
                    previous = Some(at);
                }
            }
        }
        let is_enough = cases >= FEWEST_TIMED_CASES && seconds > 0.0;
        Ok(is_enough.then(|| seconds / cases as f64 / 60.0))
    }

    /// By sitting of an expert: the times of its submissions with their cases.
    fn sittings(&self, experiment: &str) -> Result<BTreeMap<String, BTreeMap<i64, u64>>> {
        let mut sittings: BTreeMap<String, BTreeMap<i64, u64>> = BTreeMap::new();
        self.store
            .board_each(experiment, Split::Selection, &mut |run| {
                let expert = run.files.iter().filter(|it| it.tier == Tier::Expert);
                for file in expert {
                    let Ok(at) = file.judged_at.parse::<Timestamp>() else {
                        continue;
                    };
                    let sitting = sittings.entry(file.sitting.to_string()).or_default();
                    *sitting.entry(at.as_millisecond()).or_default() += file.verdicts.len() as u64;
                }
                Ok(())
            })?;
        Ok(sittings)
    }
}

fn metric_of(run: &Run, name: &str) -> Option<f64> {
    let found = run.metrics.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| *value).filter(|it| it.is_finite())
}

/// Sums of variance components, each weighted by its degrees of freedom.
#[derive(Debug, Default)]
struct Pooled {
    scenario: Weighted,
    pair_by_scenario: Weighted,
    candidate: Weighted,
    /// With one candidate per cell: the two above together.
    both: Weighted,
    mean: Weighted,
}

#[derive(Debug, Default, Clone, Copy)]
struct Weighted {
    sum: f64,
    weight: f64,
}

impl Weighted {
    fn add(&mut self, value: Option<f64>, weight: usize) {
        if let Some(value) = value.filter(|it| it.is_finite()) {
            self.sum += value * weight as f64;
            self.weight += weight as f64;
        }
    }

    /// The mean, where there is any; an estimated variance below zero is zero.
    fn variance(self) -> Option<f64> {
        (self.weight > 0.0).then(|| (self.sum / self.weight).max(0.0))
    }
}

impl Pooled {
    /// Adds one experiment; `false` where it has nothing to say.
    fn add(&mut self, scores: &Scores) -> Result<bool> {
        let Some(judged) = scores.tier(scores.default_tier()) else {
            return Ok(false);
        };
        let table = complete(scores, &judged.rows)?;
        let Ok(found) = variance::decompose_treatments(&table) else {
            return Ok(false);
        };
        let df = found.sources.map(|it| it.df);
        if df.first_by_block == 0 {
            return Ok(false);
        }
        let it = found.components;
        self.scenario.add(it.block, df.block);
        if df.replicate > 0 {
            self.pair_by_scenario
                .add(it.first_by_block, df.first_by_block);
            self.candidate.add(it.replicate, df.replicate);
        } else {
            self.both.add(it.confounded, df.first_by_block);
        }
        let means: Vec<f64> = table.means().into_iter().flatten().flatten().collect();
        self.mean.add(describe::mean(&means), means.len());
        Ok(true)
    }

    fn spreads(&self, rubric: &Rubric, experiments: Vec<String>) -> Option<Spreads> {
        let (low, high) = rubric.composite_range();
        let mean = (self.mean.weight > 0.0).then(|| self.mean.sum / self.mean.weight)?;
        let (pair_by_scenario, candidate) = self.within(rubric)?;
        Some(Spreads {
            basis: Basis::Earlier,
            experiments,
            mean: mean.clamp(low, high),
            scenario_sd: self.scenario.variance().unwrap_or(0.0).sqrt(),
            pair_by_scenario_sd: pair_by_scenario.sqrt(),
            candidate_sd: candidate.sqrt(),
        })
    }

    /// Variances of pairs over scenarios and of candidates. One candidate per cell cannot tell
    /// them apart; then they are divided as in the defaults.
    fn within(&self, rubric: &Rubric) -> Option<(f64, f64)> {
        let apart = self
            .pair_by_scenario
            .variance()
            .zip(self.candidate.variance());
        apart.or_else(|| {
            let both = self.both.variance()?;
            let usual = defaults(rubric);
            let (pair, candidate) = (
                usual.pair_by_scenario_sd.powi(2),
                usual.candidate_sd.powi(2),
            );
            let share = pair / (pair + candidate);
            Some((both * share, both * (1.0 - share)))
        })
    }
}

/// The scores of the pairs with the most judged scenarios: pairs with fewer would leave few
/// scenarios that all have.
fn complete(scores: &Scores, rows: &[Row]) -> Result<Table> {
    let invalid = |error: assize_stats::StatsError| PipelineError::Invalid(error.to_string());
    let (pairs, scenarios) = (scores.pair_count(), scores.scenarios.len());
    let means = Table::from_rows(pairs, scenarios, rows)
        .map_err(invalid)?
        .means();
    let judged: Vec<usize> = means.iter().map(|it| it.iter().flatten().count()).collect();
    let most = judged.iter().copied().max().unwrap_or(0);
    let mut places = vec![None; pairs];
    let full = (0..pairs).filter(|pair| judged[*pair] == most && most > 0);
    for (place, pair) in full.enumerate() {
        places[pair] = Some(place);
    }
    let kept: Vec<Row> = rows
        .iter()
        .filter_map(|row| {
            let treatment = places[row.treatment]?;
            Some(Row { treatment, ..*row })
        })
        .collect();
    Table::from_rows(places.iter().flatten().count(), scenarios, &kept).map_err(invalid)
}

/// The documented spreads, which are those of the reference data, for a composite of any range.
pub fn defaults(rubric: &Rubric) -> Spreads {
    let usual = Design::default();
    let (low, high) = rubric.composite_range();
    let (usual_low, usual_high) = usual.composite_range;
    let scale = (high - low) / (usual_high - usual_low);
    let turns = usual.model_by_scenario_sd.hypot(usual.pair_by_scenario_sd);
    Spreads {
        basis: Basis::Defaults,
        experiments: Vec::new(),
        mean: low + (usual.mean - usual_low) * scale,
        scenario_sd: usual.scenario_sd * scale,
        pair_by_scenario_sd: turns * scale,
        candidate_sd: usual.candidate_sd * scale,
    }
}
