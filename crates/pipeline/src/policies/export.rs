//! The log of decisions for other programs: JSON lines, CSV, and Vowpal Wabbit's text format.
//!
//! Vowpal Wabbit reads a decision as a block of lines: `shared` with the context, then a line for
//! each candidate, of which the chosen one is labelled `0:COST:PROBABILITY`. The cost is 1 − reward,
//! because it minimises costs. Train with `vw --cb_explore_adf` (or `--cb_adf`). Decisions without a
//! reward have no label and are left out of this format.

use std::io::Write;

use assize_policy::FeatureVersion;
use assize_store::StoreError;
use assize_store::policies::{CandidateRecord, LogQuery, LoggedDecision, PolicyFile, ShadowSignal};
use serde::Serialize;
use serde_json::value::RawValue;

use super::log::{arm_key, rewarded};
use crate::{PipelineError, Result};

/// A format of the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    Jsonl,
    Csv,
    Vw,
}

const CSV_HEADER: &str = "decision_id,at_ms,user_id,policy,policy_version,feature_version,arm,chosen,chosen_id,propensity,candidates,reward,rewarded_at_ms";

/// Writes the decisions of one policy, or of all, in the order of time; answers how many.
pub fn export(
    file: &PolicyFile,
    policy: Option<&str>,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<u64> {
    let query = LogQuery {
        policy: policy.map(str::to_owned),
        shadows: format == ExportFormat::Jsonl,
        ..LogQuery::default()
    };
    let mut written = 0;
    let mut failed: Option<PipelineError> = None;
    let mut put = |text: &str, failed: &mut Option<PipelineError>| {
        let done = out.write_all(text.as_bytes());
        if let Err(error) = done {
            failed.get_or_insert(PipelineError::File {
                path: "the output".to_owned(),
                reason: error.to_string(),
            });
        }
    };
    if format == ExportFormat::Csv {
        put(&format!("{CSV_HEADER}\r\n"), &mut failed);
    }
    file.log_each(&query, |decision| {
        let text = match format {
            ExportFormat::Jsonl => Some(json_line(&decision)?),
            ExportFormat::Csv => Some(csv_line(&decision)?),
            ExportFormat::Vw => vw_block(&decision)?,
        };
        if let Some(text) = text {
            put(&text, &mut failed);
            written += 1;
        }
        Ok(failed.is_none())
    })?;
    failed.map_or(Ok(written), Err)
}

/// A decision as a line of JSON; contexts and candidates are as the client sent them.
#[derive(Serialize)]
struct JsonLine<'a> {
    decision_id: String,
    at_ms: i64,
    user_id: &'a str,
    policy: &'a str,
    policy_version: &'a str,
    feature_version: u32,
    context: &'a RawValue,
    profile_features: Option<&'a RawValue>,
    seed: Option<u64>,
    candidates: &'a [CandidateRecord],
    chosen: u32,
    arm: &'a str,
    features: &'a [f64],
    propensity: f64,
    reward: Option<f64>,
    rewarded_at_ms: Option<i64>,
    shadows: &'a [ShadowSignal],
}

fn json_line(decision: &LoggedDecision) -> std::result::Result<String, StoreError> {
    let record = decision.record()?;
    let line = JsonLine {
        decision_id: decision.id.to_string(),
        at_ms: decision.at_ms,
        user_id: &decision.user,
        policy: &decision.policy,
        policy_version: &decision.policy_version,
        feature_version: decision.feature_version,
        context: &record.context,
        profile_features: record.profile.as_deref(),
        seed: record.seed,
        candidates: &record.candidates,
        chosen: decision.chosen,
        arm: arm_key(&decision.arm),
        features: &decision.features,
        propensity: decision.propensity,
        reward: decision.reward.map(|it| it.value),
        rewarded_at_ms: decision.reward.map(|it| it.at_ms),
        shadows: &decision.shadows,
    };
    let line = serde_json::to_string(&line).map_err(|error| StoreError::Unreadable {
        what: format!("the record of decision {}", decision.id),
        reason: error.to_string(),
    })?;
    Ok(line + "\n")
}

/// A quoted field; a leading apostrophe keeps spreadsheets from running a formula.
fn csv_text(text: &str) -> String {
    let clean: String = text.chars().filter(|it| !it.is_control()).collect();
    let mark = if clean.starts_with(['=', '+', '-', '@']) {
        "'"
    } else {
        ""
    };
    format!("\"{mark}{}\"", clean.replace('"', "\"\""))
}

fn csv_line(decision: &LoggedDecision) -> std::result::Result<String, StoreError> {
    let record = decision.record()?;
    let place = usize::try_from(decision.chosen).unwrap_or(usize::MAX);
    let chosen = record.candidates.get(place).map_or("", |it| it.id.as_str());
    let reward = decision.reward;
    let fields = [
        decision.id.to_string(),
        decision.at_ms.to_string(),
        csv_text(&decision.user),
        csv_text(&decision.policy),
        csv_text(&decision.policy_version),
        decision.feature_version.to_string(),
        csv_text(arm_key(&decision.arm)),
        decision.chosen.to_string(),
        csv_text(chosen),
        decision.propensity.to_string(),
        record.candidates.len().to_string(),
        reward.map(|it| it.value.to_string()).unwrap_or_default(),
        reward.map(|it| it.at_ms.to_string()).unwrap_or_default(),
    ];
    Ok(fields.join(",") + "\r\n")
}

/// A name without the characters that separate things in the format.
fn vw_name(text: &str) -> String {
    let part = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    text.chars().map(part).collect()
}

/// `None` for a decision without a reward.
fn vw_block(decision: &LoggedDecision) -> std::result::Result<Option<String>, StoreError> {
    let Some(logged) = rewarded(decision)? else {
        return Ok(None);
    };
    let unreadable = |error: assize_policy::PolicyError| StoreError::Unreadable {
        what: format!("the record of decision {}", decision.id),
        reason: error.to_string(),
    };
    let version = match decision.feature_version {
        2 => FeatureVersion::V2,
        _ => FeatureVersion::V1,
    };
    let profile = logged.profile_features.as_ref();
    let shared = version.features(&logged.context, profile, None);
    let shared = shared.map_err(unreadable)?;
    // The intercept is Vowpal Wabbit's own, and the match belongs to the candidate.
    let names = shared.iter().enumerate();
    let names = names.filter(|(place, value)| ![0, 6].contains(place) && **value != 0.0);
    let context: Vec<String> = names
        .map(|(place, value)| format!("f{place}:{value}"))
        .collect();
    let mut block = format!("shared |c {}\n", context.join(" "));
    for (place, candidate) in logged.candidates.iter().enumerate() {
        if place == logged.chosen {
            let cost = 1.0 - logged.reward;
            block.push_str(&format!("0:{cost}:{} ", logged.propensity));
        }
        let mut features = vec![format!("arm={}", vw_name(candidate.arm()))];
        match &candidate.features {
            Some(own) => {
                let own = own.iter().enumerate();
                features.extend(own.map(|(place, value)| format!("x{place}:{value}")));
            }
            None => features.push(format!("match:{}", candidate.task_match.unwrap_or(0.0))),
        }
        block.push_str(&format!("|a {}\n", features.join(" ")));
    }
    block.push('\n');
    Ok(Some(block))
}
