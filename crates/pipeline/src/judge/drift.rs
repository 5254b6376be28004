//! Drift: whether a judge still uses the scale as intended.
//!
//! Every sitting scores anchors whose scores are known; an anchor's score is the mean of its
//! criteria. Three control charts over the judge's sittings under one rubric
//! (`assize_stats::drift::scale_use`) tell a change from chance: the *shift* (the mean of score −
//! expected), the *slope* of the scores on the known ones (a judge who gives everything a 3, avoids
//! the ends of the scale or hits its ceiling has a low slope, and perhaps no shift), and the
//! *spread* (more noise than usual). An alarm of any of them quarantines the sitting: its verdicts
//! are kept and do not count, and the cases wait again. Nothing is ever "corrected".
//!
//! People and agents are compared with the anchors' known scores, and their noise is the task's
//! figure. A model is compared with its own earlier sittings, and its noise is estimated from them:
//! a cheap judge may be off the scale from the start, which `judge status` shows as bias, and drift
//! is when it changes. Another version of a judge is another judge. Sittings in quarantine are left
//! out of the charts, so that one bad sitting does not affect the next.

use std::collections::BTreeMap;

use assize_domain::anchor::Anchor;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::{Verdict, as_number};
use assize_stats::StatsError;
use assize_stats::drift::{
    AnchorNoise, Baseline, EwmaPoint, ScaleUsePoint, ScaleUseSettings, bounded_mean, scale_use,
};
use assize_store::Sittings;
use assize_store::queue::{Closing, SittingRecord};

use crate::{PipelineError, Result};

/// Below so many scored anchors a sitting is not put on the charts.
const FEWEST: usize = 5;
/// The least noise that is assumed of a model, as a part of the task's figure: a model that repeats
/// itself exactly must not raise an alarm when a single score differs.
const LEAST_NOISE: f64 = 0.25;
/// From so many more anchors at the top of the scale on, the words name a ceiling.
const CEILING: usize = 3;
/// Below this slope good and bad cases get nearly the same scores.
pub(super) const FLAT: f64 = 0.25;

/// What the anchors say about one sitting.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Drift {
    /// Anchors that were scored.
    pub anchors: usize,
    /// Mean of score − expected: positive where the judge is too generous.
    pub mean_shift: f64,
    pub z: f64,
    pub ewma: f64,
    /// |ewma| above this is an alarm.
    pub limit: f64,
    /// Whether any of the charts is beyond its limit.
    pub alarm: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<Slope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Anchors with the highest score in every criterion: as scored, and as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<(usize, usize)>,
}

/// How far the scores follow the known ones: 1 where they do, 0 where everything gets one score.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Slope {
    pub value: f64,
    pub ewma: f64,
    /// |ewma| above this is an alarm.
    pub limit: f64,
    pub alarm: bool,
}

/// The noise that remains after shift and slope.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// As a multiple of the usual standard deviation.
    pub ratio: f64,
    /// Above this is an alarm.
    pub limit: f64,
    pub alarm: bool,
}

impl Drift {
    /// Whether the mean has shifted.
    pub fn is_shift_alarm(&self) -> bool {
        self.ewma.abs() > self.limit
    }

    /// The charts that are beyond their limits.
    pub fn charts(&self) -> Vec<&'static str> {
        let slope = self.slope.is_some_and(|it| it.alarm);
        let spread = self.spread.is_some_and(|it| it.alarm);
        let all = [
            ("shift", self.is_shift_alarm()),
            ("slope", slope),
            ("spread", spread),
        ];
        let alarms = all.into_iter().filter(|(_, alarm)| *alarm);
        alarms.map(|(name, _)| name).collect()
    }

    /// What the alarms have seen, in words, for a judge of this tier.
    pub fn seen(&self, tier: Tier) -> Vec<String> {
        let mut seen = Vec::new();
        let reference = match tier {
            Tier::Expert => "the known scores",
            Tier::Auto => "its own earlier sittings",
        };
        if self.is_shift_alarm() {
            seen.push(format!(
                "the scores are off by {} from {reference}",
                signed(self.mean_shift)
            ));
        }
        if let Some(slope) = self.slope.filter(|it| it.alarm) {
            seen.push(match (slope.value, slope.ewma < 0.0) {
                (value, true) if value < FLAT => format!(
                    "good and bad cases get nearly the same scores (slope {value:.2}; 1 is the \
                     known scale)"
                ),
                (value, true) => {
                    format!("less of the scale is used than in {reference} (slope {value:.2})")
                }
                (value, false) => {
                    format!("differences are larger than in {reference} (slope {value:.2})")
                }
            });
        }
        if let Some(spread) = self.spread.filter(|it| it.alarm) {
            let ratio = spread.ratio;
            seen.push(format!(
                "the scores scatter {ratio:.1} times as much as usual"
            ));
        }
        if let Some((given, known)) = self.highest
            && given >= known + CEILING
        {
            let anchors = self.anchors;
            seen.push(format!(
                "{given} of {anchors} cases got the highest score, where {known} should"
            ));
        }
        seen
    }
}

/// A figure with its sign, and a true minus.
fn signed(value: f64) -> String {
    format!("{value:+.2}").replace('-', "−")
}

/// How a sitting ended.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Ended {
    pub state: SittingState,
    pub drift: Option<Drift>,
}

/// Closes a sitting that is complete, and quarantines one whose judge has drifted.
pub fn close(
    store: &dyn Sittings,
    sitting: &Sitting,
    judge: &Judge,
    rubric: &Rubric,
    at: &str,
    complete: bool,
) -> Result<Ended> {
    let drift = if sitting.anchors.cases.is_empty() {
        None
    } else {
        let records = store.sitting_list(&sitting.experiment)?;
        let charted = |record: &&SittingRecord| {
            record.sitting.id == sitting.id
                || (record.state == SittingState::Closed
                    && record.judge.as_ref() == Some(judge)
                    && record.sitting.rubric == sitting.rubric
                    && record.sitting.opened_at < sitting.opened_at)
        };
        let records: Vec<&SittingRecord> = records.iter().filter(charted).collect();
        chart(&records, judge.tier(), rubric)?.pop().flatten()
    };
    let state = match drift {
        Some(drift) if drift.alarm => SittingState::Quarantined,
        _ if complete => SittingState::Closed,
        _ => {
            return Ok(Ended {
                state: SittingState::Open,
                drift,
            });
        }
    };
    let closing = Closing {
        state,
        at: at.to_owned(),
        judge: Some(judge.clone()),
        drift: drift.and_then(|drift| serde_json::to_string(&drift).ok()),
    };
    store.sitting_close(&sitting.id, &closing)?;
    Ok(Ended { state, drift })
}

/// The charts of one judge's sittings, oldest first; all under one rubric.
fn chart(records: &[&SittingRecord], tier: Tier, rubric: &Rubric) -> Result<Vec<Option<Drift>>> {
    let scores: Vec<BTreeMap<String, (f64, f64)>> = records
        .iter()
        .map(|record| anchor_scores(record, rubric))
        .collect();
    let known: BTreeMap<&str, f64> = scores
        .iter()
        .flatten()
        .map(|(key, (_, known))| (key.as_str(), *known))
        .collect();
    let given: Vec<Vec<Option<f64>>> = scores
        .iter()
        .map(|scores| {
            let enough = scores.len() >= FEWEST;
            let score = |key: &&str| scores.get(*key).filter(|_| enough).map(|it| it.0);
            known.keys().map(score).collect()
        })
        .collect();
    let Some(last) = records.last() else {
        return Ok(Vec::new());
    };
    let sd = last.sitting.anchors.sd;
    let known: Vec<f64> = known.into_values().collect();
    let by_known = ScaleUseSettings::usual(Baseline::Known, AnchorNoise::Known(sd));
    let settings = match tier {
        Tier::Expert => by_known,
        Tier::Auto => {
            let least_sd = LEAST_NOISE * sd;
            ScaleUseSettings::usual(Baseline::Earlier, AnchorNoise::Earlier { least_sd })
        }
    };
    let charted = |given: &[Vec<Option<f64>>], settings| {
        scale_use(&known, given, settings).map_err(not_charted)
    };
    let highest = highest_scores(&scores, rubric);
    let noisy = match tier {
        Tier::Expert => noisy_slopes(records, &scores, &given, by_known, rubric)?,
        Tier::Auto => Vec::new(),
    };
    let mut drifts = Vec::new();
    for (place, point) in charted(&given, settings)?.into_iter().enumerate() {
        let noisy = noisy.get(place).copied().flatten();
        let drift = if let Some(point) = point {
            Some(with_noise(drift_of(&point), noisy))
        } else {
            // A model's first sitting starts its charts; only its slope can be stated yet.
            let alone = charted(&given[place..=place], by_known)?;
            alone.into_iter().flatten().map(|it| first_of(&it)).next()
        };
        drifts.push(drift.map(|drift| Drift {
            highest: Some(highest[place]),
            ..drift
        }));
    }
    Ok(drifts)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "map_err passes errors by value"
)]
fn not_charted(error: StatsError) -> PipelineError {
    PipelineError::Invalid(format!("the calibration cases cannot be charted: {error}"))
}

/// Whether the slope is below what a judge with the task's noise has: at the ends of the scale
/// noise can only go inwards, so that such a judge has a slope below 1 without any drift.
fn noisy_slopes(
    records: &[&SittingRecord],
    scores: &[BTreeMap<String, (f64, f64)>],
    given: &[Vec<Option<f64>>],
    settings: ScaleUseSettings,
    rubric: &Rubric,
) -> Result<Vec<Option<bool>>> {
    let mut expected: BTreeMap<&str, f64> = BTreeMap::new();
    for (record, scores) in records.iter().zip(scores) {
        let anchors = &record.sitting.anchors;
        let by_content: BTreeMap<String, &Anchor> =
            anchors.cases.iter().map(|it| (content(it), it)).collect();
        for key in scores.keys() {
            let mean = by_content
                .get(key)
                .and_then(|it| noisy_mean(it, anchors.sd, rubric));
            expected.insert(key, mean.unwrap_or(f64::NAN));
        }
    }
    let expected: Vec<f64> = expected.into_values().collect();
    let points = scale_use(&expected, given, settings).map_err(not_charted)?;
    let is_low = |point: ScaleUsePoint| point.slope.map(|it| it.is_alarm && it.ewma < 0.0);
    Ok(points.into_iter().map(|it| it.and_then(is_low)).collect())
}

/// The mean score of an anchor by a judge with this noise in the mean of the criteria.
fn noisy_mean(anchor: &Anchor, sd: f64, rubric: &Rubric) -> Option<f64> {
    let count = rubric.criteria.len() as f64;
    let means = rubric.criteria.iter().map(|it| {
        let known = as_number(anchor.scores.get(&it.name)?)?;
        Some(bounded_mean(known, sd * count.sqrt(), it.min, it.max))
    });
    Some(means.sum::<Option<f64>>()? / count)
}

/// A low slope is an alarm only where noise does not explain it.
fn with_noise(drift: Drift, is_low_with_noise: Option<bool>) -> Drift {
    let Some(slope) = drift.slope else {
        return drift;
    };
    let is_explained = slope.ewma < 0.0 && is_low_with_noise == Some(false);
    let drift = Drift {
        slope: Some(Slope {
            alarm: slope.alarm && !is_explained,
            ..slope
        }),
        ..drift
    };
    Drift {
        alarm: !drift.charts().is_empty(),
        ..drift
    }
}

/// For each sitting: how many anchors got the highest score, and how many should.
fn highest_scores(scores: &[BTreeMap<String, (f64, f64)>], rubric: &Rubric) -> Vec<(usize, usize)> {
    let count = rubric.criteria.len() as f64;
    let top = rubric.criteria.iter().map(|it| it.max as f64).sum::<f64>() / count;
    let is_top = |score: f64| score > top - 1e-9;
    let counts = scores.iter().map(|scores| {
        let given = scores.values().filter(|it| is_top(it.0)).count();
        let known = scores.values().filter(|it| is_top(it.1)).count();
        (given, known)
    });
    counts.collect()
}

fn drift_of(point: &ScaleUsePoint) -> Drift {
    let slope = |it: EwmaPoint| Slope {
        value: it.value,
        ewma: it.ewma,
        limit: it.limit,
        alarm: it.is_alarm,
    };
    Drift {
        anchors: point.anchors,
        mean_shift: point.shift.value,
        z: point.shift.z,
        ewma: point.shift.ewma,
        limit: point.shift.limit,
        alarm: point.is_alarm(),
        slope: point.slope.map(slope),
        spread: point.spread.map(|it| Spread {
            ratio: (it.chi2 / it.df as f64).sqrt(),
            limit: (it.limit / it.df as f64).sqrt(),
            alarm: it.is_alarm,
        }),
        highest: None,
    }
}

fn first_of(point: &ScaleUsePoint) -> Drift {
    let slope = drift_of(point).slope;
    Drift {
        mean_shift: 0.0,
        z: 0.0,
        ewma: 0.0,
        alarm: false,
        slope: slope.map(|it| Slope {
            ewma: 0.0,
            alarm: false,
            ..it
        }),
        spread: None,
        ..drift_of(point)
    }
}

/// A sitting's scores of its anchors: the mean over the criteria, as scored and as known.
/// An anchor that was edited is another one.
fn anchor_scores(record: &SittingRecord, rubric: &Rubric) -> BTreeMap<String, (f64, f64)> {
    let mut verdicts: BTreeMap<u32, &Verdict> = BTreeMap::new();
    for verdict in record.anchor_files.iter().flat_map(|it| &it.verdicts) {
        verdicts.insert(verdict.candidate, verdict);
    }
    let scored = verdicts.into_iter().filter_map(|(place, verdict)| {
        let anchor = record.sitting.anchors.cases.get(place as usize)?;
        let mean = |scores: &BTreeMap<String, serde_json::Value>| {
            let numbers = rubric
                .criteria
                .iter()
                .map(|it| as_number(scores.get(&it.name)?));
            let sum: f64 = numbers.sum::<Option<f64>>()?;
            Some(sum / rubric.criteria.len() as f64)
        };
        Some((
            content(anchor),
            (mean(&verdict.scores)?, mean(&anchor.scores)?),
        ))
    });
    scored.collect()
}

fn content(anchor: &Anchor) -> String {
    let scores = serde_json::to_string(&anchor.scores).unwrap_or_default();
    format!("{}\n{}\n{scores}", anchor.id, anchor.candidate)
}

#[cfg(test)]
mod tests;
