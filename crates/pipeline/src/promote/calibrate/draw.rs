//! Drawing one experiment, and drawing many of them in threads.

use assize_stats::StatsError;
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::{BlockModel, seed_of};
use assize_stats::table::{Cell, Row, Table};

use super::Design;

/// Mean composites by pair, then by scenario.
type Means = Vec<Vec<Option<f64>>>;

/// What both tiers would report of one drawn experiment, by pair, then by scenario.
pub(super) struct Drawn {
    pub expert: Vec<Vec<Option<Cell>>>,
    pub auto: Vec<Vec<Option<Cell>>>,
}

/// The means of cells.
pub(super) fn means(cells: &[Vec<Option<Cell>>]) -> Means {
    let of_pair = |cells: &Vec<Option<Cell>>| {
        let means = cells.iter().map(|cell| Some((*cell)?.mean));
        means.collect()
    };
    cells.iter().map(of_pair).collect()
}

impl Design {
    /// Scores of the incumbent (pair 0) and of the challengers.
    pub(super) fn draw(&self, effects: &[f64], seed: u64) -> Result<Drawn, StatsError> {
        if !self.whole_numbers {
            return Ok(self.draw_means(effects, seed));
        }
        let pairs = effects.len() + 1;
        let rows = self.rows(effects, seed);
        let mut rng = SplitMix64::new(seed_of(seed, 2));
        let judged: Vec<Row> = rows
            .iter()
            .map(|row| Row {
                value: self.score(row.value + self.judge_sd * rng.next_normal()),
                ..*row
            })
            .collect();
        let cells = |rows: &[Row]| {
            let table = Table::from_rows(pairs, self.scenarios, rows)?;
            let of_pair = |pair: usize| table.treatment_cells(pair).to_vec();
            Ok((0..pairs).map(of_pair).collect())
        };
        Ok(Drawn {
            expert: cells(&rows)?,
            auto: cells(&judged)?,
        })
    }

    /// Cell means without their candidates: the mean of K normal draws is a normal draw. The spread
    /// within a cell is given its expected value.
    fn draw_means(&self, effects: &[f64], seed: u64) -> Drawn {
        let mut rng = SplitMix64::new(seed_of(seed, 0));
        let pairs = effects.len() + 1;
        let models = pairs.div_ceil(self.prompts.max(1));
        let root = (self.candidates.max(1) as f64).sqrt();
        let mut drawn = Drawn {
            expert: vec![Vec::with_capacity(self.scenarios); pairs],
            auto: vec![Vec::with_capacity(self.scenarios); pairs],
        };
        for _ in 0..self.scenarios {
            let shared = self.mean + self.scenario_sd * rng.next_normal();
            let turns: Vec<f64> = (0..models)
                .map(|_| self.model_by_scenario_sd * rng.next_normal())
                .collect();
            for pair in 0..pairs {
                let effect = pair.checked_sub(1).map_or(0.0, |it| effects[it]);
                let own = turns[pair / self.prompts.max(1)]
                    + self.pair_by_scenario_sd * rng.next_normal()
                    + self.candidate_sd / root * rng.next_normal();
                let expert = shared + effect + own;
                let judge = self.judge_sd / root * rng.next_normal();
                let spread = self.candidate_sd.powi(2);
                let cell = |mean: f64, variance: f64| Cell {
                    rows: self.candidates,
                    mean,
                    squared_deviations: variance * self.candidates.saturating_sub(1) as f64,
                };
                drawn.expert[pair].push(Some(cell(expert, spread)));
                let auto = cell(expert + judge, spread + self.judge_sd.powi(2));
                drawn.auto[pair].push(Some(auto));
            }
        }
        drawn
    }

    pub(super) fn rows(&self, effects: &[f64], seed: u64) -> Vec<Row> {
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
        let count = models.treatment_effects.len();
        // Rows come block by block, and with one replicate there is one row a model.
        let turn = |row: &Row| {
            let found = turns.get(row.block * count + row.treatment / self.prompts);
            found.map_or(0.0, |it| it.value)
        };
        let mut rows = pairs.rows(seed_of(seed, 0));
        for row in &mut rows {
            row.value = self.score(row.value + turn(row));
        }
        rows
    }

    /// A composite as the rubric allows it.
    pub(crate) fn score(&self, latent: f64) -> f64 {
        let (low, high) = self.composite_range;
        latent.round().clamp(low, high)
    }
}

/// Splits experiments over the processor's threads. Each is drawn from its own seed, so the number
/// of threads changes nothing.
pub(crate) fn in_threads<T: Send, E: Send>(
    experiments: usize,
    work: impl Fn(std::ops::Range<usize>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = experiments.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..experiments)
            .step_by(each)
            .map(|first| {
                let work = &work;
                scope.spawn(move || work(first..(first + each).min(experiments)))
            })
            .collect();
        let parts = running.into_iter().map(|thread| match thread.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        parts.collect()
    })
}
