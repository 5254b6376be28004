//! The error type: why a figure cannot be computed, and the remedy.

use thiserror::Error;

/// Why a figure cannot be computed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StatsError {
    #[error("{found} blocks are too few: at least {needed} are needed; add blocks")]
    TooFewBlocks { needed: usize, found: usize },
    #[error("{found} items are too few: at least {needed} are needed; score more items")]
    TooFewItems { needed: usize, found: usize },
    #[error("the inputs have {left} and {right} entries; pass slices of the same length")]
    LengthMismatch { left: usize, right: usize },
    #[error("{what} {index} is outside 0..{len}; check how the table was indexed")]
    IndexOutOfRange {
        what: &'static str,
        index: usize,
        len: usize,
    },
    #[error("{what} is {value}, which is outside its range {range}")]
    ParameterOutOfRange {
        what: &'static str,
        value: f64,
        range: &'static str,
    },
    #[error("a value is not a finite number; leave it out as missing instead")]
    NotFinite,
}
