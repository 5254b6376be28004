//! What both tiers have scored, by criterion.

use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanScores, Verdict, effective};
use assize_stats::agreement::Scale;
use assize_store::{BoardRun, Boards};

use super::gate::DoubleScored;
use crate::Result;

/// The scores of every candidate that both tiers have judged under this rubric, for the criteria
/// that the composite uses: another one cannot move a decision.
pub fn read(
    store: &dyn Boards,
    experiment: &str,
    split: Split,
    rubric: &Rubric,
) -> Result<Vec<DoubleScored>> {
    let in_composite = |name: &str| {
        let mut terms = rubric.composite.terms().iter();
        terms.any(|(term, weight)| term == name && *weight != 0.0)
    };
    let mut criteria: Vec<DoubleScored> = rubric
        .criteria
        .iter()
        .filter(|criterion| in_composite(&criterion.name))
        .map(|criterion| DoubleScored {
            criterion: criterion.name.clone(),
            scale: Scale {
                low: i32::try_from(criterion.min).unwrap_or(i32::MIN),
                high: i32::try_from(criterion.max).unwrap_or(i32::MAX),
            },
            expert: Vec::new(),
            auto: Vec::new(),
        })
        .collect();
    store.board_each(experiment, split, &mut |run| {
        if run.rubric.sha256 == rubric.sha256 {
            add(&mut criteria, &run);
        }
        Ok(())
    })?;
    Ok(criteria)
}

fn add(criteria: &mut [DoubleScored], run: &BoardRun<'_>) {
    let of = |tier| effective(&run.files, tier, run.rubric.sha256);
    let (expert, auto) = (of(Tier::Expert), of(Tier::Auto));
    for (candidate, by_expert) in expert {
        let Some(by_auto) = auto.get(&candidate) else {
            continue;
        };
        for it in &mut *criteria {
            it.expert.push(level(by_expert, &it.criterion));
            it.auto.push(level(by_auto, &it.criterion));
        }
    }
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
