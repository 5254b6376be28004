//! From tracked runs to scores per pair and scenario.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{Coverage, Pair};
use assize_domain::prompt::short_hash;
use assize_domain::rubric::Rubric;
use assize_domain::run::{ADAPTIVE_SETTING, RunStatus, param};
use assize_domain::scenario::Split;
use assize_domain::verdict::{RubricRef, effective};
use assize_stats::table::Row;
use assize_store::{BoardRun, Boards, Runs};

use crate::judge::rubric_of;
use crate::{PipelineError, Result};

/// A pair with the exact contents of its model and prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PairKey {
    pub model: String,
    pub model_digest: String,
    pub prompt: String,
    pub prompt_sha256: String,
}

/// Everything that ranking needs: the runs under one rubric.
#[derive(Debug, Default)]
pub struct Scores {
    pairs: Vec<PairKey>,
    pair_index: HashMap<PairKey, usize>,
    last_pair: usize,
    /// Id and content: an edited scenario is another one, and nothing is paired across the edit.
    pub scenarios: Vec<(String, String)>,
    /// By id: contents and their places in `scenarios`.
    scenario_index: HashMap<String, Vec<(String, usize)>>,
    pub rubric: Option<RubricRef>,
    pub full_rubric: Option<Rubric>,
    names: Vec<String>,
    first_run: String,
    tiers: BTreeMap<Tier, TierScores>,
    speeds: Vec<Speed>,
    /// By pair: the scenario of each of its runs, failed ones too.
    runs: Vec<Vec<usize>>,
    /// In how many ways the runs were collected, in words.
    pub settings: BTreeSet<String>,
    /// Whether any run was collected by halving.
    pub adaptive: bool,
    cells: u32,
    failed: u32,
    /// Runs under other rubrics, which are not in here.
    pub other_rubric_runs: u32,
    first_pair: Option<usize>,
    /// The task that the runs belong to.
    pub task: String,
    /// How the first run was collected.
    pub params: Vec<(String, String)>,
}

/// One tier's verdicts, in few long vectors: a server computes boards of a hundred thousand runs
/// again and again, and many small allocations would fragment its memory.
#[derive(Debug, Default)]
pub struct TierScores {
    /// The composites, one a candidate.
    pub rows: Vec<Row>,
    /// By pair, then by scenario; without candidates where nothing is judged.
    cells: Vec<Vec<CellSums>>,
    /// By pair: the sums of every score in its first cell, then in its second.
    sums: Vec<Vec<f64>>,
    /// The number of scores.
    width: usize,
    /// Runs of which every candidate is judged.
    pub judged: u32,
    /// Runs of which some candidates are judged and some are not.
    pub partly: u32,
    pub candidates: u64,
}

impl TierScores {
    fn new(width: usize) -> Self {
        Self {
            width,
            ..Self::default()
        }
    }

    /// The cell of a pair in a scenario, if anything in it is judged.
    pub fn cell(&self, pair: usize, scenario: usize) -> Option<&CellSums> {
        let cell = self.cells.get(pair)?.get(scenario)?;
        (cell.candidates > 0).then_some(cell)
    }

    /// The judged candidates of a pair.
    pub fn candidates_of(&self, pair: usize) -> u32 {
        let cells = self.cells.get(pair).into_iter().flatten();
        cells.map(|cell| cell.candidates).sum()
    }

    /// The means of one score in the judged cells of a pair, in the order of the scenarios.
    pub fn means_of(&self, pair: usize, score: usize) -> impl Iterator<Item = f64> {
        let cells = self.cells.get(pair).into_iter().flatten();
        let sums = self.sums.get(pair).into_iter().flatten();
        cells
            .zip(sums.skip(score).step_by(self.width.max(1)))
            .filter(|(cell, _)| cell.candidates > 0)
            .map(|(cell, sum)| sum / f64::from(cell.candidates))
    }

    /// A cell and the sums of its scores, to be added to.
    fn cell_mut(&mut self, pair: usize, scenario: usize) -> (&mut CellSums, &mut [f64]) {
        if self.cells.len() <= pair {
            self.cells.resize_with(pair + 1, Vec::new);
            self.sums.resize_with(pair + 1, Vec::new);
        }
        let (cells, sums) = (&mut self.cells[pair], &mut self.sums[pair]);
        if cells.len() <= scenario {
            cells.resize(scenario + 1, CellSums::default());
            sums.resize((scenario + 1) * self.width, 0.0);
        }
        let first = scenario * self.width;
        (&mut cells[scenario], &mut sums[first..first + self.width])
    }
}

/// Sums over the judged candidates of one cell.
#[derive(Debug, Default, Clone, Copy)]
pub struct CellSums {
    /// Runs of which every candidate is judged.
    pub complete: u32,
    pub candidates: u32,
    pub composite: f64,
}

/// Latency and speed of a pair, summed over its runs.
#[derive(Debug, Default, Clone)]
struct Speed {
    latency_ms: (f64, u32),
    tokens_per_s: (f64, u32),
}

/// Reads the runs of one split. Scores under different rubrics are never put side by side: the
/// newest rubric that has verdicts is taken, and the runs under others are counted.
pub fn read(store: &dyn Boards, experiment: &str, split: Split) -> Result<Scores> {
    let mut by_rubric: Vec<Scores> = Vec::new();
    let mut error: Option<PipelineError> = None;
    store.board_each(experiment, split, &mut |run| {
        let known = by_rubric.iter().position(|it| {
            it.rubric
                .as_ref()
                .is_some_and(|it| is_same(it, &run.rubric))
        });
        let place = known.unwrap_or_else(|| {
            let opened = Scores::open(store, &run).unwrap_or_else(|wrong| {
                error.get_or_insert(wrong);
                Scores::default()
            });
            by_rubric.push(opened);
            by_rubric.len() - 1
        });
        by_rubric[place].add(&run);
        Ok(())
    })?;
    if let Some(error) = error {
        return Err(error);
    }
    let all: u32 = by_rubric.iter().map(|scores| scores.cells).sum();
    let newest = by_rubric
        .iter()
        .rposition(|scores| !scores.tiers.is_empty());
    let chosen = newest.or_else(|| by_rubric.len().checked_sub(1));
    let Some(mut scores) = chosen.map(|place| by_rubric.swap_remove(place)) else {
        return Ok(Scores::default());
    };
    scores.other_rubric_runs = all - scores.cells;
    scores.params = store.run_get(&scores.first_run)?.params;
    scores.task = scores.param(param::TASK).to_owned();
    scores.first_pair = scores.first_of_grid();
    Ok(scores)
}

impl Scores {
    /// Starts with the rubric of a run.
    fn open(store: &dyn Runs, run: &BoardRun<'_>) -> Result<Self> {
        let named = RubricRef {
            id: run.rubric.id.to_owned(),
            sha256: run.rubric.sha256.to_owned(),
        };
        let rubric = rubric_of(store, run.run_id, &named)?;
        Ok(Self {
            names: rubric.score_names().map(str::to_owned).collect(),
            rubric: Some(named),
            full_rubric: Some(rubric),
            first_run: run.run_id.to_owned(),
            ..Self::default()
        })
    }

    fn add(&mut self, run: &BoardRun<'_>) {
        let pair = self.pair_of(run);
        let scenario = self.scenario_of(run);
        self.cells += 1;
        self.runs[pair].push(scenario);
        if run.status == RunStatus::Failed {
            self.failed += 1;
            return;
        }
        let halved = run.settings.strip_suffix(ADAPTIVE_SETTING);
        self.adaptive |= halved.is_some();
        let settings = halved.unwrap_or(run.settings);
        if !self.settings.contains(settings) {
            self.settings.insert(settings.to_owned());
        }
        let speed = &mut self.speeds[pair];
        for (sum, value) in [
            (&mut speed.latency_ms, run.latency_ms),
            (&mut speed.tokens_per_s, run.tokens_per_s),
        ] {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                sum.0 += value;
                sum.1 += 1;
            }
        }
        for tier in Tier::ALL {
            self.add_tier(run, tier, pair, scenario);
        }
    }

    fn scenario_of(&mut self, run: &BoardRun<'_>) -> usize {
        let contents = self.scenario_index.get(run.scenario);
        let known =
            contents.and_then(|it| it.iter().find(|(sha256, _)| sha256 == run.scenario_sha256));
        if let Some((_, place)) = known {
            return *place;
        }
        let place = self.scenarios.len();
        let content = (run.scenario.to_owned(), run.scenario_sha256.to_owned());
        self.scenario_index
            .entry(content.0.clone())
            .or_default()
            .push((content.1.clone(), place));
        self.scenarios.push(content);
        place
    }

    fn pair_of(&mut self, run: &BoardRun<'_>) -> usize {
        // Runs of one pair mostly follow each other.
        if let Some(last) = self.pairs.get(self.last_pair)
            && (last.model.as_str(), last.prompt.as_str()) == (run.model, run.prompt)
            && (last.model_digest.as_str(), last.prompt_sha256.as_str())
                == (run.model_digest, run.prompt_sha256)
        {
            return self.last_pair;
        }
        self.last_pair = self.pair_find(run);
        self.last_pair
    }

    fn pair_find(&mut self, run: &BoardRun<'_>) -> usize {
        let key = PairKey {
            model: run.model.to_owned(),
            model_digest: run.model_digest.to_owned(),
            prompt: run.prompt.to_owned(),
            prompt_sha256: run.prompt_sha256.to_owned(),
        };
        if let Some(known) = self.pair_index.get(&key) {
            return *known;
        }
        self.pairs.push(key.clone());
        self.speeds.push(Speed::default());
        self.runs.push(Vec::new());
        self.pair_index.insert(key, self.pairs.len() - 1);
        self.pairs.len() - 1
    }

    fn add_tier(&mut self, run: &BoardRun<'_>, tier: Tier, pair: usize, scenario: usize) {
        if !run.files.iter().any(|file| file.tier == tier) {
            return;
        }
        let names = &self.names;
        let verdicts = effective(&run.files, tier, run.rubric.sha256);
        if verdicts.is_empty() {
            return;
        }
        let scores = self
            .tiers
            .entry(tier)
            .or_insert_with(|| TierScores::new(names.len()));
        let complete = verdicts.len() >= run.n_candidates as usize;
        scores.judged += u32::from(complete);
        scores.partly += u32::from(!complete);
        scores.candidates += verdicts.len() as u64;
        let composites = verdicts.values().map(|verdict| Row {
            treatment: pair,
            block: scenario,
            value: verdict.composite,
        });
        scores.rows.extend(composites);
        let (cell, sums) = scores.cell_mut(pair, scenario);
        cell.complete += u32::from(complete);
        for verdict in verdicts.values() {
            cell.candidates += 1;
            cell.composite += verdict.composite;
            for (name, value) in &verdict.scores.0 {
                if let Some(position) = names.iter().position(|known| known == name) {
                    sums[position] += value;
                }
            }
        }
    }

    /// A param of the first run; empty where it has none.
    pub fn param(&self, key: &str) -> &str {
        let found = self.params.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The first model × first prompt of the experiment, as its first collect named them.
    fn first_of_grid(&self) -> Option<usize> {
        let (models, prompts) = (self.param("models"), self.param("prompts"));
        let own = (self.param(param::MODEL), self.param(param::PROMPT));
        let pairs = models
            .split(',')
            .flat_map(|model| prompts.split(',').map(move |prompt| (model, prompt)));
        let mut wanted = pairs.chain([own]);
        wanted.find_map(|(model, prompt)| {
            self.pairs
                .iter()
                .position(|key| key.model == model && key.prompt == prompt)
        })
    }

    pub fn pair_key(&self, pair: usize) -> &PairKey {
        &self.pairs[pair]
    }

    /// The pair with exactly these contents.
    pub fn find_key(&self, key: &PairKey) -> Option<usize> {
        self.pair_index.get(key).copied()
    }

    /// The scenarios in which a pair has runs, once for each run.
    pub fn runs_of(&self, pair: usize) -> &[usize] {
        self.runs.get(pair).map_or(&[], Vec::as_slice)
    }

    /// Expert where it has judged anything, else auto.
    pub fn default_tier(&self) -> Tier {
        if self.tiers.contains_key(&Tier::Expert) || !self.tiers.contains_key(&Tier::Auto) {
            Tier::Expert
        } else {
            Tier::Auto
        }
    }

    pub fn tier(&self, tier: Tier) -> Option<&TierScores> {
        self.tiers.get(&tier)
    }

    /// The number of pairs.
    pub fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// All pairs. Where a prompt's name has had two contents they are two (`v1@3fa2c1`), and so
    /// it is with a model's tag.
    pub fn pairs(&self) -> Vec<Pair> {
        let mut contents: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for key in &self.pairs {
            contents
                .entry(&key.prompt)
                .or_default()
                .insert(&key.prompt_sha256);
            contents
                .entry(&key.model)
                .or_default()
                .insert(&key.model_digest);
        }
        let name = |name: &str, hash: &str| {
            if contents[name].len() > 1 {
                format!("{name}@{}", short_hash(hash))
            } else {
                name.to_owned()
            }
        };
        let pair = |key: &PairKey| Pair {
            model: name(&key.model, &key.model_digest),
            prompt: name(&key.prompt, &key.prompt_sha256),
        };
        self.pairs.iter().map(pair).collect()
    }

    pub fn first_pair(&self) -> Option<usize> {
        self.first_pair
    }

    /// The pair written as `MODEL/PROMPT`.
    pub fn find_pair(&self, text: &str) -> Option<usize> {
        self.pairs().iter().position(|pair| pair.id() == text)
    }

    pub fn latency_ms(&self, pair: usize) -> Option<f64> {
        mean(self.speeds.get(pair)?.latency_ms)
    }

    pub fn tokens_per_s(&self, pair: usize) -> Option<f64> {
        mean(self.speeds.get(pair)?.tokens_per_s)
    }

    pub fn coverage(&self, tier: Tier) -> Coverage {
        let judged = self.tier(tier).map_or(0, |scores| scores.judged);
        Coverage {
            cells: self.cells,
            judged,
            pending: self.cells - self.failed - judged,
            failed: self.failed,
        }
    }
}

fn is_same(rubric: &RubricRef, of_run: &RubricRef<&str>) -> bool {
    rubric.sha256 == of_run.sha256 && rubric.id == of_run.id
}

fn mean((sum, count): (f64, u32)) -> Option<f64> {
    (count > 0).then(|| sum / f64::from(count))
}
