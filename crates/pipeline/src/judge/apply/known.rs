//! What a sitting handed out, read from the store and held as hashes.

use std::collections::HashMap;
use std::ops::Range;

use assize_domain::candidate::Candidate;
use assize_domain::rubric::Rubric;
use assize_domain::run::artifact;
use assize_domain::sitting::{ANCHORS, Sitting, case_id};
use assize_store::{Runs, StoreError};
use serde_json::Value;

use crate::judge::file::check::{ContextHash, KnownCases};
use crate::judge::{artifact_parse, case_texts};
use crate::{PipelineError, Result};

/// Contexts whose hash is remembered by their texts.
const CONTEXTS_REMEMBERED: usize = 2_000;

/// Everything that the sitting handed out, and the cases whose run was deleted since. Two
/// threads share the work.
pub(super) fn known_cases(
    store: &dyn Runs,
    sitting: &Sitting,
    rubric: &Rubric,
) -> Result<KnownCases> {
    let half = sitting.runs.len() / 2;
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| cases_of(store, sitting, 0..half));
        let second = cases_of(store, sitting, half..sitting.runs.len());
        (first.join(), second)
    });
    let mut known = second?;
    known.merge(first.map_err(|_| PipelineError::worker_panicked())??);
    let behind = u32::try_from(sitting.runs.len()).unwrap_or(u32::MAX);
    for (place, anchor) in (0..).zip(&sitting.anchors.cases) {
        let id = sitting.case_id(ANCHORS, place);
        let context = ContextHash::from(&anchor.context);
        known.add(&id, behind, place, &anchor.candidate, context);
        known.add_computed(&id, rubric.lowest_computed());
    }
    Ok(known)
}

/// The cases of these of the sitting's runs.
fn cases_of(store: &dyn Runs, sitting: &Sitting, runs: Range<usize>) -> Result<KnownCases> {
    let mut known = KnownCases::default();
    known.reserve(sitting.runs[runs.clone()].iter().map(|it| it.1.len()).sum());
    // Many runs share a context; so many are remembered by their texts.
    let mut contexts: HashMap<String, ContextHash> = HashMap::new();
    for number in runs {
        let (run_id, handed_out) = &sitting.runs[number];
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let id_of = |index: u32| case_id(&sitting.salt, run_id, index);
        let [text, context] = match case_texts(store, run_id) {
            Ok([Some(text), context]) => [text, context.unwrap_or_else(|| "{}".to_owned())],
            Ok([None, _]) | Err(StoreError::NoRun { .. }) => {
                for index in handed_out {
                    known.add_gone(&id_of(*index));
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let context = if let Some(known) = contexts.get(&context) {
            *known
        } else {
            let value: Value = artifact_parse(artifact::CONTEXT, run_id, &context)?;
            let hash = ContextHash::from(&value);
            if contexts.len() == CONTEXTS_REMEMBERED {
                contexts.clear();
            }
            contexts.insert(context, hash);
            hash
        };
        let candidates: Vec<Candidate> = artifact_parse(artifact::CANDIDATES, run_id, &text)?;
        for candidate in candidates
            .into_iter()
            .filter(|it| handed_out.contains(&it.index))
        {
            if let Some(text) = &candidate.text {
                let index = candidate.index;
                known.add(&id_of(index), number, index, text, context);
                known.add_computed(&id_of(index), candidate.scores);
            }
        }
    }
    Ok(known)
}
