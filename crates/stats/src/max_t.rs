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
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::{max_t, sign_flip, step_down};
    use crate::{Alternative, Draws, StatsError};

    const DRAWS: Draws = Draws {
        count: 20_000,
        seed: 3,
    };

    #[test]
    fn the_smallest_p_is_one_vector() {
        let test = sign_flip(&[1.0, 2.0, 3.0, 4.0, 5.0], Alternative::Greater, DRAWS).unwrap();
        assert_eq!(
            (test.p, test.is_exact, test.vectors),
            (1.0 / 32.0, true, 32)
        );
    }

    #[test]
    fn four_blocks_are_refused() {
        let refused = sign_flip(&[1.0; 4], Alternative::Greater, DRAWS);
        let (needed, found) = (5, 4);
        assert_eq!(refused, Err(StatsError::TooFewBlocks { needed, found }));
    }

    #[test]
    fn all_ties_give_p_one() {
        let test = sign_flip(&[0.0; 6], Alternative::TwoSided, DRAWS).unwrap();
        assert_eq!(test.p, 1.0);
    }

    #[test]
    fn a_constant_difference_is_tested() {
        let test = sign_flip(&[0.2; 6], Alternative::TwoSided, DRAWS).unwrap();
        assert_eq!(test.p, 2.0 / 64.0);
    }

    #[test]
    fn drawing_approaches_enumeration() {
        let exact = [
            0.9, -0.2, 0.4, 1.1, -0.7, 0.3, 0.8, 0.1, -0.3, 0.5, 0.6, -0.1,
        ];
        // Zeros change neither the sum nor Σd², and take the count of blocks above the limit.
        let padded: Vec<f64> = exact.iter().copied().chain([0.0; 8]).collect();
        let p = sign_flip(&exact, Alternative::Greater, DRAWS).unwrap().p;
        let drawn = sign_flip(&padded, Alternative::Greater, DRAWS).unwrap();
        assert!(!drawn.is_exact);
        let error = (p * (1.0 - p) / 20_000.0).sqrt();
        assert!((drawn.p - p).abs() < 4.0 * error, "{} {p}", drawn.p);
    }

    #[test]
    fn a_comparison_with_few_blocks_stays_out_of_the_family() {
        let strong: Vec<Option<f64>> = (1..=6).map(|d| Some(f64::from(d))).collect();
        let mut sparse = strong.clone();
        sparse[..3].fill(None);
        let family = max_t(&[strong, sparse], Alternative::Greater, DRAWS).unwrap();
        assert_eq!(family.tests[0].unwrap().p_adjusted, 1.0 / 64.0);
        assert_eq!(family.tests[1], None);
        let nothing = max_t(&[], Alternative::Greater, DRAWS).unwrap();
        assert!(nothing.tests.is_empty());
    }

    #[test]
    fn ragged_comparisons_keep_their_own_p() {
        let full: Vec<Option<f64>> = [0.5, -0.1, 0.7, 0.9, -0.3, 0.2, 1.0].map(Some).to_vec();
        let mut missing = full.clone();
        missing[6] = None;
        let family = max_t(&[full, missing], Alternative::Greater, DRAWS).unwrap();
        let six = [0.5, -0.1, 0.7, 0.9, -0.3, 0.2];
        let alone = sign_flip(&six, Alternative::Greater, DRAWS).unwrap();
        let test = family.tests[1].unwrap();
        assert_eq!((test.blocks, test.p), (6, alone.p));
        assert!(test.p_adjusted >= test.p);
    }

    #[test]
    fn step_down_is_never_larger() {
        let wave = |phase: u32| -> Vec<Option<f64>> {
            (0..9)
                .map(|s| Some(f64::from((s * 7 + phase * 5) % 11) - 3.5))
                .collect()
        };
        let family: Vec<_> = (0..6).map(wave).collect();
        let single = max_t(&family, Alternative::TwoSided, DRAWS).unwrap();
        let down = step_down(&family, Alternative::TwoSided, DRAWS).unwrap();
        for (s, d) in single.tests.iter().zip(&down.tests) {
            assert!(d.unwrap().p_adjusted <= s.unwrap().p_adjusted);
            assert_eq!(d.unwrap().p, s.unwrap().p);
        }
    }
}
