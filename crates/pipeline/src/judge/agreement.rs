//! Agreement between judges, by criterion.
//!
//! The expert tier is compared with every automatic judge, and judges of one tier with each
//! other, on the candidates that both have judged. The figures are `assize_stats::agreement`'s;
//! what cannot be computed is `None`.

use assize_domain::judge::Tier;
use assize_stats::agreement::{Metric, Scale, alpha, compare, compare_flags};

use super::ratings::{Rater, Ratings};

/// Two raters side by side.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PairAgreement {
    pub left: String,
    pub right: String,
    /// Candidates that both have judged.
    pub items: usize,
    pub criteria: Vec<CriterionAgreement>,
    pub flags: Vec<FlagAgreement>,
}

/// Agreement on one criterion.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CriterionAgreement {
    pub name: String,
    pub items: usize,
    pub exact: f64,
    pub within_one: f64,
    pub kappa_linear: Option<f64>,
    pub kappa_quadratic: Option<f64>,
    pub alpha_ordinal: Option<f64>,
    /// Mean of right − left: positive where the right one is more generous.
    pub bias: f64,
    pub bias_t: Option<f64>,
    pub bias_p: Option<f64>,
}

/// Agreement on one flag.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FlagAgreement {
    pub name: String,
    pub items: usize,
    pub exact: f64,
    pub kappa: Option<f64>,
    pub gwet_ac1: Option<f64>,
}

/// The expert tier against every automatic judge, then judges of one tier among each other.
pub fn agreement(ratings: &Ratings) -> Vec<PairAgreement> {
    let mut pairs = Vec::new();
    if let Some(expert) = ratings.expert() {
        for judge in ratings.judges(Tier::Auto) {
            pairs.extend(compare_pair(ratings, expert, judge));
        }
    }
    for tier in Tier::ALL {
        let judges: Vec<&Rater> = ratings.judges(tier).collect();
        for (place, left) in judges.iter().enumerate() {
            for right in &judges[place + 1..] {
                pairs.extend(compare_pair(ratings, left, right));
            }
        }
    }
    pairs
}

/// Two raters on what both have judged; `None` where there is nothing.
pub fn compare_pair(ratings: &Ratings, left: &Rater, right: &Rater) -> Option<PairAgreement> {
    let shared: Vec<usize> = left
        .ratings
        .keys()
        .filter(|item| right.ratings.contains_key(item))
        .copied()
        .collect();
    if shared.is_empty() {
        return None;
    }
    let scores = |rater: &Rater, score: usize| -> Vec<Option<i32>> {
        let of_item = |item: &usize| rater.ratings.get(item)?.scores.get(score).copied();
        shared
            .iter()
            .map(|item| of_item(item).filter(|it| it.is_finite()).map(whole))
            .collect()
    };
    let mut criteria = Vec::new();
    let mut flags = Vec::new();
    for (score, name) in ratings.names.iter().enumerate() {
        let (of_left, of_right) = (scores(left, score), scores(right, score));
        match ratings.rubric.criteria.get(score) {
            Some(criterion) => {
                let scale = Scale {
                    low: i32::try_from(criterion.min).unwrap_or(i32::MIN),
                    high: i32::try_from(criterion.max).unwrap_or(i32::MAX),
                };
                criteria.extend(on_criterion(name, of_left, of_right, scale));
            }
            None => flags.extend(on_flag(name, &of_left, &of_right)),
        }
    }
    Some(PairAgreement {
        left: left.label(),
        right: right.label(),
        items: shared.len(),
        criteria,
        flags,
    })
}

fn on_criterion(
    name: &str,
    left: Vec<Option<i32>>,
    right: Vec<Option<i32>>,
    scale: Scale,
) -> Option<CriterionAgreement> {
    let found = compare(&left, &right, scale).ok()?;
    let alpha = alpha(&[left, right], Metric::Ordinal).ok().flatten();
    Some(CriterionAgreement {
        name: name.to_owned(),
        items: found.items,
        exact: found.exact,
        within_one: found.within_one,
        kappa_linear: found.kappa_linear,
        kappa_quadratic: found.kappa_quadratic,
        alpha_ordinal: alpha.map(|it| it.alpha),
        bias: found.bias,
        bias_t: found.bias_t,
        bias_p: found.bias_p,
    })
}

fn on_flag(name: &str, left: &[Option<i32>], right: &[Option<i32>]) -> Option<FlagAgreement> {
    let raised = |scores: &[Option<i32>]| -> Vec<Option<bool>> {
        scores.iter().map(|it| it.map(|flag| flag != 0)).collect()
    };
    let found = compare_flags(&raised(left), &raised(right)).ok()?;
    Some(FlagAgreement {
        name: name.to_owned(),
        items: found.items,
        exact: found.exact,
        kappa: found.kappa,
        gwet_ac1: found.gwet_ac1,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "scores are small whole numbers, and the cast saturates"
)]
fn whole(score: f64) -> i32 {
    score as i32
}
