//! Apply: a filled judge file becomes verdicts, all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};

use assize_domain::candidate::Candidate;
use assize_domain::judge::Judge;
use assize_domain::judge_file::{self, FileProblem, KnownCase};
use assize_domain::run::{artifact, tag};
use assize_domain::sitting::{Sitting, case_id};
use assize_domain::verdict::VerdictFile;
use assize_store::{Committed, StoreError, Tracking};
use serde_json::Value;

use super::rubric_of;
use crate::{PipelineError, Result};

/// How to read the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyOptions {
    /// What messages call the file.
    pub file: String,
    pub judge_kind: Option<String>,
    pub judged_by: Option<String>,
    /// The person at the keyboard, where nobody else is named.
    pub user: Option<String>,
    pub partial: bool,
}

/// What applying a file did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Applied {
    pub experiment: String,
    pub sitting: String,
    pub judge: Judge,
    pub tier: assize_domain::judge::Tier,
    pub cases: usize,
    /// Cases that the file leaves unscored.
    pub unscored: usize,
    /// Cases whose run was deleted after the export.
    pub dropped: usize,
    #[serde(flatten)]
    pub committed: Committed,
}

/// Checks the whole file, then writes its verdicts.
pub fn apply(
    store: &dyn Tracking,
    text: &str,
    options: &ApplyOptions,
    now: &str,
) -> Result<Applied> {
    let wrong = |pointer: &str, message: String| PipelineError::JudgeFile {
        file: options.file.clone(),
        problems: vec![FileProblem {
            pointer: pointer.to_owned(),
            message,
        }],
    };
    let file: Value =
        serde_json::from_str(text).map_err(|error| wrong("/", format!("is not JSON: {error}")))?;
    if file.get("assize").and_then(Value::as_str) != Some(judge_file::FORMAT) {
        let message = format!(
            "is not \"{}\": this is not a judge file",
            judge_file::FORMAT
        );
        return Err(wrong("/assize", message));
    }
    let id = file
        .get("sitting")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(sitting) = store.sitting_get(id)? else {
        let message = format!(
            "'{id}' is not known to {}: is this the right --tracking-uri?",
            store.uri()
        );
        return Err(wrong("/sitting", message));
    };
    let is_there = |run_id: &str| store.run_get(run_id).is_ok();
    let Some((first_run, _)) = sitting.runs.iter().find(|(run_id, _)| is_there(run_id)) else {
        let message = format!("'{id}' handed out no case whose run is still there");
        return Err(wrong("/sitting", message));
    };
    let rubric = rubric_of(store, first_run, &sitting.rubric)?;
    let (cases, gone) = known_cases(store, &sitting)?;
    let checked =
        judge_file::check(&file, &rubric, &cases, &gone, options.partial).map_err(|problems| {
            PipelineError::JudgeFile {
                file: options.file.clone(),
                problems,
            }
        })?;

    let judge = name_judge(store, options, &checked, first_run)?;
    let scored = checked.verdicts.values().map(Vec::len).sum();
    let files: Vec<(String, VerdictFile)> = checked
        .verdicts
        .into_iter()
        .map(|(run_id, verdicts)| {
            let file = VerdictFile {
                sitting: sitting.id.clone(),
                tier: judge.tier(),
                judge: judge.clone(),
                rubric: sitting.rubric.clone(),
                judged_at: now.to_owned(),
                verdicts,
            };
            (run_id, file)
        })
        .collect();
    let committed = store.sitting_commit(&files, &rubric)?;
    Ok(Applied {
        experiment: sitting.experiment,
        sitting: sitting.id,
        tier: judge.tier(),
        judge,
        cases: scored,
        unscored: checked.unscored,
        dropped: checked.dropped,
        committed,
    })
}

/// Everything that the sitting handed out, by case id, and the cases whose run was deleted since.
fn known_cases(
    store: &dyn Tracking,
    sitting: &Sitting,
) -> Result<(BTreeMap<String, KnownCase>, BTreeSet<String>)> {
    let mut cases = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for (run_id, handed_out) in &sitting.runs {
        let text = match store.artifact_get(run_id, artifact::CANDIDATES) {
            Ok(Some(text)) => text,
            Ok(None) | Err(StoreError::NoRun { .. }) => {
                gone.extend(
                    handed_out
                        .iter()
                        .map(|index| case_id(&sitting.salt, run_id, *index)),
                );
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let candidates: Vec<Candidate> =
            serde_json::from_str(&text).map_err(|error| PipelineError::File {
                path: format!("{} of run {run_id}", artifact::CANDIDATES),
                reason: error.to_string(),
            })?;
        for candidate in candidates
            .into_iter()
            .filter(|it| handed_out.contains(&it.index))
        {
            if let Some(text) = candidate.text {
                let id = case_id(&sitting.salt, run_id, candidate.index);
                cases.insert(
                    id,
                    KnownCase {
                        run_id: run_id.clone(),
                        candidate: candidate.index,
                        text,
                    },
                );
            }
        }
    }
    Ok((cases, gone))
}

/// Flag, then file, then whose desk the runs waited on.
fn name_judge(
    store: &dyn Tracking,
    options: &ApplyOptions,
    checked: &judge_file::Checked,
    run_id: &str,
) -> Result<Judge> {
    let flag = options.judge_kind.as_deref().map(str::to_lowercase);
    let named = flag.or_else(|| checked.judge_kind.clone());
    let kind = if let Some(kind) = named {
        kind
    } else {
        let run = store.run_get(run_id)?;
        let desk = run.tags.into_iter().find(|(key, _)| key == tag::JUDGE_KIND);
        desk.map_or_else(|| "human".to_owned(), |(_, kind)| kind)
    };
    let name = options
        .judged_by
        .clone()
        .or_else(|| checked.judge_name.clone())
        .or_else(|| options.user.clone());
    Ok(Judge {
        name: name.unwrap_or_else(|| kind.clone()),
        kind,
    })
}
