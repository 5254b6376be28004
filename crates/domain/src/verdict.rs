//! Verdicts: one judge's scores for candidates under one rubric, and what they add up to.
//!
//! A sitting leaves one immutable [`VerdictFile`] with every run it judged. Nothing is ever
//! overwritten: a later sitting of the same tier takes precedence over an earlier one, tiers
//! are kept apart, and the run's metrics and tags are derived from the files by
//! [`summarise`], the only place that knows the rule.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::computed::score_json;
use crate::judge::{self, Judge, Tier};
use crate::rubric::Rubric;
use crate::run::{metric, tag};

/// Scores as numbers with borrowed names: what boards read, a hundred thousand at a time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeanScores<'a>(pub Vec<(&'a str, f64)>);

impl<'de> Deserialize<'de> for LeanScores<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = LeanScores<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(5));
                while let Some((name, value)) = map.next_entry::<&str, Value>()? {
                    pairs.extend(as_number(&value).map(|number| (name, number)));
                }
                Ok(LeanScores(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// A verdict file as boards read it, where little is copied.
pub type LeanFile<'a> = VerdictFile<LeanScores<'a>, Cow<'a, str>>;

/// What one sitting found about one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictFile<S = BTreeMap<String, Value>, T = String> {
    pub sitting: T,
    pub tier: Tier,
    pub judge: Judge<T>,
    pub rubric: RubricRef<T>,
    /// RFC 3339, UTC.
    pub judged_at: T,
    pub verdicts: Vec<Verdict<S>>,
    /// Tokens and cost of an automatic judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// For an amendment: the sitting and judge that it corrects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amends: Option<Amends<T>>,
}

impl<S, T: AsRef<str>> VerdictFile<S, T> {
    /// Whether rules gave these verdicts, and no judge.
    pub fn is_computed(&self) -> bool {
        self.judge.kind.as_ref() == judge::COMPUTED
    }

    /// Whether these verdicts count in a tier: computed ones count in both.
    pub fn counts_in(&self, tier: Tier) -> bool {
        self.tier == tier || self.is_computed()
    }

    /// The sitting and the judge whose ratings these are. An amendment replaces the verdict that
    /// it corrects, regardless of its author: it is not a separate rating.
    pub fn rater(&self) -> (&str, &Judge<T>) {
        match &self.amends {
            Some(amends) => (amends.sitting.as_ref(), &amends.judge),
            None => (self.sitting.as_ref(), &self.judge),
        }
    }
}

/// The verdict that an amendment replaces: of which sitting, by which judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amends<T = String> {
    pub sitting: T,
    pub judge: Judge<T>,
    /// The earlier amendment that this one replaces, if it does not replace the first verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<T>,
}

impl<T> Amends<T> {
    /// The sitting of the file that is replaced.
    fn replaced(&self) -> &T {
        self.replaces.as_ref().unwrap_or(&self.sitting)
    }
}

/// Tokens and cost of asking a model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// `None` where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Usage {
    pub fn add(&mut self, more: &Self) {
        self.prompt_tokens += more.prompt_tokens;
        self.completion_tokens += more.completion_tokens;
        if let Some(cost) = more.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }
}

/// The id and the content hash of a rubric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RubricRef<T = String> {
    pub id: T,
    pub sha256: T,
}

/// One judge's scores for one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict<S = BTreeMap<String, Value>> {
    /// The candidate's index.
    pub candidate: u32,
    /// Integers for criteria, booleans for flags, as the judge file has them.
    pub scores: S,
    pub composite: f64,
    #[serde(default)]
    pub rationale: Option<String>,
}

impl Verdict {
    /// A verdict with its composite: the scores that a judge gave, all of them, and those that were
    /// computed. A blank rationale is none. An error where a computed score is missing.
    pub fn new(
        rubric: &Rubric,
        candidate: u32,
        mut scores: BTreeMap<String, Value>,
        computed: &BTreeMap<String, f64>,
        rationale: Option<String>,
    ) -> Result<Self, String> {
        for criterion in rubric.computed.iter() {
            let Some(score) = computed.get(&criterion.name) else {
                return Err(format!(
                    "'{}' could not be computed for this candidate: run assize judge recompute",
                    criterion.name
                ));
            };
            scores.insert(criterion.name.clone(), score_json(*score));
        }
        let numbers = scores
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), as_number(value)?)))
            .collect();
        Ok(Self {
            candidate,
            // Complete scores always have a composite: its names were checked with the rubric.
            composite: rubric.composite.evaluate(&numbers).unwrap_or(f64::NAN),
            scores,
            rationale: rationale.filter(|text| !text.trim().is_empty()),
        })
    }
}

/// A score's value as a number: flags count 0 or 1.
pub fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        other => other.as_f64(),
    }
}

/// What a run's verdict files add up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    pub metrics: Vec<(String, f64)>,
    pub tags: Vec<(String, String)>,
}

/// The verdicts that count in a tier: for each candidate the latest, under this rubric only.
pub fn effective<'a, S, T: AsRef<str>>(
    files: &'a [VerdictFile<S, T>],
    tier: Tier,
    rubric_sha256: &str,
) -> BTreeMap<u32, &'a Verdict<S>> {
    let counted = in_order(files, tier, rubric_sha256);
    let verdicts = counted.into_iter().flat_map(|file| &file.verdicts);
    verdicts
        .map(|verdict| (verdict.candidate, verdict))
        .collect()
}

/// The files of a tier under this rubric, the earliest first; the latest counts.
pub fn in_order<'a, S, T: AsRef<str>>(
    files: &'a [VerdictFile<S, T>],
    tier: Tier,
    rubric_sha256: &str,
) -> Vec<&'a VerdictFile<S, T>> {
    let counted = files
        .iter()
        .filter(|file| file.counts_in(tier) && file.rubric.sha256.as_ref() == rubric_sha256);
    by_precedence(counted)
}

/// Verdict files of a run, the earliest first; the latest takes precedence. An amendment follows the
/// file that it replaces even if it was written by a clock that is behind.
pub fn by_precedence<'a, S, T: AsRef<str>>(
    files: impl Iterator<Item = &'a VerdictFile<S, T>>,
) -> Vec<&'a VerdictFile<S, T>> {
    let files: Vec<&VerdictFile<S, T>> = files.collect();
    let mut placed: Vec<_> = files
        .iter()
        .map(|file| (place(file, &files), *file))
        .collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, file)| file).collect()
}

/// What files are sorted by: the time, which is at least that of every file that this one replaces,
/// the number of those files, and the sitting.
fn place<'a, S, T: AsRef<str>>(
    file: &'a VerdictFile<S, T>,
    files: &[&'a VerdictFile<S, T>],
) -> (&'a str, usize, &'a str) {
    let mut at = file.judged_at.as_ref();
    let mut depth = 0;
    let mut current = file;
    // Files come from other machines too: the number of steps is limited in case they form a circle.
    while depth < files.len() {
        let Some(amends) = &current.amends else {
            break;
        };
        let replaced = amends.replaced().as_ref();
        let Some(earlier) = files.iter().find(|it| it.sitting.as_ref() == replaced) else {
            break;
        };
        at = at.max(earlier.judged_at.as_ref());
        depth += 1;
        current = earlier;
    }
    (at, depth, file.sitting.as_ref())
}

/// The metrics and tags that a run carries, given all its verdict files.
///
/// Plain names come from the expert tier where it has spoken, else from auto; each tier also
/// has its own under `expert.` and `auto.`. A tier is no longer pending once every one of
/// the `n_candidates` has a verdict of that tier.
pub fn summarise(files: &[VerdictFile], rubric: &Rubric, n_candidates: usize) -> Summary {
    let mut summary = Summary::default();
    let mut plain_taken = false;
    for tier in Tier::ALL {
        let verdicts = effective(files, tier, &rubric.sha256);
        let complete = n_candidates > 0 && verdicts.len() >= n_candidates;
        summary
            .tags
            .push((tier.pending_tag().to_owned(), (!complete).to_string()));
        if verdicts.is_empty() {
            continue;
        }
        let means = means(&verdicts, rubric);
        for (name, value) in &means {
            summary.metrics.push((format!("{tier}.{name}"), *value));
        }
        if !plain_taken {
            summary.metrics.extend(means);
            plain_taken = true;
        }
        if let Some(cost) = cost_usd(files, tier, &rubric.sha256) {
            let name = metric::COST_USD;
            summary.metrics.push((format!("{tier}.{name}"), cost));
            summary.metrics.push((name.to_owned(), cost));
        }
        if complete {
            summary.tags.extend(signature(files, tier, &rubric.sha256));
        }
    }
    summary
}

/// What judging cost in a tier, where it is known.
fn cost_usd(files: &[VerdictFile], tier: Tier, rubric_sha256: &str) -> Option<f64> {
    let mut usage = Usage::default();
    files
        .iter()
        .filter(|file| file.counts_in(tier) && file.rubric.sha256 == rubric_sha256)
        .filter_map(|file| file.usage.as_ref())
        .for_each(|it| usage.add(it));
    usage.cost_usd
}

fn means(verdicts: &BTreeMap<u32, &Verdict>, rubric: &Rubric) -> Vec<(String, f64)> {
    let mean = |value: &dyn Fn(&Verdict) -> Option<f64>| {
        let sum: f64 = verdicts.values().filter_map(|verdict| value(verdict)).sum();
        sum / verdicts.len() as f64
    };
    let scores = rubric.score_names().map(|name| {
        (
            name.to_owned(),
            mean(&|verdict| verdict.scores.get(name).and_then(as_number)),
        )
    });
    let composite = (
        metric::COMPOSITE.to_owned(),
        mean(&|verdict| Some(verdict.composite)),
    );
    scores.chain([composite]).collect()
}

/// The judge that completed the tier, and when.
fn signature(files: &[VerdictFile], tier: Tier, rubric_sha256: &str) -> Vec<(String, String)> {
    let Some(last) = in_order(files, tier, rubric_sha256).pop() else {
        return Vec::new();
    };
    let (by, at) = match tier {
        Tier::Expert => (tag::JUDGED_BY, tag::JUDGED_AT),
        Tier::Auto => (tag::AUTO_JUDGED_BY, tag::AUTO_JUDGED_AT),
    };
    let mut tags = vec![
        (by.to_owned(), last.judge.name.clone()),
        (at.to_owned(), last.judged_at.clone()),
    ];
    if tier == Tier::Expert {
        tags.push((tag::JUDGE_KIND.to_owned(), last.judge.kind.clone()));
    }
    tags
}
