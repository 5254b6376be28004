//! Export: pending candidates as a blind judge file.

use assize_domain::anchor::Anchors;
use assize_domain::hash::hex;
use assize_domain::judge::Tier;
use assize_domain::judge_file::{self, Case};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, case_id};
use assize_stats::rng::SplitMix64;
use assize_store::{PendingQuery, PendingRun, Tracking};
use serde_json::{Map, Value};

use super::{Entropy, draw, rubric_of};
use crate::{PipelineError, Result};

/// What to export.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportOptions {
    pub experiment: String,
    /// Only runs that wait on this kind's desk.
    pub judge_kind: Option<String>,
    /// At most so many cases, rounded up to whole scenarios; 0 means all.
    pub limit: usize,
    /// Determines the order of cases; a random one where none is given.
    pub seed: Option<u64>,
}

/// A judge file, and the record that stays behind.
#[derive(Debug)]
pub struct Export {
    pub sitting: Sitting,
    pub rubric: Rubric,
    pub head: Map<String, Value>,
    pub cases: Vec<Case>,
    /// Pending runs under older rubrics, which need a file of their own.
    pub left_under_other_rubrics: usize,
}

/// Gathers pending cases; `None` where nothing is pending. Nothing is recorded yet:
/// [`Tracking::sitting_open`] does that, before the file is handed out.
pub fn export(
    store: &dyn Tracking,
    options: &ExportOptions,
    now: &str,
    entropy: Entropy,
) -> Result<Option<Export>> {
    let tier = Tier::Expert;
    let mut runs = Vec::new();
    let query = PendingQuery {
        tier,
        judge_kind: options.judge_kind.clone(),
    };
    store.pending_each(&options.experiment, &query, &mut |run| {
        runs.push(run);
        Ok(())
    })?;
    // One rubric a file: the newest that anything waits under.
    let pending = runs.len();
    if let Some(newest) = runs.last().map(|run: &PendingRun| run.rubric.clone()) {
        runs.retain(|run| run.rubric == newest);
    }
    let left_under_other_rubrics = pending - runs.len();
    let runs = limit(runs, options.limit);
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    let rubric = rubric_of(store, &first.run_id, &first.rubric)?;
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::from(u32::from_le_bytes(
            draw(entropy)?[..4].try_into().unwrap_or_default(),
        )),
    };
    let sitting = Sitting {
        id: sitting_id(now, entropy)?,
        experiment: options.experiment.clone(),
        tier,
        rubric: first.rubric.clone(),
        opened_at: now.to_owned(),
        seed,
        salt: hex(&draw(entropy)?),
        runs: runs
            .iter()
            .map(|run| (run.run_id.clone(), open_candidates(run).collect()))
            .collect(),
        judge: None,
        copies: 1,
        anchors: Anchors::default(),
        inclusion: Vec::new(),
    };
    let mut cases = Vec::new();
    for run in &runs {
        cases.extend(cases_of(run, &rubric, &sitting.salt)?);
    }
    let mut random = SplitMix64::new(seed);
    for last in (1..cases.len()).rev() {
        cases.swap(last, random.below(last + 1));
    }
    let head = judge_file::head(&options.experiment, &sitting.id, &rubric);
    Ok(Some(Export {
        sitting,
        rubric,
        head,
        cases,
        left_under_other_rubrics,
    }))
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

/// The candidates of a run that have a text and no verdict of this tier.
pub fn open_candidates(run: &PendingRun) -> impl Iterator<Item = u32> {
    let open = run
        .candidates
        .iter()
        .filter(|it| it.text.is_some() && !run.judged.contains(&it.index));
    open.map(|it| it.index)
}

fn cases_of(run: &PendingRun, rubric: &Rubric, salt: &str) -> Result<Vec<Case>> {
    let context: Value =
        serde_json::from_str(&run.context).map_err(|error| PipelineError::File {
            path: format!("context.json of run {}", run.run_id),
            reason: format!("is not JSON: {error}"),
        })?;
    let cases = open_candidates(run).filter_map(|index| {
        let candidate = run.candidates.iter().find(|it| it.index == index)?;
        Some(Case {
            case: case_id(salt, &run.run_id, index),
            context: context.clone(),
            candidate: candidate.text.clone()?,
            scores: judge_file::blank_scores(rubric, &candidate.flags),
            rationale: None,
        })
    });
    Ok(cases.collect())
}

/// Whole scenarios, until there are at least `most` cases: all arms of a scenario belong
/// into one sitting.
fn limit(runs: Vec<PendingRun>, most: usize) -> Vec<PendingRun> {
    if most == 0 {
        return runs;
    }
    let mut taken: Vec<String> = Vec::new();
    let mut cases = 0;
    for run in &runs {
        if cases >= most {
            break;
        }
        if !taken.contains(&run.scenario) {
            let of_scenario = runs.iter().filter(|it| it.scenario == run.scenario);
            cases += of_scenario
                .map(|it| open_candidates(it).count())
                .sum::<usize>();
            taken.push(run.scenario.clone());
        }
    }
    runs.into_iter()
        .filter(|run| taken.contains(&run.scenario))
        .collect()
}
