//! One halving: which pairs continue.
//!
//! Pairs are ranked by their mean difference to the incumbent over the scenarios that both have,
//! so that a failed cell makes no pair look better or worse. With whole data that is the
//! order of the means. The incumbent always stays; where it is not among the better half it takes
//! the last place there, so that the cost of a round is known before it begins.

use assize_stats::describe::mean;
use assize_stats::paired::differences;

/// Where a pair stands after a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Its place in the list of all pairs.
    pub pair: usize,
    /// The mean difference to the incumbent; `None` where they share no judged scenario.
    pub diff: Option<f64>,
    /// Scenarios that the pair shares with the incumbent.
    pub scenarios: usize,
}

/// The pairs that continue and those that are dropped, each best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Halved {
    pub kept: Vec<Standing>,
    pub dropped: Vec<Standing>,
}

/// Ranks `pairs` by their cell means, `means[place][scenario]` for the pair at `place`, and keeps
/// so many. `None` where the incumbent has no judged scenario, or is not among the pairs.
pub fn halve(
    pairs: &[usize],
    means: &[Vec<Option<f64>>],
    incumbent: usize,
    keep: usize,
) -> Option<Halved> {
    let reference = means.get(pairs.iter().position(|pair| *pair == incumbent)?)?;
    reference.iter().flatten().next()?;
    let standing = |(pair, means): (&usize, &Vec<Option<f64>>)| {
        let shared: Vec<f64> = differences(means, reference)
            .into_iter()
            .flatten()
            .collect();
        Standing {
            pair: *pair,
            diff: mean(&shared),
            scenarios: shared.len(),
        }
    };
    let mut kept: Vec<Standing> = pairs.iter().zip(means).map(standing).collect();
    let worth = |it: &Standing| it.diff.unwrap_or(f64::NEG_INFINITY);
    // A stable sort: of equals the one that was named first stays.
    kept.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let mut dropped = kept.split_off(keep.clamp(1, kept.len()));
    if let Some(place) = dropped.iter().position(|it| it.pair == incumbent) {
        let incumbent = dropped.remove(place);
        if let Some(last) = kept.last_mut() {
            dropped.insert(0, std::mem::replace(last, incumbent));
        }
    }
    Some(Halved { kept, dropped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(standings: &[Standing]) -> Vec<usize> {
        standings.iter().map(|it| it.pair).collect()
    }

    fn whole(means: &[&[f64]]) -> Vec<Vec<Option<f64>>> {
        let pair = |pair: &&[f64]| pair.iter().copied().map(Some).collect();
        means.iter().map(pair).collect()
    }

    #[test]
    fn the_better_half_stays() {
        let means = whole(&[&[3.0, 3.0], &[5.0, 5.0], &[1.0, 2.0], &[4.0, 4.0]]);
        let halved = halve(&[0, 1, 2, 3], &means, 3, 2).unwrap();
        assert_eq!(places(&halved.kept), [1, 3]);
        assert_eq!(places(&halved.dropped), [0, 2]);
        assert_eq!(halved.kept[0].diff, Some(1.0));
    }

    #[test]
    fn the_incumbent_takes_the_last_place_of_the_better_half() {
        let means = whole(&[&[1.0], &[5.0], &[4.0], &[3.0]]);
        let halved = halve(&[0, 1, 2, 3], &means, 0, 2).unwrap();
        assert_eq!(places(&halved.kept), [1, 0]);
        assert_eq!(places(&halved.dropped), [2, 3]);
    }

    #[test]
    fn a_missing_cell_makes_no_pair_better() {
        // The second pair lacks the hard scenario; on what it shares it is worse.
        let means = vec![
            vec![Some(9.0), Some(2.0)],
            vec![Some(8.0), None],
            vec![Some(9.0), Some(3.0)],
            vec![None, None],
        ];
        let halved = halve(&[4, 5, 6, 7], &means, 4, 2).unwrap();
        assert_eq!(places(&halved.kept), [6, 4]);
        assert_eq!(places(&halved.dropped), [5, 7]);
        assert_eq!(halved.dropped[1].diff, None);
    }

    #[test]
    fn without_a_judged_incumbent_nothing_is_decided() {
        let means = vec![vec![None], vec![Some(1.0)]];
        assert_eq!(halve(&[0, 1], &means, 0, 1), None);
        assert_eq!(halve(&[0, 1], &means, 9, 1), None);
    }

    proptest! {
        #[test]
        fn halving_splits_the_pairs_and_keeps_the_incumbent_and_the_best(
            means in prop::collection::vec(prop::collection::vec(-9_i32..9, 4), 2..20),
            incumbent: prop::sample::Index,
            shift in -50_i32..50,
        ) {
            let table = |shift: i32| -> Vec<Vec<Option<f64>>> {
                let cell = |score: &i32| Some(f64::from(*score + shift));
                means.iter().map(|pair| pair.iter().map(cell).collect()).collect()
            };
            let pairs: Vec<usize> = (0..means.len()).collect();
            let incumbent = incumbent.index(means.len());
            let keep = super::super::schedule::kept_of(means.len());
            let halved = halve(&pairs, &table(0), incumbent, keep).unwrap();
            prop_assert_eq!(halved.kept.len(), keep);
            prop_assert!(halved.kept.iter().any(|it| it.pair == incumbent));
            let mut all = places(&halved.kept);
            all.extend(places(&halved.dropped));
            all.sort_unstable();
            prop_assert_eq!(all, pairs.clone());
            let total = |pair: usize| means[pair].iter().sum::<i32>();
            let best = pairs.iter().map(|pair| total(*pair)).max().unwrap();
            prop_assert_eq!(total(halved.kept[0].pair), best);
            for dropped in &halved.dropped {
                for kept in halved.kept.iter().filter(|it| it.pair != incumbent) {
                    prop_assert!(total(kept.pair) >= total(dropped.pair));
                }
            }
            // Scores that are all higher change nothing.
            let moved = halve(&pairs, &table(shift), incumbent, keep).unwrap();
            prop_assert_eq!(places(&moved.kept), places(&halved.kept));
        }
    }
}
