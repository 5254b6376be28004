//! Scores of the race: one figure for each cell of a version on the feedback split.

use assize_stats::score::macro_score;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The mean composite of one cell, by the automatic judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellScore {
    /// The version's id.
    pub node: String,
    pub model: String,
    pub scenario: String,
    pub mean: f64,
    /// Candidates that were judged.
    pub candidates: u32,
}

/// A version's mean on the feedback split. It served to select the version, so it is too high on
/// average: what ships is described by the confirmation split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackEstimate {
    pub mean: f64,
    /// Over scenarios; `null` with one.
    pub ci95: Option<[f64; 2]>,
    pub scenarios: u32,
}

/// The mean over scenarios; a scenario counts once, however many models it has.
pub fn estimate(scores: &[CellScore]) -> Option<FeedbackEstimate> {
    let mut by_scenario: Vec<(&str, Vec<f64>)> = Vec::new();
    for score in scores {
        match by_scenario.iter_mut().find(|it| it.0 == score.scenario) {
            Some((_, means)) => means.push(score.mean),
            None => by_scenario.push((&score.scenario, vec![score.mean])),
        }
    }
    let means: Vec<Option<f64>> = by_scenario
        .iter()
        .map(|(_, means)| assize_stats::describe::mean(means))
        .collect();
    let found = macro_score(&means, 0.95).ok()?;
    Some(FeedbackEstimate {
        mean: found.mean,
        ci95: found.interval.map(|it| [it.low, it.high]),
        scenarios: u32::try_from(found.blocks).unwrap_or(u32::MAX),
    })
}

/// A version's differences to another in the cells that both have.
pub fn differences(of: &[CellScore], from: &[CellScore]) -> Vec<f64> {
    let difference = |own: &CellScore| {
        let same = |it: &&CellScore| it.model == own.model && it.scenario == own.scenario;
        Some(own.mean - from.iter().find(same)?.mean)
    };
    of.iter().filter_map(difference).collect()
}

/// The mean of these differences; `None` without a cell that both have.
pub fn lead(of: &[CellScore], over: &[CellScore]) -> Option<f64> {
    assize_stats::describe::mean(&differences(of, over))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(model: &str, scenario: &str, mean: f64) -> CellScore {
        CellScore {
            node: "seed".to_owned(),
            model: model.to_owned(),
            scenario: scenario.to_owned(),
            mean,
            candidates: 2,
        }
    }

    #[test]
    fn scenarios_weigh_the_same_and_one_has_no_interval() {
        let all = [
            score("a", "s", 10.0),
            score("b", "s", 12.0),
            score("a", "t", 14.0),
        ];
        let found = estimate(&all).expect("scores");
        assert!((found.mean - 12.5).abs() < 1e-12);
        assert_eq!(found.scenarios, 2);
        assert!(found.ci95.is_some());
        assert_eq!(estimate(&all[..1]).expect("one").ci95, None);
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn a_lead_counts_the_cells_that_both_have() {
        let ours = [score("a", "s", 10.0), score("a", "t", 12.0)];
        let theirs = [score("a", "t", 11.0), score("b", "s", 0.0)];
        assert_eq!(lead(&ours, &theirs), Some(1.0));
        assert_eq!(differences(&ours, &theirs), [1.0]);
        assert_eq!(lead(&ours[..1], &theirs), None);
    }
}
