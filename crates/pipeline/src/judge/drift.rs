//! Drift: whether a judge still uses the scale as intended.
//!
//! Every sitting scores anchors whose scores are known. A sitting's shift is the mean over
//! its anchors of the judge's criteria minus the known ones; a control chart
//! over the judge's sittings under one rubric (`assize_stats::drift`: EWMA with λ = 0.3 and
//! L = 2.7) tells a shift from chance. An alarm quarantines the sitting: its verdicts are
//! kept and do not count, and the cases wait again. Nothing is ever "corrected".
//!
//! People and agents are measured against the anchors' known scores. A model is measured
//! against its own first sitting: a cheap judge may be off the scale from the start, which
//! `judge status` shows as bias, and drift is when it changes. Sittings in quarantine are left
//! out of the chart, so that one bad sitting does not affect the next.

use std::collections::BTreeMap;

use assize_domain::anchor::Anchor;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::{Verdict, as_number};
use assize_stats::drift::{DriftSettings, drift};
use assize_store::Sittings;
use assize_store::queue::{Closing, SittingRecord};

use crate::{PipelineError, Result};

/// Below so many scored anchors a sitting is not put on the chart.
const FEWEST: usize = 5;

/// What the anchors say about one sitting.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Drift {
    /// Anchors that were scored.
    pub anchors: usize,
    /// Mean of score − known: positive where the judge is too generous.
    pub mean_shift: f64,
    pub z: f64,
    pub ewma: f64,
    /// |ewma| above this is an alarm.
    pub limit: f64,
    pub alarm: bool,
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

/// The chart of one judge's sittings, oldest first; all under one rubric.
fn chart(records: &[&SittingRecord], tier: Tier, rubric: &Rubric) -> Result<Vec<Option<Drift>>> {
    let scores: Vec<BTreeMap<String, (f64, f64)>> = records
        .iter()
        .map(|record| anchor_scores(record, rubric))
        .collect();
    // An anchor's place on the chart, with what it is compared with.
    let mut known: BTreeMap<&str, f64> = BTreeMap::new();
    for (key, (score, meant)) in scores.iter().flatten() {
        let reference = match tier {
            Tier::Expert => *meant,
            Tier::Auto => *score,
        };
        known.entry(key).or_insert(reference);
    }
    let charted: Vec<Vec<Option<f64>>> = scores
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
    let settings = DriftSettings {
        anchor_sd: last.sitting.anchors.sd,
        ..DriftSettings::default()
    };
    let known: Vec<f64> = known.into_values().collect();
    let points = drift(&known, &charted, settings).map_err(|error| {
        PipelineError::Invalid(format!("the calibration cases cannot be charted: {error}"))
    })?;
    let drift_of = |point: assize_stats::drift::DriftPoint| Drift {
        anchors: point.anchors,
        mean_shift: point.mean_shift,
        z: point.z,
        ewma: point.ewma,
        limit: point.ewma_limit,
        alarm: point.is_ewma_alarm,
    };
    Ok(points.into_iter().map(|it| it.map(drift_of)).collect())
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
