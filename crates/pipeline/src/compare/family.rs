//! Every pair against the incumbent, as one family of tests.
//!
//! The board shows these figures, and [`super::decision`] decides on them.

use assize_domain::leaderboard::Versus;
use assize_stats::{Alternative, Draws, Interval, describe, min_p, paired};

use super::comparability::Obstacle;

/// Random draws where there are too many scenarios to enumerate.
pub const DRAWS: usize = 10_000;

/// The tests of one tier's scores, by pair.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Family {
    /// The pair that all others are compared with; `None` where it has no judged scenario.
    pub incumbent: Option<usize>,
    pub members: Vec<Member>,
    /// How p is adjusted; `None` where nothing was tested.
    pub method: Option<min_p::Method>,
}

/// One pair of a family.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Member {
    /// Scenarios in which the pair is judged.
    pub scenarios: usize,
    /// The paired difference to the incumbent; `None` for the incumbent itself, and where the two
    /// share no judged scenario.
    pub versus: Option<Versus>,
    /// The standard deviation of that difference over scenarios.
    pub sd: Option<f64>,
    /// Why the difference may not be one of quality.
    pub obstacle: Option<Obstacle>,
}

impl Family {
    /// Tests every pair against the incumbent; `means` is by pair, then by scenario.
    pub fn new(means: &[Vec<Option<f64>>], incumbent: Option<usize>, seed: u64) -> Self {
        Self::drawn(means, incumbent, Draws { count: DRAWS, seed })
    }

    /// [`Family::new`] with another number of draws.
    pub fn drawn(means: &[Vec<Option<f64>>], incumbent: Option<usize>, draws: Draws) -> Self {
        let judged = |pair: &[Option<f64>]| pair.iter().flatten().count();
        let incumbent = incumbent.filter(|it| means.get(*it).is_some_and(|pair| judged(pair) > 0));
        let mut members: Vec<Member> = means
            .iter()
            .map(|pair| Member {
                scenarios: judged(pair),
                ..Member::default()
            })
            .collect();
        let method = incumbent.and_then(|it| test(means, it, draws, &mut members));
        Self {
            incumbent,
            members,
            method,
        }
    }

    /// The pairs that are compared with the incumbent.
    pub fn challengers(&self) -> impl Iterator<Item = (usize, &Member)> {
        let judged = self.members.iter().enumerate();
        judged.filter(|(pair, it)| it.scenarios > 0 && Some(*pair) != self.incumbent)
    }

    /// How many pairs have an adjusted p.
    pub fn tested(&self) -> usize {
        let versus = self.members.iter().filter_map(|it| it.versus.as_ref());
        versus.filter(|it| it.p_adjusted.is_some()).count()
    }

    /// The paired difference of one pair to the incumbent.
    pub fn versus(&self, pair: usize) -> Option<&Versus> {
        self.members.get(pair)?.versus.as_ref()
    }
}

fn test(
    means: &[Vec<Option<f64>>],
    incumbent: usize,
    draws: Draws,
    members: &mut [Member],
) -> Option<min_p::Method> {
    let challengers: Vec<usize> = (0..means.len()).filter(|pair| *pair != incumbent).collect();
    let differences: Vec<Vec<Option<f64>>> = challengers
        .iter()
        .map(|pair| paired::differences(&means[*pair], &means[incumbent]))
        .collect();
    let family = min_p::family_tests(&differences, Alternative::Greater, draws).ok();
    let tests = family.as_ref().map_or(&[][..], |it| &it.tests);
    for (position, pair) in challengers.into_iter().enumerate() {
        let shared: Vec<f64> = differences[position].iter().flatten().copied().collect();
        let Some(mean) = describe::mean(&shared) else {
            continue;
        };
        let test = tests.get(position).copied().flatten();
        let paired = paired::paired_diff(&shared, 0.95).ok();
        members[pair].sd = describe::sd(&shared);
        members[pair].versus = Some(Versus {
            diff: mean,
            ci95: paired.map(|it| ends(it.interval)),
            lower95: paired.map(|it| it.lower_bound),
            scenarios: u32::try_from(shared.len()).unwrap_or(u32::MAX),
            p: test.map(|it| it.p),
            p_adjusted: test.map(|it| it.p_adjusted),
            judged_apart: None,
        });
    }
    let is_tested = tests.iter().any(Option::is_some);
    family.filter(|_| is_tested).map(|it| it.method)
}

pub fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}
