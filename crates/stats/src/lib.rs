//! Statistics for comparing treatments that were all tried on the same blocks.
//!
//! A *treatment* is something that can win. A *block* is a situation in which every treatment is
//! tried, and it is the unit of sampling: rows within a block are correlated, so every interval and
//! every test here works on one number per treatment and block. *Replicates* are repeated rows of
//! one treatment in one block. *Items* are scored by *raters*.
//!
//! | module | answers |
//! |---|---|
//! | [`table`], [`score`] | what is each treatment's score, and how uncertain is it? |
//! | [`paired`] | by how much does a treatment differ from another on the blocks that both have? |
//! | [`max_t`], [`min_p`], [`multiplicity`] | is any of many treatments better, with the error rate held over all? |
//! | [`e_process`] | is a treatment better, with a test that may be looked at after every block? |
//! | [`block_effects`], [`shrinkage`] | in which blocks or groups of blocks does a treatment lose? |
//! | [`selection`], [`covariate`] | how large is a difference, after a choice or at equal length? |
//! | [`best`], [`bootstrap`] | how likely is each treatment to be the best? (for display) |
//! | [`variance`], [`power`] | what are the sources of variance, and how many blocks are needed? |
//! | [`ranks`] | rank tests, for comparison |
//! | [`agreement`], [`drift`] | do raters agree, and does a rater drift over time? |
//! | [`two_tier`], [`spot_check`] | one mean from few trusted and many cheap scores |
//! | [`simulate`] | data with known effects, to test all of this |
//!
//! Everything is a pure function: no I/O, no clock, no global randomness. A function that draws
//! takes a seed, and the same seed gives the same bits with any number of threads. Nothing
//! panics: what cannot be computed is `None` or a [`StatsError`] that says why.

#![expect(
    clippy::doc_markdown,
    reason = "the formulas in the docs are mathematics, not code"
)]

pub mod agreement;
pub mod best;
pub mod block_effects;
pub mod bootstrap;
pub mod covariate;
pub mod describe;
pub mod dist;
pub mod drift;
pub mod e_process;
mod error;
mod flips;
pub mod max_t;
pub mod min_p;
pub mod multiplicity;
pub mod paired;
pub mod power;
pub mod ranks;
pub mod rng;
pub mod score;
pub mod selection;
pub mod shrinkage;
pub mod simulate;
pub mod spot_check;
pub mod table;
pub mod two_tier;
pub mod variance;

pub use error::StatsError;

/// The fewest blocks on which a resampling test is run: with S blocks the smallest one-sided p
/// is 1/2^S, which cannot get below 0.05 with four.
pub const MIN_TEST_BLOCKS: usize = 5;

/// Numbers closer than this fraction of their scale count as equal, so that rounding in the last
/// bits neither makes nor breaks a tie.
pub(crate) const TIE_TOLERANCE: f64 = 1e-12;

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Which departures from "no difference" a test looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// Larger or smaller.
    TwoSided,
    /// Larger only.
    Greater,
}

/// How to draw where exact enumeration is out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    pub count: usize,
    pub seed: u64,
}

impl Default for Draws {
    fn default() -> Self {
        Self {
            count: 10_000,
            seed: 42,
        }
    }
}
