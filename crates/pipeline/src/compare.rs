//! Compare: the leaderboard of (model, prompt) pairs, with its uncertainty.
//!
//! [`read`] turns tracked verdicts into scores per pair and scenario; [`rank`] turns those into
//! rows, tests and a decision. The unit is the scenario: candidates of one cell are correlated,
//! so every interval and test works on cell means.

use assize_domain::judge::Tier;
use assize_domain::leaderboard::Leaderboard;
use assize_domain::scenario::Split;
use assize_store::Tracking;

use crate::{PipelineError, Result};

mod rank;
mod read;
mod sentence;

/// What to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    pub experiment: String,
    /// Whose verdicts count; expert where it has judged anything, else auto.
    pub tier: Option<Tier>,
    /// `MODEL/PROMPT`.
    pub incumbent: Option<String>,
    pub split: Split,
    /// Seeds what is drawn where exact enumeration is out of reach.
    pub seed: u64,
}

/// Reads the experiment and ranks its pairs.
pub fn compare(store: &dyn Tracking, options: &CompareOptions) -> Result<Leaderboard> {
    let scores = read::read(store, options)?;
    let tier = options.tier.unwrap_or_else(|| scores.default_tier());
    let incumbent = match &options.incumbent {
        Some(wanted) => Some(scores.find_pair(wanted).ok_or_else(|| {
            let known: Vec<String> = scores
                .pairs()
                .iter()
                .map(|pair| format!("{}/{}", pair.model, pair.prompt))
                .collect();
            PipelineError::Invalid(format!(
                "the incumbent '{wanted}' is no pair of this experiment: use one of {}",
                known.join(", ")
            ))
        })?),
        None => scores.first_pair(),
    };
    rank::rank(&scores, tier, incumbent, options)
}
