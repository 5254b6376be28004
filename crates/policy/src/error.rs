//! The error type: which value is wrong, and the remedy.

use thiserror::Error;

/// Why a policy cannot answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PolicyError {
    #[error("{field} is {value}, which is outside {range}; send a number in this range")]
    OutOfRange {
        field: &'static str,
        value: f64,
        range: &'static str,
    },
    #[error("{field} is not a finite number; send a number or leave it out")]
    NotFinite { field: &'static str },
    #[error(
        "feature {index} is {value}; features must be finite and between -{limit} and {limit}: scale them to about [0, 1]"
    )]
    Feature {
        index: usize,
        value: f64,
        limit: f64,
    },
    #[error(
        "{found} features were given where {expected} are needed; send features of the policy's length, or reset the user"
    )]
    Dimension { expected: usize, found: usize },
    #[error("{found} features were given; policy {policy} takes {expected}")]
    Length {
        policy: &'static str,
        expected: &'static str,
        found: usize,
    },
    #[error("there are no candidates to choose from; send at least one")]
    NoCandidates,
    #[error("{name} is not a policy; the policies are egreedy-v1, egreedy-v2 and linucb")]
    UnknownPolicy { name: String },
    #[error("{number} is not a feature version; the versions are 1 and 2")]
    UnknownFeatureVersion { number: u8 },
    #[error("a stored state cannot be read: {reason}; reset the user or restore a backup")]
    State { reason: &'static str },
    #[error("the simulation cannot run: {problem}")]
    Simulation { problem: &'static str },
    #[error(
        "a model's matrix is no longer positive definite; scale the features to about [0, 1] or raise lambda, and reset the user"
    )]
    NotPositiveDefinite,
}

/// `value`, if it is finite and `holds`.
pub(crate) fn in_range(
    field: &'static str,
    value: f64,
    holds: bool,
    range: &'static str,
) -> Result<f64, PolicyError> {
    if !value.is_finite() {
        return Err(PolicyError::NotFinite { field });
    }
    if holds {
        Ok(value)
    } else {
        Err(PolicyError::OutOfRange {
            field,
            value,
            range,
        })
    }
}
