//! Corrections: amending a verdict, lifting a quarantine.
//!
//! Nothing is overwritten by either. A correction is a small sitting of its own whose verdict
//! counts instead of the earlier one. Judging runs again is in [`super::reopen`].

use std::collections::BTreeSet;

use assize_domain::anchor::Anchors;
use assize_domain::candidate::Candidate;
use assize_domain::hash::hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, tag};
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::submission::{self, HeldCase, Submission};
use assize_domain::verdict::{Amends, RubricRef, Verdict, VerdictFile, effective, in_order};
use assize_store::queue::Closing;
use assize_store::{Judging, Run, Runs, Sittings};
use serde_json::Value;

use super::export::sitting_id;
use super::{Entropy, artifact_parse, draw, rubric_of};
use crate::{Now, PipelineError, Result};

/// What to correct, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    /// The run's id, or the start of it.
    pub run: String,
    /// Which of its candidates; may be left out where only one is judged.
    pub candidate: Option<u32>,
    /// The tier whose verdict is wrong; expert where it has judged, else auto.
    pub tier: Option<Tier>,
    /// Scores by name, as they were typed.
    pub scores: Vec<(String, String)>,
    pub reason: String,
    /// Who corrects it.
    pub name: String,
}

/// What a correction did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Amended {
    pub run_id: String,
    pub candidate: u32,
    pub tier: Tier,
    pub sitting: String,
    pub before: Verdict,
    pub after: Verdict,
}

/// Corrects a verdict; the old one stays in the history.
pub fn amend(
    store: &dyn Judging,
    amendment: &Amendment,
    now: &Now,
    entropy: Entropy,
) -> Result<Amended> {
    check_amendment(amendment)?;
    let run = store.run_get(&amendment.run)?;
    let rubric = RubricRef {
        id: tag_of(&run, tag::RUBRIC),
        sha256: tag_of(&run, tag::RUBRIC_SHA256),
    };
    let full_rubric = rubric_of(store, &run.run_id, &rubric)?;
    if !full_rubric.needs_judge() {
        return Err(PipelineError::Invalid(format!(
            "every score of run {} is computed: correct the rule or the check and run assize judge \
             recompute",
            run.run_id
        )));
    }
    let files = counting(store, &run)?;
    let (tier, before) = spoken(&files, amendment, &rubric, &run.run_id)?;
    let after = corrected(store, &run.run_id, &full_rubric, before, amendment)?;
    let amends = amended(&files, tier, &rubric, before.candidate);
    let judge = Judge {
        // Of the same kind, so that the correction stays in the same tier.
        kind: amends
            .as_ref()
            .map(|it| it.judge.kind.clone())
            .unwrap_or_default(),
        name: amendment.name.clone(),
        version: None,
    };
    let sitting = Sitting {
        id: sitting_id(&now.rfc3339, entropy)?,
        experiment: run.experiment.clone(),
        tier,
        rubric,
        opened_at: now.rfc3339.clone(),
        seed: 0,
        salt: hex(&draw(entropy)?),
        runs: vec![(run.run_id.clone(), vec![before.candidate])],
        judge: Some(judge.clone()),
        copies: 1,
        anchors: Anchors::default(),
        inclusion: Vec::new(),
    };
    let file = VerdictFile {
        amends,
        ..sitting.verdict_file(&judge, &now.rfc3339, vec![after.clone()])
    };
    store.sitting_open(&sitting)?;
    store.sitting_commit(&[(run.run_id.clone(), file)], &full_rubric)?;
    let closing = Closing {
        state: SittingState::Closed,
        at: now.rfc3339.clone(),
        judge: Some(judge),
        drift: None,
    };
    store.sitting_close(&sitting.id, &closing)?;
    Ok(Amended {
        candidate: before.candidate,
        tier,
        sitting: sitting.id,
        before: before.clone(),
        after,
        run_id: run.run_id,
    })
}

/// Whether the reason is given, and every score once.
fn check_amendment(amendment: &Amendment) -> Result<()> {
    if amendment.reason.trim().is_empty() {
        let message = "--reason is empty: say in a sentence why the verdict is wrong";
        return Err(PipelineError::Invalid(message.to_owned()));
    }
    let mut names = BTreeSet::new();
    match amendment
        .scores
        .iter()
        .find(|(name, _)| !names.insert(name))
    {
        Some((name, _)) => Err(PipelineError::Invalid(format!(
            "--set gives {name} more than once: give it one value"
        ))),
        None => Ok(()),
    }
}

/// Lifts the quarantine of a sitting: its verdicts count again. Returns its experiment.
pub fn release(store: &dyn Sittings, sitting: &str, now: &Now) -> Result<String> {
    let Some(record) = store.sitting_record_get(sitting)? else {
        return Err(PipelineError::NoSitting {
            id: sitting.to_owned(),
        });
    };
    if record.state != SittingState::Quarantined {
        let problem = format!(
            "is {}, not quarantined: there is nothing to release",
            record.state
        );
        return Err(PipelineError::SittingState {
            id: sitting.to_owned(),
            problem,
        });
    }
    let closing = Closing {
        state: SittingState::Closed,
        at: now.rfc3339.clone(),
        judge: None,
        drift: None,
    };
    store.sitting_close(sitting, &closing)?;
    Ok(record.sitting.experiment)
}

fn tag_of(run: &Run, name: &str) -> String {
    let found = run.tags.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

/// The verdict files of a run that count.
fn counting(store: &dyn Runs, run: &Run) -> Result<Vec<VerdictFile>> {
    let aside = tag_of(run, tag::SET_ASIDE);
    let mut files = store.verdicts_get(&run.run_id)?;
    files.retain(|file| !aside.split_whitespace().any(|id| id == file.sitting));
    Ok(files)
}

/// The verdict that is to be corrected.
fn spoken<'a>(
    files: &'a [VerdictFile],
    amendment: &Amendment,
    rubric: &RubricRef,
    run_id: &str,
) -> Result<(Tier, &'a Verdict)> {
    let tiers = amendment.tier.map_or(Tier::ALL.to_vec(), |tier| vec![tier]);
    let found = tiers
        .into_iter()
        .map(|tier| (tier, effective(files, tier, &rubric.sha256)))
        .find(|(_, verdicts)| !verdicts.is_empty());
    let Some((tier, verdicts)) = found else {
        return Err(PipelineError::Invalid(format!(
            "run {run_id} has no verdict to amend: judge it first"
        )));
    };
    let judged: Vec<String> = verdicts.keys().map(ToString::to_string).collect();
    let verdict = match amendment.candidate {
        Some(index) => verdicts.get(&index),
        None if verdicts.len() == 1 => verdicts.values().next(),
        None => None,
    };
    let verdict = verdict.ok_or_else(|| {
        PipelineError::Invalid(format!(
            "say which verdict of run {run_id} to amend: --candidate {} ({tier} tier)",
            judged.join(" or ")
        ))
    })?;
    Ok((tier, verdict))
}

/// The judge whose verdict counts; for a correction, the judge that it corrected.
fn amended(
    files: &[VerdictFile],
    tier: Tier,
    rubric: &RubricRef,
    candidate: u32,
) -> Option<Amends> {
    let has_verdict = |file: &&VerdictFile| {
        let mut verdicts = file.verdicts.iter();
        verdicts.any(|it| it.candidate == candidate)
    };
    let files = in_order(files, tier, &rubric.sha256);
    let last = files.into_iter().rfind(has_verdict)?;
    let (sitting, judge) = last.rater();
    Some(Amends {
        sitting: sitting.to_owned(),
        judge: judge.clone(),
        replaces: last.amends.as_ref().map(|_| last.sitting.clone()),
    })
}

fn corrected(
    store: &dyn Runs,
    run_id: &str,
    rubric: &Rubric,
    before: &Verdict,
    amendment: &Amendment,
) -> Result<Verdict> {
    let is_computed = |name: &str| rubric.computed.iter().any(|it| it.name == name);
    let given = before.scores.iter().filter(|(name, _)| !is_computed(name));
    let mut scores: serde_json::Map<String, Value> = given
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in &amendment.scores {
        if is_computed(name) {
            return Err(PipelineError::Invalid(format!(
                "{name} is computed by a rule of {}: correct the rule and run assize judge recompute",
                rubric.id
            )));
        }
        // What is not JSON is not a score either; the check says so in its own words.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value.as_str()));
        scores.insert(name.clone(), value);
    }
    let text = store.artifact_get(run_id, artifact::CANDIDATES)?;
    let text = text.unwrap_or_default();
    let candidates: Vec<Candidate> = artifact_parse(artifact::CANDIDATES, run_id, &text)?;
    let candidate = candidates
        .into_iter()
        .find(|it| it.index == before.candidate);
    let (flags, computed) = candidate
        .map(|it| (it.flags, it.scores))
        .unwrap_or_default();
    let submission = Submission {
        case: run_id.to_owned(),
        scores,
        rationale: Some(amendment.reason.clone()),
    };
    let held = HeldCase {
        run_id,
        candidate: before.candidate,
        flags: &flags,
        computed: &computed,
    };
    let checked = submission::check(&[submission], rubric, |_| Some(held));
    let verdicts = checked.map_err(|problems| PipelineError::JudgeFile {
        file: "--set".to_owned(),
        problems,
    })?;
    let after = verdicts.into_iter().next().map(|(_, verdict)| verdict);
    let after = after.filter(|after| after.scores != before.scores);
    after.ok_or_else(|| PipelineError::Invalid("the verdict already has these scores".to_owned()))
}
