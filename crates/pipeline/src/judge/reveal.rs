//! The reveal: which pairs a judge has scored, shown once the sitting is closed. Scores on the
//! confirmation split are left out while it is sealed.

use std::collections::{BTreeMap, BTreeSet};

use assize_domain::leaderboard::Pair;
use assize_domain::scenario::Split;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::sweep::label_of;
use assize_stats::describe::mean;
use assize_store::Judging;

use crate::{PipelineError, Result, seal};

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

/// What a closed sitting has scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Reveal {
    pub sitting: Sitting,
    /// The best first.
    pub pairs: Vec<Revealed>,
    /// Candidates of the confirmation split, which is sealed; they are not in `pairs`.
    pub sealed_cases: usize,
}

/// Every pair that a closed sitting has scored.
pub fn reveal(store: &dyn Judging, sitting: &str) -> Result<Reveal> {
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
    let experiment = &record.sitting.experiment;
    let visible = seal::visible_splits(store, experiment)?;
    let mut found: BTreeMap<Pair, BTreeMap<(String, u32), f64>> = BTreeMap::new();
    let mut sealed: BTreeSet<(String, u32)> = BTreeSet::new();
    for split in Split::ALL {
        store.board_each(experiment, split, &mut |run| {
            // A later part of a sitting revises an earlier one.
            let files = run.files.iter().filter(|it| it.sitting == sitting);
            for verdict in files.flat_map(|file| &file.verdicts) {
                let key = (run.run_id.to_owned(), verdict.candidate);
                if visible.contains(&split) {
                    let pair = Pair {
                        model: run.model.to_owned(),
                        prompt: label_of(run.prompt, run.settings),
                    };
                    let scores = found.entry(pair).or_default();
                    scores.insert(key, verdict.composite);
                } else {
                    sealed.insert(key);
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
    Ok(Reveal {
        sitting: record.sitting,
        pairs: revealed,
        sealed_cases: sealed.len(),
    })
}
