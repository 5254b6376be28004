//! Corrects the scores of the race for regression to the mean.
//!
//! A version becomes a parent because its scores were the highest of its round, so they are too high on
//! average. Children that are compared with such scores look worse than they are, and the search stops at
//! a lucky version. Every score y of version v in cell c (model and scenario) is therefore read as
//!
//!   y_vc = θ_v + β_c + ε,  ε ~ N(0, σ²),  θ_seed = 0,  θ_v = θ_parent(v) + δ_v,  δ_v ~ N(0, τ²)
//!
//! with β_c free, and a version's *level* is the mean of θ_v given all scores of the race. It minimises
//!
//!   Σ (y_vc − θ_v − β_c)²/σ² + Σ (θ_v − θ_parent(v))²/τ²,
//!
//! a linear system with one unknown for each version and cell. A high score is drawn towards the level of
//! the parent, the more so the fewer cells it rests on; the scores of children in turn say what their parent
//! is worth. Being conditional on all scores, levels need no further correction for having been selected.
//!
//! σ² is half of the variance of children's paired differences to their parents, pooled. τ is a fifteenth of
//! the composite's range (one point of a composite from 2 to 17): how much a child typically differs from its
//! parent. The choice matters little: τ of 0.7, 1.0 and 1.4 points make no measurable difference in simulations.
//!
//! Levels steer the search. They are not shown as the gain of what ships, which is measured on other splits.
//!
//! References: Henderson (1975), "Best linear unbiased estimation and prediction under a selection
//! model", Biometrics 31; Robinson (1991), "That BLUP is a good thing", Statistical Science 6; Senn
//! (2011), "Francis Galton and regression to the mean", Significance 8.

use std::collections::BTreeMap;

use crate::score::{CellScore, differences};
use crate::tree::{Node, Tree};

/// τ as a share of the composite's range.
const TYPICAL_CHANGE: f64 = 1.0 / 15.0;
/// Keeps the system solvable where scores have no noise: σ² is at least this share of τ².
const LEAST_NOISE: f64 = 1e-6;

impl Tree {
    /// The levels of all versions with scores, by id: their corrected means relative to the seed.
    pub fn levels(&self) -> BTreeMap<String, f64> {
        let versions: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|it| !it.scores.is_empty())
            .collect();
        let mut cells: Vec<(&str, &str)> = Vec::new();
        for score in versions.iter().flat_map(|it| &it.scores) {
            if !cells.contains(&cell(score)) {
                cells.push(cell(score));
            }
        }
        let (low, high) = self.composite_range;
        let typical = ((high - low) * TYPICAL_CHANGE)
            .powi(2)
            .max(f64::MIN_POSITIVE);
        let noise = self.noise(&versions).max(LEAST_NOISE * typical);
        // The first unknowns are the versions, of which the seed's stays 0; then come the cells.
        let count = versions.len();
        let mut system = System::new(count + cells.len());
        for (place, version) in versions.iter().enumerate() {
            for score in &version.scores {
                let column = cells.iter().position(|it| *it == cell(score));
                if let Some(column) = column {
                    system.add_sum(place, count + column, score.mean, 1.0 / noise);
                }
            }
            let parent = version.parent.as_deref();
            let parent = versions
                .iter()
                .position(|it| Some(it.id.as_str()) == parent);
            if let Some(parent) = parent {
                system.add_difference(place, parent, 1.0 / typical);
            }
        }
        system.fix(0);
        let levels = system.solve();
        let ids = versions.iter().map(|it| it.id.clone());
        ids.zip(levels).collect()
    }

    /// σ².
    fn noise(&self, versions: &[&Node]) -> f64 {
        let (mut squares, mut df) = (0.0, 0);
        for child in versions {
            let parent = child.parent.as_deref().and_then(|it| self.node(it).ok());
            let own = parent.map_or_else(Vec::new, |it| differences(&child.scores, &it.scores));
            let Some(mean) = assize_stats::describe::mean(&own) else {
                continue;
            };
            squares += own.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            df += own.len() - 1;
        }
        squares / (2 * df.max(1)) as f64
    }
}

fn cell(score: &CellScore) -> (&str, &str) {
    (&score.model, &score.scenario)
}

/// The normal equations of weighted least squares.
struct System {
    matrix: Vec<Vec<f64>>,
    right: Vec<f64>,
}

impl System {
    fn new(size: usize) -> Self {
        Self {
            matrix: vec![vec![0.0; size]; size],
            right: vec![0.0; size],
        }
    }

    /// Adds the term (value − x_i − x_j)²·weight.
    fn add_sum(&mut self, i: usize, j: usize, value: f64, weight: f64) {
        for (row, column) in [(i, i), (i, j), (j, i), (j, j)] {
            self.matrix[row][column] += weight;
        }
        self.right[i] += weight * value;
        self.right[j] += weight * value;
    }

    /// Adds the term (x_i − x_j)²·weight.
    fn add_difference(&mut self, i: usize, j: usize, weight: f64) {
        self.matrix[i][i] += weight;
        self.matrix[j][j] += weight;
        self.matrix[i][j] -= weight;
        self.matrix[j][i] -= weight;
    }

    /// Makes an unknown 0.
    fn fix(&mut self, i: usize) {
        if i >= self.right.len() {
            return;
        }
        for place in 0..self.right.len() {
            self.matrix[i][place] = 0.0;
            self.matrix[place][i] = 0.0;
        }
        self.matrix[i][i] = 1.0;
        self.right[i] = 0.0;
    }

    /// Gaussian elimination without exchanging rows, which a positive definite matrix does not need.
    fn solve(mut self) -> Vec<f64> {
        let size = self.right.len();
        for pivot in 0..size {
            let row = self.matrix[pivot].clone();
            for below in pivot + 1..size {
                let factor = self.matrix[below][pivot] / row[pivot];
                if factor == 0.0 {
                    continue;
                }
                for (own, above) in self.matrix[below][pivot..].iter_mut().zip(&row[pivot..]) {
                    *own -= factor * above;
                }
                self.right[below] -= factor * self.right[pivot];
            }
        }
        for place in (0..size).rev() {
            let known = self.matrix[place][place + 1..]
                .iter()
                .zip(&self.right[place + 1..]);
            let known: f64 = known.map(|(factor, x)| factor * x).sum();
            self.right[place] = (self.right[place] - known) / self.matrix[place][place];
        }
        self.right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SEED;
    use crate::event::{Event, Raced, Returned, Screened, SeedRaced};
    use crate::next::Next;
    use crate::packet::TaskTexts;
    use crate::reply::{Kind, Proposal};
    use crate::score::CellScore;
    use crate::tree::tests::{settings, started};

    fn scores(node: &str, scenarios: &[String], value: impl Fn(usize) -> f64) -> Vec<CellScore> {
        let score = |(place, scenario): (usize, &String)| CellScore {
            node: node.to_owned(),
            model: "m".to_owned(),
            scenario: scenario.clone(),
            mean: value(place),
            candidates: 2,
        };
        scenarios.iter().enumerate().map(score).collect()
    }

    /// A loop in which every round has one child, whose difference to the seed is as given.
    fn chain(leads: &[f64], spread: f64) -> Tree {
        let event = started(crate::LoopSettings {
            children: 1,
            ..settings()
        });
        let mut tree = Tree::fold(&[event]).expect("legal").expect("started");
        let wobble = |place: usize| {
            if place.is_multiple_of(2) {
                spread
            } else {
                -spread
            }
        };
        while tree.rounds.len() < leads.len() {
            let event = match tree.next(0.0) {
                Next::RaceSeed { scenarios } => Event::SeedRaced(SeedRaced {
                    scores: scores(SEED, &scenarios, |_| 8.0),
                    auto_verdicts: 0,
                    cost_usd: 0.0,
                }),
                Next::Reflect { .. } => tree.packet(1, Vec::new(), &TaskTexts::default()),
                Next::AwaitReflector { packet } => Event::Returned(Returned {
                    packet,
                    reflector: "script".to_owned(),
                    children: vec![Proposal {
                        hypothesis: "h".to_owned(),
                        kind: Kind::Edit,
                        system: None,
                        template: "t".to_owned(),
                    }],
                    problem: None,
                    cost_usd: 0.0,
                }),
                Next::Screen { child } => Event::Screened(Screened {
                    child,
                    rejected: None,
                    cost_usd: 0.0,
                }),
                Next::Race(stage) => {
                    let lead = leads[tree.rounds.len()];
                    let own = |place| 8.0 + lead + wobble(place);
                    Event::Raced(Raced {
                        round: stage.round,
                        stage: stage.stage,
                        scores: scores(&stage.children[0], &stage.scenarios, own),
                        dropped: Vec::new(),
                        auto_verdicts: 0,
                        cost_usd: 0.0,
                    })
                }
                _ => tree.round_ended(),
            };
            tree.apply(&event).expect("legal");
        }
        tree
    }

    fn check(tree: &Tree, id: &str, expected: f64) {
        let levels = tree.levels();
        assert!((levels[id] - expected).abs() < 1e-5, "{levels:?}");
    }

    #[test]
    fn without_noise_nothing_is_corrected() {
        let tree = chain(&[1.0, 3.0], 0.0);
        check(&tree, "seed", 0.0);
        check(&tree, "r1c1", 1.0);
        check(&tree, "r2c1", 3.0);
    }

    #[test]
    fn a_lead_within_the_noise_is_kept_in_part() {
        // Paired differences vary by 32/7, so a lead over 8 cells has the variance 4/7; τ² = 1.
        check(&chain(&[1.0], 2.0), "r1c1", 7.0 / 11.0);
    }

    #[test]
    fn a_child_need_only_beat_what_its_parent_is_worth() {
        // Solved by hand: the second child is 0.1 behind its parent's scores and ahead of its level.
        let tree = chain(&[1.0, 0.9], 2.0);
        check(&tree, "r1c1", 0.778_75);
        check(&tree, "r2c1", 0.787_5);
        assert_eq!(tree.rounds[1].leader.as_deref(), Some("r2c1"));
        let reason = &tree.rounds[1].reason;
        assert!(reason.contains("level"), "{reason}");
        let tree = chain(&[1.0, 0.7], 2.0);
        assert_eq!(tree.rounds[1].leader, None);
    }
}
