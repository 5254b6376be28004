//! Export: which pending cases a judge file hands out, and in which order.
//!
//! The cases are chosen from the runs' names alone and then read a scenario at a time, so that
//! memory does not grow with the queue. [`super::file`] writes them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::sync_channel;

use assize_domain::anchor::Anchors;
use assize_domain::candidate::Candidate;
use assize_domain::case::{Case, blank_scores};
use assize_domain::hash::hex;
use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, param};
use assize_domain::sitting::{Inclusion, Sitting, SittingState, case_id};
use assize_domain::verdict::RubricRef;
use assize_stats::rng::SplitMix64;
use assize_store::rules::{self, PairCounts, PendingPlace};
use assize_store::{Judging, PendingQuery, Runs, StoreError};
use serde_json::{Map, Value};

use super::{
    Entropy, anchors, artifact_parse, case_texts, check_asked, draw, not_computed_words, ratings,
    rubric_of, shuffle, spot_check,
};
use crate::{Now, PipelineError, Result};

/// Scenarios that are read before they are written.
const GROUPS_AHEAD: usize = 2;

/// What to export.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportOptions {
    pub experiment: String,
    /// Only runs that are pending for this kind of judge.
    pub judge_kind: Option<String>,
    /// At most so many cases, rounded up to whole scenarios; 0 means all.
    pub limit: usize,
    /// Determines the order of cases; a random one where none is given.
    pub seed: Option<u64>,
    /// The task's calibration cases, which are left out where the rubric is not theirs.
    pub anchors: Anchors,
    /// Draw about `limit` of the cases that only the automatic tier has judged, instead of
    /// taking what is pending.
    pub spot_check: bool,
}

/// The cases of a judge file, which are still to be read, and the sitting that they belong to.
#[derive(Debug)]
pub struct Export {
    pub sitting: Sitting,
    pub rubric: Rubric,
    /// How many cases there are.
    pub cases: usize,
    /// Pending runs under older rubrics, which need a file of their own.
    pub left_under_other_rubrics: usize,
    /// Pending runs that another judge holds.
    pub held: usize,
    /// Pending runs of which a computed score is missing.
    pub not_computed: usize,
    /// Numbers of the sitting's runs, by scenario.
    scenarios: Vec<Vec<usize>>,
}

/// A pending run without its contents.
struct Waiting {
    run_id: String,
    scenario: usize,
    /// The scenario's name.
    name: String,
    split: String,
    pair: u64,
    rubric: usize,
    open: Vec<u32>,
}

/// Chooses the cases; `None` where nothing is pending. Nothing is recorded yet.
pub(super) fn export(
    store: &dyn Judging,
    options: &ExportOptions,
    now: &Now,
    entropy: Entropy,
) -> Result<Option<Export>> {
    let tier = Tier::Expert;
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::from(u32::from_le_bytes(
            draw(entropy)?[..4].try_into().unwrap_or_default(),
        )),
    };
    let mut inclusion = Vec::new();
    let mut chosen = if options.spot_check {
        inclusion = spot_cases(store, options, seed)?;
        drawn_runs(store, &options.experiment, &inclusion)?
    } else {
        pending_runs(store, options, tier, now)?
    };
    if chosen.runs.is_empty() && chosen.held > 0 {
        return Err(PipelineError::Invalid(format!(
            "everything that is pending in {} is leased to judges who are working ({} runs): wait \
             until they are done, see assize judge status --experiment {}",
            options.experiment, chosen.held, options.experiment
        )));
    }
    if chosen.runs.is_empty() && chosen.not_computed > 0 {
        return Err(PipelineError::Invalid(format!(
            "nothing in {} can be judged now. {}",
            options.experiment,
            not_computed_words(&options.experiment, chosen.not_computed)
        )));
    }
    let (Some(first), Some(rubric_ref)) = (chosen.runs.first(), chosen.rubric.take()) else {
        return Ok(None);
    };
    let rubric = rubric_of(store, &first.run_id, &rubric_ref)?;
    check_asked(&rubric)?;
    let (runs, left_under_other_rubrics) = (chosen.runs, chosen.left_under_other_rubrics);
    let mut by_scenario: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        by_scenario.entry(run.scenario).or_default().push(number);
    }
    let sitting = Sitting {
        id: sitting_id(&now.rfc3339, entropy)?,
        experiment: options.experiment.clone(),
        tier,
        rubric: rubric_ref,
        opened_at: now.rfc3339.clone(),
        seed,
        salt: hex(&draw(entropy)?),
        runs: runs.into_iter().map(|run| (run.run_id, run.open)).collect(),
        judge: None,
        copies: 1,
        anchors: options.anchors.only_under(&rubric.sha256),
        inclusion,
    };
    let real: usize = sitting.runs.iter().map(|(_, open)| open.len()).sum();
    Ok(Some(Export {
        cases: real + sitting.anchors.cases.len(),
        sitting,
        rubric,
        left_under_other_rubrics,
        held: chosen.held,
        not_computed: chosen.not_computed,
        scenarios: by_scenario.into_values().collect(),
    }))
}

/// What a file is made of.
struct Chosen {
    runs: Vec<Waiting>,
    rubric: Option<RubricRef>,
    left_under_other_rubrics: usize,
    held: usize,
    not_computed: usize,
}

/// What waits for the tier, under one rubric: the newest that anything waits under. Scenarios
/// that another judge holds are left out.
fn pending_runs(
    store: &dyn Judging,
    options: &ExportOptions,
    tier: Tier,
    now: &Now,
) -> Result<Chosen> {
    let mut runs = Vec::new();
    let (mut scenarios, mut rubrics) = (Names::default(), Vec::new());
    let query = PendingQuery {
        tier,
        judge_kind: options.judge_kind.clone(),
    };
    let theirs = held_scenarios(store, &options.experiment, tier, now)?;
    let (mut held, mut not_computed) = (0, 0);
    store.pending_each(&options.experiment, &query, &mut |run| {
        if run.lacks_computed() {
            not_computed += 1;
            return Ok(());
        }
        if theirs.contains(&run.scenario) {
            held += 1;
            return Ok(());
        }
        runs.push(Waiting {
            scenario: scenarios.number(&run.scenario),
            rubric: number_of(&mut rubrics, &run.rubric),
            open: run.open_candidates().collect(),
            run_id: run.run_id,
            name: run.scenario,
            split: run.split,
            pair: run.pair,
        });
        Ok(())
    })?;
    let pending = runs.len();
    let newest = runs.last().map_or(0, |run| run.rubric);
    runs.retain(|run| run.rubric == newest);
    let left_under_other_rubrics = pending - runs.len();
    let rubric = rubrics.into_iter().nth(newest);
    if options.limit > 0 {
        let sha256 = rubric.as_ref().map_or("", |it| &it.sha256);
        let count_pairs = || {
            let pairs = store.pair_list(&options.experiment)?;
            Ok(rules::pair_counts(&pairs, sha256))
        };
        runs = limit(runs, options.limit, count_pairs)?;
    }
    Ok(Chosen {
        runs,
        rubric,
        left_under_other_rubrics,
        held,
        not_computed,
    })
}

/// The scenarios of which a live sitting at the queue holds a run.
fn held_scenarios(
    store: &dyn Judging,
    experiment: &str,
    tier: Tier,
    now: &Now,
) -> Result<BTreeSet<String>> {
    let mut held = BTreeSet::new();
    for record in store.sitting_list(experiment)? {
        let is_live = record.state == SittingState::Open && record.lives_until_ms > now.ms;
        if is_live && record.sitting.tier == tier {
            let runs = store.lease_list(&record.sitting.id)?;
            held.extend(runs.into_iter().map(|it| it.run.scenario));
        }
    }
    Ok(held)
}

fn spot_cases(store: &dyn Judging, options: &ExportOptions, seed: u64) -> Result<Vec<Inclusion>> {
    let expected = match options.limit {
        0 => spot_check::DEFAULT_CASES,
        limit => limit,
    };
    match ratings::read(store, &options.experiment)? {
        Some(ratings) => spot_check::draw_cases(&ratings, expected, seed),
        None => Ok(Vec::new()),
    }
}

fn drawn_runs(store: &dyn Judging, experiment: &str, drawn: &[Inclusion]) -> Result<Chosen> {
    let mut by_run: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for case in drawn {
        by_run.entry(&case.run_id).or_default().push(case.candidate);
    }
    let mut scenarios = Names::default();
    let mut runs = Vec::new();
    for (run_id, open) in by_run {
        let run = store.run_get(run_id)?;
        let scenario = run.params.iter().find(|(key, _)| key == param::SCENARIO);
        runs.push(Waiting {
            scenario: scenarios.number(scenario.map_or("", |it| it.1.as_str())),
            rubric: 0,
            open,
            run_id: run.run_id,
            name: String::new(),
            split: String::new(),
            pair: 0,
        });
    }
    Ok(Chosen {
        runs,
        rubric: store.rubric_list(experiment)?.pop().map(|it| it.rubric),
        left_under_other_rubrics: 0,
        held: 0,
        not_computed: 0,
    })
}

impl Export {
    /// Visits the blind cases in the order in which they are judged: scenarios in a random
    /// order, and the cases of a scenario together, in a random order too, so that a judge
    /// scores all pairs of a scenario in succession. Holds a few scenarios at a time: one
    /// thread reads ahead, this one visits.
    pub fn cases_each<E: From<PipelineError>>(
        &self,
        store: &dyn Runs,
        mut visit: impl FnMut(Case) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        std::thread::scope(|scope| {
            let (sender, groups) = sync_channel(GROUPS_AHEAD);
            let reading = scope.spawn(move || {
                // The visitor has stopped.
                self.groups_each(store, &mut |cases| sender.send(cases).is_ok())
            });
            for cases in groups {
                cases.into_iter().try_for_each(&mut visit)?;
            }
            let read = reading
                .join()
                .unwrap_or_else(|_| Err(PipelineError::worker_panicked()));
            Ok(read?)
        })
    }

    /// Passes on the cases of one scenario after the other, until `give` returns `false`.
    fn groups_each(&self, store: &dyn Runs, give: &mut dyn FnMut(Vec<Case>) -> bool) -> Result<()> {
        let mut random = SplitMix64::new(self.sitting.seed);
        let mut scenarios: Vec<&[usize]> = self.scenarios.iter().map(Vec::as_slice).collect();
        shuffle(&mut scenarios, &mut random);
        let mut anchors = anchors::cases(&self.sitting, &self.rubric);
        shuffle(&mut anchors, &mut random);
        let (all, groups) = (anchors.len(), scenarios.len());
        for (group, runs) in scenarios.into_iter().enumerate() {
            // Anchors are spread evenly over the scenarios.
            let left = all - all * (group + 1) / groups;
            let mut cases = anchors.split_off(left);
            for (run_id, open) in runs.iter().filter_map(|run| self.sitting.runs.get(*run)) {
                cases.extend(self.cases_of(store, run_id, open)?);
            }
            shuffle(&mut cases, &mut random);
            if !give(cases) {
                break;
            }
        }
        Ok(())
    }

    fn cases_of(&self, store: &dyn Runs, run_id: &str, open: &[u32]) -> Result<Vec<Case>> {
        let [text, context] = match case_texts(store, run_id) {
            // A run that was deleted a moment ago needs no judge.
            Err(StoreError::NoRun { .. }) => return Ok(Vec::new()),
            found => found?.map(Option::unwrap_or_default),
        };
        let candidates: Vec<Candidate> = artifact_parse(artifact::CANDIDATES, run_id, &text)?;
        let context: Value = match context.as_str() {
            "" => Value::Object(Map::new()),
            text => artifact_parse(artifact::CONTEXT, run_id, text)?,
        };
        let handed_out = candidates.into_iter().filter(|it| open.contains(&it.index));
        let cases = handed_out.filter_map(|candidate| {
            Some(Case {
                case: case_id(&self.sitting.salt, run_id, candidate.index),
                context: context.clone(),
                scores: blank_scores(&self.rubric, &candidate.flags),
                candidate: candidate.text?,
                rationale: None,
            })
        });
        Ok(cases.collect())
    }
}

/// Numbers for names, in the order in which they first appear.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len();
        self.0.insert(name.to_owned(), number);
        number
    }
}

fn number_of(known: &mut Vec<RubricRef>, rubric: &RubricRef) -> usize {
    known.iter().position(|it| it == rubric).unwrap_or_else(|| {
        known.push(rubric.clone());
        known.len() - 1
    })
}

/// An id that sorts by time and cannot be guessed: `20260427T101500-4f9a1c2e`.
pub fn sitting_id(now: &str, entropy: Entropy) -> Result<String> {
    let time: String = now
        .chars()
        .take(19)
        .filter(char::is_ascii_alphanumeric)
        .collect();
    Ok(format!("{time}-{}", hex(&draw(entropy)?[..4])))
}

impl PendingPlace for &Waiting {
    fn scenario(&self) -> &str {
        &self.name
    }

    fn split(&self) -> &str {
        &self.split
    }

    fn pair(&self) -> Option<u64> {
        Some(self.pair)
    }
}

/// Whole scenarios, until there are at least `most` cases, in the order in which the queue hands
/// them out: all pairs of a scenario belong into one sitting.
fn limit(
    mut runs: Vec<Waiting>,
    most: usize,
    count_pairs: impl FnOnce() -> Result<PairCounts>,
) -> Result<Vec<Waiting>> {
    let groups = rules::by_scenario(runs.iter().collect(), count_pairs)?;
    let mut taken = BTreeSet::new();
    let mut cases = 0;
    for group in groups {
        if cases >= most {
            break;
        }
        cases += group.iter().map(|run| run.open.len()).sum::<usize>();
        taken.extend(group.first().map(|run| run.scenario));
    }
    runs.retain(|run| taken.contains(&run.scenario));
    Ok(runs)
}
