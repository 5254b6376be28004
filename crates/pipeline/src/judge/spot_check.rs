//! Spot checks: a random sample of automatic verdicts that an expert checks, and the estimates from it.
//!
//! Cases are drawn with a known probability, a random floor boosted where automatic judges
//! differ among each other, where a pair is close to the best, and where a verdict contradicts
//! the rules (high scores although a flag counts against it). The probability is kept with the
//! sitting, so that means stay unbiased. The list of disagreements is another thing: it is for
//! diagnosis, and no estimate may be made from it.

use std::collections::BTreeMap;

use assize_domain::judge::Tier;
use assize_domain::prompt::short_hash;
use assize_domain::scenario::Split;
use assize_domain::sitting::{Inclusion, Sitting};
use assize_stats::describe::{mean, sd};
use assize_stats::spot_check::{draw, inclusion_probabilities};
use assize_stats::two_tier::{Drawn, inclusion_weighted};

use super::ratings::{Rater, Ratings};
use crate::{PipelineError, Result};

/// The expected number of cases by default.
pub const DEFAULT_CASES: usize = 30;
/// The share of them that is spread evenly over all cases.
const FLOOR: f64 = 0.5;
/// Pairs whose means differ by less than this are close.
const CLOSE: f64 = 1.0;

/// The mean of a pair on one split from both tiers together.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PairEstimate {
    pub model: String,
    /// With its content (`v1@3fa2c1`) where the name has had several.
    pub prompt: String,
    pub split: Split,
    /// Cases that the automatic tier had judged when the spot check was drawn.
    pub cases: usize,
    /// Cases drawn, and those that an expert has judged since.
    pub drawn: usize,
    pub judged: usize,
    /// The automatic tier's own mean composite.
    pub auto_mean: f64,
    /// Inclusion-weighted mean composite; `None` until every drawn case is judged, and unknown
    /// where none was drawn.
    pub mean: Option<f64>,
    pub se: Option<f64>,
}

impl PairEstimate {
    /// The pair, with its split where that is not the usual one.
    pub fn name(&self) -> String {
        let pair = format!("{} × {}", self.model, self.prompt);
        match self.split {
            Split::Selection => pair,
            other => format!("{pair} ({other})"),
        }
    }
}

/// Draws about so many of the cases that only the automatic tier has judged.
pub fn draw_cases(ratings: &Ratings, expected: usize, seed: u64) -> Result<Vec<Inclusion>> {
    let auto = ratings.auto_composites();
    let expert = ratings.expert().map(|it| &it.ratings);
    let frame: Vec<usize> = auto
        .keys()
        .filter(|item| expert.is_none_or(|expert| !expert.contains_key(item)))
        .copied()
        .collect();
    if frame.is_empty() {
        return Ok(Vec::new());
    }
    let means = pair_means(ratings, &auto);
    let best = means.values().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = frame
        .iter()
        .map(|item| {
            let spread = auto.get(item).and_then(|it| sd(it)).unwrap_or(0.0);
            let is_close = best - means[&pair_of(ratings, *item)] < CLOSE;
            let contradicts = ratings
                .judges(Tier::Auto)
                .any(|judge| contradicts_rules(ratings, judge, *item));
            1.0 + spread + f64::from(u8::from(is_close)) + 2.0 * f64::from(u8::from(contradicts))
        })
        .collect();
    let wrong = |error: assize_stats::StatsError| {
        PipelineError::Invalid(format!("the spot check cannot be drawn: {error}"))
    };
    let chances = inclusion_probabilities(&weights, expected as f64, FLOOR).map_err(wrong)?;
    let drawn = draw(&chances, seed).into_iter().map(|place| {
        let item = &ratings.items[frame[place]];
        Inclusion {
            run_id: item.run_id.clone(),
            candidate: item.candidate,
            probability: chances[place],
        }
    });
    Ok(drawn.collect())
}

/// A split and a pair with the content of its prompt: scores of different splits or contents are
/// never put into one mean.
type PairOnSplit<'a> = (Split, &'a str, &'a str, &'a str);

fn pair_of(ratings: &Ratings, item: usize) -> PairOnSplit<'_> {
    let item = &ratings.items[item];
    (item.split, &item.model, &item.prompt, &item.prompt_sha256)
}

/// The prompt's name, with its content where the name has had several.
fn prompt_name(ratings: &Ratings, (_, _, prompt, sha256): PairOnSplit<'_>) -> String {
    let namesakes = ratings.items.iter().filter(|it| it.prompt == prompt);
    if namesakes.into_iter().any(|it| it.prompt_sha256 != sha256) {
        format!("{prompt}@{}", short_hash(sha256))
    } else {
        prompt.to_owned()
    }
}

fn pair_means<'a>(
    ratings: &'a Ratings,
    auto: &BTreeMap<usize, Vec<f64>>,
) -> BTreeMap<PairOnSplit<'a>, f64> {
    let mut by_pair: BTreeMap<PairOnSplit<'_>, Vec<f64>> = BTreeMap::new();
    for (item, composites) in auto {
        let of_pair = by_pair.entry(pair_of(ratings, *item)).or_default();
        of_pair.extend(mean(composites));
    }
    let means = by_pair.into_iter();
    means
        .filter_map(|(pair, it)| Some((pair, mean(&it)?)))
        .collect()
}

/// High criteria although a flag counts against the candidate.
fn contradicts_rules(ratings: &Ratings, judge: &Rater, item: usize) -> bool {
    let Some(rating) = judge.ratings.get(&item) else {
        return false;
    };
    let criteria = &ratings.rubric.criteria;
    let is_high = criteria
        .iter()
        .zip(&rating.scores)
        .all(|(criterion, score)| {
            let range = (criterion.max - criterion.min) as f64;
            *score >= criterion.min as f64 + 0.75 * range
        });
    let flags = ratings
        .names
        .iter()
        .zip(&rating.scores)
        .skip(criteria.len());
    let weight_of = |name: &String| {
        let terms = ratings.rubric.composite.terms();
        terms
            .iter()
            .find(|(term, _)| term == name)
            .map_or(0.0, |it| it.1)
    };
    let is_against = |(name, flag): (&String, &f64)| {
        let weight = weight_of(name);
        (weight > 0.0 && *flag < 0.5) || (weight < 0.0 && *flag > 0.5)
    };
    is_high && flags.into_iter().any(is_against)
}

/// What a spot check says about every pair: the automatic mean, put right by what the experts
/// found. Cases that an expert had judged before count as they are.
pub fn estimates(ratings: &Ratings, sitting: &Sitting) -> Vec<PairEstimate> {
    let chances: BTreeMap<(&str, u32), f64> = sitting
        .inclusion
        .iter()
        .map(|it| ((it.run_id.as_str(), it.candidate), it.probability))
        .collect();
    let auto = frame_of(ratings, sitting);
    let expert = ratings.expert();
    let mut pairs: BTreeMap<PairOnSplit<'_>, Pair> = BTreeMap::new();
    for (item, cheap) in auto {
        let pair = pairs.entry(pair_of(ratings, item)).or_default();
        pair.cheap.push(cheap);
        let of_expert = expert.and_then(|it| it.ratings.get(&item));
        let before = of_expert.filter(|it| it.judged_at < sitting.opened_at);
        let key = (
            ratings.items[item].run_id.as_str(),
            ratings.items[item].candidate,
        );
        let chance = chances.get(&key).copied();
        pair.drawn += usize::from(chance.is_some());
        pair.judged += usize::from(chance.is_some() && of_expert.is_some());
        let known = match (before, chance) {
            (Some(before), _) => Some((before.composite, 1.0)),
            (None, Some(chance)) => of_expert.map(|it| (it.composite, chance)),
            (None, None) => None,
        };
        pair.known.extend(known.map(|(trusted, inclusion)| Drawn {
            index: pair.cheap.len() - 1,
            trusted,
            inclusion,
        }));
    }
    let estimates = pairs.into_iter().map(|(key, pair)| {
        let complete = pair.drawn == pair.judged && !pair.known.is_empty();
        let found = inclusion_weighted(&pair.cheap, &pair.known, 1.0).ok();
        let found = found.filter(|_| complete);
        PairEstimate {
            model: key.1.to_owned(),
            prompt: prompt_name(ratings, key),
            split: key.0,
            cases: pair.cheap.len(),
            drawn: pair.drawn,
            judged: pair.judged,
            auto_mean: mean(&pair.cheap).unwrap_or(f64::NAN),
            mean: found.map(|it| it.mean),
            se: found.map(|it| it.se),
        }
    });
    estimates.collect()
}

#[derive(Default)]
struct Pair {
    cheap: Vec<f64>,
    known: Vec<Drawn>,
    drawn: usize,
    judged: usize,
}

/// What the automatic tier had said when the spot check was drawn.
fn frame_of(ratings: &Ratings, sitting: &Sitting) -> BTreeMap<usize, f64> {
    let mut said: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for judge in ratings.judges(Tier::Auto) {
        for (item, rating) in &judge.ratings {
            if rating.judged_at <= sitting.opened_at {
                said.entry(*item).or_default().push(rating.composite);
            }
        }
    }
    let means = said.into_iter();
    means
        .filter_map(|(item, it)| Some((item, mean(&it)?)))
        .collect()
}
