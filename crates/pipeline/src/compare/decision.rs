//! Which pair leads, and whether the data name a winner.
//!
//! This is the only place that decides it: a family of tests and the rule of `[gate]` go in, a
//! typed decision comes out. The board puts it into words ([`super::sentence`]), the promotion
//! gate takes its candidate from it, and adaptive collection its nominee.

use assize_domain::leaderboard::{Pair, Versus};
use assize_domain::rubric::Rubric;
use assize_stats::power::{self, Goal};
use assize_stats::{Alternative, MIN_TEST_BLOCKS};

use super::comparability::Obstacle;
use super::family::{Family, Member};

/// More scenarios than this are never proposed.
const MOST_SCENARIOS: usize = 10_000;

/// What a lead is held against: `level`, `margin`, `judged_apart` and `failed_margin` of `[gate]` in the settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecisionRule {
    /// The largest adjusted p that counts as significant.
    pub level: f64,
    /// The smallest difference of practical use, in points of the composite; `None` where it is
    /// not set and follows from the composite's range.
    pub margin: Option<f64>,
    /// The share of two pairs' verdicts that may come from different raters.
    pub judged_apart: f64,
    /// How far the shares of failed requests of two pairs may be apart.
    pub failed_margin: f64,
}

/// The rule for one rubric, with the margin in points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub level: f64,
    pub margin: f64,
}

/// The leading pair. Pairs are identified by their index in the family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// This pair is significantly better than the incumbent.
    Winner { pair: usize },
    NoWinner {
        /// The challenger with the largest difference; `None` where none shares a judged scenario
        /// with the incumbent.
        leader: Option<usize>,
        why: NoWinner,
    },
}

/// Why the data name no winner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoWinner {
    NothingJudged,
    IncumbentNotJudged,
    NoChallenger,
    /// Too few scenarios for any test.
    TooFewScenarios {
        scenarios: usize,
    },
    /// The leader is significantly ahead, but was not collected or judged as the incumbent was.
    NotComparable(Obstacle),
    /// Even the leader is worse than the incumbent, by its 95 % interval.
    LeaderIsWorse,
    NotSignificant {
        /// The largest number of scenarios that a pair has.
        scenarios: usize,
        /// Scenarios with which a difference of the margin would be found, with 80 % power.
        needed: Option<usize>,
    },
}

impl Decision {
    /// The challenger to look at first: the winner, else the one with the largest difference.
    pub const fn leader(&self) -> Option<usize> {
        match *self {
            Self::Winner { pair } => Some(pair),
            Self::NoWinner { leader, .. } => leader,
        }
    }
}

/// Decides. Of challengers with equal differences the one with more shared scenarios leads, then
/// the one with the later name.
pub fn decide(family: &Family, pairs: &[Pair], rule: Rule) -> Decision {
    let largest = |ahead: &dyn Fn(usize, &Versus) -> bool| {
        let compared = family
            .challengers()
            .filter_map(|(pair, it)| Some((pair, it.versus.as_ref()?)));
        let ahead = compared.filter(|(pair, versus)| ahead(*pair, versus));
        let found = ahead.max_by(|a, b| {
            let by_difference = a.1.diff.total_cmp(&b.1.diff);
            by_difference
                .then_with(|| a.1.scenarios.cmp(&b.1.scenarios))
                .then_with(|| pairs.get(a.0).cmp(&pairs.get(b.0)))
        });
        found.map(|(pair, _)| pair)
    };
    let comparable = |pair: usize| family.members[pair].obstacle.is_none();
    if let Some(pair) = largest(&|pair, versus| rule.is_ahead(versus) && comparable(pair)) {
        return Decision::Winner { pair };
    }
    if let Some(pair) = largest(&|_, versus| rule.is_ahead(versus))
        && let Some(obstacle) = family.members[pair].obstacle
    {
        return Decision::NoWinner {
            leader: Some(pair),
            why: NoWinner::NotComparable(obstacle),
        };
    }
    let leader = largest(&|_, _| true);
    Decision::NoWinner {
        leader,
        why: why_none(
            family,
            leader.and_then(|pair| family.members.get(pair)),
            rule,
        ),
    }
}

fn why_none(family: &Family, leader: Option<&Member>, rule: Rule) -> NoWinner {
    let judged = family.members.iter().map(|it| it.scenarios);
    let scenarios = judged.max().unwrap_or(0);
    if scenarios == 0 {
        return NoWinner::NothingJudged;
    }
    if family.incumbent.is_none() {
        return NoWinner::IncumbentNotJudged;
    }
    if family.challengers().next().is_none() {
        return NoWinner::NoChallenger;
    }
    if scenarios < MIN_TEST_BLOCKS {
        return NoWinner::TooFewScenarios { scenarios };
    }
    if leader.is_some_and(|it| it.versus.as_ref().and_then(Versus::worse).is_some()) {
        return NoWinner::LeaderIsWorse;
    }
    NoWinner::NotSignificant {
        scenarios,
        needed: leader.and_then(|it| rule.scenarios_needed(it.sd?)),
    }
}

impl DecisionRule {
    /// The margin for composites with this range: a thirtieth of it unless it is set.
    pub fn margin_within(self, (low, high): (f64, f64)) -> f64 {
        self.margin.unwrap_or((high - low) / 30.0)
    }

    /// The rule for composites with this range.
    pub fn within(self, range: (f64, f64)) -> Rule {
        Rule {
            level: self.level,
            margin: self.margin_within(range),
        }
    }

    /// The rule for scores under a rubric; without one there are no scores to decide on.
    pub fn under(self, rubric: Option<&Rubric>) -> Rule {
        self.within(rubric.map_or((0.0, 0.0), Rubric::composite_range))
    }
}

impl Rule {
    /// Whether the pair beats the incumbent, over the whole family of tests.
    fn is_ahead(self, versus: &Versus) -> bool {
        versus.diff > 0.0 && versus.p_adjusted.is_some_and(|p| p <= self.level)
    }

    /// Scenarios that would show a difference of the margin, where differences have this spread.
    fn scenarios_needed(self, sd: f64) -> Option<usize> {
        let goal = Goal {
            alpha: self.level,
            ..Goal::usual(Alternative::Greater)
        };
        power::blocks_needed(self.margin, sd, goal, MOST_SCENARIOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        level: 0.05,
        margin: 0.5,
    };

    /// The incumbent first, at 10 in every scenario, then challengers with these differences.
    fn family(challengers: &[&[f64]]) -> Family {
        let scenarios = challengers.first().map_or(8, |it| it.len());
        let incumbent = vec![Some(10.0); scenarios];
        let means = |it: &&[f64]| it.iter().map(|diff| Some(10.0 + diff)).collect();
        let means: Vec<_> = [incumbent]
            .into_iter()
            .chain(challengers.iter().map(means))
            .collect();
        Family::new(&means, Some(0), 42)
    }

    fn decided(family: &Family, rule: Rule) -> Decision {
        decide(family, &[], rule)
    }

    #[test]
    fn a_significant_lead_wins_over_a_larger_one_that_is_not() {
        let steady = [0.6, 0.7, 0.8, 0.7, 0.6, 0.8, 0.7, 0.7];
        let erratic = [9.0, -2.0, 8.0, -3.0, 7.0, -2.0, 0.5, 1.0];
        let family = family(&[&steady, &erratic]);
        assert_eq!(decided(&family, RULE), Decision::Winner { pair: 1 });
    }

    #[test]
    fn the_level_comes_from_the_rule() {
        // Six of six ahead: p = 1/64.
        let family = family(&[&[0.9, 1.0, 1.1, 1.0, 0.8, 1.2]]);
        assert_eq!(decided(&family, RULE), Decision::Winner { pair: 1 });
        let strict = Rule {
            level: 0.01,
            ..RULE
        };
        let decision = decided(&family, strict);
        assert_eq!(decision.leader(), Some(1));
        assert!(
            matches!(
                decision,
                Decision::NoWinner {
                    why: NoWinner::NotSignificant { scenarios: 6, .. },
                    ..
                }
            ),
            "{decision:?}"
        );
    }

    #[test]
    fn a_pair_that_was_not_judged_alike_never_wins() {
        let mut family = family(&[&[0.9, 1.0, 1.1, 1.0, 0.8, 1.2]]);
        let obstacle = Obstacle::JudgedApart(0.5);
        family.members[1].obstacle = Some(obstacle);
        assert_eq!(
            decided(&family, RULE),
            Decision::NoWinner {
                leader: Some(1),
                why: NoWinner::NotComparable(obstacle)
            }
        );
    }

    #[test]
    fn the_margin_says_how_many_scenarios_are_needed() {
        let family = family(&[&[1.0, -1.2, 0.9, -1.0, 1.1, -0.7]]);
        let needed = |margin: f64| match decided(&family, Rule { margin, ..RULE }) {
            Decision::NoWinner {
                why: NoWinner::NotSignificant { needed, .. },
                ..
            } => needed,
            other => panic!("{other:?}"),
        };
        assert!(needed(0.5) > needed(1.0));
        assert_eq!(needed(0.0), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let why = |family: &Family| match decided(family, RULE) {
            Decision::NoWinner { why, .. } => why,
            winner @ Decision::Winner { .. } => panic!("{winner:?}"),
        };
        assert_eq!(why(&Family::default()), NoWinner::NothingJudged);
        assert_eq!(why(&family(&[])), NoWinner::NoChallenger);
        let unjudged = Family::new(&[vec![None], vec![Some(1.0)]], Some(0), 42);
        assert_eq!(why(&unjudged), NoWinner::IncumbentNotJudged);
        let few = NoWinner::TooFewScenarios { scenarios: 2 };
        assert_eq!(why(&family(&[&[1.0, 1.0]])), few);
        let worse = [-1.0, -1.1, -0.9, -1.0, -1.2, -0.8];
        assert_eq!(why(&family(&[&worse])), NoWinner::LeaderIsWorse);
    }

    #[test]
    fn of_equals_the_later_name_leads() {
        let pair = |model: &str| Pair {
            model: model.to_owned(),
            prompt: "p".to_owned(),
        };
        let same = [1.0, -1.0, 1.0];
        let pairs = [pair("incumbent"), pair("b"), pair("a")];
        let decision = decide(&family(&[&same, &same]), &pairs, RULE);
        assert_eq!(decision.leader(), Some(1));
    }
}
