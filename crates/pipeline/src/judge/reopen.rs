//! Reopening: runs become pending again. Every verdict and every candidate is kept; only what
//! counts changes.

use std::collections::BTreeSet;

use assize_domain::judge::Tier;
use assize_domain::prompt::short_hash;
use assize_domain::rubric::Rubric;
use assize_domain::run::{metric, param, tag};
use assize_domain::scenario::Split;
use assize_domain::sweep::{SettingsWords, label_of, split_label};
use assize_store::queue::Reopening;
use assize_store::{Judging, Run, RunQuery};

use super::{check_asked, rubric_of};
use crate::{PipelineError, Result};

/// Which runs to judge again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReopenOptions {
    pub experiment: String,
    /// Only these; all runs of the experiment where there are none.
    pub runs: Vec<String>,
    /// Only the runs of these pairs, written as `MODEL/PROMPT`. The next sitting then judges them
    /// beside each other.
    pub pairs: Vec<String>,
    /// Only the runs of this split.
    pub split: Option<Split>,
    /// Put them under this rubric.
    pub rubric: Option<Rubric>,
    /// The tier whose verdicts are set aside, where the rubric stays.
    pub tier: Tier,
}

/// The runs that the options name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    pub run_ids: Vec<String>,
    /// How many of them the tier has judged, wholly or in part.
    pub judged: usize,
}

/// Finds the runs; changes nothing.
pub fn select(store: &dyn Judging, options: &ReopenOptions) -> Result<Selection> {
    let mut runs = if options.runs.is_empty() {
        let listed = store.run_list(&options.experiment, &RunQuery::default())?;
        listed.runs
    } else {
        let runs = options.runs.iter().map(|it| named(store, options, it));
        runs.collect::<Result<_>>()?
    };
    let can_be_judged = |run: &Run| value(&run.tags, tag::JUDGE_PENDING).is_some();
    runs.retain(|run| !options.runs.is_empty() || can_be_judged(run));
    if !options.pairs.is_empty() {
        check_pairs(&runs, options)?;
        runs.retain(|run| options.pairs.iter().any(|pair| is_of(run, pair)));
    }
    if let Some(split) = options.split {
        let selection = Split::Selection.as_str();
        let of =
            |run: &Run| value(&run.params, param::SPLIT).unwrap_or(selection) == split.as_str();
        runs.retain(of);
    }
    Ok(Selection {
        judged: runs
            .iter()
            .filter(|run| is_judged(run, options.tier))
            .count(),
        run_ids: runs.into_iter().map(|run| run.run_id).collect(),
    })
}

/// Makes the runs pending again, and returns how many were not already.
pub fn reopen(store: &dyn Judging, options: &ReopenOptions, selection: &Selection) -> Result<u64> {
    if let Some(rubric) = options.rubric.as_ref().filter(|it| !it.computed.is_empty()) {
        return Err(PipelineError::Invalid(format!(
            "{} has computed criteria: put the runs under it with assize judge recompute --experiment {}, \
             which computes them",
            rubric.id, options.experiment
        )));
    }
    if options.rubric.is_none()
        && let Some(used) = store.rubric_list(&options.experiment)?.pop()
    {
        check_asked(&rubric_of(store, &used.run_id, &used.rubric)?)?;
    }
    let reopening = Reopening {
        run_ids: selection.run_ids.clone(),
        rubric: options.rubric.clone(),
        tiers: vec![options.tier],
    };
    Ok(store.runs_reopen(&reopening)?)
}

fn named(store: &dyn Judging, options: &ReopenOptions, wanted: &str) -> Result<Run> {
    let run = store.run_get(wanted)?;
    if run.experiment == options.experiment {
        return Ok(run);
    }
    Err(PipelineError::Invalid(format!(
        "run {wanted} belongs to the experiment {}, not to {}",
        run.experiment, options.experiment
    )))
}

/// Every pair must be in the experiment; a misspelt one would leave the comparison unequal.
fn check_pairs(runs: &[Run], options: &ReopenOptions) -> Result<()> {
    for wanted in &options.pairs {
        if runs.iter().any(|run| is_of(run, wanted)) {
            continue;
        }
        let known: BTreeSet<String> = runs.iter().map(pair_of).collect();
        let known: Vec<String> = known.into_iter().collect();
        return Err(PipelineError::Invalid(format!(
            "'{wanted}' is not a pair of the experiment {}: use MODEL/PROMPT, one of {}",
            options.experiment,
            known.join(", ")
        )));
    }
    Ok(())
}

/// Whether a run is of a pair, which may be written with content hashes, as boards do where a name
/// has had several contents.
fn is_of(run: &Run, pair: &str) -> bool {
    let Some((model, prompt)) = pair.rsplit_once('/') else {
        return false;
    };
    let matches = |wanted: &str, name: Option<&str>, hash: Option<&str>| {
        let name = name.unwrap_or_default();
        let with_hash = || format!("{name}@{}", short_hash(hash.unwrap_or_default()));
        wanted == name || wanted == with_hash()
    };
    let (prompt, settings) = split_label(prompt);
    let words = value(&run.tags, tag::SETTINGS).unwrap_or_default();
    if !SettingsWords::parse(words).has(&settings) {
        return false;
    }
    let digest = value(&run.tags, tag::MODEL_DIGEST);
    let sha256 = value(&run.tags, tag::PROMPT_SHA256);
    matches(model, value(&run.params, param::MODEL), digest)
        && matches(prompt, value(&run.params, param::PROMPT), sha256)
}

fn pair_of(run: &Run) -> String {
    let text = |key: &str| value(&run.params, key).unwrap_or_default();
    let words = value(&run.tags, tag::SETTINGS).unwrap_or_default();
    let label = label_of(text(param::PROMPT), words);
    format!("{}/{label}", text(param::MODEL))
}

fn is_judged(run: &Run, tier: Tier) -> bool {
    let composite = format!("{tier}.{}", metric::COMPOSITE);
    let mut metrics = run.metrics.iter();
    metrics.any(|(name, value)| *name == composite && value.is_finite())
}

fn value<'a>(entries: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = entries.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| value.as_str())
}
