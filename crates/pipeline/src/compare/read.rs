//! From tracked runs to scores per pair and scenario.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{Coverage, OlderVersion};
use assize_domain::rubric::Rubric;
use assize_domain::run::{ADAPTIVE_SETTING, RunStatus, param};
use assize_domain::scenario::Split;
use assize_domain::sweep::Settings;
use assize_domain::verdict::{RubricRef, in_order};
use assize_stats::table::Row;
use assize_store::{BoardRun, Boards, Runs};

use crate::judge::rubric_of;
use crate::{PipelineError, Result};

mod sweeps;
mod tier_scores;
mod versions;

pub use tier_scores::{RaterShare, TierScores};
pub use versions::CurrentScenarios;

/// A pair with the exact contents of its model and prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PairKey {
    pub model: String,
    pub model_digest: String,
    pub prompt: String,
    pub prompt_sha256: String,
    /// What was swept.
    pub settings: Settings,
    /// All settings as a run records them, until all runs are read; empty then.
    words: String,
}

/// Everything that ranking needs: the runs under one rubric.
#[derive(Debug, Default)]
pub struct Scores {
    pairs: Vec<PairKey>,
    pair_index: HashMap<PairKey, usize>,
    last_pair: usize,
    /// Id and content of the scenarios that count: one version of each.
    pub scenarios: Vec<(String, String)>,
    /// The versions of scenarios that do not count.
    pub older: Vec<OlderVersion>,
    /// By scenario: the number of its latest run, while runs are read.
    last_seen: Vec<u32>,
    /// By id: contents and their places in `scenarios`.
    scenario_index: HashMap<String, Vec<(String, usize)>>,
    pub rubric: Option<RubricRef>,
    pub full_rubric: Option<Rubric>,
    names: Vec<String>,
    first_run: String,
    tiers: BTreeMap<Tier, TierScores>,
    /// By pair: its runs, failed ones too.
    runs: Vec<Vec<RunFigures>>,
    /// In how many ways the runs were collected, in words.
    settings: Vec<String>,
    /// The settings that are part of the pairs.
    pub swept: BTreeSet<String>,
    /// Swept settings by the words that runs record.
    of_words: HashMap<String, Settings>,
    /// By pair: the id of its first run.
    first_runs: Vec<String>,
    /// Whether any run was collected by halving.
    pub adaptive: bool,
    /// Runs that were read, of any version of a scenario.
    read: u32,
    /// Runs under other rubrics, which are not in here.
    pub other_rubric_runs: u32,
    /// Pairs that have runs under other rubrics only.
    pub pairs_elsewhere: usize,
    /// When the latest verdict was given.
    last_judged: String,
    first_pair: Option<usize>,
    /// The task that the runs belong to.
    pub task: String,
    /// How the first run was collected.
    pub params: Vec<(String, String)>,
}

/// What boards and gate need of one run besides its verdicts.
#[derive(Debug, Clone, Copy)]
pub struct RunFigures {
    /// The place of its scenario.
    pub scenario: usize,
    /// The place of its settings.
    pub settings: usize,
    pub is_failed: bool,
    pub n_candidates: u32,
    /// Candidates that were requested and never came.
    pub n_failed: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    pub completion_tokens: Option<f64>,
    pub thinking_tokens: Option<f64>,
    pub cost_usd: Option<f64>,
}

/// Candidates that were requested, and those that never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    pub requested: u32,
    pub failed: u32,
}

impl Lost {
    /// The share of candidates that never came.
    pub fn share(self) -> f64 {
        if self.requested == 0 {
            return 0.0;
        }
        f64::from(self.failed) / f64::from(self.requested)
    }
}

/// Reads the runs of one split that count. `current` is the task as its files have it now, where
/// these are at hand.
pub fn read(
    store: &dyn Boards,
    experiment: &str,
    split: Split,
    current: Option<&CurrentScenarios>,
) -> Result<Scores> {
    read_alike(store, experiment, split, current, &BTreeSet::new())
}

/// [`read`], where other runs of the experiment have swept these settings.
pub fn read_alike(
    store: &dyn Boards,
    experiment: &str,
    split: Split,
    current: Option<&CurrentScenarios>,
    swept: &BTreeSet<String>,
) -> Result<Scores> {
    let mut scores = read_pairs(store, experiment, split, swept)?;
    scores.keep_current(current, split);
    Ok(scores)
}

/// Reads the runs of one split, with all versions of its scenarios. Scores under different rubrics
/// are never put side by side: the newest rubric that has verdicts is taken, and the runs under
/// others are counted.
pub fn read_versions(store: &dyn Boards, experiment: &str, split: Split) -> Result<Scores> {
    read_pairs(store, experiment, split, &BTreeSet::new())
}

fn read_pairs(
    store: &dyn Boards,
    experiment: &str,
    split: Split,
    swept: &BTreeSet<String>,
) -> Result<Scores> {
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
    for scores in &mut by_rubric {
        scores.join_pairs(swept);
    }
    let all: u32 = by_rubric.iter().map(|scores| scores.read).sum();
    let judged = by_rubric.iter().enumerate();
    let judged = judged.filter(|(_, scores)| !scores.tiers.is_empty());
    let newest = judged.max_by(|a, b| a.1.last_judged.cmp(&b.1.last_judged));
    let chosen = newest
        .map(|(place, _)| place)
        .or_else(|| by_rubric.len().checked_sub(1));
    let Some(mut scores) = chosen.map(|place| by_rubric.swap_remove(place)) else {
        return Ok(Scores::default());
    };
    let elsewhere: HashSet<&PairKey> = by_rubric.iter().flat_map(|it| &it.pairs).collect();
    let elsewhere = elsewhere.into_iter();
    scores.pairs_elsewhere = elsewhere
        .filter(|key| !scores.pair_index.contains_key(key))
        .count();
    scores.other_rubric_runs = all - scores.read;
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
        let halved = run.settings.strip_suffix(ADAPTIVE_SETTING);
        let words = halved.unwrap_or(run.settings);
        let pair = self.pair_of(run, words);
        let scenario = self.scenario_of(run);
        self.last_seen[scenario] = self.read;
        self.read += 1;
        let is_failed = run.status == RunStatus::Failed;
        self.adaptive |= halved.is_some() && !is_failed;
        let figures = RunFigures {
            scenario,
            settings: self.settings_of(words),
            is_failed,
            n_candidates: run.n_candidates,
            n_failed: run.n_failed,
            latency_ms: run.latency_ms.filter(|it| it.is_finite()),
            tokens_per_s: run.tokens_per_s.filter(|it| it.is_finite()),
            completion_tokens: run.completion_tokens.filter(|it| it.is_finite()),
            thinking_tokens: run.thinking_tokens.filter(|it| it.is_finite()),
            cost_usd: run.cost_usd.filter(|it| it.is_finite()),
        };
        self.runs[pair].push(figures);
        if is_failed {
            return;
        }
        for tier in Tier::ALL {
            self.add_tier(run, tier, pair, scenario);
        }
    }

    fn settings_of(&mut self, settings: &str) -> usize {
        let known = self.settings.iter().position(|it| it == settings);
        known.unwrap_or_else(|| {
            self.settings.push(settings.to_owned());
            self.settings.len() - 1
        })
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
        self.last_seen.push(0);
        place
    }

    /// The places of a run's pair and scenario; `None` where the run does not count.
    pub fn locate(&self, run: &BoardRun<'_>) -> Option<(usize, usize)> {
        let versions = self.scenario_index.get(run.scenario)?;
        let version = versions.iter().find(|it| it.0 == run.scenario_sha256)?;
        let words = run.settings.strip_suffix(ADAPTIVE_SETTING);
        let settings = self.settings_in(words.unwrap_or(run.settings))?;
        let is_of = |key: &PairKey| {
            key.model == run.model
                && key.settings == *settings
                && key.prompt == run.prompt
                && key.model_digest == run.model_digest
                && key.prompt_sha256 == run.prompt_sha256
        };
        let pair = self.pairs.iter().position(is_of)?;
        (run.status != RunStatus::Failed).then_some((pair, version.1))
    }

    fn pair_of(&mut self, run: &BoardRun<'_>, words: &str) -> usize {
        // Runs of one pair mostly follow each other.
        if let Some(last) = self.pairs.get(self.last_pair)
            && (last.model.as_str(), last.prompt.as_str()) == (run.model, run.prompt)
            && (last.model_digest.as_str(), last.prompt_sha256.as_str())
                == (run.model_digest, run.prompt_sha256)
            && last.words == words
        {
            return self.last_pair;
        }
        self.last_pair = self.pair_find(run, words);
        self.last_pair
    }

    fn pair_find(&mut self, run: &BoardRun<'_>, words: &str) -> usize {
        let key = PairKey {
            model: run.model.to_owned(),
            model_digest: run.model_digest.to_owned(),
            prompt: run.prompt.to_owned(),
            prompt_sha256: run.prompt_sha256.to_owned(),
            settings: Settings::default(),
            words: words.to_owned(),
        };
        if let Some(known) = self.pair_index.get(&key) {
            return *known;
        }
        self.pairs.push(key.clone());
        self.runs.push(Vec::new());
        self.first_runs.push(run.run_id.to_owned());
        self.pair_index.insert(key, self.pairs.len() - 1);
        self.pairs.len() - 1
    }

    fn add_tier(&mut self, run: &BoardRun<'_>, tier: Tier, pair: usize, scenario: usize) {
        if !run.files.iter().any(|file| file.counts_in(tier)) {
            return;
        }
        let names = &self.names;
        // The latest verdict of a candidate counts, and the rater who gave it.
        let mut verdicts = Vec::new();
        for file in in_order(&run.files, tier, run.rubric.sha256) {
            if *file.judged_at > *self.last_judged {
                self.last_judged = file.judged_at.to_string();
            }
            let of_file = file.verdicts.iter();
            verdicts.extend(of_file.map(|verdict| (file, verdict)));
        }
        if verdicts.is_empty() {
            return;
        }
        verdicts.sort_by_key(|(_, verdict)| verdict.candidate);
        verdicts.dedup_by(|later, earlier| {
            let is_same = later.1.candidate == earlier.1.candidate;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        let scores = self
            .tiers
            .entry(tier)
            .or_insert_with(|| TierScores::new(names.len()));
        let is_complete = verdicts.len() >= run.n_candidates as usize;
        let composites = verdicts.iter().map(|(_, verdict)| Row {
            treatment: pair,
            block: scenario,
            value: verdict.composite,
        });
        scores.rows.extend(composites);
        scores.count_raters(verdicts.iter().map(|(file, _)| *file), tier, pair, scenario);
        let (cell, sums) = scores.cell_mut(pair, scenario);
        cell.complete += u32::from(is_complete);
        cell.partly += u32::from(!is_complete);
        for (_, verdict) in &verdicts {
            cell.candidates += 1;
            cell.composite += verdict.composite;
            for (name, value) in &verdict.scores.0 {
                if let Some(position) = names.iter().position(|known| known == name) {
                    sums[position] += value;
                }
            }
        }
    }

    /// Whether the rubric asks nothing of a judge.
    pub fn is_computed(&self) -> bool {
        let rubric = self.full_rubric.as_ref();
        rubric.is_some_and(|it| !it.needs_judge())
    }

    /// A param of the first run; empty where it has none.
    pub fn param(&self, key: &str) -> &str {
        let found = self.params.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn pair_key(&self, pair: usize) -> &PairKey {
        &self.pairs[pair]
    }

    /// The pair with exactly these contents.
    pub fn find_key(&self, key: &PairKey) -> Option<usize> {
        self.pair_index.get(key).copied()
    }

    /// The id of the first run of a pair.
    pub fn first_run_of(&self, pair: usize) -> &str {
        self.first_runs.get(pair).map_or("", String::as_str)
    }

    /// The runs of a pair.
    pub fn runs_of(&self, pair: usize) -> &[RunFigures] {
        self.runs.get(pair).map_or(&[], Vec::as_slice)
    }

    /// Candidates of a pair that were requested, and those of them that never came.
    pub fn lost(&self, pair: usize) -> Lost {
        let mut lost = Lost::default();
        for run in self.runs_of(pair) {
            lost.failed += run.n_failed;
            lost.requested += run.n_failed + run.n_candidates;
        }
        lost
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

    /// The tiers that have verdicts.
    pub fn tiers_judged(&self) -> Vec<Tier> {
        self.tiers.keys().copied().collect()
    }

    /// The number of pairs.
    pub fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    pub fn first_pair(&self) -> Option<usize> {
        self.first_pair
    }

    /// The pair written as `MODEL/PROMPT`.
    pub fn find_pair(&self, text: &str) -> Option<usize> {
        self.pairs().iter().position(|pair| pair.id() == text)
    }

    /// The mean over a pair's runs of what they report.
    pub fn mean_of(&self, pair: usize, figure: fn(&RunFigures) -> Option<f64>) -> Option<f64> {
        let runs = self.runs_of(pair).iter().filter(|it| !it.is_failed);
        let (mut sum, mut count) = (0.0, 0_u32);
        for value in runs.filter_map(figure) {
            sum += value;
            count += 1;
        }
        (count > 0).then(|| sum / f64::from(count))
    }

    pub fn coverage(&self, tier: Tier) -> Coverage {
        let judged = self.tier(tier).map_or(0, TierScores::judged);
        let runs = || self.runs.iter().flatten();
        let count = |runs: usize| u32::try_from(runs).unwrap_or(u32::MAX);
        let cells = count(runs().count());
        let failed = count(runs().filter(|it| it.is_failed).count());
        Coverage {
            cells,
            judged,
            pending: cells - failed - judged,
            failed,
        }
    }
}

fn is_same(rubric: &RubricRef, of_run: &RubricRef<&str>) -> bool {
    rubric.sha256 == of_run.sha256 && rubric.id == of_run.id
}
