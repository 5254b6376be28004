//! Many comparisons with unequal numbers of blocks: single-step minP over sign flips.
//!
//! maxT compares the statistics of different comparisons with each other, which needs a common
//! scale. With unequal numbers of blocks t is not one: with five blocks t reaches large values
//! under 1 of 32 sign vectors, whatever the data say, and a comparison with many blocks would have
//! to exceed them. minP puts every comparison on the scale of its own p value instead:
//!
//! p_k(ε) = #{ε′ : t_k(ε′) ≥ t_k(ε)}/V over the same V sign vectors, and
//! p_adj(j) = #{ε : min_k p_k(ε) ≤ p_j}/V.
//!
//! A comparison with n blocks cannot have a p below 1/2^n, so it costs the others nothing below
//! that. Exact up to 16 blocks in the union of all comparisons; above, V = 1 + B with the data as
//! they are and B seeded draws, all of which are equally likely under the null hypothesis.
//!
//! Each comparison's statistics are sorted once, and only the running minimum over comparisons is
//! kept: the memory grows with V and not with the number of comparisons. Exact enumeration visits
//! one vector of each mirrored pair: the other has the statistic −t.
//!
//! [`family_tests`] uses maxT where every tested comparison has as many blocks (there both are
//! valid, and maxT distinguishes more values) and minP otherwise, and says which.
//!
//! Reference: Westfall and Young (1993), "Resampling-Based Multiple Testing", algorithm 2.5; Ge,
//! Dudoit and Speed (2003), Test 12, section 4.

use crate::describe::finite;
use crate::flips::{Flips, LANES};
use crate::max_t::{FamilyTest, max_t};
use crate::{Alternative, Draws, MIN_TEST_BLOCKS, StatsError, TIE_TOLERANCE};
use rayon::prelude::*;

/// How the error rate is held over a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The largest studentised difference.
    MaxT,
    /// The smallest p value.
    MinP,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxT => "maxT",
            Self::MinP => "minP",
        }
    }
}

/// Sign-flip tests of a family of comparisons, and how they were adjusted.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyTests {
    /// One for each comparison; `None` where it has too few blocks to be tested.
    pub tests: Vec<Option<FamilyTest>>,
    /// Whether all sign vectors were counted.
    pub is_exact: bool,
    pub vectors: usize,
    pub method: Method,
}

/// Tests `comparisons[k][block]` (`None` for missing blocks) by maxT where every tested comparison
/// has as many blocks, and by minP otherwise.
pub fn family_tests(
    comparisons: &[Vec<Option<f64>>],
    alternative: Alternative,
    draws: Draws,
) -> Result<FamilyTests, StatsError> {
    let members = members(comparisons);
    if members.iter().any(|(_, blocks)| *blocks != members[0].1) {
        return min_p(comparisons, alternative, draws);
    }
    let family = max_t(comparisons, alternative, draws)?;
    Ok(FamilyTests {
        tests: family.tests,
        is_exact: family.is_exact,
        vectors: family.vectors,
        method: Method::MaxT,
    })
}

/// Single-step minP over `comparisons[k][block]`, differences with `None` for missing blocks.
pub fn min_p(
    comparisons: &[Vec<Option<f64>>],
    alternative: Alternative,
    draws: Draws,
) -> Result<FamilyTests, StatsError> {
    let length = comparisons.first().map_or(0, Vec::len);
    if let Some(other) = comparisons.iter().find(|c| c.len() != length) {
        return Err(StatsError::LengthMismatch {
            left: length,
            right: other.len(),
        });
    }
    let members = members(comparisons);
    let slices: Vec<&[Option<f64>]> = members
        .iter()
        .map(|(k, _)| comparisons[*k].as_slice())
        .collect();
    let flips = Flips::new(&slices, draws)?;
    let (counts, mut smallest) = ranked(&flips, members.len(), alternative);
    smallest.sort_unstable();
    // The data as they are come on top of the draws, and are among the exact vectors.
    let total = flips.vectors() + usize::from(!flips.is_exact());
    let p = |count: usize| count as f64 / total as f64;
    let mut tests = vec![None; comparisons.len()];
    for (&(k, blocks), count) in members.iter().zip(&counts) {
        tests[k] = Some(FamilyTest {
            blocks,
            p: p(*count as usize),
            p_adjusted: p(smallest.partition_point(|least| least <= count)),
        });
    }
    Ok(FamilyTests {
        tests,
        is_exact: flips.is_exact(),
        vectors: flips.vectors(),
        method: Method::MinP,
    })
}

/// The comparisons that can be tested, with their numbers of blocks.
fn members(comparisons: &[Vec<Option<f64>>]) -> Vec<(usize, usize)> {
    let blocks_of = |c: &Vec<Option<f64>>| c.iter().filter(|d| finite(**d).is_some()).count();
    comparisons
        .iter()
        .enumerate()
        .map(|(k, c)| (k, blocks_of(c)))
        .filter(|(_, blocks)| *blocks >= MIN_TEST_BLOCKS)
        .collect()
}

/// For each member, how many vectors reach its observed statistic; and for each vector, the
/// smallest such number over the members.
fn ranked(flips: &Flips, members: usize, alternative: Alternative) -> (Vec<u32>, Vec<u32>) {
    let observed = flips.observed_r();
    let mut counts = Vec::with_capacity(members);
    let mut smallest: Vec<u32> = Vec::new();
    for first in (0..members).step_by(LANES) {
        let statistics = flips.lanes(first);
        let lanes = LANES.min(members - first);
        let reached: Vec<Vec<u32>> = (0..lanes)
            .into_par_iter()
            .map(|lane| {
                let column = statistics.iter().skip(lane).step_by(LANES).copied();
                if flips.is_exact() {
                    reached_exact(&column.collect::<Vec<_>>(), alternative)
                } else {
                    let own = observed[first + lane];
                    let all: Vec<f64> = std::iter::once(own).chain(column).collect();
                    reached_drawn(&all, alternative)
                }
            })
            .collect();
        for column in reached {
            counts.extend(column.first());
            if smallest.is_empty() {
                smallest = column;
            } else {
                for (least, count) in smallest.iter_mut().zip(column) {
                    *least = count.min(*least);
                }
            }
        }
    }
    (counts, smallest)
}

/// For each statistic, how many are at least as large.
fn reached_drawn(statistics: &[f64], alternative: Alternative) -> Vec<u32> {
    let total = narrow(statistics.len());
    let places = match alternative {
        Alternative::Greater => tied_places(statistics),
        Alternative::TwoSided => tied_places(&sizes(statistics)),
    };
    places.into_iter().map(|(below, _)| total - below).collect()
}

/// The same for half of all statistics and then for their mirrored half, over both halves.
fn reached_exact(half: &[f64], alternative: Alternative) -> Vec<u32> {
    let sizes = sizes(half);
    let places = tied_places(&sizes);
    let count = narrow(half.len());
    let of = |size: f64, (below, through): (u32, u32), is_positive: bool| match alternative {
        Alternative::TwoSided => 2 * (count - below),
        Alternative::Greater if is_positive && size > TIE_TOLERANCE => count - below,
        Alternative::Greater => count + through,
    };
    let signed = |mirror: bool| {
        let all = half.iter().zip(&sizes).zip(&places);
        all.map(move |((r, size), place)| of(*size, *place, (*r > 0.0) != mirror))
    };
    signed(false).chain(signed(true)).collect()
}

fn sizes(statistics: &[f64]) -> Vec<f64> {
    statistics.iter().map(|r| r.abs()).collect()
}

/// For each value, how many lie below its group of ties, and how many below or in it. Neighbours
/// closer than the tolerance are ties.
fn tied_places(values: &[f64]) -> Vec<(u32, u32)> {
    let mut sorted: Vec<(f64, u32)> = values.iter().copied().zip(0..).collect();
    sorted.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
    let mut places = vec![(0, 0); values.len()];
    let mut below = 0;
    for group in sorted.chunk_by(|left, right| right.0 - left.0 <= TIE_TOLERANCE) {
        let through = below + narrow(group.len());
        for (_, index) in group {
            places[*index as usize] = (below, through);
        }
        below = through;
    }
    places
}

/// Counts of vectors; more than 2^32 of them would not fit in memory.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
