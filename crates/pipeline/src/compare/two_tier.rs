//! What both tiers say about the same candidates.
//!
//! The automatic tier judges many candidates, the experts judge some of the same. The combined board
//! ([`assize_domain::leaderboard::BoardTier::Combined`]) uses both: the automatic scores of all
//! candidates, corrected by what the experts found on theirs ([`assize_stats::two_tier`]). The gate
//! asks whether the automatic tier favours one of two pairs.

use std::collections::{BTreeMap, HashMap};

use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanFile, LeanScores, Verdict, in_order};
use assize_stats::two_tier::{Scored, TierCell, Trusted};
use assize_store::{BoardRun, Boards, Sittings};

use super::read::Scores;
use crate::{PipelineError, Result};

/// The candidates that the automatic tier judged, with the experts' scores where there are any.
#[derive(Debug, Default)]
pub struct TwoTiers {
    /// By pair, then by scenario.
    pub cells: Vec<Vec<Option<TierCell>>>,
    /// The criteria of the composite: another one cannot move a decision.
    pub criteria: Vec<DoubleScored>,
    /// By item of the criteria: the place of its scenario.
    pub scenarios: Vec<usize>,
}

/// One criterion's scores of the same candidates by both tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct DoubleScored {
    pub criterion: String,
    pub expert: Vec<Option<i32>>,
    pub auto: Vec<Option<i32>>,
}

/// The probability with which a candidate was drawn for a spot check, by sitting and run.
type Inclusions = HashMap<(String, String), BTreeMap<u32, f64>>;

/// Reads the split once more, for the pairs and scenarios of `scores`.
pub fn read(
    store: &(impl Boards + Sittings + ?Sized),
    experiment: &str,
    split: Split,
    scores: &Scores,
) -> Result<TwoTiers> {
    let Some(rubric) = &scores.full_rubric else {
        return Ok(TwoTiers::default());
    };
    let inclusions = inclusions(store, experiment)?;
    let mut criteria = blank(rubric);
    let mut scenarios = Vec::new();
    let mut replicates: BTreeMap<(usize, usize), Vec<Scored>> = BTreeMap::new();
    store.board_each(experiment, split, &mut |run| {
        let place = scores.locate(&run);
        if let Some(place) = place.filter(|_| run.rubric.sha256 == rubric.sha256) {
            let of = |tier| latest(&run, tier);
            let (expert, auto) = (of(Tier::Expert), of(Tier::Auto));
            for (candidate, (_, by_auto)) in &auto {
                let by_expert = expert.get(candidate);
                let trusted = by_expert.map(|(file, verdict)| Trusted {
                    score: verdict.composite,
                    inclusion: inclusion(&inclusions, file, run.run_id, *candidate),
                });
                replicates.entry(place).or_default().push(Scored {
                    cheap: by_auto.composite,
                    trusted,
                });
                if let Some((_, by_expert)) = by_expert {
                    scenarios.push(place.1);
                    for it in &mut criteria {
                        it.expert.push(level(by_expert, &it.criterion));
                        it.auto.push(level(by_auto, &it.criterion));
                    }
                }
            }
        }
        Ok(())
    })?;
    let mut cells = vec![vec![None; scores.scenarios.len()]; scores.pair_count()];
    for ((pair, scenario), replicates) in replicates {
        cells[pair][scenario] = TierCell::new(&replicates)
            .map_err(|error| PipelineError::Invalid(error.to_string()))?;
    }
    Ok(TwoTiers {
        cells,
        criteria,
        scenarios,
    })
}

fn inclusions(store: &(impl Sittings + ?Sized), experiment: &str) -> Result<Inclusions> {
    let mut found = Inclusions::new();
    for record in store.sitting_list(experiment)? {
        for it in record.sitting.inclusion {
            let key = (record.sitting.id.clone(), it.run_id);
            let of_run = found.entry(key).or_default();
            of_run.insert(it.candidate, it.probability);
        }
    }
    Ok(found)
}

/// Verdicts outside a spot check were not drawn: they are there for certain.
fn inclusion(found: &Inclusions, file: &LeanFile<'_>, run_id: &str, candidate: u32) -> f64 {
    if found.is_empty() {
        return 1.0;
    }
    let (sitting, _) = file.rater();
    let of_run = found.get(&(sitting.to_owned(), run_id.to_owned()));
    let drawn = of_run.and_then(|it| it.get(&candidate)).copied();
    drawn.unwrap_or(1.0)
}

/// By candidate: the verdict that counts, and its file.
pub(super) type LatestVerdicts<'a> = BTreeMap<u32, (&'a LeanFile<'a>, &'a Verdict<LeanScores<'a>>)>;

pub(super) fn latest<'a>(run: &'a BoardRun<'a>, tier: Tier) -> LatestVerdicts<'a> {
    let files = in_order(&run.files, tier, run.rubric.sha256).into_iter();
    let verdicts = files.flat_map(|file| file.verdicts.iter().map(move |it| (file, it)));
    verdicts
        .map(|(file, verdict)| (verdict.candidate, (file, verdict)))
        .collect()
}

fn blank(rubric: &Rubric) -> Vec<DoubleScored> {
    let is_used = |name: &str| {
        let mut terms = rubric.composite.terms().iter();
        terms.any(|(term, weight)| term == name && *weight != 0.0)
    };
    let criteria = rubric.criteria.iter().filter(|it| is_used(&it.name));
    criteria
        .map(|criterion| DoubleScored {
            criterion: criterion.name.clone(),
            expert: Vec::new(),
            auto: Vec::new(),
        })
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a criterion's levels are small whole numbers"
)]
fn level(verdict: &Verdict<LeanScores<'_>>, criterion: &str) -> Option<i32> {
    let scores = &verdict.scores.0;
    let found = scores.iter().find(|(name, _)| *name == criterion);
    found.map(|(_, value)| value.round() as i32)
}
