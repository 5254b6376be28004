//! Whether two pairs were collected and judged alike.
//!
//! A difference between two pairs is one of quality only if nothing else differed. A later sitting
//! that is 0.2 points kinder in each criterion promotes an equal pair in 29 % of experiments with 8
//! scenarios, if one pair was judged in it and the other before.

use super::read::{Lost, RaterShare, Scores, TierScores};

/// What differed between a candidate and its incumbent besides model and prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparability {
    /// Settings of collect that only one of the two has, in words.
    pub settings: Vec<String>,
    /// The share of requested candidates that never came, of the candidate and the incumbent.
    pub lost: [f64; 2],
}

/// Why a difference between two pairs may not be one of quality.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Obstacle {
    /// This share of their verdicts comes from different raters.
    JudgedApart(f64),
    /// They were collected with different settings.
    Settings,
    /// Their shares of failed requests are this far apart.
    Failures(f64),
}

impl Comparability {
    pub fn between(scores: &Scores, candidate: usize, incumbent: usize) -> Self {
        let apart = scores.settings_apart(candidate, incumbent).into_iter();
        Self {
            settings: apart.map(str::to_owned).collect(),
            lost: [candidate, incumbent].map(|pair| Lost::share(scores.lost(pair))),
        }
    }
}

/// Whose verdicts each pair has, by scenario.
#[derive(Debug)]
pub struct RatersOfPairs {
    raters: usize,
    by_pair: Vec<Vec<RaterShare>>,
}

impl RatersOfPairs {
    pub fn of(judged: &TierScores) -> Self {
        let mut by_pair: Vec<Vec<RaterShare>> = Vec::new();
        for share in judged.shares() {
            let pair = share.pair as usize;
            if by_pair.len() <= pair {
                by_pair.resize_with(pair + 1, Vec::new);
            }
            by_pair[pair].push(*share);
        }
        for shares in &mut by_pair {
            shares.sort_by_key(|it| it.scenario);
        }
        Self {
            raters: judged.raters().len(),
            by_pair,
        }
    }

    /// The share of verdicts on two pairs that come from different raters: 0 where every rater
    /// judged the same share of both, 1 where no rater judged both. `None` where the two share no
    /// judged scenario.
    ///
    /// It is the total variation distance ½Σ|p − q| of the two distributions of verdicts over
    /// raters ([`super::read::Rater`]). Every shared scenario counts the same.
    pub fn judged_apart(&self, left: usize, right: usize) -> Option<f64> {
        let of = |pair: usize| self.by_pair.get(pair).map_or(&[][..], Vec::as_slice);
        let mut others = of(right)
            .chunk_by(|a, b| a.scenario == b.scenario)
            .peekable();
        let mut balance = vec![0.0; self.raters];
        let mut shared = 0_u32;
        for ours in of(left).chunk_by(|a, b| a.scenario == b.scenario) {
            let scenario = ours[0].scenario;
            while others.next_if(|it| it[0].scenario < scenario).is_some() {}
            let Some(theirs) = others.next_if(|it| it[0].scenario == scenario) else {
                continue;
            };
            shared += 1;
            for (side, sign) in [(ours, 1.0), (theirs, -1.0)] {
                let total: f64 = side.iter().map(|it| f64::from(it.verdicts)).sum();
                for share in side {
                    balance[share.rater as usize] += sign * f64::from(share.verdicts) / total;
                }
            }
        }
        let apart = balance.iter().map(|it: &f64| it.abs()).sum::<f64>() / 2.0;
        (shared > 0).then(|| apart / f64::from(shared))
    }
}
