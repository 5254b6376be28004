//! Swept settings are part of a pair.
//!
//! While runs are read, runs with different settings are different pairs. When all are read it is
//! known which settings were swept ([`assize_domain::sweep`]): pairs that differ only in others are
//! one pair, as they were collected by mistake or over time, and boards warn about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use assize_domain::leaderboard::Pair;
use assize_domain::promotion::Champion;
use assize_domain::prompt::short_hash;
use assize_domain::run::param;
use assize_domain::sweep::{SYSTEM, Settings, SettingsWords, variants};

use super::{PairKey, Scores, TierScores};

impl Scores {
    /// Merges the pairs that differ in nothing that was swept, here or in `also`.
    pub(super) fn join_pairs(&mut self, also: &BTreeSet<String>) {
        let words: Vec<SettingsWords<'_>> = self
            .settings
            .iter()
            .map(|it| SettingsWords::parse(it))
            .collect();
        let own = words.iter().flat_map(|it| &it.swept);
        let mut swept: BTreeSet<String> = own.map(|it| (*it).to_owned()).collect();
        swept.extend(also.iter().cloned());
        let of_words: HashMap<String, Settings> = self
            .settings
            .iter()
            .zip(&words)
            .map(|(text, words)| (text.clone(), words.of(&swept)))
            .collect();
        let rest: Vec<String> = words.iter().map(|it| it.without(&swept)).collect();
        self.swept = swept;
        self.of_words = of_words;
        self.join_settings(rest);
        let mut joined = Vec::new();
        self.pair_index.clear();
        let mut new_place = Vec::with_capacity(self.pairs.len());
        for mut key in std::mem::take(&mut self.pairs) {
            key.settings = self.of_words.get(&key.words).cloned().unwrap_or_default();
            key.words.clear();
            let place = *self.pair_index.entry(key.clone()).or_insert(joined.len());
            if place == joined.len() {
                joined.push(key);
            }
            new_place.push(place);
        }
        let is_same = joined.len() == new_place.len();
        self.pairs = joined;
        if is_same {
            return;
        }
        let mut runs = vec![Vec::new(); self.pairs.len()];
        let mut first_runs = vec![String::new(); self.pairs.len()];
        for ((old, first), new) in self
            .runs
            .drain(..)
            .zip(self.first_runs.drain(..))
            .zip(&new_place)
        {
            if first_runs[*new].is_empty() {
                first_runs[*new] = first;
            }
            runs[*new].extend(old);
        }
        self.runs = runs;
        self.first_runs = first_runs;
        for tier in self.tiers.values_mut() {
            tier.join(&new_place, self.pairs.len());
        }
    }

    /// Leaves the settings that were not swept, which may explain a difference.
    fn join_settings(&mut self, rest: Vec<String>) {
        let mut settings: Vec<String> = Vec::new();
        let mut new_place = Vec::with_capacity(rest.len());
        for text in rest {
            let known = settings.iter().position(|it| *it == text);
            new_place.push(known.unwrap_or(settings.len()));
            if known.is_none() {
                settings.push(text);
            }
        }
        for run in self.runs.iter_mut().flatten() {
            run.settings = new_place[run.settings];
        }
        self.settings = settings;
    }

    /// The swept settings of a run, by the words that it records.
    pub(super) fn settings_in(&self, words: &str) -> Option<&Settings> {
        self.of_words.get(words)
    }

    /// Where the champion stands, with exactly the contents and settings that were promoted.
    pub fn find_champion(&self, champion: &Champion) -> Option<usize> {
        let is_of = |key: &PairKey| {
            key.model == champion.model
                && key.model_digest == champion.model_digest
                && key.prompt == champion.prompt
                && key.prompt_sha256 == champion.prompt_sha256
                && champion.has_settings(&key.settings)
        };
        self.pairs.iter().position(is_of)
    }

    /// The settings that only one of two pairs has in a scenario that both have, in words.
    pub fn settings_apart(&self, left: usize, right: usize) -> BTreeSet<&str> {
        if self.settings.len() < 2 {
            return BTreeSet::new();
        }
        let of = |pair: usize| {
            let mut by_scenario: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            for run in self.runs_of(pair).iter().filter(|it| !it.is_failed) {
                by_scenario
                    .entry(run.scenario)
                    .or_default()
                    .insert(run.settings);
            }
            by_scenario
        };
        let (ours, theirs) = (of(left), of(right));
        let shared = ours
            .iter()
            .filter_map(|(scenario, it)| Some((it, theirs.get(scenario)?)));
        let apart = shared.flat_map(|(a, b)| a.symmetric_difference(b));
        apart.map(|it| self.settings[*it].as_str()).collect()
    }

    /// The settings of all runs, in words.
    pub fn all_settings(&self) -> BTreeSet<&str> {
        let mut is_used = vec![false; self.settings.len()];
        for run in self.runs.iter().flatten().filter(|it| !it.is_failed) {
            is_used[run.settings] = true;
        }
        let used = self.settings.iter().zip(is_used).filter(|(_, used)| *used);
        used.map(|(settings, _)| settings.as_str()).collect()
    }

    /// All pairs. Where a prompt's name has had two contents they are two (`v1@3fa2c1`), and so
    /// it is with a model's tag.
    pub fn pairs(&self) -> Vec<Pair> {
        // Another system message is another content, and no other version of the prompt.
        let system = |key: &PairKey| key.settings.get(SYSTEM).unwrap_or_default().to_owned();
        let mut contents: HashMap<(&str, String), BTreeSet<&str>> = HashMap::new();
        for key in &self.pairs {
            let prompts = contents.entry((&key.prompt, system(key))).or_default();
            prompts.insert(&key.prompt_sha256);
            let models = contents.entry((&key.model, String::new())).or_default();
            models.insert(&key.model_digest);
        }
        let name = |name: &str, system: String, hash: &str| {
            if contents[&(name, system)].len() > 1 {
                format!("{name}@{}", short_hash(hash))
            } else {
                name.to_owned()
            }
        };
        let pair = |key: &PairKey| Pair {
            model: name(&key.model, String::new(), &key.model_digest),
            prompt: key
                .settings
                .label(&name(&key.prompt, system(key), &key.prompt_sha256)),
        };
        self.pairs.iter().map(pair).collect()
    }

    /// The first model × first prompt of the experiment, as its first collect named them.
    pub(super) fn first_of_grid(&self) -> Option<usize> {
        let (models, prompts) = (self.param("models"), self.param("prompts"));
        let own = (self.param(param::MODEL), self.param(param::PROMPT));
        let pairs = models
            .split(',')
            .flat_map(|model| prompts.split(',').map(move |prompt| (model, prompt)));
        let mut wanted = pairs.chain([own]);
        wanted.find_map(|(model, prompt)| self.first_variant(model, prompt))
    }

    /// The first of these pairs by the first sweep's values.
    fn first_variant(&self, model: &str, prompt: &str) -> Option<usize> {
        let sweep = [self.param("sweep").to_owned()];
        let wanted = variants(&sweep).unwrap_or_default();
        let of = |key: &&PairKey| key.model == model && key.prompt == prompt;
        let position = |settings: &Settings| {
            let is_it = |key: &PairKey| of(&key) && key.settings == *settings;
            self.pairs.iter().position(is_it)
        };
        let any = || self.pairs.iter().position(|key| of(&key));
        wanted.iter().find_map(position).or_else(any)
    }
}

impl TierScores {
    fn join(&mut self, new_place: &[usize], pairs: usize) {
        for row in &mut self.rows {
            row.treatment = new_place[row.treatment];
        }
        for share in &mut self.shares {
            let place = new_place[share.pair as usize];
            share.pair = u32::try_from(place).unwrap_or(u32::MAX);
        }
        let width = self.width;
        let cells = std::mem::take(&mut self.cells);
        let sums = std::mem::take(&mut self.sums);
        self.cells.resize_with(pairs, Vec::new);
        self.sums.resize_with(pairs, Vec::new);
        for ((cells, sums), pair) in cells.into_iter().zip(sums).zip(new_place) {
            for (scenario, old) in cells.into_iter().enumerate() {
                let (cell, added) = self.cell_mut(*pair, scenario);
                cell.complete += old.complete;
                cell.partly += old.partly;
                cell.candidates += old.candidates;
                cell.composite += old.composite;
                let of_cell = sums.iter().skip(scenario * width);
                for (sum, more) in added.iter_mut().zip(of_cell) {
                    *sum += more;
                }
            }
        }
    }
}
