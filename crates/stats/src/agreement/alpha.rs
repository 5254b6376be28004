//! Krippendorff's α for any number of raters, with gaps.
//!
//! Every ordered pair of scores that two raters gave the same item enters a coincidence matrix o
//! with weight 1/(m − 1), where m is the item's number of scores. With margins n_c and total n,
//! α = 1 − (n − 1)·Σ o_ck·δ²(c,k)/Σ n_c·n_k·δ²(c,k). The metric δ² is 0 or 1 (nominal), (c − k)²
//! (interval), ((c − k)/(c + k))² (ratio), or (Σ_{g=c..k} n_g − (n_c + n_k)/2)² (ordinal): the
//! number of scores that lie between two levels. Items with one score say nothing about agreement;
//! the jackknife still leaves them out in turn, as part of the sample.
//!
//! Items of one cluster (a block) resemble each other. The interval ([`alpha_interval`]) is therefore
//! jackknifed over clusters: α ± t(1 − α/2, G − 1)·SE with G clusters, each left out in turn; α is at
//! most 1, and so is the interval.
//!
//! Reference: Krippendorff (2011), "Computing Krippendorff's alpha-reliability".

use super::jackknife_se;
use crate::dist::t_quantile;
use crate::score::check_confidence;
use crate::{Interval, StatsError};
use std::collections::BTreeMap;

/// How far apart two levels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Nominal,
    Ordinal,
    Interval,
    Ratio,
}

/// α and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alpha {
    pub alpha: f64,
    /// Jackknifed over the items with a score; `None` where leaving one out leaves no variation.
    pub se: Option<f64>,
    /// Items with at least two scores.
    pub items: usize,
}

/// α with an interval over clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlphaInterval {
    pub alpha: f64,
    /// Items with at least two scores.
    pub items: usize,
    /// Clusters with at least one score.
    pub clusters: usize,
    /// Jackknifed over clusters; `None` with one cluster, or where leaving one out leaves no
    /// variation.
    pub se: Option<f64>,
    pub interval: Option<Interval>,
}

/// α of `raters[rater][item]`; `None` where no item has two scores or all scores are the same.
pub fn alpha(raters: &[Vec<Option<i32>>], metric: Metric) -> Result<Option<Alpha>, StatsError> {
    let items = items_of(raters)?;
    let groups: Vec<Vec<&[i32]>> = items.iter().map(|(_, scores)| vec![&scores[..]]).collect();
    Ok(jackknifed(&groups, metric).map(|(alpha, se)| Alpha {
        alpha,
        se,
        items: scored_twice(&items),
    }))
}

/// The same with an interval; `clusters` says to which cluster each item belongs.
pub fn alpha_interval(
    raters: &[Vec<Option<i32>>],
    clusters: &[usize],
    metric: Metric,
    confidence: f64,
) -> Result<Option<AlphaInterval>, StatsError> {
    check_confidence(confidence)?;
    let length = raters.first().map_or(0, Vec::len);
    if clusters.len() != length {
        return Err(StatsError::LengthMismatch {
            left: length,
            right: clusters.len(),
        });
    }
    let items = items_of(raters)?;
    let mut groups: BTreeMap<usize, Vec<&[i32]>> = BTreeMap::new();
    for (item, scores) in &items {
        groups.entry(clusters[*item]).or_default().push(scores);
    }
    let groups: Vec<Vec<&[i32]>> = groups.into_values().collect();
    let level = f64::midpoint(1.0, confidence);
    Ok(jackknifed(&groups, metric).map(|(alpha, se)| {
        let half = t_quantile(level, groups.len() as f64 - 1.0).zip(se);
        AlphaInterval {
            alpha,
            items: scored_twice(&items),
            clusters: groups.len(),
            se,
            interval: half.map(|(t, se)| Interval {
                low: alpha - t * se,
                high: (alpha + t * se).min(1.0),
            }),
        }
    }))
}

/// The items with a score, by their index.
fn items_of(raters: &[Vec<Option<i32>>]) -> Result<Vec<(usize, Vec<i32>)>, StatsError> {
    let length = raters.first().map_or(0, Vec::len);
    if let Some(other) = raters.iter().find(|rater| rater.len() != length) {
        return Err(StatsError::LengthMismatch {
            left: length,
            right: other.len(),
        });
    }
    let scores = |item| raters.iter().filter_map(|rater| rater[item]).collect();
    Ok((0..length)
        .map(|item| (item, scores(item)))
        .filter(|(_, scores): &(usize, Vec<i32>)| !scores.is_empty())
        .collect())
}

fn scored_twice(items: &[(usize, Vec<i32>)]) -> usize {
    items.iter().filter(|(_, scores)| scores.len() > 1).count()
}

/// α, and its standard error with one group of items left out at a time.
fn jackknifed(groups: &[Vec<&[i32]>], metric: Metric) -> Option<(f64, Option<f64>)> {
    let mut levels: Vec<i32> = groups
        .iter()
        .flatten()
        .copied()
        .flatten()
        .copied()
        .collect();
    levels.sort_unstable();
    levels.dedup();
    let mut coincidences = Coincidences {
        counts: vec![0.0; levels.len() * levels.len()],
        levels,
    };
    for item in groups.iter().flatten() {
        coincidences.add(item, 1.0);
    }
    let alpha = coincidences.alpha(metric)?;
    let se = jackknife_se(groups.iter().map(|group| {
        for item in group {
            coincidences.add(item, -1.0);
        }
        let left_out = coincidences.alpha(metric);
        for item in group {
            coincidences.add(item, 1.0);
        }
        left_out
    }));
    Some((alpha, se))
}

struct Coincidences {
    levels: Vec<i32>,
    counts: Vec<f64>,
}

impl Coincidences {
    fn add(&mut self, scores: &[i32], sign: f64) {
        if scores.len() < 2 {
            return;
        }
        let weight = sign / (scores.len() - 1) as f64;
        let place = |score: &i32| self.levels.binary_search(score).unwrap_or_default();
        let places: Vec<usize> = scores.iter().map(place).collect();
        for (first, c) in places.iter().enumerate() {
            for (second, k) in places.iter().enumerate() {
                if first != second {
                    self.counts[c * self.levels.len() + k] += weight;
                }
            }
        }
    }

    fn alpha(&self, metric: Metric) -> Option<f64> {
        let margins: Vec<f64> = self
            .counts
            .chunks_exact(self.levels.len().max(1))
            .map(|row| row.iter().sum())
            .collect();
        let total: f64 = margins.iter().sum();
        let (mut observed, mut expected) = (0.0, 0.0);
        for c in 0..self.levels.len() {
            for k in c + 1..self.levels.len() {
                let distance = self.squared_distance(c, k, &margins, metric);
                observed += self.counts[c * self.levels.len() + k] * distance;
                expected += margins[c] * margins[k] * distance;
            }
        }
        // Leaving items out subtracts thirds and the like, which leaves rounding behind.
        (expected > 1e-9).then(|| 1.0 - (total - 1.0) * observed / expected)
    }

    fn squared_distance(&self, c: usize, k: usize, margins: &[f64], metric: Metric) -> f64 {
        let (low, high) = (f64::from(self.levels[c]), f64::from(self.levels[k]));
        match metric {
            Metric::Nominal => 1.0,
            Metric::Interval => (high - low).powi(2),
            Metric::Ratio if high + low == 0.0 => 0.0,
            Metric::Ratio => ((high - low) / (high + low)).powi(2),
            Metric::Ordinal => {
                let between: f64 = margins[c..=k].iter().sum();
                (between - f64::midpoint(margins[c], margins[k])).powi(2)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Metric, alpha};

    #[test]
    fn without_variation_or_pairs_there_is_no_alpha() {
        let constant = vec![vec![Some(3); 4]; 2];
        assert_eq!(alpha(&constant, Metric::Ordinal).unwrap(), None);
        let apart = [vec![Some(1), None], vec![None, Some(2)]];
        assert_eq!(alpha(&apart, Metric::Ordinal).unwrap(), None);
        assert_eq!(alpha(&[], Metric::Nominal).unwrap(), None);
        assert!(alpha(&[vec![None], vec![]], Metric::Nominal).is_err());
    }

    #[test]
    fn perfect_agreement_is_one() {
        let rater: Vec<_> = [1, 2, 3, 4, 5, 1].map(Some).to_vec();
        let found = alpha(&[rater.clone(), rater], Metric::Ordinal)
            .unwrap()
            .unwrap();
        assert!((found.alpha - 1.0).abs() < 1e-12);
        assert!(found.se.unwrap().abs() < 1e-12);
    }
}
