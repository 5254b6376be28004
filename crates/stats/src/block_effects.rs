//! Who loses: the difference of two treatments block by block, and by groups of blocks.
//!
//! The smallest of S noisy differences gets smaller as S grows, even where no block loses. The
//! differences are therefore judged without their noise. d_s = ȳ(a, s) − ȳ(b, s) has the sampling
//! variance v_s = σ̂²(1/K(a, s) + 1/K(b, s)), where σ̂² = ΣΣ(y − ȳ)²/Σ(K − 1) is pooled over the
//! replicates of both treatments, and is shrunk by [`crate::shrinkage`].
//!
//! **Without replicates** (one per cell everywhere) the noise cannot be told from the effects. Then
//! the whole spread counts as noise, and each block is given an upper bound of its effect, adjusted
//! over the blocks: d_s + t(1 − α/S, S − 2)·sd of the other blocks' differences. A block is harmed for
//! certain only if this bound is low.
//!
//! **Groups** ([`group_effects`]). ȳ_g is the mean of the differences of group g, with standard error
//! σ̂_w/√n_g, where σ̂_w² is pooled within groups; the means are shrunk in the same way. A group of one
//! block is marked: it is the block, not the group.

use crate::describe::{mean, sd, variance};
use crate::dist::t_quantile;
use crate::shrinkage::shrink;
use crate::table::Cell;
use crate::{StatsError, TIE_TOLERANCE};

/// What a block's estimate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// The noise is known from replicates: estimates are shrunken differences.
    Replicates,
    /// The whole spread counts as noise: estimates are upper bounds adjusted over the blocks.
    Spread,
}

/// The differences of two treatments, block by block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockEffects {
    pub noise: Noise,
    /// The mean effect: precision-weighted with replicates, plain without.
    pub mean: f64,
    /// The variance of the effects without the noise; zero without replicates.
    pub between_variance: f64,
    /// One for each block that both treatments have.
    pub blocks: Vec<BlockEffect>,
    /// The place in `blocks` of the smallest estimate.
    pub worst: usize,
}

/// One block's difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockEffect {
    /// Its index in the table.
    pub block: usize,
    /// As observed.
    pub difference: f64,
    /// The shrunken difference, or the upper bound: see [`Noise`].
    pub estimate: f64,
    /// The standard deviation of the shrunken difference, or of the noise.
    pub sd: f64,
}

impl BlockEffects {
    /// The block with the smallest estimate.
    pub fn worst(&self) -> Option<&BlockEffect> {
        self.blocks.get(self.worst)
    }
}

/// The effect in a group of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupEffect {
    pub group: usize,
    pub blocks: usize,
    /// The mean difference as observed.
    pub mean: f64,
    /// `None` where every group has one block.
    pub se: Option<f64>,
    /// The shrunken mean difference.
    pub estimate: Option<f64>,
    /// Whether the group has fewer than two blocks.
    pub is_single: bool,
}

/// The differences `left` − `right` of two treatments' cells by block; `alpha` is the error rate of
/// the upper bounds where there are no replicates.
pub fn block_effects(
    left: &[Option<Cell>],
    right: &[Option<Cell>],
    alpha: f64,
) -> Result<BlockEffects, StatsError> {
    if left.len() != right.len() {
        return Err(StatsError::LengthMismatch {
            left: left.len(),
            right: right.len(),
        });
    }
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(StatsError::ParameterOutOfRange {
            what: "alpha",
            value: alpha,
            range: "(0, 1)",
        });
    }
    let pairs: Vec<(usize, Cell, Cell)> = left
        .iter()
        .zip(right)
        .enumerate()
        .filter_map(|(block, (l, r))| Some((block, (*l)?, (*r)?)))
        .collect();
    let cells = || pairs.iter().flat_map(|(_, l, r)| [l, r]);
    let df: usize = cells().map(|cell| cell.rows.saturating_sub(1)).sum();
    if df == 0 {
        return upper_bounds(&pairs, alpha);
    }
    let within = cells().map(|cell| cell.squared_deviations).sum::<f64>() / df as f64;
    let differences: Vec<f64> = pairs.iter().map(|(_, l, r)| l.mean - r.mean).collect();
    let variances: Vec<f64> = pairs
        .iter()
        .map(|(_, l, r)| within * (1.0 / l.rows as f64 + 1.0 / r.rows as f64))
        .collect();
    let shrunken = shrink(&differences, &variances)?;
    let blocks = pairs.iter().zip(&differences).zip(&shrunken.effects);
    let blocks = blocks.map(|(((block, ..), difference), effect)| BlockEffect {
        block: *block,
        difference: *difference,
        estimate: effect.mean,
        sd: effect.sd,
    });
    Ok(finish(
        Noise::Replicates,
        shrunken.mean,
        shrunken.between_variance,
        blocks.collect(),
    ))
}

fn upper_bounds(pairs: &[(usize, Cell, Cell)], alpha: f64) -> Result<BlockEffects, StatsError> {
    let differences: Vec<f64> = pairs.iter().map(|(_, l, r)| l.mean - r.mean).collect();
    let count = differences.len();
    let too_few = || StatsError::TooFewBlocks {
        needed: 3,
        found: count,
    };
    if count < 3 {
        return Err(too_few());
    }
    let quantile = t_quantile(1.0 - alpha / count as f64, (count - 2) as f64);
    let quantile = quantile.ok_or_else(too_few)?;
    let mut blocks = Vec::with_capacity(count);
    for (place, (block, ..)) in pairs.iter().enumerate() {
        let mut others = differences.clone();
        let difference = others.swap_remove(place);
        let noise = sd(&others).ok_or_else(too_few)?;
        blocks.push(BlockEffect {
            block: *block,
            difference,
            estimate: difference + quantile * noise,
            sd: noise,
        });
    }
    let mean = mean(&differences).ok_or_else(too_few)?;
    Ok(finish(Noise::Spread, mean, 0.0, blocks))
}

fn finish(
    noise: Noise,
    mean: f64,
    between_variance: f64,
    blocks: Vec<BlockEffect>,
) -> BlockEffects {
    let smallest = (0..blocks.len()).min_by(|&left, &right| {
        let estimates = (blocks[left].estimate, blocks[right].estimate);
        let differences = (blocks[left].difference, blocks[right].difference);
        let by_estimate = if (estimates.0 - estimates.1).abs() <= TIE_TOLERANCE {
            std::cmp::Ordering::Equal
        } else {
            estimates.0.total_cmp(&estimates.1)
        };
        by_estimate.then(differences.0.total_cmp(&differences.1))
    });
    BlockEffects {
        noise,
        mean,
        between_variance,
        worst: smallest.unwrap_or_default(),
        blocks,
    }
}

/// The effect in each group; `groups` says to which group each difference belongs. In order of the
/// groups' numbers; groups without differences are left out.
pub fn group_effects(
    differences: &[f64],
    groups: &[usize],
) -> Result<Vec<GroupEffect>, StatsError> {
    if differences.len() != groups.len() {
        return Err(StatsError::LengthMismatch {
            left: differences.len(),
            right: groups.len(),
        });
    }
    if differences.iter().any(|d| !d.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    let mut members: std::collections::BTreeMap<usize, Vec<f64>> =
        std::collections::BTreeMap::new();
    for (group, difference) in groups.iter().zip(differences) {
        members.entry(*group).or_default().push(*difference);
    }
    let df = differences.len() - members.len();
    let squares: f64 = members
        .values()
        .filter_map(|own| Some(variance(own)? * (own.len() - 1) as f64))
        .sum();
    let within = (df > 0).then(|| squares / df as f64);
    let mut effects: Vec<GroupEffect> = members
        .iter()
        .map(|(group, own)| GroupEffect {
            group: *group,
            blocks: own.len(),
            mean: mean(own).unwrap_or(f64::NAN),
            se: within.map(|within| (within / own.len() as f64).sqrt()),
            estimate: None,
            is_single: own.len() < 2,
        })
        .collect();
    let means: Vec<f64> = effects.iter().map(|effect| effect.mean).collect();
    let variances: Option<Vec<f64>> = effects.iter().map(|e| Some(e.se?.powi(2))).collect();
    if let Some(variances) = variances.filter(|variances| !variances.is_empty()) {
        let shrunken = shrink(&means, &variances)?;
        for (effect, shrunken) in effects.iter_mut().zip(&shrunken.effects) {
            effect.estimate = Some(shrunken.mean);
        }
    }
    Ok(effects)
}
