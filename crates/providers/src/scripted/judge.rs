//! A scripted judge: valid verdicts by known rules, with known noise and bias.
//!
//! The score of a criterion is `base + Σ points + bias + noise × z`, rounded and kept within the
//! criterion's scale. `base` comes from the first entry of `scores` whose text the candidate is,
//! else the first whose text it contains; `points` from every entry of `adjustments` that applies;
//! `z` is a standard normal draw of its own for every case and criterion. It depends on the judge's
//! name and seed and on the seed of the request, which names the case, and on nothing else: the same
//! case gets the same verdict wherever and whenever it is judged.
//!
//! Criteria with their scales and the flags to answer come from the request's schema, the
//! candidate from the fence around it.

use std::fmt;
use std::thread;
use std::time::Duration;

use assize_domain::fence;
use assize_domain::hash::sha256_fields;
use assize_stats::rng::SplitMix64;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::condition::{Condition, Texts};
use super::{ANY, count_words};
use crate::{Candidate, Completion, Message};

/// Where neither a score nor an adjustment has a reason.
const NO_REASON: &str = "No reason is scripted for this verdict.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeEntry {
    #[serde(default)]
    noise: f64,
    #[serde(default)]
    bias: Points,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    latency_ms: u32,
    #[serde(default)]
    cost_usd: Option<f64>,
}

/// The same number for every criterion, or numbers and flags by name.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, or an object of numbers by criterion"
)]
enum Points {
    All(f64),
    Named(Map<String, Value>),
}

impl Default for Points {
    fn default() -> Self {
        Self::All(0.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdjustmentEntry {
    #[serde(default)]
    candidate_contains: Texts,
    #[serde(default)]
    candidate_lacks: Texts,
    points: Points,
    #[serde(default)]
    reason: Option<String>,
}

/// Scores by text, in the order of the file.
#[derive(Default)]
pub struct ScoreList(Vec<(String, Points)>);

impl ScoreList {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for ScoreList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = ScoreList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of scores by text")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ScoreList, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    list.push(entry);
                }
                Ok(ScoreList(list))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A judge, checked.
#[derive(Debug)]
pub struct ScriptedJudge {
    noise: f64,
    bias: Points,
    seed: u64,
    latency_ms: u32,
    cost_usd: Option<f64>,
    scores: Vec<(String, Points)>,
    adjustments: Vec<Adjustment>,
}

#[derive(Debug)]
struct Adjustment {
    condition: Condition,
    points: Points,
    reason: Option<String>,
}

impl ScriptedJudge {
    pub fn new(
        entry: JudgeEntry,
        scores: ScoreList,
        adjustments: Vec<AdjustmentEntry>,
    ) -> Result<Self, String> {
        if !(entry.noise.is_finite() && entry.noise >= 0.0) {
            return Err(format!("noise is {}: use a number from 0", entry.noise));
        }
        if let Some(cost) = entry.cost_usd.filter(|cost| *cost < 0.0) {
            return Err(format!("cost_usd is {cost}: use dollars from 0"));
        }
        if scores.is_empty() {
            let reason =
                "a judge needs scores: give them by text, and \"*\" for every other candidate";
            return Err(reason.to_owned());
        }
        let every = scores.0.iter().map(|(_, points)| points);
        let every = every.chain(adjustments.iter().map(|it| &it.points));
        for points in every.chain([&entry.bias]) {
            points.check()?;
        }
        let adjustments = adjustments.into_iter().map(Adjustment::new);
        Ok(Self {
            noise: entry.noise,
            bias: entry.bias,
            seed: entry.seed,
            latency_ms: entry.latency_ms,
            cost_usd: entry.cost_usd,
            scores: scores.0,
            adjustments: adjustments.collect::<Result<_, _>>()?,
        })
    }

    /// The verdict about the candidate that these messages enclose, as a judging model would write
    /// it; `None` where they ask for something else. The error says what the script lacks.
    pub fn verdict(
        &self,
        model: &str,
        asked: &Candidate,
        schema: Option<&Value>,
    ) -> Option<Result<Completion, String>> {
        let text = judged_text(&asked.messages)?;
        let properties = schema?.get("properties")?.as_object()?;
        if self.latency_ms > 0 {
            thread::sleep(Duration::from_millis(self.latency_ms.into()));
        }
        let answer = self.answer(model, asked.seed, text, properties);
        Some(answer.map(|answer| {
            let answer = Value::Object(answer).to_string();
            let messages = asked.messages.iter();
            Completion {
                prompt_tokens: messages.map(|message| count_words(&message.content)).sum(),
                completion_tokens: count_words(&answer),
                latency_ms: self.latency_ms.into(),
                text: answer,
                cost_usd: self.cost_usd,
                ..Completion::default()
            }
        }))
    }

    fn answer(
        &self,
        model: &str,
        case_seed: u32,
        text: &str,
        properties: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let base = self.base(text)?;
        let adjustments = self.adjustments.iter();
        let applied: Vec<&Adjustment> = adjustments
            .filter(|it| it.condition.holds(|part| text.contains(part)))
            .collect();
        let points = || applied.iter().map(|it| &it.points).chain([&self.bias]);
        for named in points().chain([base]) {
            named.check_names(properties)?;
        }
        let mut draws = self.draws(model, case_seed);
        let mut answer = Map::new();
        let reasons = base.reason().into_iter();
        let reasons = reasons.chain(applied.iter().filter_map(|it| it.reason.as_deref()));
        let reason = Some(reasons.collect::<Vec<_>>().join(" "));
        let reason = reason.filter(|it| !it.is_empty());
        let reason = reason.unwrap_or_else(|| NO_REASON.to_owned());
        answer.insert("reason".to_owned(), Value::from(reason));
        for (name, property) in properties {
            if let Some((min, max)) = scale(property) {
                let first = base.number(name).ok_or_else(|| {
                    format!("no score for the criterion '{name}': add it to scores")
                })?;
                let sum: f64 = points().filter_map(|it| it.number(name)).sum();
                let score = first + sum + self.noise * draws.next_normal();
                answer.insert(name.clone(), json!(whole(score.clamp(min, max))));
            } else if property["type"] == "boolean" {
                answer.insert(name.clone(), json!(base.flag(name)));
            }
        }
        Ok(answer)
    }

    fn base(&self, text: &str) -> Result<&Points, String> {
        let exact = self.scores.iter().find(|(key, _)| key == text);
        let contained = |(key, _): &&(String, Points)| key == ANY || text.contains(key.as_str());
        let found = exact.or_else(|| self.scores.iter().find(contained));
        found.map(|(_, points)| points).ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            format!("no scores for a candidate that begins '{start}': add its text, or \"*\"")
        })
    }

    fn draws(&self, model: &str, case_seed: u32) -> SplitMix64 {
        let digest = sha256_fields(&[
            ("judge", model),
            ("seed", &self.seed.to_string()),
            ("case", &case_seed.to_string()),
        ]);
        SplitMix64::new(u64::from_str_radix(&digest[..16], 16).unwrap_or(0))
    }
}

impl Adjustment {
    fn new(entry: AdjustmentEntry) -> Result<Self, String> {
        let condition = Condition::new(entry.candidate_contains, entry.candidate_lacks)?;
        if condition.is_empty() {
            let reason = "an adjustment needs candidate_contains or candidate_lacks: what every candidate gets is bias";
            return Err(reason.to_owned());
        }
        Ok(Self {
            condition,
            points: entry.points,
            reason: entry.reason,
        })
    }
}

impl Points {
    /// Whether every value can be used.
    fn check(&self) -> Result<(), String> {
        let Self::Named(entries) = self else {
            return Ok(());
        };
        for (name, value) in entries {
            let is_sound = match value {
                Value::String(_) => name == "reason",
                Value::Number(_) | Value::Bool(_) => name != "reason",
                _ => false,
            };
            if !is_sound {
                return Err(format!(
                    "'{name}' is {value}: criteria are numbers, flags true or false, the reason a text"
                ));
            }
        }
        Ok(())
    }

    /// Whether the rubric has every criterion that is named. A flag that a check computes is not
    /// asked for, so flags cannot be checked.
    fn check_names(&self, properties: &Map<String, Value>) -> Result<(), String> {
        let Self::Named(entries) = self else {
            return Ok(());
        };
        let numbers = entries.iter().filter(|(_, value)| value.is_number());
        for (name, _) in numbers {
            if properties.get(name).and_then(scale).is_none() {
                return Err(format!(
                    "no criterion '{name}' in the rubric: correct its name in the judge's scores, adjustments or bias"
                ));
            }
        }
        Ok(())
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self {
            Self::All(points) => Some(*points),
            Self::Named(entries) => entries.get(name)?.as_f64(),
        }
    }

    fn flag(&self, name: &str) -> bool {
        match self {
            Self::All(_) => false,
            Self::Named(entries) => entries.get(name).and_then(Value::as_bool).unwrap_or(false),
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::All(_) => None,
            Self::Named(entries) => entries.get("reason")?.as_str(),
        }
    }
}

/// The candidate that a judge is asked about.
fn judged_text(messages: &[Message]) -> Option<&str> {
    let mut contents = messages.iter().map(|message| message.content.as_str());
    contents.find_map(|content| fence::enclosed(fence::CANDIDATE, content))
}

/// The ends of a criterion's scale; `None` for other properties of the schema.
fn scale(property: &Value) -> Option<(f64, f64)> {
    let levels = property.get("enum")?.as_array()?;
    let ends = (levels.first()?.as_f64()?, levels.last()?.as_f64()?);
    (property["type"] == "integer").then_some(ends)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a score was clamped to its criterion's scale"
)]
fn whole(score: f64) -> i64 {
    score.round() as i64
}
