//! Differences of treatments from few trusted and many cheap scores, clustered by block.
//!
//! A cell (a treatment in a block) has the mean f of the cheap scores of all its replicates, and, where
//! some of them were trusted-scored, the means Y and g of the trusted and the cheap scores of just
//! these, weighted by 1/π (Hájek), where π is the probability with which the replicate was drawn. All
//! three are taken as differences to another treatment in the same block; C are the blocks where both
//! treatments have f, and L ⊂ C those where both have Y.
//!
//! θ̂(λ) = λ·mean_C f + mean_L(Y − λg): the trusted difference, moved by what the cheap scores say
//! about the rows without a trusted score; a bias of the cheap scores cancels. Blocks are the sample.
//! Block s contributes ψ_s = λ(f_s − f̄)/|C| + [s ∈ L](h_s − h̄)/|L| with h = Y − λg, and
//! SE² = |L|/(|L| − 1)·Σψ_s², with |L| − 1 degrees of freedom; for λ = 0 this is the paired t interval
//! of the trusted scores. ψ_s = a_s + λb_s is linear in λ, so that λ̂ = −Σab/Σb², clipped to [0, 1], has
//! the smallest SE. That λ̂ was fitted to the same blocks makes ψ too small; each is therefore taken as if λ
//! had been estimated without its block, ψ_s/(1 − b_s²/Σb²) (MacKinnon and White 1985, HC3). Where this SE
//! is not below that of the trusted scores alone, λ is 0.
//!
//! **Tables** ([`paired_two_tier_table`]). One λ for all treatments, which minimises the sum of SE² of
//! all differences to a reference treatment, keeps the family comparable. The pseudo-values by treatment
//! and block put the result into the form of plain scores, so that every test of paired differences
//! can use it: over the blocks of L the differences of a treatment's pseudo-values to the reference's have
//! the mean θ̂ and the variance |L|·SE². They are θ̂ + κ(|L|ψ_s − mean), with κ chosen to match. Here the
//! correction for the fitted λ is ψ_js + b_js·Σ_k c_k·b_ks·ψ_ks/(D − D_s) over the treatments k, with
//! c = |L|/(|L| − 1), D_s = Σ_k c_k·b_ks² and D = ΣD_s: for one treatment the same as above.
//!
//! References: Angelopoulos, Duchi and Zrnic (2023), "PPI++"; Liang and Zeger (1986), Biometrika 73;
//! MacKinnon and White (1985), J. Econometrics 29; Bell and McCaffrey (2002), Survey Methodology 28; Särndal, Swensson and Wretman (1992), section 6 (the difference estimator).

use super::Lambda;
use crate::describe::{mean, sum, variance};
use crate::dist::t_quantile;
use crate::paired::{PairedDiff, paired_diff};
use crate::score::check_confidence;
use crate::{Interval, StatsError};

/// One replicate: its cheap score, and its trusted one where it was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    pub cheap: f64,
    pub trusted: Option<Trusted>,
}

/// A trusted score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trusted {
    pub score: f64,
    /// The probability with which the replicate was drawn for it.
    pub inclusion: f64,
}

/// The replicates of one treatment in one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierCell {
    /// The mean of all cheap scores.
    pub cheap: f64,
    pub both: Option<Both>,
}

/// The replicates of a cell that have both scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Both {
    pub items: usize,
    /// Weighted by 1/π, as `cheap`.
    pub trusted: f64,
    pub cheap: f64,
}

/// The difference of two treatments from two tiers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoTierDiff {
    pub lambda: f64,
    pub mean: f64,
    pub se: f64,
    pub df: usize,
    pub interval: Interval,
    /// One-sided, of the same confidence.
    pub lower_bound: f64,
    /// Blocks with cheap scores of both treatments.
    pub blocks: usize,
    /// Blocks with trusted scores of both treatments.
    pub trusted_blocks: usize,
    /// Trusted scores in these blocks.
    pub trusted_items: usize,
    /// The difference of the trusted scores alone.
    pub trusted_mean: f64,
    pub trusted_se: f64,
    /// How many trusted scores alone would be as precise.
    pub effective_items: f64,
}

/// All treatments of a table against one, with a common λ.
#[derive(Debug, Clone, PartialEq)]
pub struct TwoTierTable {
    pub lambda: f64,
    /// The differences to the reference; `None` for the reference itself and where fewer than two
    /// blocks have trusted scores of both.
    pub differences: Vec<Option<TwoTierDiff>>,
    /// `pseudo_values[treatment][block]`, in the blocks with trusted scores.
    pub pseudo_values: Vec<Vec<Option<f64>>>,
}

/// The cheap scorer's bias for one treatment minus that for another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DifferentialBias {
    /// Rows with both scores in the shared blocks.
    pub items: usize,
    /// Mean over blocks of cheap − trusted.
    pub left: f64,
    pub right: f64,
    /// Left minus right, by block.
    pub difference: PairedDiff,
}

impl TierCell {
    /// Collapses the replicates of a cell; `None` where there are none.
    pub fn new(replicates: &[Scored]) -> Result<Option<Self>, StatsError> {
        let cheap: Vec<f64> = replicates.iter().map(|it| it.cheap).collect();
        let drawn: Vec<(f64, Trusted)> = replicates
            .iter()
            .filter_map(|it| Some((it.cheap, it.trusted?)))
            .collect();
        super::all_finite(cheap.iter().chain(drawn.iter().map(|it| &it.1.score)))?;
        let outside = |it: &&(f64, Trusted)| !(it.1.inclusion > 0.0 && it.1.inclusion <= 1.0);
        if let Some((_, trusted)) = drawn.iter().find(outside) {
            return Err(StatsError::ParameterOutOfRange {
                what: "an inclusion probability",
                value: trusted.inclusion,
                range: "(0, 1]",
            });
        }
        let total = |value: fn(&(f64, Trusted)) -> f64| -> f64 {
            drawn.iter().map(|it| value(it) / it.1.inclusion).sum()
        };
        let weights = total(|_| 1.0);
        let both = (!drawn.is_empty()).then(|| Both {
            items: drawn.len(),
            trusted: total(|it| it.1.score) / weights,
            cheap: total(|it| it.0) / weights,
        });
        Ok(mean(&cheap).map(|cheap| Self { cheap, both }))
    }
}

/// The difference `left` − `right` of two treatments' cells by block.
pub fn paired_two_tier(
    left: &[Option<TierCell>],
    right: &[Option<TierCell>],
    lambda: Lambda,
    confidence: f64,
) -> Result<TwoTierDiff, StatsError> {
    check_confidence(confidence)?;
    let parts = Parts::of_difference(left, right)?;
    let trust = Trust::new(lambda, &[&parts], left.len())?;
    parts.estimate(&trust, confidence)
}

/// All treatments of `cells[treatment][block]` against the treatment `reference`, with one λ.
pub fn paired_two_tier_table(
    cells: &[Vec<Option<TierCell>>],
    reference: usize,
    lambda: Lambda,
    confidence: f64,
) -> Result<TwoTierTable, StatsError> {
    check_confidence(confidence)?;
    let own = cells.get(reference).ok_or(StatsError::IndexOutOfRange {
        what: "treatment",
        index: reference,
        len: cells.len(),
    })?;
    let mut parts: Vec<Option<Parts>> = Vec::with_capacity(cells.len());
    for (treatment, other) in cells.iter().enumerate() {
        parts.push(match Parts::of_difference(other, own) {
            _ if treatment == reference => None,
            Err(StatsError::TooFewBlocks { .. }) => None,
            found => Some(found?),
        });
    }
    let all: Vec<&Parts> = parts.iter().flatten().collect();
    let trust = Trust::new(lambda, &all, own.len())?;
    let mut pseudo_values = vec![vec![None; own.len()]; cells.len()];
    let zero = |cell: &Option<TierCell>| {
        cell.map(|cell| TierCell {
            cheap: 0.0,
            both: cell.both.map(|_| Both {
                items: 0,
                trusted: 0.0,
                cheap: 0.0,
            }),
        })
    };
    let nothing: Vec<Option<TierCell>> = own.iter().map(zero).collect();
    let alone = Parts::of_difference(own, &nothing)?;
    for (block, value) in alone.pseudo_values(&trust.fixed()) {
        pseudo_values[reference][block] = Some(value);
    }
    let mut differences = vec![None; cells.len()];
    for (treatment, parts) in parts.iter().enumerate() {
        let Some(parts) = parts else { continue };
        differences[treatment] = Some(parts.estimate(&trust, confidence)?);
        for (block, value) in parts.pseudo_values(&trust) {
            let base = pseudo_values[reference][block];
            pseudo_values[treatment][block] = base.map(|base| base + value);
        }
    }
    Ok(TwoTierTable {
        lambda: trust.lambda,
        differences,
        pseudo_values,
    })
}

/// (cheap − trusted) of `left` minus the same of `right`, over the blocks where both have both.
pub fn differential_bias(
    left: &[Option<TierCell>],
    right: &[Option<TierCell>],
    confidence: f64,
) -> Result<DifferentialBias, StatsError> {
    let shared = shared(left, right)?;
    let both: Vec<(Both, Both)> = shared
        .iter()
        .filter_map(|(_, l, r)| l.both.zip(r.both))
        .collect();
    let bias = |it: &Both| it.cheap - it.trusted;
    let lefts: Vec<f64> = both.iter().map(|(l, _)| bias(l)).collect();
    let rights: Vec<f64> = both.iter().map(|(_, r)| bias(r)).collect();
    let differences: Vec<f64> = lefts.iter().zip(&rights).map(|(l, r)| l - r).collect();
    Ok(DifferentialBias {
        items: both.iter().map(|(l, r)| l.items + r.items).sum(),
        difference: paired_diff(&differences, confidence)?,
        left: mean(&lefts).unwrap_or(f64::NAN),
        right: mean(&rights).unwrap_or(f64::NAN),
    })
}

type Pair = (usize, TierCell, TierCell);

fn shared(left: &[Option<TierCell>], right: &[Option<TierCell>]) -> Result<Vec<Pair>, StatsError> {
    if left.len() != right.len() {
        return Err(StatsError::LengthMismatch {
            left: left.len(),
            right: right.len(),
        });
    }
    let pairs = left.iter().zip(right).enumerate();
    Ok(pairs
        .filter_map(|(block, (l, r))| Some((block, (*l)?, (*r)?)))
        .collect())
}

/// A difference by block, and its blocks' contributions a + λb.
struct Parts {
    /// For each block of C: its index, and its place in L.
    blocks: Vec<(usize, Option<usize>)>,
    trusted: Vec<f64>,
    cheap_of_trusted: Vec<f64>,
    cheap: Vec<f64>,
    items: usize,
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Parts {
    fn of_difference(
        left: &[Option<TierCell>],
        right: &[Option<TierCell>],
    ) -> Result<Self, StatsError> {
        let shared = shared(left, right)?;
        let (mut blocks, mut items) = (Vec::new(), 0);
        let (mut trusted, mut cheap_of_trusted, mut cheap) = (Vec::new(), Vec::new(), Vec::new());
        for (block, l, r) in &shared {
            cheap.push(l.cheap - r.cheap);
            let place = l.both.zip(r.both).map(|(l, r)| {
                trusted.push(l.trusted - r.trusted);
                cheap_of_trusted.push(l.cheap - r.cheap);
                items += l.items + r.items;
                trusted.len() - 1
            });
            blocks.push((*block, place));
        }
        super::all_finite(trusted.iter().chain(&cheap_of_trusted).chain(&cheap))?;
        if trusted.len() < 2 {
            return Err(StatsError::TooFewBlocks {
                needed: 2,
                found: trusted.len(),
            });
        }
        let centred = |values: &[f64]| -> Vec<f64> {
            let count = values.len() as f64;
            let centre = sum(values) / count;
            values.iter().map(|v| (v - centre) / count).collect()
        };
        let own = centred(&trusted);
        let own_cheap = centred(&cheap_of_trusted);
        let at = |values: &[f64], place: Option<usize>| place.map_or(0.0, |place| values[place]);
        let contributions = blocks.iter().zip(centred(&cheap));
        let (a, b) = contributions
            .map(|((_, place), cheap)| (at(&own, *place), cheap - at(&own_cheap, *place)))
            .unzip();
        Ok(Self {
            blocks,
            trusted,
            cheap_of_trusted,
            cheap,
            items,
            a,
            b,
        })
    }

    /// |L|/(|L| − 1).
    fn factor(&self) -> f64 {
        let trusted = self.trusted.len() as f64;
        trusted / (trusted - 1.0)
    }

    fn contributions(&self, trust: &Trust) -> Vec<f64> {
        let blocks = self.blocks.iter().zip(&self.a).zip(&self.b);
        blocks
            .map(|(((block, _), a), b)| a + (trust.lambda + trust.correction(*block)) * b)
            .collect()
    }

    fn variance(&self, trust: &Trust) -> f64 {
        let contributions = self.contributions(trust);
        self.factor() * dot(&contributions, &contributions)
    }

    fn mean(&self, lambda: f64) -> f64 {
        let rectified: Vec<f64> = self
            .trusted
            .iter()
            .zip(&self.cheap_of_trusted)
            .map(|(y, g)| y - lambda * g)
            .collect();
        let of = |values: &[f64]| mean(values).unwrap_or(f64::NAN);
        lambda * of(&self.cheap) + of(&rectified)
    }

    fn estimate(&self, trust: &Trust, confidence: f64) -> Result<TwoTierDiff, StatsError> {
        let df = self.trusted.len() - 1;
        let too_few = StatsError::TooFewBlocks {
            needed: 2,
            found: df + 1,
        };
        let quantile = |level| t_quantile(level, df as f64).ok_or(too_few.clone());
        let mean = self.mean(trust.lambda);
        let (combined, alone) = (self.variance(trust), self.variance(&Trust::NONE));
        let se = combined.sqrt();
        let half = quantile(f64::midpoint(1.0, confidence))? * se;
        let gain = if combined > 0.0 {
            alone / combined
        } else {
            1.0
        };
        Ok(TwoTierDiff {
            lambda: trust.lambda,
            mean,
            se,
            df,
            interval: Interval {
                low: mean - half,
                high: mean + half,
            },
            lower_bound: mean - quantile(confidence)? * se,
            blocks: self.blocks.len(),
            trusted_blocks: self.trusted.len(),
            trusted_items: self.items,
            trusted_mean: self.mean(0.0),
            trusted_se: alone.sqrt(),
            effective_items: gain * self.items as f64,
        })
    }

    /// One value for each block of L, with mean θ̂ and variance |L|·SE². Nothing where the blocks of L
    /// show no spread although the others do.
    fn pseudo_values(&self, trust: &Trust) -> Vec<(usize, f64)> {
        let count = self.trusted.len() as f64;
        let contributions = self.contributions(trust);
        let (mut places, mut own) = (Vec::new(), Vec::new());
        for ((block, place), contribution) in self.blocks.iter().zip(&contributions) {
            if place.is_some() {
                places.push(*block);
                own.push(count * contribution);
            }
        }
        let centre = mean(&own).unwrap_or(0.0);
        let spread = variance(&own).unwrap_or(0.0);
        let wanted = self.variance(trust) * count;
        if spread <= 0.0 && wanted > 0.0 {
            return Vec::new();
        }
        let stretch = if spread > 0.0 {
            (wanted / spread).sqrt()
        } else {
            1.0
        };
        let estimate = self.mean(trust.lambda);
        let values = own.iter().map(|own| estimate + stretch * (own - centre));
        places.into_iter().zip(values).collect()
    }
}

/// λ, and by how much it would differ without each block.
struct Trust {
    lambda: f64,
    /// By block of the table; empty where λ was not fitted.
    corrections: Vec<f64>,
}

impl Trust {
    const NONE: Self = Self {
        lambda: 0.0,
        corrections: Vec::new(),
    };

    fn new(lambda: Lambda, differences: &[&Parts], blocks: usize) -> Result<Self, StatsError> {
        match lambda {
            Lambda::Fixed(lambda) if lambda.is_finite() => Ok(Self {
                lambda,
                corrections: Vec::new(),
            }),
            Lambda::Fixed(_) => Err(StatsError::NotFinite),
            Lambda::Tuned => Ok(Self::tuned(differences, blocks)),
        }
    }

    fn fixed(&self) -> Self {
        Self {
            lambda: self.lambda,
            corrections: Vec::new(),
        }
    }

    fn correction(&self, block: usize) -> f64 {
        self.corrections.get(block).copied().unwrap_or(0.0)
    }

    /// The λ with the smallest sum of SE² over several differences; 0 where the cheap scores add
    /// nothing.
    fn tuned(differences: &[&Parts], blocks: usize) -> Self {
        let total = |term: &dyn Fn(&Parts) -> f64| -> f64 {
            differences.iter().map(|it| it.factor() * term(it)).sum()
        };
        let squares = total(&|it| dot(&it.b, &it.b));
        let size = total(&|it| dot(&it.a, &it.a)) + total(&|it| dot(&it.cheap, &it.cheap));
        if squares <= size * crate::TIE_TOLERANCE.powi(2) {
            return Self::NONE;
        }
        let lambda = (-total(&|it| dot(&it.a, &it.b)) / squares).clamp(0.0, 1.0);
        // Σ_k c·b·ψ and Σ_k c·b² by block.
        let mut by_block = vec![(0.0, 0.0); blocks];
        for it in differences {
            for (((block, _), a), b) in it.blocks.iter().zip(&it.a).zip(&it.b) {
                by_block[*block].0 += it.factor() * b * (a + lambda * b);
                by_block[*block].1 += it.factor() * b * b;
            }
        }
        if by_block
            .iter()
            .any(|(_, own)| squares - own <= squares * 1e-9)
        {
            return Self::NONE;
        }
        let corrections = by_block.iter().map(|(sum, own)| sum / (squares - own));
        let fitted = Self {
            lambda,
            corrections: corrections.collect(),
        };
        if total_variance(differences, &fitted) < total_variance(differences, &Self::NONE) {
            fitted
        } else {
            Self::NONE
        }
    }
}

fn total_variance(differences: &[&Parts], trust: &Trust) -> f64 {
    differences.iter().map(|it| it.variance(trust)).sum()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    let products: Vec<f64> = left.iter().zip(right).map(|(l, r)| l * r).collect();
    sum(&products)
}
