//! Promote: run the gate, move the alias `champion`, keep the record; roll back.
//!
//! [`evidence`] reads the experiment, [`gate`] decides, and [`promote`] writes: one entry of the
//! history and the alias, together or not at all. The entry's number is one more than the latest
//! that the gate was run against, so of two promotions at once one is recorded and the other is
//! told that the champion has changed.
//!
//! What is promoted is what was judged: the prompt's content must still be in the task, because
//! the registry keeps the template's text.

use std::collections::BTreeMap;

use assize_domain::leaderboard::Pair;
use assize_domain::promotion::{Action, Champion, GateReport, Promotion, before};
use assize_domain::sweep::{SYSTEM, settings_of};
use assize_domain::task::Task;
use assize_store::{Promotions, Tracking};
use serde_json::Value;

use crate::collect::variant::with_system;
use crate::compare::read::PairKey;
use crate::ledger::Author;
use crate::{PipelineError, Result};

mod attempt;
pub mod calibrate;
mod evidence;
pub mod gate;
mod next_steps;
mod thresholds;

pub use next_steps::Step;
pub use thresholds::Thresholds;

/// The longest note on a promotion, in characters.
pub const LONGEST_NOTE: usize = 2000;

/// What a promotion asks for.
#[derive(Debug, Clone, Copy)]
pub struct PromoteOptions<'a> {
    pub experiment: &'a str,
    pub task: &'a Task,
    /// How the user names the task, for commands to type.
    pub task_name: &'a str,
    /// `MODEL/PROMPT`; the winner of the selection split by default.
    pub candidate: Option<&'a str>,
    /// `MODEL/PROMPT`; by default the champion, else the first model × first prompt.
    pub incumbent: Option<&'a str>,
    pub thresholds: &'a Thresholds,
    /// Seeds what is drawn where exact enumeration is out of reach.
    pub seed: u64,
    /// Who tries, for the ledger. Without an author the confirmation split is not opened.
    pub author: Option<&'a Author>,
    /// Whether nothing is to be promoted. Then an attempt is recorded only if it sees scores of the
    /// confirmation split.
    pub dry_run: bool,
}

/// The author, time and note of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub by: String,
    /// RFC 3339, UTC.
    pub at: String,
    pub note: Option<String>,
}

/// What the gate found about one candidate.
#[derive(Debug)]
pub struct Assessment {
    pub report: GateReport,
    /// What to do next where the gate says no.
    pub next: Vec<Step>,
    pub warnings: Vec<String>,
    /// Whether every other check passed and the confirmation split was left sealed.
    pub awaits_confirmation: bool,
    task: String,
    experiment: String,
    champion: Champion,
    number: u32,
}

/// Runs the gate, and records the attempt in the ledger; writes nothing else.
pub fn assess(store: &dyn Tracking, options: &PromoteOptions<'_>) -> Result<Assessment> {
    let proposal = evidence::gather(store, options)?;
    let champion = Champion {
        settings: settings(&proposal),
        swept: proposal
            .candidate
            .settings
            .keys()
            .map(str::to_owned)
            .collect(),
        ..content(&proposal.candidate, &proposal.candidate_pair, options.task)?
    };
    let ruling = gate::gate(&proposal.evidence, options.thresholds);
    let mut report = GateReport {
        candidate: proposal.candidate_pair.clone(),
        incumbent: proposal.incumbent_pair.clone(),
        tier: ruling.tier,
        passed: ruling.passed,
        checks: ruling.checks,
    };
    let scale = proposal.evidence.confirmation.as_ref().map(|it| it.scale);
    // From here on figures of the confirmation split are in the ledger, or not in the report.
    let awaits_confirmation = attempt::record(store, options, &mut report, scale)?;
    Ok(Assessment {
        next: if awaits_confirmation {
            Vec::new()
        } else {
            next_steps::steps(&report, &proposal, options)
        },
        report,
        warnings: proposal.warnings,
        awaits_confirmation,
        task: options.task.name.clone(),
        experiment: options.experiment.to_owned(),
        champion,
        number: proposal.champion.map_or(0, |it| it.number) + 1,
    })
}

/// Makes the candidate the champion. `None` where the gate says no.
pub fn promote(
    store: &dyn Promotions,
    assessment: &Assessment,
    signature: Signature,
) -> Result<Option<Promotion>> {
    if !assessment.report.passed {
        return Ok(None);
    }
    let promotion = Promotion {
        number: assessment.number,
        task: assessment.task.clone(),
        action: Action::Promote,
        champion: assessment.champion.clone(),
        version: 0,
        restores: None,
        experiment: assessment.experiment.clone(),
        by: signature.by,
        at: signature.at,
        note: signature.note,
        gate: Some(assessment.report.clone()),
    };
    let version = store.promotion_record(&promotion)?;
    Ok(Some(Promotion {
        version,
        ..promotion
    }))
}

/// Brings the previous champion back, as an entry of its own.
pub fn rollback(store: &dyn Promotions, task: &str, signature: Signature) -> Result<Promotion> {
    let history = store.promotion_list(task)?;
    let Some(latest) = history.last() else {
        return Err(PipelineError::Invalid(format!(
            "nothing was promoted for the task '{task}' yet, so there is nothing to roll back"
        )));
    };
    let Some(earlier) = before(&history) else {
        return Err(PipelineError::Invalid(format!(
            "{} is the first champion of the task '{task}', so there is none to roll back to: promote \
             another pair instead",
            latest.champion.pair()
        )));
    };
    let promotion = Promotion {
        number: latest.number + 1,
        action: Action::Rollback,
        restores: Some(earlier.number),
        by: signature.by,
        at: signature.at,
        note: signature.note,
        ..earlier.clone()
    };
    let version = store.promotion_record(&promotion)?;
    Ok(Promotion {
        version,
        ..promotion
    })
}

/// The candidate with its template, which must be in the task as it was judged.
fn content(key: &PairKey, pair: &Pair, task: &Task) -> Result<Champion> {
    let system = key.settings.get(SYSTEM);
    let named = task.prompt(&key.prompt);
    let prompt = named.and_then(|it| with_system(task, it, system).ok());
    let prompt = prompt.filter(|it| it.sha256 == key.prompt_sha256);
    let Some(prompt) = prompt else {
        return Err(PipelineError::Invalid(format!(
            "the prompt of {pair} is not in the task '{}' as it was judged: restore that version of \
             {}, or collect and judge the one that is there now",
            task.name, key.prompt
        )));
    };
    Ok(Champion {
        model: key.model.clone(),
        model_digest: key.model_digest.clone(),
        prompt: key.prompt.clone(),
        prompt_sha256: key.prompt_sha256.clone(),
        system: prompt.system,
        body: prompt.body,
        settings: BTreeMap::new(),
        swept: Vec::new(),
    })
}

/// The options that the candidate was collected with, as far as they change what is generated.
fn settings(proposal: &evidence::Proposal) -> BTreeMap<String, Value> {
    let mut settings = settings_of(&proposal.params[0]);
    settings.extend(proposal.candidate.settings.to_json());
    settings
}
