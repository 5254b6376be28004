//! Which version the next round starts from, where no child leads.
//!
//! A version leads a cell (model, scenario) if no other version has a higher score there. Versions that
//! lead none, and versions that another one equals or beats in every cell and beats in some, are left out;
//! the rest is the per-scenario Pareto set. One of them is drawn with probability proportional to the number of
//! cells that it leads, so that a version that is good where others fail is tried again although its
//! mean is lower.
//!
//! Reference: Agrawal et al. (2025), "GEPA: reflective prompt evolution can outperform reinforcement
//! learning", section 3 (the rule of candidate selection).

use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;

/// The stream of random numbers that draws parents.
const DRAW: u64 = 0x9a_1e;

/// A version with its score in every cell, in one order for all; `None` where it has none.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender<'a> {
    pub id: &'a str,
    pub scores: Vec<Option<f64>>,
}

/// A version of the Pareto set, and how many cells it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading<'a> {
    pub id: &'a str,
    pub cells: usize,
}

/// The per-scenario Pareto set, in the order given.
pub fn pareto_set<'a>(contenders: &[Contender<'a>]) -> Vec<Leading<'a>> {
    let cells = contenders.iter().map(|it| it.scores.len()).max();
    let score = |it: &Contender<'_>, cell: usize| it.scores.get(cell).copied().flatten();
    let best: Vec<Option<f64>> = (0..cells.unwrap_or(0))
        .map(|cell| {
            let all = contenders.iter().filter_map(|it| score(it, cell));
            all.max_by(f64::total_cmp)
        })
        .collect();
    let is_dominated = |one: &Contender<'_>| {
        contenders.iter().any(|other| {
            let pairs = || (0..best.len()).map(|cell| (score(other, cell), score(one, cell)));
            pairs().all(|(other, one)| other >= one) && pairs().any(|(other, one)| other > one)
        })
    };
    let leads = |one: &Contender<'_>| {
        let led = |(cell, best): (usize, &Option<f64>)| {
            let own = score(one, cell);
            usize::from(own.is_some() && own == *best)
        };
        best.iter().enumerate().map(led).sum()
    };
    contenders
        .iter()
        .filter(|it| !is_dominated(it))
        .map(|it| Leading {
            id: it.id,
            cells: leads(it),
        })
        .filter(|it| it.cells > 0)
        .collect()
}

/// Draws a version of the set by the number of cells it leads.
pub fn draw<'a>(set: &[Leading<'a>], seed: u64, round: u32) -> Option<Leading<'a>> {
    let total = set.iter().map(|it| it.cells).sum();
    let mut rng = SplitMix64::new(seed_of(seed_of(seed, DRAW), u64::from(round)));
    let mut place = rng.below(total);
    for it in set {
        if place < it.cells {
            return Some(*it);
        }
        place -= it.cells;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender<'a>(id: &'a str, scores: &[f64]) -> Contender<'a> {
        Contender {
            id,
            scores: scores.iter().copied().map(Some).collect(),
        }
    }

    #[test]
    fn only_versions_that_lead_somewhere_and_are_not_dominated_remain() {
        let all = [
            contender("seed", &[5.0, 5.0, 1.0]),
            contender("broad", &[4.0, 4.0, 4.0]),
            contender("equal", &[5.0, 1.0, 1.0]),
            contender("low", &[3.0, 3.0, 3.0]),
        ];
        let set = pareto_set(&all);
        assert_eq!(
            set,
            [
                Leading {
                    id: "seed",
                    cells: 2
                },
                Leading {
                    id: "broad",
                    cells: 1
                }
            ]
        );
    }

    #[test]
    fn a_missing_score_leads_nothing() {
        let mut part = contender("part", &[9.0, 0.0]);
        part.scores[1] = None;
        let set = pareto_set(&[part, contender("whole", &[1.0, 1.0])]);
        assert_eq!(set.iter().map(|it| it.cells).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(pareto_set(&[]), []);
        assert_eq!(draw(&[], 1, 1), None);
    }

    #[test]
    fn draws_follow_the_number_of_cells() {
        let set = [Leading { id: "a", cells: 3 }, Leading { id: "b", cells: 1 }];
        let drawn = (0..4000).filter(|round| draw(&set, 42, *round).is_some_and(|it| it.id == "a"));
        let share = drawn.count() as f64 / 4000.0;
        assert!((share - 0.75).abs() < 0.03, "{share}");
        assert_eq!(draw(&set, 42, 7), draw(&set, 42, 7));
    }
}
