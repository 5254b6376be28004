//! Judge: hand out blind cases, take scores back.
//!
//! One pending queue, several ways to judge: [`queue`] hands cases out and takes verdicts back one
//! by one, [`export`] and [`apply`] use a file that a person or an agent fills in, [`auto`] asks a
//! model. All of them score the same blind cases under the same rubric and write the same verdict
//! files.

pub mod agent;
pub mod agreement;
pub mod amend;
pub mod anchors;
pub mod apply;
pub mod auto;
pub mod drift;
pub mod export;
pub mod file;
pub mod held_sitting;
mod prompt;
pub mod queue;
pub mod ratings;
pub mod recompute;
pub mod reopen;
pub mod reveal;
pub mod spot_check;
pub mod status;

use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::run::artifact;
use assize_domain::verdict::RubricRef;
use assize_stats::rng::SplitMix64;
use assize_store::{Judging, PendingQuery, Runs};

use crate::{PipelineError, Result, count};

/// The rubric that travels with a run.
pub fn rubric_of(store: &dyn Runs, run_id: &str, wanted: &RubricRef) -> Result<Rubric> {
    let corrupt = |reason: String| PipelineError::File {
        path: format!("{} of run {run_id}", artifact::RUBRIC),
        reason,
    };
    let text = store.artifact_get(run_id, artifact::RUBRIC)?;
    let text =
        text.ok_or_else(|| corrupt("is missing, so this run cannot be judged".to_owned()))?;
    let rubric = Rubric::parse(artifact::RUBRIC, &text).map_err(|problems| {
        corrupt(
            problems
                .first()
                .map(ToString::to_string)
                .unwrap_or_default(),
        )
    })?;
    if rubric.sha256 == wanted.sha256 {
        Ok(rubric)
    } else {
        Err(corrupt(format!(
            "is not the rubric {} that the run's tag names",
            wanted.id
        )))
    }
}

/// Refuses a rubric that asks nothing of a judge.
pub(crate) fn check_asked(rubric: &Rubric) -> Result<()> {
    if rubric.needs_judge() {
        return Ok(());
    }
    Err(PipelineError::Invalid(format!(
        "every criterion of {} is computed, so there is nothing to judge: assize judge recompute scores the \
         stored outputs again",
        rubric.id
    )))
}

/// What to do about runs that no judge gets, because a computed score is missing.
pub fn not_computed_words(experiment: &str, runs: usize) -> String {
    let lacks = if runs == 1 { "lacks" } else { "lack" };
    format!(
        "{} {lacks} a computed score and cannot be judged before it is computed: run assize judge recompute \
         --experiment {experiment}",
        count(runs, "run")
    )
}

/// The number of runs that no judge of this tier gets, because a computed score is missing.
pub fn not_computed(store: &dyn Judging, experiment: &str, tier: Tier) -> Result<usize> {
    let query = PendingQuery {
        tier,
        judge_kind: None,
    };
    let mut runs = 0;
    store.pending_each(experiment, &query, &mut |run| {
        runs += usize::from(run.lacks_computed());
        Ok(())
    })?;
    Ok(runs)
}

/// The candidates and the context of a run, as texts.
fn case_texts(store: &dyn Runs, run_id: &str) -> assize_store::Result<[Option<String>; 2]> {
    let texts = store.artifacts_get(run_id, &[artifact::CANDIDATES, artifact::CONTEXT])?;
    let mut texts = texts.into_iter();
    Ok([texts.next().flatten(), texts.next().flatten()])
}

/// An artifact's content, read.
pub(crate) fn artifact_parse<T: serde::de::DeserializeOwned>(
    path: &str,
    run_id: &str,
    text: &str,
) -> Result<T> {
    serde_json::from_str(text).map_err(|error| PipelineError::File {
        path: format!("{path} of run {run_id}"),
        reason: format!("is not JSON: {error}"),
    })
}

/// Fresh bytes from the operating system, passed in.
pub type Entropy = fn() -> std::io::Result<[u8; 16]>;

/// Fisher–Yates.
fn shuffle<T>(items: &mut [T], random: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

pub(crate) fn draw(entropy: Entropy) -> Result<[u8; 16]> {
    entropy().map_err(|error| PipelineError::File {
        path: "the operating system's random source".to_owned(),
        reason: error.to_string(),
    })
}
