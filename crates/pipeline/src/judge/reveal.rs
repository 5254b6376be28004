//! The reveal: which pairs a judge has scored, shown once the sitting is closed.

use std::collections::BTreeMap;

use assize_domain::leaderboard::Pair;
use assize_domain::scenario::Split;
use assize_domain::sitting::{Sitting, SittingState};
use assize_stats::describe::mean;
use assize_store::Judging;

use crate::{PipelineError, Result};

/// What a sitting gave one pair.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Revealed {
    #[serde(flatten)]
    pub pair: Pair,
    /// Candidates scored.
    pub cases: usize,
    /// Their mean composite.
    pub composite: Option<f64>,
}

/// Every pair that a closed sitting has scored, the best first.
pub fn reveal(store: &dyn Judging, sitting: &str) -> Result<(Sitting, Vec<Revealed>)> {
    let Some(record) = store.sitting_record_get(sitting)? else {
        return Err(PipelineError::NoSitting {
            id: sitting.to_owned(),
        });
    };
    if record.state == SittingState::Open {
        return Err(PipelineError::SittingState {
            id: sitting.to_owned(),
            problem: "is still open, and judges are blind until it is over: finish it first"
                .to_owned(),
        });
    }
    let mut found: BTreeMap<Pair, BTreeMap<(String, u32), f64>> = BTreeMap::new();
    for split in [Split::Selection, Split::Feedback, Split::Confirmation] {
        store.board_each(&record.sitting.experiment, split, &mut |run| {
            // A later part of a sitting revises an earlier one.
            for file in run.files.iter().filter(|it| it.sitting == sitting) {
                let pair = Pair {
                    model: run.model.to_owned(),
                    prompt: run.prompt.to_owned(),
                };
                let scores = found.entry(pair).or_default();
                for verdict in &file.verdicts {
                    let key = (run.run_id.to_owned(), verdict.candidate);
                    scores.insert(key, verdict.composite);
                }
            }
            Ok(())
        })?;
    }
    let mut revealed: Vec<Revealed> = found
        .into_iter()
        .map(|(pair, scores)| {
            let composites: Vec<f64> = scores.values().copied().collect();
            Revealed {
                pair,
                cases: composites.len(),
                composite: mean(&composites),
            }
        })
        .collect();
    revealed.sort_by(|a, b| {
        let of = |it: &Revealed| it.composite.unwrap_or(f64::NEG_INFINITY);
        of(b).total_cmp(&of(a))
    });
    Ok((record.sitting, revealed))
}
