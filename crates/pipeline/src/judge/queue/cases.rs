//! The cases that a sitting holds: cases of runs, and anchors among them.

use std::collections::BTreeMap;

use assize_domain::case::{Case, blank_scores};
use assize_domain::judge::Judge;
use assize_domain::run::artifact;
use assize_domain::sitting::{ANCHORS, Sitting};
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_stats::rng::SplitMix64;
use assize_store::{PendingRun, Sittings};
use serde_json::Value;

use super::Queue;
use crate::Result;
use crate::judge::{anchors, artifact_parse, shuffle};

/// An anchor comes at least every so many cases, until all have come.
const CASES_PER_ANCHOR: usize = 10;

/// One case that this sitting holds.
#[derive(Debug)]
pub(super) struct Held {
    pub case: Case,
    pub run_id: String,
    pub candidate: u32,
    pub flags: BTreeMap<String, bool>,
    pub computed: BTreeMap<String, f64>,
    pub verdict: Option<Verdict>,
}

impl Queue {
    /// Mixes anchors into fresh cases, shuffles them, and puts them behind what is held.
    pub(super) fn take_in(&mut self, mut fresh: Vec<Held>, shown: usize) {
        if fresh.is_empty() {
            return;
        }
        let all = self.sitting.anchors.cases.len();
        let horizon = (shown as u64 + self.left).min((all * CASES_PER_ANCHOR) as u64);
        let due = (all * shown).div_ceil(usize::try_from(horizon).unwrap_or(1).max(1));
        let given = all - self.anchors_left.len();
        for _ in given..due.min(all) {
            if let Some(place) = self.anchors_left.pop() {
                fresh.extend(self.anchor_case(place));
            }
        }
        self.batches += 1;
        let seed = self.sitting.seed.wrapping_add(self.batches);
        shuffle(&mut fresh, &mut SplitMix64::new(seed));
        self.held.extend(fresh);
    }

    fn anchor_case(&self, place: usize) -> Option<Held> {
        let candidate = u32::try_from(place).unwrap_or(u32::MAX);
        Some(Held {
            case: anchors::case(&self.sitting, &self.rubric, candidate)?,
            run_id: ANCHORS.to_owned(),
            candidate,
            flags: self.sitting.anchors.cases.get(place)?.flags.clone(),
            computed: self.rubric.lowest_computed(),
            verdict: None,
        })
    }

    /// Puts the anchors that were scored before back into place.
    pub(super) fn recall_anchors(&mut self, files: &[VerdictFile]) {
        let verdicts: BTreeMap<u32, &Verdict> = files
            .iter()
            .flat_map(|file| &file.verdicts)
            .map(|verdict| (verdict.candidate, verdict))
            .collect();
        for (place, verdict) in verdicts {
            let place = place as usize;
            if let Some(mut held) = self.anchor_case(place) {
                self.anchors_left.retain(|it| *it != place);
                held.verdict = Some(verdict.clone());
                self.held.push(held);
            }
        }
    }

    pub(super) fn cases_of(
        &self,
        run: &PendingRun,
        indexes: impl Iterator<Item = u32>,
    ) -> Result<Vec<Held>> {
        let context: Value = artifact_parse(artifact::CONTEXT, &run.run_id, &run.context)?;
        let cases = indexes.filter_map(|index| {
            let candidate = run.candidates.iter().find(|it| it.index == index)?;
            Some(Held {
                case: Case {
                    case: self.sitting.case_id(&run.run_id, index),
                    context: context.clone(),
                    candidate: candidate.text.clone()?,
                    scores: blank_scores(&self.rubric, &candidate.flags),
                    rationale: None,
                },
                run_id: run.run_id.clone(),
                candidate: index,
                flags: candidate.flags.clone(),
                computed: candidate.scores.clone(),
                verdict: None,
            })
        });
        Ok(cases.collect())
    }
}

/// How often a judge has scored each anchor in other sittings under the same rubric.
pub(super) fn anchors_seen(
    store: &dyn Sittings,
    sitting: &Sitting,
    judge: &Judge,
) -> Result<BTreeMap<String, usize>> {
    let mut seen = BTreeMap::new();
    if sitting.anchors.cases.is_empty() {
        return Ok(seen);
    }
    for record in store.sitting_list(&sitting.experiment)? {
        let counts = record.sitting.id != sitting.id
            && record.sitting.rubric == sitting.rubric
            && record.judge.as_ref() == Some(judge);
        let verdicts = record.anchor_files.iter().flat_map(|it| &it.verdicts);
        for verdict in verdicts.filter(|_| counts) {
            let anchor = record.sitting.anchors.cases.get(verdict.candidate as usize);
            if let Some(anchor) = anchor {
                *seen.entry(anchor.id.clone()).or_insert(0) += 1;
            }
        }
    }
    Ok(seen)
}
