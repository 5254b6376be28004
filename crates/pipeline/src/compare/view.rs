//! The scores that a board shows: one tier's, or both tiers' combined.

use std::borrow::Cow;

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{BoardTier, Combination, CombinedSample};
use assize_stats::table::Table;
use assize_stats::two_tier::{Lambda, paired_two_tier_table};
use assize_store::Tracking;

use super::read::{Scores, TierScores};
use super::{CompareOptions, rank, two_tier};
use crate::{PipelineError, Result};

/// The scores that a board shows.
#[derive(Debug)]
pub struct View<'a> {
    pub tier: BoardTier,
    /// The verdicts behind criteria, flags and counts.
    pub judged: Cow<'a, TierScores>,
    /// The tier whose coverage is reported.
    pub coverage: Tier,
    pub table: Table,
    /// By pair, then by scenario: what is ranked and tested.
    pub means: Vec<Vec<Option<f64>>>,
    pub combination: Option<Combination>,
}

impl<'a> View<'a> {
    pub fn of(
        store: &dyn Tracking,
        scores: &'a Scores,
        tier: BoardTier,
        incumbent: Option<usize>,
        options: &CompareOptions,
    ) -> Result<Self> {
        match tier {
            BoardTier::Expert => Self::of_tier(scores, Tier::Expert),
            BoardTier::Auto => Self::of_tier(scores, Tier::Auto),
            BoardTier::Combined => Self::combined(store, scores, incumbent, options),
        }
    }

    fn of_tier(scores: &'a Scores, tier: Tier) -> Result<Self> {
        let judged = scores
            .tier(tier)
            .map_or_else(|| Cow::Owned(TierScores::default()), Cow::Borrowed);
        let table = rank::table(scores, &judged)?;
        Ok(Self {
            tier: tier.into(),
            coverage: tier,
            means: table.means(),
            table,
            judged,
            combination: None,
        })
    }

    /// The automatic scores of all candidates, corrected by the experts' scores of some.
    fn combined(
        store: &dyn Tracking,
        scores: &'a Scores,
        incumbent: Option<usize>,
        options: &CompareOptions,
    ) -> Result<Self> {
        let unusable = |why: &str| {
            PipelineError::Invalid(format!(
                "the tiers cannot be combined: {why}; have experts judge a sample of what the automatic \
                 tier has judged (assize judge export --spot-check), or name one tier"
            ))
        };
        let incumbent =
            incumbent.ok_or_else(|| unusable("there is no incumbent to compare with"))?;
        let tiers = two_tier::read(store, &options.experiment, options.split, scores)?;
        let found = paired_two_tier_table(&tiers.cells, incumbent, Lambda::Tuned, 0.95)
            .map_err(|error| unusable(&error.to_string()))?;
        let pairs = scores.pairs();
        let samples = found.differences.iter().enumerate();
        let samples = samples.filter_map(|(pair, difference)| {
            let difference = difference.as_ref()?;
            Some(CombinedSample {
                pair: pairs[pair].clone(),
                expert_scores: difference.trusted_items as u64,
                effective_scores: difference.effective_items,
            })
        });
        let samples: Vec<CombinedSample> = samples.collect();
        if samples.is_empty() {
            return Err(unusable(
                "no challenger has candidates with scores of both tiers in two of the incumbent's scenarios",
            ));
        }
        let expert = Self::of_tier(scores, Tier::Expert)?;
        Ok(Self {
            tier: BoardTier::Combined,
            coverage: Tier::Auto,
            means: found.pseudo_values,
            combination: Some(Combination {
                lambda: found.lambda,
                samples,
            }),
            ..expert
        })
    }
}
