//! The plan of halving: which scenarios each round adds, and how many pairs it has.
//!
//! With A pairs and S scenarios there are L = ⌈log₂ A⌉ rounds, each of which adds S/L scenarios;
//! after each but the last the better half stays. The order of scenarios is random, fixed by the
//! seed, and does not depend on how the task lists them: each scenario's place is a hash of seed
//! and id, so that a scenario that is added later leaves the others in their order.

use assize_domain::hash::sha256_hex;

/// Which scenarios when, for how many pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pairs: usize,
    rounds: usize,
    /// Ids, in the order in which they are used.
    scenarios: Vec<String>,
}

impl Schedule {
    pub fn new(pairs: usize, scenarios: &[&str], seed: u64) -> Self {
        let mut placed: Vec<(String, &str)> = scenarios
            .iter()
            .map(|id| (sha256_hex(format!("{seed}\0{id}").as_bytes()), *id))
            .collect();
        placed.sort_unstable();
        Self {
            pairs,
            rounds: halvings(pairs).min(scenarios.len()).max(1),
            scenarios: placed.into_iter().map(|(_, id)| id.to_owned()).collect(),
        }
    }

    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// The scenarios that a round adds; rounds count from 0.
    pub fn scenarios(&self, round: usize) -> &[String] {
        let until = |round: usize| self.scenarios.len() * round / self.rounds;
        self.scenarios
            .get(until(round)..until(round + 1))
            .unwrap_or_default()
    }

    /// All scenarios up to and with a round.
    pub fn scenarios_until(&self, round: usize) -> &[String] {
        let end = self.scenarios.len() * (round + 1) / self.rounds;
        self.scenarios.get(..end).unwrap_or(&self.scenarios)
    }

    /// How many pairs take part in a round.
    pub fn pairs(&self, round: usize) -> usize {
        (0..round).fold(self.pairs, |pairs, _| kept_of(pairs))
    }

    /// Cells of a round.
    pub fn cells(&self, round: usize) -> usize {
        self.pairs(round) * self.scenarios(round).len()
    }

    /// Cells of all rounds.
    pub fn all_cells(&self) -> usize {
        (0..self.rounds).map(|round| self.cells(round)).sum()
    }

    /// Cells of the whole grid, for comparison.
    pub fn full_cells(&self) -> usize {
        self.pairs * self.scenarios.len()
    }
}

/// How many of so many pairs stay: the better half, and never fewer than two, because one of
/// them is the incumbent.
pub fn kept_of(pairs: usize) -> usize {
    pairs.div_ceil(2).max(2).min(pairs)
}

/// ⌈log₂ n⌉
fn halvings(pairs: usize) -> usize {
    (usize::BITS - pairs.saturating_sub(1).leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("s{n}")).collect()
    }

    fn schedule(pairs: usize, scenarios: usize, seed: u64) -> Schedule {
        let ids = ids(scenarios);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        Schedule::new(pairs, &ids, seed)
    }

    #[test]
    fn twelve_pairs_on_24_scenarios_cost_48_percent() {
        let plan = schedule(12, 24, 42);
        assert_eq!(plan.rounds(), 4);
        let pairs: Vec<usize> = (0..4).map(|round| plan.pairs(round)).collect();
        assert_eq!(pairs, [12, 6, 3, 2]);
        assert_eq!((plan.all_cells(), plan.full_cells()), (138, 288));
    }

    #[test]
    fn one_or_two_pairs_have_nothing_to_halve() {
        for pairs in [1, 2] {
            let plan = schedule(pairs, 8, 42);
            assert_eq!((plan.rounds(), plan.all_cells()), (1, pairs * 8));
        }
    }

    #[test]
    fn a_scenario_that_is_added_leaves_the_others_in_their_order() {
        let (few, more) = (schedule(4, 8, 7), schedule(4, 9, 7));
        let old: Vec<&String> = more.scenarios.iter().filter(|it| *it != "s8").collect();
        assert_eq!(old, few.scenarios.iter().collect::<Vec<_>>());
        assert_ne!(few.scenarios, schedule(4, 8, 8).scenarios);
    }

    proptest! {
        #[test]
        fn every_scenario_is_used_once_and_pairs_only_get_fewer(
            pairs in 1_usize..200, scenarios in 1_usize..60, seed: u64,
        ) {
            let plan = schedule(pairs, scenarios, seed);
            let mut used: Vec<&String> =
                (0..plan.rounds()).flat_map(|round| plan.scenarios(round)).collect();
            prop_assert_eq!(plan.scenarios_until(plan.rounds() - 1).len(), scenarios);
            used.sort();
            used.dedup();
            prop_assert_eq!(used.len(), scenarios);
            for round in 0..plan.rounds() {
                prop_assert!(!plan.scenarios(round).is_empty());
                prop_assert!(plan.pairs(round + 1) <= plan.pairs(round));
                prop_assert!(plan.pairs(round) >= pairs.min(2));
            }
            prop_assert!(plan.all_cells() <= plan.full_cells());
            if halvings(pairs) <= scenarios && pairs > 1 {
                prop_assert_eq!(plan.pairs(plan.rounds() - 1), 2);
            }
        }
    }
}
