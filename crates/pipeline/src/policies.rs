//! The online policies outside of the requests that they answer: which one is active, the gate and
//! the rollout, evaluation from the log, exports, and scenarios that are sampled from decisions.
//!
//! Everything here works on the policies' file, also while a server answers requests from it.

use assize_policy::off_policy::{Evaluation, Limits, evaluate as evaluate_log};
use assize_policy::{LoggedDecision, Policy};
use assize_store::policies::{LogQuery, PolicyFile};

use crate::Result;

pub mod alarm;
pub mod export;
pub mod log;
pub mod rollout;
pub mod sample;

/// The largest log that an evaluation reads: it holds the decisions in memory.
const MOST_DECISIONS: usize = 1_000_000;

/// The reward that a policy would have had, from the rewarded decisions of the log. The newest ones
/// are used where there are too many.
pub fn evaluate(file: &PolicyFile, policy: &Policy, limits: &Limits) -> Result<Evaluation> {
    let query = LogQuery {
        rewarded: true,
        ..LogQuery::default()
    };
    let mut decisions: std::collections::VecDeque<LoggedDecision> =
        std::collections::VecDeque::new();
    file.log_each(&query, |it| {
        if decisions.len() == MOST_DECISIONS {
            decisions.pop_front();
        }
        decisions.extend(log::rewarded(&it)?);
        Ok(true)
    })?;
    Ok(evaluate_log(policy, decisions.make_contiguous(), limits)?)
}
