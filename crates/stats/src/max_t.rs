//! Sign-flip tests, alone and with the family-wise error rate held over many comparisons (maxT).
//!
//! **Sign-flip.** p = #{sign vectors ε : d̄(ε) ≥ d̄}/2^S, or with absolute values for the
//! two-sided test; the identity is one of the vectors, so p is never zero. Exact up to 16 blocks;
//! above, p = (1 + #)/(1 + B) over B seeded draws (Phipson and Smyth 2010).
//!
//! **Single-step maxT.** The same sign vector is applied to every comparison, each is
//! studentised, and p_adj(j) = #{ε : max_k t_k(ε) ≥ t_j}/2^S. Because the comparisons share their
//! blocks (and usually one side), their statistics are correlated; maxT uses that correlation,
//! where Holm's correction of sign-flip p values cannot reject at all with few blocks and many
//! comparisons: its smallest adjusted p is m/2^S.
//!
//! **Step-down maxT** ([`step_down`]) removes each comparison once it has been counted, strongest
//! first. It is never larger than single-step; single-step is the default because each of its
//! p values can be read alone.
//!
//! Both p values of a comparison come from the same vectors, so the adjusted one is never below
//! the raw one. A comparison with fewer than [`crate::MIN_TEST_BLOCKS`] blocks is not tested and
//! does not count in the family.
//!
//! Reference: Westfall and Young (1993), "Resampling-Based Multiple Testing"; Ge, Dudoit and Speed
//! (2003), Test 12.

use crate::describe::finite;
use crate::flips::{Flips, LANES};
use crate::{Alternative, Draws, MIN_TEST_BLOCKS, StatsError, TIE_TOLERANCE};

/// A sign-flip test of one comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    pub p: f64,
    /// Whether all sign vectors were counted.
    pub is_exact: bool,
    pub vectors: usize,
}

/// Sign-flip tests of a family of comparisons.
#[derive(Debug, Clone, PartialEq)]
pub struct MaxT {
    /// One for each comparison; `None` where it has too few blocks to be tested.
    pub tests: Vec<Option<FamilyTest>>,
    /// Whether all sign vectors were counted.
    pub is_exact: bool,
    pub vectors: usize,
}

/// One comparison's part in a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FamilyTest {
    pub blocks: usize,
    /// Of this comparison alone.
    pub p: f64,
    /// Over the whole family.
    pub p_adjusted: f64,
}

/// Sign-flip test that the mean difference is zero.
pub fn sign_flip(
    differences: &[f64],
    alternative: Alternative,
    draws: Draws,
) -> Result<SignFlip, StatsError> {
    if differences.iter().any(|d| !d.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    let wrapped: Vec<Option<f64>> = differences.iter().copied().map(Some).collect();
    let family = max_t(&[wrapped], alternative, draws)?;
    let too_few = StatsError::TooFewBlocks {
        needed: MIN_TEST_BLOCKS,
        found: differences.len(),
    };
    let test = family.tests.first().copied().flatten().ok_or(too_few)?;
    Ok(SignFlip {
        p: test.p,
        is_exact: family.is_exact,
        vectors: family.vectors,
    })
}

/// Single-step maxT over `comparisons[k][block]`, differences with `None` for missing blocks.
pub fn max_t(
    comparisons: &[Vec<Option<f64>>],
    alternative: Alternative,
    draws: Draws,
) -> Result<MaxT, StatsError> {
    let family = Family::new(comparisons, alternative, draws)?;
    let counts = family.count(&family.single_step_order());
    Ok(family.finish(comparisons.len(), &counts.raw, &counts.adjusted))
}

/// Step-down maxT; the same tests with p values that are never larger.
pub fn step_down(
    comparisons: &[Vec<Option<f64>>],
    alternative: Alternative,
    draws: Draws,
) -> Result<MaxT, StatsError> {
    let family = Family::new(comparisons, alternative, draws)?;
    let order = family.strongest_first();
    let mut counts = family.count(&Order::StepDown(order.clone()));
    let mut largest = 0;
    for &k in &order {
        largest = largest.max(counts.adjusted[k]);
        counts.adjusted[k] = largest;
    }
    Ok(family.finish(comparisons.len(), &counts.raw, &counts.adjusted))
}

/// How the maximum is taken.
enum Order {
    /// Over all comparisons; thresholds ascending, with their comparisons.
    SingleStep(Vec<(f64, usize)>),
    /// Over the comparisons from each one's place on, strongest first.
    StepDown(Vec<usize>),
}

struct Counts {
    raw: Vec<usize>,
    adjusted: Vec<usize>,
}

/// The testable comparisons and their observed statistics.
struct Family {
    members: Vec<(usize, usize)>,
    flips: Flips,
    alternative: Alternative,
    /// The statistic to reach, just below the observed one so that ties count; padded with +∞.
    thresholds: Vec<f64>,
}

impl Family {
    fn new(
        comparisons: &[Vec<Option<f64>>],
        alternative: Alternative,
        draws: Draws,
    ) -> Result<Self, StatsError> {
        let length = comparisons.first().map_or(0, Vec::len);
        if let Some(other) = comparisons.iter().find(|c| c.len() != length) {
            return Err(StatsError::LengthMismatch {
                left: length,
                right: other.len(),
            });
        }
        let blocks_of = |c: &Vec<Option<f64>>| c.iter().filter(|d| finite(**d).is_some()).count();
        let members: Vec<(usize, usize)> = comparisons
            .iter()
            .enumerate()
            .map(|(k, c)| (k, blocks_of(c)))
            .filter(|(_, blocks)| *blocks >= MIN_TEST_BLOCKS)
            .collect();
        let slices: Vec<&[Option<f64>]> = members
            .iter()
            .map(|(k, _)| comparisons[*k].as_slice())
            .collect();
        let flips = Flips::new(&slices, draws)?;
        let mut thresholds = flips.observed();
        for threshold in &mut thresholds {
            if alternative == Alternative::TwoSided {
                *threshold = threshold.abs();
            }
            *threshold -= TIE_TOLERANCE;
        }
        thresholds[members.len()..].fill(f64::INFINITY);
        Ok(Self {
            members,
            flips,
            alternative,
            thresholds,
        })
    }

    fn strongest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by(|&i, &j| self.thresholds[j].total_cmp(&self.thresholds[i]));
        order
    }

    fn single_step_order(&self) -> Order {
        let weakest_first = self.strongest_first().into_iter().rev();
        Order::SingleStep(weakest_first.map(|k| (self.thresholds[k], k)).collect())
    }

    /// Counts the sign vectors under which each threshold is reached.
    fn count(&self, order: &Order) -> Counts {
        let width = self.flips.width();
        let (raw, mut adjusted) = self.flips.fold(
            || (vec![0_usize; width], vec![0_usize; width + 1]),
            |(raw, adjusted), statistics| {
                self.count_raw(raw, statistics);
                match order {
                    Order::SingleStep(sorted) => self.count_single(sorted, adjusted, statistics),
                    Order::StepDown(order) => self.count_down(order, adjusted, statistics),
                }
            },
            |left, right| (add(left.0, &right.0), add(left.1, &right.1)),
        );
        if let Order::SingleStep(sorted) = order {
            adjusted = by_comparison(sorted, &adjusted);
        }
        Counts { raw, adjusted }
    }

    fn count_raw(&self, raw: &mut [usize], statistics: &[f64]) {
        let pairs = statistics.iter().zip(&self.thresholds);
        match (self.alternative, self.flips.is_exact()) {
            (Alternative::Greater, false) => {
                for (count, (r, threshold)) in raw.iter_mut().zip(pairs) {
                    *count += usize::from(r >= threshold);
                }
            }
            (Alternative::Greater, true) => {
                for (count, (r, threshold)) in raw.iter_mut().zip(pairs) {
                    *count += usize::from(r >= threshold) + usize::from(-r >= *threshold);
                }
            }
            (Alternative::TwoSided, is_exact) => {
                let weight = if is_exact { 2 } else { 1 };
                for (count, (r, threshold)) in raw.iter_mut().zip(pairs) {
                    *count += weight * usize::from(r.abs() >= *threshold);
                }
            }
        }
    }

    /// Bins the maximum by how many thresholds it reaches.
    fn count_single(&self, sorted: &[(f64, usize)], bins: &mut [usize], statistics: &[f64]) {
        let (high, low) = extremes(statistics);
        let mut bin = |largest: f64, weight: usize| {
            bins[sorted.partition_point(|(threshold, _)| *threshold <= largest)] += weight;
        };
        match (self.alternative, self.flips.is_exact()) {
            (Alternative::Greater, is_exact) => {
                bin(high, 1);
                if is_exact {
                    bin(-low, 1);
                }
            }
            (Alternative::TwoSided, is_exact) => {
                bin(high.max(-low), if is_exact { 2 } else { 1 });
            }
        }
    }

    fn count_down(&self, order: &[usize], counts: &mut [usize], statistics: &[f64]) {
        let (mut high, mut low) = (f64::NEG_INFINITY, f64::INFINITY);
        let is_exact = self.flips.is_exact();
        for &k in order.iter().rev() {
            high = high.max(statistics[k]);
            low = low.min(statistics[k]);
            let threshold = self.thresholds[k];
            counts[k] += match self.alternative {
                Alternative::Greater => {
                    usize::from(high >= threshold) + usize::from(is_exact && -low >= threshold)
                }
                Alternative::TwoSided => {
                    usize::from(high.max(-low) >= threshold) * if is_exact { 2 } else { 1 }
                }
            };
        }
    }

    fn finish(&self, comparisons: usize, raw: &[usize], adjusted: &[usize]) -> MaxT {
        let vectors = self.flips.vectors();
        let is_exact = self.flips.is_exact();
        let p = |count: usize| {
            if is_exact {
                count as f64 / vectors as f64
            } else {
                (count + 1) as f64 / (vectors + 1) as f64
            }
        };
        let mut tests = vec![None; comparisons];
        for (place, &(k, blocks)) in self.members.iter().enumerate() {
            tests[k] = Some(FamilyTest {
                blocks,
                p: p(raw[place]),
                p_adjusted: p(adjusted[place]),
            });
        }
        MaxT {
            tests,
            is_exact,
            vectors,
        }
    }
}

/// A maximum in bin b reaches the b smallest thresholds, so a comparison's count is the sum of
/// the bins above its place.
fn by_comparison(sorted: &[(f64, usize)], bins: &[usize]) -> Vec<usize> {
    let mut counts = vec![0; bins.len()];
    let mut reached: usize = 0;
    for (place, (_, k)) in sorted.iter().enumerate().rev() {
        reached += bins[place + 1];
        counts[*k] = reached;
    }
    counts
}

/// Largest and smallest, eight lanes at a time.
fn extremes(values: &[f64]) -> (f64, f64) {
    let mut high = [f64::NEG_INFINITY; LANES];
    let mut low = [f64::INFINITY; LANES];
    for group in values.chunks_exact(LANES) {
        for ((h, l), v) in high.iter_mut().zip(&mut low).zip(group) {
            *h = if v > h { *v } else { *h };
            *l = if v < l { *v } else { *l };
        }
    }
    let high = high.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let low = low.into_iter().fold(f64::INFINITY, f64::min);
    (high, low)
}

fn add(mut left: Vec<usize>, right: &[usize]) -> Vec<usize> {
    for (l, r) in left.iter_mut().zip(right) {
        *l += r;
    }
    left
}

#[cfg(test)]
#[path = "max_t/tests.rs"]
mod tests;
